"""What the host wants of a node before it runs: the rules of rewrite.target follow this, and costs that are
asked before those rules ran count on it."""

from __future__ import annotations

from typing import Any

from ...base.machine.devices import HOST_KERNELS
from .registry import KERNEL, Attrs, Op, Types

__all__ = [
    "attrs_to_come",
    "by_tiles",
    "kernel_by_rule",
    "pairs_to_come",
    "panel_columns",
    "rounding_kernel",
]


def kernel_by_rule(op: Op, inputs: Types, attrs: Attrs) -> str | None:
    """The variant to be named for a node that is not measured, None for the op's default kernel."""
    return None if op.prefers is None else op.prefers(inputs, attrs)


def panel_columns(op: Op, inputs: Types, outputs: Types, attrs: Attrs) -> int:
    """How many columns the weight, input 1, has that is put into panels where it is a constant; 0 where it
    is not."""
    return 0 if op.panels is None else op.panels(inputs, outputs, attrs)


def by_tiles(op: Op, inputs: Types, outputs: Types, attrs: Attrs) -> bool:
    """Whether Winograd's tiles make a node whose weight is put into panels."""
    return op.tiles is not None and op.tiles(inputs, outputs, attrs)


def pairs_to_come(inputs: Types, attrs: Attrs) -> bool:
    """Whether a product whose weight is in panels can have it in bfloat16: one of one group, not by
    Winograd's tiles, of float32."""
    return bool(
        attrs.get("packed")
        and attrs.get("group", 1) == 1
        and not attrs.get("winograd")
        and not attrs.get("levels")
        and inputs[0].dtype == "float32"
        and inputs[1].dtype == "float32"
    )


def rounding_kernel(op: Op, attrs: Attrs) -> str | None:
    """The variant that may round the operands of a node on the host, in place of the one that it names."""
    named = attrs.get(KERNEL)
    return next((b.name for b in op.variants.get(HOST_KERNELS, ()) if b.rounds and b.rounds == named), None)


def attrs_to_come(
    op: Op, inputs: Types, outputs: Types, attrs: Attrs, constant_weight: bool
) -> dict[str, Any]:
    """The attributes that rewrite.target gives a node of the host which decide how fast it is: ``packed``
    and ``winograd``, or ``kernel``."""
    if constant_weight and (columns := panel_columns(op, inputs, outputs, attrs)):
        tiles = by_tiles(op, inputs, outputs, attrs)
        return {"packed": columns, "winograd": True} if tiles else {"packed": columns}
    kernel = None if KERNEL in attrs else kernel_by_rule(op, inputs, attrs)
    return {KERNEL: kernel} if kernel else {}
