"""torch's own databases of operations over the device: what one entry gives there, and on the CPU.

    for info in op_db: print(forward(info, torch.float32, most=20))

Samples are made on the CPU, copied to the device, and results compared with torch's of the CPU: they are
close, or as near as the CPU's to the results of float64. Where an operation ran is what
graph_runtime.torch.stats() counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

import graph_runtime.torch as tt

__all__ = [
    "DTYPES",
    "INFOS",
    "Outcome",
    "Refused",
    "dtype_of",
    "forward",
    "gradient",
    "has",
    "in_place",
    "name_of",
    "out",
    "same",
    "samples_of",
    "to",
]

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)

common_utils.extract_test_fn = lambda: (
    None
)  # it walks the stack for each entry, for texts that are not printed
_DISTINCT = frozenset({"kthvalue", "topk"})  # of equal values they may name any
_STABLE = frozenset(
    {"argsort", "sort"}
)  # of more than a few equal values, unless they are asked for the first
_TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 3e-3, torch.float32: 2e-5, torch.float64: 1e-9}


def name_of(info: Any) -> str:
    """An entry's name in lists: "std_mean", "div.floor_rounding"."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


INFOS = {name_of(info): info for info in op_db}


class Refused(Exception):
    """torch's CPU does not do it."""


@dataclass
class Outcome:
    """``samples`` that torch's CPU takes; ``failures``: a line for each that failed; ``device`` how many
    operations ran there, views counted; ``host`` {(operation, reason): times}."""

    samples: int = 0
    failures: list[str] = field(default_factory=list)
    device: int = 0
    host: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Where it ran: "device", "host", "both"; "views" where nothing is computed (views, ranges and random
        numbers, tensors without elements)."""
        if self.host:
            return "both" if self.device else "host"
        return "device" if self.device else "views"


def dtype_of(info: Any) -> torch.dtype:
    """The dtype that stands for an operation: float32 where it takes it, else the first of a few."""
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if dtype in info.dtypes:
            return dtype
    return next(iter(info.dtypes), torch.float32)


def has(info: Any, kind: str, dtype: torch.dtype | None = None) -> bool:
    """Whether an entry has a form, "forward", "gradient", "in_place" or "out", with a dtype; None: with the
    one that stands for it."""
    dtype = dtype_of(info) if dtype is None else dtype
    if dtype not in info.dtypes and dtype != dtype_of(info):
        return False
    if kind == "gradient":
        return bool(info.supports_autograd and dtype in info.backward_dtypes and dtype.is_floating_point)
    return {"in_place": info.inplace_variant is not None, "out": bool(info.supports_out)}.get(kind, True)


def forward(info: Any, dtype: torch.dtype, most: int) -> Outcome:
    """The results of an operation, of at most ``most`` samples."""
    return _each(info, dtype, most, lambda sample: same(_called(info.op, sample)))


def in_place(info: Any, dtype: torch.dtype, most: int) -> Outcome:
    """The results of the form that writes into its first argument, and what that argument shows."""

    def check(sample: Any) -> None:
        if sample.broadcasts_input:
            return
        variant = info.inplace_variant

        def call(x: Any, *args: Any, **kwargs: Any) -> Any:
            mine = x.clone()
            made = variant(mine, *args, **kwargs)
            return made, mine

        same(_called(call, sample))

    return _each(info, dtype, most, check)


def out(info: Any, dtype: torch.dtype, most: int) -> Outcome:
    """Results written into out= tensors of their shape."""

    def check(sample: Any) -> None:
        wanted = _values(info.op(sample.input, *sample.args, **sample.kwargs))
        single = _is_tensor(wanted)
        if not single and not (isinstance(wanted, tuple) and all(map(_is_tensor, wanted))):
            return

        def call(x: Any, *args: Any, **kwargs: Any) -> Any:
            given = tree_flatten((x, args, kwargs))[0]
            device = next((t.device for t in given if _is_tensor(t)), kwargs.get("device", "cpu"))
            room = tree_map(lambda t: torch.zeros(t.shape, dtype=t.dtype, device=device), wanted)
            info.op(x, *args, **kwargs, out=room if single else tuple(room))
            return room

        same(_called(call, sample))

    return _each(info, dtype, most, check)


def gradient(info: Any, dtype: torch.dtype, most: int) -> Outcome:
    """Gradients of the inputs that have one, of the sum of all float results times fixed weights."""

    def call(process: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        made = info.gradcheck_wrapper(info.op, x, *args, **kwargs)
        made = made if process is None else process(made)
        leaves = [t for t in tree_flatten((x, args, kwargs))[0] if _is_tensor(t) and t.requires_grad]
        results = [t for t in tree_flatten(made)[0] if _is_tensor(t) and t.requires_grad]
        if not leaves or not results:
            return ()
        weights = [
            torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape).to(t.device) for t in results
        ]
        return torch.autograd.grad(results, leaves, weights, allow_unused=True)

    def check(sample: Any) -> None:
        same(_called(partial(call, sample.output_process_fn_grad), sample))

    return _each(info, dtype, most, check, grad=True)


# **************** one sample ****************


def _each(info: Any, dtype: Any, most: int, check: Callable[[Any], None], grad: bool = False) -> Outcome:
    return _outcome(partial(check, sample) for sample in _samples(info, dtype, most, grad))


def samples_of(runs: Iterator[Callable[..., Any]]) -> Outcome:
    """What each of ``runs``, functions as ``same`` takes them, gives."""
    return _outcome(partial(same, run) for run in runs)


def _outcome(checks: Iterator[Callable[[], None]]) -> Outcome:
    made = Outcome()
    for number, check in enumerate(checks):
        tt.stats(clear=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check()
            made.samples += 1
        except Refused:
            continue
        except Exception as error:
            made.samples += 1
            text = str(error).strip().splitlines()
            made.failures.append(f"sample {number}: {type(error).__name__}: {' '.join(text[:6])[:300]}")
        found = tt.stats()
        made.device += found["device"] + found["views"]
        for key, times in found.fallbacks.items():
            made.host[key] = made.host.get(key, 0) + times
    return made


def _samples(info: Any, dtype: torch.dtype, most: int, grad: bool) -> Iterator[Any]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=grad), most):
                if info.name in _DISTINCT and sample.input.numel() <= 256:
                    sample.input = _distinct(sample.input)
                if info.name in _STABLE:
                    named = dict(zip(("dim", "descending"), sample.args, strict=False))
                    sample.args, sample.kwargs = (), {"stable": True, **named, **sample.kwargs}
                yield sample
        except StopIteration:  # torch's own generator is for other devices
            return


def _distinct(x: torch.Tensor) -> torch.Tensor:
    """Of at most 256 elements: other values in the same order, none twice, that every dtype but bool has."""
    ranks = x.detach().flatten().argsort(stable=True).argsort() - (128 if x.dtype.is_signed else 0)
    return ranks.reshape(x.shape).to(x.dtype).requires_grad_(x.requires_grad)


def _called(function: Callable[..., Any], sample: Any) -> Callable[..., Any]:
    def on(device: str, dtype: torch.dtype | None = None) -> Any:
        moved = [to(x, device, dtype) for x in (sample.input, sample.args, sample.kwargs)]
        torch.manual_seed(0)
        return _values(function(moved[0], *moved[1], **moved[2]))

    return on


def to(value: Any, device: str, dtype: torch.dtype | None = None) -> Any:
    """Arguments on a device: copies, with the strides that they have; CPU tensors of indices, too. ``dtype``
    takes the place of those of floats."""

    def moved(x: Any) -> Any:
        if _is_tensor(x):
            cast = dtype if x.is_floating_point() else None
            copy = x.detach().clone() if device == "cpu" else x.detach().to(device)
            return copy.to(cast or x.dtype).requires_grad_(x.requires_grad)
        if isinstance(x, torch.dtype) and x.is_floating_point:
            return dtype or x
        if device != "cpu" and (isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu")):
            return torch.device(device)
        return x

    return tree_map(moved, value)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _values(made: Any) -> Any:
    return tuple(made) if isinstance(made, tuple) else made


# **************** what is the same ****************


def same(run: Callable[..., Any]) -> None:
    """``run(device, dtype)`` gives the results of the same call on a device, floats as ``dtype``. Raises
    AssertionError where the device's are not the CPU's, what the device raises, Refused where the CPU
    does."""
    try:
        wanted = run("cpu")
    except Exception as error:
        raise Refused from error
    made = run("tt")
    ours, theirs = tree_flatten(made)[0], tree_flatten(wanted)[0]
    assert len(ours) == len(theirs), f"{len(ours)} results for {len(theirs)}"
    for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if not _is_tensor(y):
            assert (x is None) == (y is None), f"{x} for {y}"
            assert x == y or (x != x and y != y) or _is_close(x, y), f"{x} for {y}"
            continue
        assert x.dtype == y.dtype, f"{x.dtype} for {y.dtype}"
        assert x.device.type == "tt", f"a result is on {x.device}"
        x = x.detach().cpu()
        y = y.detach()
        tolerance = _TOLERANCE.get(y.dtype, 2e-5 if y.is_complex() else 0.0)
        try:
            torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError:
            if not y.is_floating_point() or y.dtype == torch.float64 or x.shape != y.shape:
                raise
            exact = tree_flatten(run("cpu", torch.float64))[0][number].detach()
            if not _is_as_near(x.double(), y.double(), exact, tolerance):
                raise


def _is_as_near(x: torch.Tensor, y: torch.Tensor, exact: torch.Tensor, tolerance: float) -> bool:
    """Whether x is not much farther from what float64 gives than y is, and not finite where y is not."""
    finite = y.isfinite() & exact.isfinite()
    if not bool(torch.equal(finite, x.isfinite())) or not bool(
        torch.allclose(x[~finite], y[~finite], equal_nan=True)
    ):
        return False
    ours, theirs = ((z[finite] - exact[finite]).abs().max() for z in (x, y))
    return bool(ours <= 2 * theirs + tolerance)


def _is_close(x: Any, y: Any) -> bool:
    return isinstance(y, float) and abs(x - y) <= 2e-5 * max(1.0, abs(y))
