"""Difference between tt's fast and exact arithmetic: difficult operands, and the distance between a fast and
an exact run of one op. Tests use it, and tests/bench/bench_numerics.py for the table of docs/numerics.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS
from ..ir.builder import GraphBuilder
from ..ir.ops import registry
from ..run.factory import create

KINDS = ("normal", "wide", "cancel", "ties", "denormal", "special")
CASES = {  # {op: (shapes of the op's inputs, attributes)}
    "matmul": (((64, 128), (128, 64)), {}),
    "dense": (((64, 128), (64, 128), (64,)), {}),
    "conv2d": (((1, 8, 17, 33), (24, 8, 3, 3), (24,)), {"pads": [1, 1, 1, 1]}),
    "add": (((64, 64), (64, 64)), {}),
    "subtract": (((64, 64), (64, 64)), {}),
    "multiply": (((64, 64), (64, 64)), {}),
}
_SMALLEST = 2.0**-126
_SPECIAL = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-38, 0.0, -0.0], np.float32)


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance of the fast results from the exact results, over results that are finite in both runs.

    ``error``: the largest relative difference. The divisor is the op's result for the magnitudes of its
    inputs, such as the sum of |a||b|, so that cancellation does not inflate the error. For block floats it is
    the block's largest such result; it is never less than the smallest normal number. ``equal``: share of all
    results that have equal bits. ``disagree``: share of results that are finite in only one of the two runs.
    """

    error: float
    equal: float
    disagree: float


def operands(op: str, kind: str, seed: int = 0) -> list[np.ndarray]:
    """Inputs of the op's case, as float32.

    ``kind`` is one of: normal, drawn from N(0, 1); wide, over 40 binades; cancel, where neighbours along a
    row have opposite signs and differ only in the last places; ties, with few mantissa bits, so that halves
    are frequent; denormal, with products and values around the smallest normal number; special, N(0, 1) with
    a few Inf, NaN and extremes.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind), *op.encode()])
    return [_draw(kind, shape, rng) for shape in CASES[op][0]]


def _draw(kind: str, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal(shape)
    if kind == "wide":
        x *= np.exp2(rng.integers(-20, 21, shape))
    elif kind == "cancel":
        pairs = x.reshape(-1)
        pairs[1::2] = -pairs[: pairs.size // 2 * 2 : 2] * (1 + rng.integers(-2, 3, pairs.size // 2) * 2.0**-8)
    elif kind == "ties":
        x = rng.integers(-31, 32, shape) / 8.0
    elif kind == "denormal":
        x *= np.exp2(rng.integers(-66, -60, shape))
        x[rng.random(shape) < 0.05] *= 2.0**-62
    elif kind == "special":
        at = rng.random(shape) < 0.002
        x[at] = rng.choice(_SPECIAL, int(at.sum()))
    return x.astype(np.float32)


def run(op: str, arrays: list[np.ndarray], format: str, words: dict[str, str]) -> np.ndarray:
    """The op's output on tt:0, with all tensors stored in ``format``. ``words``: numerics of the device, as
    in create()."""
    builder = GraphBuilder(device="tt:0")
    inputs = [builder.input(f"x{i}", a.shape) for i, a in enumerate(arrays)]
    attrs: dict[str, Any] = CASES[op][1]
    builder.output(builder.op(op, *inputs, **attrs))
    module = create(builder, None, ["tt:0"], formats={"tt": format}, numerics={"tt": words})
    module.set_input(**{f"x{i}": a for i, a in enumerate(arrays)})
    module.run()
    return module.get_output(0).numpy()


def _magnitude(op: str, arrays: list[np.ndarray], format: str) -> np.ndarray:
    """The op's result for the magnitudes of its inputs, as float64. For block floats each element is the
    largest of its block, because the elements of a block share one quantum."""
    made = registry.require("add" if op == "subtract" else op)
    out = made.reference([np.abs(a.astype(np.float64)) for a in arrays], made.decode(CASES[op][1]))[0]
    if not FORMATS[format].shared_exponent:
        return out
    cols = out.shape[-1]
    blocks = np.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, -cols % 16)]).reshape(*out.shape[:-1], -1, 16)
    return np.repeat(blocks.max(axis=-1), 16, axis=-1)[..., :cols]


def distance(op: str, kind: str, format: str, fidelity: str = "", dst: str = "", seed: int = 0) -> Distance:
    """The distance between a fast and an exact run on tt:0 of the op's case. ``format``: storage format of
    all tensors. ``fidelity``, ``dst``: values as of gr.fidelity and gr.dst; with "" the exact run takes all
    four phases and a 32-bit Dst."""
    arrays = operands(op, kind, seed)
    words = {k: v for k, v in (("fidelity", fidelity), ("dst", dst)) if v}
    fast = run(op, arrays, format, {**words, "numerics": "fast"})
    exact = run(op, arrays, format, {**words, "numerics": "exact"})
    both = np.isfinite(fast) & np.isfinite(exact)
    with np.errstate(all="ignore"):
        least = np.maximum(_magnitude(op, arrays, format), _SMALLEST)
        error = np.abs(fast.astype(np.float64) - exact) / least
    usable = error[both & np.isfinite(error)]
    return Distance(
        error=float(usable.max(initial=0.0)),
        equal=float((fast.view(np.uint32) == exact.view(np.uint32)).mean()),
        disagree=float((np.isfinite(fast) != np.isfinite(exact)).mean()),
    )
