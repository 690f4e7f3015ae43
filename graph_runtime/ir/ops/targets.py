"""What the host wants of a node before it runs: the rules of rewrite.target follow this, and costs that are
asked before those rules ran count on it."""

from __future__ import annotations

import math
from typing import Any

from ...base.machine.devices import HOST_KERNELS
from .products.packed import bundle_of, grouped_panel_type, takes_pairs
from .registry import KERNEL, Attrs, Op, Types

__all__ = [
    "attrs_to_come",
    "by_tiles",
    "kernel_by_rule",
    "pairs_to_come",
    "panel_columns",
    "rounding_kernel",
]

_SHORT = 384  # of k: GR_DEPTH of native/kernels/panels.h
_FEW_COLUMNS = 16  # a vector of the widest instruction set
_FEW_PRODUCTS = 2400  # of a row


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
    """Whether a product whose weight is in panels, or is to be, has it in bfloat16 where the caller asks for
    that: one of float32, not by Winograd's tiles, nor of groups of few channels, for which it pays."""
    packed, group = attrs.get("packed"), attrs.get("group", 1)
    if not packed or attrs.get("winograd") or attrs.get("levels"):
        return False
    x, weight = inputs[:2]
    if x.dtype != "float32" or weight.dtype != "float32":
        return False
    depth, each = weight.shape[1] if len(weight.shape) == 3 else weight.size // packed, packed // group
    window = attrs.get("kernel_shape") or (weight.shape[2:] if len(weight.shape) == 4 else ())
    if group > 1:
        channels = x.shape[3] if attrs.get("layout") == "NHWC" else x.shape[1]
        panels = grouped_panel_type(packed, channels // group, math.prod(window), group)
        if not takes_pairs(packed, channels // group, group, panels):
            return False
        depth = panels.shape[1]
    taps = math.prod(window)
    gathered = taps > 1 and (group > 1 or depth // taps % 2 == 1)
    return not _few(each * bundle_of(group, each), depth, gathered)


def _few(columns: int, depth: int, gathered: bool) -> bool:
    """Whether a product is so small that to gather rows and round them takes longer than bfloat16 spares:
    float32 multiplies rows of up to 384 elements where they lie (short_isa.h), as pairs of channels do.
    Measured on a CPU with AVX512_BF16 (family 26 model 2): windows of three channels, 3 x 3 taps, take 2.3
    times as long with 16 columns, 1.3 with 32, and as long with 64."""
    if gathered:
        return (columns <= _FEW_COLUMNS and depth <= _SHORT) or columns * depth <= _FEW_PRODUCTS
    return columns <= _FEW_COLUMNS and depth < _FEW_COLUMNS


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
