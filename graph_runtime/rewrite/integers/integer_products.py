"""Products of a constant weight between dequantize and quantize, computed in integers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import registry, steps
from ...ir.ops.integers.quantized_products import BYTES, panels_fit
from ...ir.ops.products.byte_panels import MOST_K
from ..formats.byte_grids import ByteGrid, integer_dense, on_bytes, to_bytes
from ..formats.pack_weights import without_defaults
from ..net import Net, NetNode, NetValue
from ..neutral import permutation
from ..ranges import keeps_range

_CONV = ("strides", "pads", "dilations", "group")


class _Weight:
    """A constant weight on a grid of bytes: its numbers, their zero points, and a scale for each output
    channel."""

    def __init__(self, value: NetValue, channels_at: int):
        self.known = False
        perm: tuple[int, ...] | None = None
        if value.op == "transpose":
            perm, value = permutation(value.maker), value.maker.inputs[0]
        if value.op != "dequantize":
            return
        maker = value.maker
        self.w, scale, zero = maker.inputs
        constants = (self.w.constant, scale.look(), zero.look())
        if self.w.dtype not in BYTES or any(c is None for c in constants):
            return
        self.scale, self.zero = np.asarray(constants[1]).reshape(-1), zero
        self.perm, self.shape = perm, value.shape if perm is None else tuple(value.shape[p] for p in perm)
        axis = maker.attrs["axis"] % len(value.shape)
        axis = axis if perm is None else perm.index(axis)
        self.axis = maker.attrs["axis"] % len(value.shape)
        alone = self.scale.size == 1
        self.known = bool(np.isfinite(self.scale).all()) and (alone or axis == channels_at)

    def centred(self, net: Net, node: NetNode, transpose: bool = False) -> NetValue:
        """The numbers minus their zero points, as an int16 constant; ``transpose``: whether to swap the last
        two dimensions."""
        perm = list(range(len(self.shape))) if self.perm is None else list(self.perm)
        if transpose:
            perm = [*perm[:-2], perm[-1], perm[-2]]
        wanted = TensorType("int16", tuple(self.w.shape[p] for p in perm))
        compute = partial(_centred, axis=self.axis, perm=tuple(perm))
        constant, zero = self.w.constant, self.zero.constant
        assert constant is not None, f"{self.w.name} is no constant"
        assert zero is not None, f"{self.zero.name} is no constant"
        recipe = ("centred", self.axis, tuple(perm))
        made = Constant.derived(wanted, compute, constant, zero, source=constant.source, recipe=recipe)
        value = net.constant(made, f"{self.w.name}.centred")
        value.device = node.device
        return value


def _centred(w: np.ndarray, zero: np.ndarray, axis: int, perm: tuple[int, ...]) -> np.ndarray:
    point = zero.reshape(-1, *(1,) * (w.ndim - axis - 1)) if zero.size > 1 else zero.reshape(())
    return np.ascontiguousarray((w.astype(np.int16) - point.astype(np.int16)).transpose(perm))


def integer_product(net: Net, node: NetNode, end: NetNode | None) -> bool:
    """Replace a product of bytes and a constant weight, and the quantize ``end`` after it, by a product in
    integers; False if that is impossible."""
    source = on_bytes(node.inputs[0])
    if (
        source is None
        or registry.KERNEL in node.attrs
        or node.attrs.get("packed")
        or node.attrs.get("transpose_a")
    ):
        return False
    x, grid = source
    flipped = node.op == "matmul" and not node.attrs["transpose_b"]
    weight = _Weight(node.inputs[1], len(node.inputs[1].shape) - 1 if flipped else 0)
    if not weight.known or (node.op != "conv2d" and len(weight.shape) != 2):
        return False
    own = len(node.inputs) - len(steps.extras(node.attrs["epilogue"]))
    scale = np.float32(grid.scale) * weight.scale.astype(np.float32)
    made: dict[str, Any] | None
    if end is not None:
        made = _bytes_end(node, end, own, scale)
        if made is None:
            return False
    else:
        made = {"to": "float32", "scale": scale, "bias": node.inputs[2] if own == 3 else None}
    centred = weight.centred(net, node, transpose=flipped)
    k = int(np.prod(centred.shape[1:]))
    if k > MOST_K or not all(keeps_range("float32", s) and s.all() for s in (scale, made["scale"])):
        return False
    values = [x, centred, node.inputs[0].maker.inputs[2], _known(net, node, made.pop("scale"), "scale")]
    bias = made.pop("bias")
    if isinstance(bias, np.ndarray):
        bias = _known(net, node, bias, "bias")
    values += [] if bias is None else [bias]
    if end is None:
        made["epilogue"] = _shifted(node.attrs["epilogue"], len(values) - own)
        values += node.inputs[own:]
    last = end or node
    if node.op == "conv2d":
        attrs = {**without_defaults("conv2d", node.attrs, _CONV), **made}
        probe = {a.name: a.default for a in registry.require("quantized_conv2d").attrs} | attrs
        if not panels_fit([x.type, centred.type], probe):
            return False
        result = net.add("quantized_conv2d", values, before=last, origins=origins_of(node, end), **attrs)
    else:
        result = integer_dense(net, last, values, origins=origins_of(node, end), **made)
    net.replace(last.output, result)
    return True


def origins_of(node: NetNode, end: NetNode | None) -> tuple[str, ...]:
    return (*node.origins, *(end.origins if end is not None else ()))


def _shifted(body: Any, by: int) -> list[Any]:
    """An epilogue with ``by`` added to the numbers of its inputs."""
    return [[op, [k + by if k >= 0 else k for k in reads], attrs] for op, reads, attrs in body]


def _known(net: Net, node: NetNode, array: np.ndarray, what: str) -> NetValue:
    value = net.constant(Constant.of(array, f"the {what} of {node.name}"), f"{node.name}.{what}")
    value.device = node.device
    return value


def _bytes_end(node: NetNode, end: NetNode, own: int, scale: np.ndarray) -> dict[str, Any] | None:
    """Attributes, with scale and bias, of an integer product that replaces a product and the quantize after
    it. None if the product's bias is not on the grid of the sums, or its epilogue does more than bound the
    result."""
    grid = to_bytes(end)
    bounds = _bounds(node, grid) if grid is not None else None
    if grid is None or bounds is None:
        return None
    bias = None
    if own == 3:
        bias = _integer_bias(node.inputs[2], scale)
        if bias is None:
            return None
    with np.errstate(all="ignore"):
        by = (scale / grid.scale).astype(np.float32)
    info = np.iinfo(grid.dtype)
    made = {"to": grid.dtype, "zero": grid.zero, "scale": by, "bias": bias}
    return made if bounds == (info.min, info.max) else {**made, "bounds": bounds}


def _integer_bias(value: NetValue, scale: np.ndarray) -> np.ndarray | None:
    """int32 numbers of a bias that is on the grid of the sums: a dequantize of int32 whose scale is the
    product of the image's scale and the weight's scale. None for other biases."""
    if value.op != "dequantize" or value.maker.inputs[0].dtype != "int32":
        return None
    numbers, own, zero = (v.look() for v in value.maker.inputs)
    if numbers is None or own is None or zero is None or zero.any():
        return None
    if not np.allclose(own.reshape(-1), scale, rtol=1e-5, atol=0):
        return None
    return np.ascontiguousarray(numbers.reshape(-1))


def _bounds(node: NetNode, grid: ByteGrid) -> tuple[int, int] | None:
    """The smallest and largest number that remain after an epilogue that only bounds the result; None for any
    other epilogue."""
    info = np.iinfo(grid.dtype)
    low, high = int(info.min), int(info.max)
    for i, (op, reads, attrs) in enumerate(node.attrs["epilogue"]):
        if tuple(reads) != (-1 - i,) or op not in ("relu", "clip"):
            return None
        decoded = registry.require(op).decode(dict(attrs))
        ends = np.array((0.0, np.inf) if op == "relu" else (decoded["min"], decoded["max"]), np.float32)
        least, most = (int(n) for n in grid.nearest(ends))
        low, high = min(max(low, least), most), max(min(high, most), least)
    return low, high
