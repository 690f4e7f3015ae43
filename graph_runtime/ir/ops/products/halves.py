"""Products on packed weights whose image or rows are bfloat16: such tensors are bfloat16 in memory only. The
kernel widens what it reads, or multiplies pairs of it, sums in float32 and rounds each result once.

With ``packed`` the first input is float32 or bfloat16, and so is what the node makes, and what its epilogue
reads; the bias is float32. Kernels are named after what they sum in, float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ....base import dtypes
from ...graph import TensorType
from .. import rules, steps
from ..registry import Attrs, Case, Types
from .packed import PAIRED

__all__ = [
    "IN_REGISTERS",
    "SUMMED_IN",
    "half_cases",
    "in_float32",
    "product_dtype",
    "refuse_halves",
    "takes_halves",
]

IN_REGISTERS = ("add", "relu", "clip")  # steps behind a product; others go element by element in bf16
SUMMED_IN = ("float32", PAIRED)  # dtypes of a body that sums in float32


def in_float32(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Body suffix of a kernel that sums in float32, whatever it reads."""
    return dtypes.BY_DTYPE["float32"].suffix


def product_dtype(op: str, inputs: Sequence[TensorType], attrs: Attrs, allowed: tuple[str, ...]) -> str:
    """The dtype of what a product makes: that of all its inputs, or beside a packed weight that of the first.
    Raises GraphError where they do not go together."""
    if not attrs["packed"]:
        return rules.one_dtype(op, inputs, allowed)
    x, _, *bias = inputs
    for other in bias:
        if other.dtype != "float32":
            rules.fail(
                op,
                f"the bias beside a packed weight is float32, got {other}",
                got=other.dtype,
                wanted="float32",
            )
    return rules.one_dtype(op, (x,), SUMMED_IN)


def takes_halves(x: TensorType, weight: TensorType, attrs: Attrs) -> bool:
    """Whether a product beside whose packed weight ``x`` is float32 can have it in bfloat16: the weight is of
    one group, in pairs, or of groups of one channel."""
    packed, group = attrs.get("packed"), attrs.get("group", 1)
    if not packed or attrs.get("winograd") or attrs.get("levels"):
        return False
    return (weight.dtype == PAIRED and group == 1) or 1 < group == x.shape[-1] == packed


def refuse_halves(inputs: Types, outputs: Types, attrs: Attrs) -> str | None:
    """Body.accepts of a kernel of packed weights, of its first input."""
    if not attrs["packed"] or inputs[0].dtype != PAIRED or takes_halves(inputs[0], inputs[1], attrs):
        return None
    return f"beside {inputs[0]} it reads panels in pairs, or of groups of one channel, not {inputs[1]}"


def half_cases(cases: Iterable[Case]) -> Iterator[Case]:
    """Those of the cases that can be so, with everything in bfloat16 but weight and bias."""
    for case in cases:
        x, *rest = case.inputs
        if takes_halves(TensorType(*x), TensorType(*rest[0]), case.attrs):
            types = [(PAIRED, x[1]), *rest]
            for k in steps.extras(case.attrs.get("epilogue", ())):
                types[k] = (PAIRED, types[k][1])
            bound = rules.SUMMED[PAIRED]
            yield replace(case, name=f"halves_{case.name}", inputs=tuple(types), nmse=bound)
