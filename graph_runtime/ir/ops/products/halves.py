"""Products with packed weights whose image or rows are bfloat16 in memory. The kernel widens the elements, or
multiplies pairs of them; it sums in float32 and rounds each result once.

With ``packed`` the first input is float32 or bfloat16, and so are the result and the epilogue's inputs; the
bias is float32. Kernels have the suffix of float32, the dtype of their sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ....base import dtypes
from ...graph import TensorType
from .. import rules, steps
from ..registry import Attrs, Case, Types
from .packed import PAIRED

IN_REGISTERS = ("add", "relu", "clip")  # steps done in registers after a product; others use bf16


def in_float32(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Body suffix of a kernel that sums in float32, whatever dtype it reads."""
    return dtypes.BY_DTYPE["float32"].suffix


def takes_halves(x: TensorType, weight: TensorType, attrs: Attrs) -> bool:
    """Whether a product with a packed weight can read its float32 input ``x`` as bfloat16. This is so if the
    weight has rows in pairs and one group, or groups of one channel."""
    packed, group = attrs.get("packed"), attrs.get("group", 1)
    if not packed or attrs.get("winograd") or attrs.get("levels"):
        return False
    return (weight.dtype == PAIRED and group == 1) or 1 < group == x.shape[-1] == packed


def refuse_halves(inputs: Types, outputs: Types, attrs: Attrs) -> str | None:
    """Body.accepts of a kernel of packed weights: None if the kernel takes the first input's dtype, else the
    reason."""
    if not attrs["packed"] or inputs[0].dtype != PAIRED or takes_halves(inputs[0], inputs[1], attrs):
        return None
    return f"beside {inputs[0]} it reads panels in pairs, or of groups of one channel, not {inputs[1]}"


def half_cases(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases that can have bfloat16 inputs, with all inputs but weight and bias in bfloat16."""
    for case in cases:
        x, *rest = case.inputs
        if takes_halves(TensorType(*x), TensorType(*rest[0]), case.attrs):
            types = [(PAIRED, x[1]), *rest]
            for k in steps.extras(case.attrs.get("epilogue", ())):
                types[k] = (PAIRED, types[k][1])
            bound = rules.SUMMED[PAIRED]
            yield replace(case, name=f"halves_{case.name}", inputs=tuple(types), nmse=bound)
