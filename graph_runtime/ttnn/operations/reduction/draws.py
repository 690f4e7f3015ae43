"""Functions along rows that no kernel has as a whole: ema, and sampling from the best of a distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels, several
from ...errors import check
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import device_tensor, target, tiled_input
from ..wide import Wide

__all__: list[str] = []

_BEST = 32  # elements that a draw is made of at most: sampling_device_operation.cpp
_SKIP = 0xFFFFFFFF  # a seed that leaves a user's numbers as they are
_streams: dict[int, np.random.Generator] = {}  # user -> the numbers that sampling without a seed draws
_seed: list[int | None] = [None]  # of users that have no stream yet


@operation("ema", "multiply, slice, pad, add")
def ema(
    input_tensor: Tensor,
    alpha: float,
    *,
    out: Tensor | None = None,
    core_grid: Any = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """y[t] = alpha y[t - 1] + (1 - alpha) x[t] along the last dimension, y[-1] = 0: each of log2(n) steps
    adds what lies twice as far back."""
    op = "ttnn.ema"
    x = tiled_input(op, input_tensor, "The input must be in tiled format")
    w, last = Wide(x._handle.device), len(x.shape) - 1
    made, back, size = w("multiply", x._handle, 1.0 - alpha), 1, x.shape[-1]
    while back < size and abs(alpha) ** back > 1e-12:  # nothing of what lies farther back is left in float32
        part = w("slice", made, starts=(0,), ends=(size - back,), axes=(last,))
        pads = (0,) * last + (back,) + (0,) * (last + 1)
        shifted = kernels.run("pad", [part], {"pads": pads}, kernels.WIDE)
        made = w("add", made, w("multiply", shifted, float(alpha) ** back))
        back *= 2
    return target(op, x, memory_config, out).wrap(made)


@operation("manual_seed", "-")
def manual_seed(
    seeds: Any = 0, *, device: Any = None, user_ids: Any = None, sub_core_grids: Any = None
) -> None:
    """The numbers that sampling without a seed draws from now on: a seed for all users, or seeds of users."""
    op = "ttnn.manual_seed"
    users = _whole(user_ids)
    if isinstance(seeds, Tensor):
        text = "Seeds were provided as a tensor, so user_ids must not be provided as a scalar."
        check(isinstance(user_ids, Tensor), op, text)
        words = _whole(seeds)
        check(len(words) == len(users), op, f"{len(words)} seeds for {len(users)} users")
    else:
        check(device is not None, op, "Device must be provided where seeds are a scalar.")
        words = [int(seeds)] * len(users)
        if user_ids is None and int(seeds) != _SKIP:
            _seed[0] = int(seeds)
            _streams.clear()
    for user, word in zip(users, words, strict=True):
        if word != _SKIP:
            _streams[user] = np.random.default_rng([word, user])


def _whole(given: Any) -> list[int]:
    """A number, or those of a tensor; of None nothing."""
    if isinstance(given, Tensor):
        return [int(one) for one in given._values().reshape(-1)]
    return [] if given is None else [int(given)]


def _drawn(users: int, seed: int | None) -> np.ndarray:
    """A number from 0 to 1 for each user, [1, 1, users, 1]."""
    if seed:
        made = np.random.default_rng(seed).random(users, dtype=np.float32)
    else:
        for user in range(users):
            if user not in _streams:
                first = _seed[0]
                _streams[user] = np.random.default_rng(None if first is None else [first, user])
        made = np.array([_streams[user].random() for user in range(users)], np.float32)
    return made.reshape(1, 1, users, 1)


def _below(w: Wide, a: Handle, b: Any) -> Handle:
    """1 where a < b, else 0."""
    return w.select(w("less", a, b), 1.0, 0.0)


@operation("sampling", "topk, softmax, cumsum, less, sum, divide, take_along_axis")
def sampling(
    input_values_tensor: Tensor,
    input_indices_tensor: Tensor,
    *,
    k: Tensor,
    p: Tensor,
    temp: Tensor,
    seed: int | None = None,
    sub_core_grids: Any = None,
    output_tensor: Tensor | None = None,
    memory_config: Any = None,
) -> Tensor:
    """For each of the users, a row of [1, 1, users, n]: of its k best values, times ``temp``, as many as have
    the probability p together; one of these by its probability, named by ``input_indices_tensor``. uint32 in
    rows, [1, 1, 1, users]."""
    op = "ttnn.sampling"
    x = tiled_input(op, input_values_tensor, "Only TILE_LAYOUT is supported for inputs!")
    names = device_tensor(op, input_indices_tensor, "indices tensor")
    check(
        len(x.shape) == 4 and tuple(x.shape)[:2] == (1, 1),
        op,
        f"the values must be [1, 1, users, n], got {x.shape}",
    )
    check(x.dtype is DataType.BFLOAT16, op, f"Only BFLOAT16 is supported for inputs! Got {x.dtype}")
    check(x.shape == names.shape, op, f"the indices {names.shape} must have the shape {x.shape}")
    w, users = Wide(x._handle.device), x.shape[2]
    column = (1, 1, users, 1)
    for one, name in ((k, "k"), (p, "p"), (temp, "temp")):
        check(one.logical_volume() == users, op, f"{name} must have {users} elements, got {one.shape}")
    count, share, heat = (w.reshape(w.rows(t._handle), column) for t in (k, p, temp))
    best = min(_BEST, x.shape[3])
    values, places = several.outputs(
        "topk", [x._handle], {"k": best, "axis": 3, "largest": True, "dtype": "int32"}
    )
    chances = w("softmax", _of_count(w, w("multiply", values, heat), count, best), axis=3)
    total = w("cumsum", chances, axis=3)
    kept = _below(w, w("subtract", total, chances), share)  # what is before an element is below p: it counts
    first = w.number(np.eye(1, best, dtype=np.float32).reshape(1, 1, 1, best))
    chances = w("multiply", chances, w("maximum", kept, first))
    total = w("cumsum", chances, axis=3)
    drawn = w.number(_drawn(users, seed))
    whole = w("sum", chances, axes=(3,), keepdims=True)
    at = w("sum", _below(w, total, w("multiply", drawn, whole)), axes=(3,), keepdims=True)
    chosen = w.cast(w("minimum", at, float(best - 1)), "int32")
    place = kernels.run("take_along_axis", [places, chosen], {"axis": 3})
    made = kernels.run("take_along_axis", [w.int32(names._handle), place], {"axis": 3})
    made = w.reshape(w.rows(made), (1, 1, 1, users))
    goal = target(op, x, memory_config, output_tensor, DataType.UINT32 if output_tensor is None else None)
    goal.layout = Layout.ROW_MAJOR if output_tensor is None else goal.layout
    return goal.wrap(kernels.reinterpret(made, "uint32") if goal.dtype is DataType.UINT32 else made)


def _of_count(w: Wide, values: Handle, count: Handle, best: int) -> Handle:
    """The values, and minus infinity beyond the first ``count`` of each row."""
    number = w.number(np.arange(best, dtype=np.int32).reshape(1, 1, 1, best), "int32")
    return w.select(w("less", number, w.int32(count)), values, -np.inf)
