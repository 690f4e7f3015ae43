"""Cells that may round their state, lstm(narrow), keep their weights as bytes if the weights are constants on
grids of bytes: a dequantize of [D G H, H], with one grid or one per row, becomes [D, G H, H]."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...ir.model import Constant
from ...ir.ops.integers.quantized_products import BYTES
from ...ir.ops.products.byte_panels import MOST_K
from ...ir.ops.products.cells import byte_panels_of, pack_recurrent_bytes, pack_scales
from ..formats.pack_weights import is_host, without_defaults
from ..net import Net, NetNode, NetValue


def integer_cell(net: Net, node: NetNode) -> bool:
    """Give a float32 cell on a host its weights in panels of bytes; False if the cell cannot have them."""
    if not node.attrs["narrow"] or node.attrs["packed"] or not is_host(node):
        return False
    found = _weights(node.inputs[1])
    if found is None or node.inputs[0].dtype != "float32" or not node.outputs[0].type.size:
        return False
    numbers, scales, zeros = found
    op, (directions, width, hidden) = node.op_name, node.inputs[1].shape
    if hidden > MOST_K:
        return False
    packed = Constant.derived(
        byte_panels_of(op, directions, hidden),
        partial(_packed, op=op, shape=(directions, width, hidden)),
        numbers,
        zeros,
        source=f"panels of {numbers.source}",
        recipe=("pack_recurrent_bytes", op, directions),
    )
    made = Constant.of(pack_scales(op, scales.reshape(directions, width)), f"the scales of {node.name}")
    panels = net.constant(packed, f"{node.name}.panels")
    factors = net.constant(made, f"{node.name}.scales")
    panels.device = factors.device = node.device
    at = len(node.inputs) - bool(node.attrs["lengths"])
    inputs = [node.inputs[0], panels, *node.inputs[2:at], factors, *node.inputs[at:]]
    attrs = {**without_defaults(op, node.attrs, tuple(node.attrs)), "packed": directions * width}
    net.replace_all(node, net.add(op, inputs, before=node, origins=node.origins, **attrs))
    return True


def _weights(value: NetValue) -> tuple[Constant, np.ndarray, Constant] | None:
    """(bytes [rows, H], scale of each row, zero points) of weights that are on a grid; None for other
    weights."""
    while value.op == "reshape":
        value = value.maker.inputs[0]
    if value.op != "dequantize" or len(value.shape) != 2:
        return None
    x, scale, zero = value.maker.inputs
    given = scale.look()
    if x.dtype not in BYTES or x.constant is None or zero.constant is None or given is None:
        return None
    by_row = given.size == 1 or value.maker.attrs["axis"] % 2 == 0
    if not by_row or not np.isfinite(given).all() or zero.type.size not in (1, value.shape[0]):
        return None
    scales = np.broadcast_to(given.astype(np.float32).reshape(-1), value.shape[:1])
    return x.constant, scales, zero.constant


def _packed(numbers: np.ndarray, zeros: np.ndarray, op: str, shape: tuple[int, ...]) -> np.ndarray:
    centred = numbers.astype(np.int16) - zeros.reshape(-1, 1).astype(np.int16)
    return pack_recurrent_bytes(op, centred.reshape(shape))
