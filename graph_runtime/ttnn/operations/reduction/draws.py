"""Functions along rows that have no kernel of their own: ema, and sampling, which draws from
the most probable elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.value import where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import expect
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target, row_of_indices

_BEST = 32  # most elements that a draw is made from: sampling_device_operation.cpp
_SKIP = 0xFFFFFFFF  # the seed that leaves a user's generator unchanged
_streams: dict[int, np.random.Generator] = {}  # user -> generator for sampling without a seed
_seed: list[int | None] = [None]  # the seed for users that have no generator yet


@operation("ema", "multiply, slice, pad, add", takes="out, core_grid, memory_config")
def ema(input_tensor: WideValue, alpha: float) -> WideValue:
    """y[t] = alpha y[t - 1] + (1 - alpha) x[t] along the last dimension, where y[-1] = 0. It takes log2(n)
    steps; each step adds values that lie twice as far back as the values of the step before."""
    x, last = input_tensor, len(input_tensor.shape) - 1
    made, back, size = x * (1.0 - alpha), 1, x.shape[-1]
    while back < size and abs(alpha) ** back > 1e-12:  # float32 loses values farther back
        part = made.part(last, 0, size - back)
        pads = (0,) * last + (back,) + (0,) * (last + 1)
        shifted = part.run("pad", to=kernels.WIDE, pads=pads)
        made = made + shifted * float(alpha) ** back
        back *= 2
    return made


@operation("manual_seed", "-")
def manual_seed(seeds: Any = 0, *, device: Any = None, user_ids: Any = None) -> None:
    """Set the seeds of later sampling without a seed: one for all users, or one for each user."""
    users = _whole(user_ids)
    if isinstance(seeds, Tensor):
        text = "Seeds were provided as a tensor, so user_ids must not be provided as a scalar."
        expect(isinstance(user_ids, Tensor), text)
        words = _whole(seeds)
        expect(len(words) == len(users), f"{len(words)} seeds for {len(users)} users")
    else:
        expect(device is not None, "Device must be provided where seeds are a scalar.")
        words = [int(seeds)] * len(users)
        if user_ids is None and int(seeds) != _SKIP:
            _seed[0] = int(seeds)
            _streams.clear()
    for user, word in zip(users, words, strict=True):
        if word != _SKIP:
            _streams[user] = np.random.default_rng([word, user])


def _whole(given: Any) -> list[int]:
    """The numbers of a tensor as a list; [number] for a number, [] for None."""
    if isinstance(given, Tensor):
        return [int(one) for one in given._values().reshape(-1)]
    return [] if given is None else [int(given)]


def _drawn(users: int, seed: int | None) -> np.ndarray:
    """A random number from 0 to 1 for each user, [1, 1, users, 1]."""
    if seed:
        made = np.random.default_rng(seed).random(users, dtype=np.float32)
    else:
        for user in range(users):
            if user not in _streams:
                first = _seed[0]
                _streams[user] = np.random.default_rng(None if first is None else [first, user])
        made = np.array([_streams[user].random() for user in range(users)], np.float32)
    return made.reshape(1, 1, users, 1)


def _below(a: WideValue, b: Any) -> WideValue:
    """1 where a < b, else 0."""
    return where(a < b, 1.0, 0.0)


@operation(
    "sampling",
    "topk, softmax, cumsum, less, sum, divide, take_along_axis",
    takes="..., output_tensor, memory_config",
)
def sampling(
    input_values_tensor: Tensor,
    input_indices_tensor: Tensor,
    k: Tensor,
    p: Tensor,
    temp: Tensor,
    *,
    seed: int | None = None,
    goal: Target,
) -> Tensor:
    """An index for each user, [1, 1, 1, users], uint32 in rows. A user's values are a row of [1, 1, users,
    n]. The k greatest of them, times ``temp``, get probabilities by softmax. The most probable values whose
    probabilities together reach p are kept. One of the kept values is drawn by its probability; the result is
    the element of ``input_indices_tensor`` at the place of that value."""
    x, names = input_values_tensor, input_indices_tensor
    users = x.shape[2]
    column = (1, 1, users, 1)
    count, share, heat = (t._value.reshape(column) for t in (k, p, temp))
    best = min(_BEST, x.shape[3])
    attrs = {"k": best, "axis": 3, "largest": True, "dtype": "int32"}
    values, places = map(WideValue, kernels.outputs("topk", [x._handle], attrs))
    chances = _of_count(values * heat, count, best).op("softmax", axis=3)
    total = chances.op("cumsum", axis=3)
    kept = _below(total - chances, share)  # the elements before which the sum of probabilities is below p
    first = kept.scalar(np.eye(1, best, dtype=np.float32).reshape(1, 1, 1, best))
    chances = chances * kept.maximum(first)
    total = chances.op("cumsum", axis=3)
    drawn = total.scalar(_drawn(users, seed))
    whole = chances.sum(axes=(3,))
    at = _below(total, drawn * whole).sum(axes=(3,))
    chosen = at.minimum(float(best - 1)).cast("int32")
    place = places.run("take_along_axis", chosen, axis=3)
    made = names._value.int32().run("take_along_axis", place, axis=3)
    return row_of_indices(made.reshape((1, 1, 1, users)), goal)


def _of_count(values: WideValue, count: WideValue, best: int) -> WideValue:
    """The values, with minus infinity in each row after its first ``count`` elements."""
    number = count.scalar(np.arange(best, dtype=np.int32).reshape(1, 1, 1, best), "int32")
    return where(number < count.int32(), values, -np.inf)
