"""The host's choices for a node: the rules of rewrite.target apply them, and costs estimated before these
rules run expect them."""

from __future__ import annotations

import math
from typing import Any

from ...base.machine.descriptors import HOST_KERNELS
from .products.packed import bundle_of, grouped_panel_type, takes_pairs
from .registry import KERNEL, Attrs, Op, Types

_SHORT = 384  # most k of a short product: GR_DEPTH of native/kernels/panels.h
_FEW_COLUMNS = 16  # most columns of a small product: a vector of the widest instruction set
_FEW_PRODUCTS = 2400  # most products for a row of a small product


def kernel_by_rule(op: Op, inputs: Types, attrs: Attrs) -> str | None:
    """The variant for a node whose variants were not measured; None for the op's default body."""
    return None if op.prefers is None else op.prefers(inputs, attrs)


def panel_columns(op: Op, inputs: Types, outputs: Types, attrs: Attrs) -> int:
    """Number of columns that the weight, input 1, has in panels once it is a constant; 0 if it is not put
    into panels."""
    return 0 if op.panels is None else op.panels(inputs, outputs, attrs)


def by_tiles(op: Op, inputs: Types, outputs: Types, attrs: Attrs) -> bool:
    """Whether a node whose weight is put into panels uses Winograd's tiles."""
    return op.tiles is not None and op.tiles(inputs, outputs, attrs)


def pairs_to_come(inputs: Types, attrs: Attrs) -> bool:
    """Whether a product's weight will be in panels of bfloat16 if the caller allows bfloat16. The weight has
    panels now, or gets them later. This is so for products of float32 that gain from it, except products by
    Winograd's tiles and products of groups with few channels."""
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
    """Whether a product is so small that gathering and rounding rows takes longer than bfloat16 saves: in
    float32, rows of up to 384 elements are multiplied in place (short_isa.h), and so are pairs of channels.
    Measured on a CPU with AVX512_BF16 (family 26 model 2): windows of three channels, 3 x 3 taps, take 2.3
    times as long with 16 columns, 1.3 times with 32, and as long with 64."""
    if gathered:
        return (columns <= _FEW_COLUMNS and depth <= _SHORT) or columns * depth <= _FEW_PRODUCTS
    return columns <= _FEW_COLUMNS and depth < _FEW_COLUMNS


def rounding_kernel(op: Op, attrs: Attrs) -> str | None:
    """The variant that may round operands, if the node names it as its kernel on the host; else None."""
    named = attrs.get(KERNEL)
    return next((b.name for b in op.variants.get(HOST_KERNELS, ()) if b.rounds and b.rounds == named), None)


def attrs_to_come(
    op: Op, inputs: Types, outputs: Types, attrs: Attrs, constant_weight: bool
) -> dict[str, Any]:
    """The attributes that rewrite.target will give a node on the host and that decide its speed: ``packed``
    and ``winograd``, or ``kernel``."""
    if constant_weight and (columns := panel_columns(op, inputs, outputs, attrs)):
        tiles = by_tiles(op, inputs, outputs, attrs)
        return {"packed": columns, "winograd": True} if tiles else {"packed": columns}
    kernel = None if KERNEL in attrs else kernel_by_rule(op, inputs, attrs)
    return {KERNEL: kernel} if kernel else {}
