"""The rules that run quantized graphs on hosts in integers (docs/cpu.md).

    quantize(f(dequantize(x), ..))  ->  f in integers, or by a table of 256

    conv2d, dense, matmul of a constant weight   quantized_conv2d, quantized_dense
    elementwise ops of one tensor, quantize of dequantize           lookup
    other elementwise ops                        quantized_map
    reshapes, transposes, slices, takes, max_pool2d, concatenate    the same of the integers
    dequantize of what is a constant                                a constant

Grids are constants: scale and zero point. What is no such pattern computes in float32 between dequantize
and quantize.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..base.machine.devices import HOST_KERNELS
from ..ir.documents.draft import op_call
from ..ir.graph import TensorType
from ..ir.model import Constant
from ..ir.ops import registry, steps
from ..ir.ops.byte_panels import MOST_K
from ..ir.ops.quantized import table_of
from ..ir.ops.quantized_products import BYTES, panels_fit
from ..ir.ops.shape import exactly
from .folding import folded
from .groups import is_step
from .matching import only_reader, other
from .net import Net, NetNode, NetValue
from .neutral import permutation
from .pack_bytes import integer_dense
from .pack_weights import is_host, without_defaults
from .values import supports

__all__ = ["quantized_graphs", "scaled_integers"]

_MOVES = (
    *(
        "reshape",
        "flatten",
        "squeeze",
        "unsqueeze",
        "transpose",
        "slice",
        "take",
        "tile",
        "broadcast_to",
        "reverse",
    ),
    "max_pool2d",  # the greatest number is that of the greatest byte
)
_CONV = ("strides", "pads", "dilations", "group")


def quantized_graphs(net: Net) -> None:
    """Nodes on hosts between dequantize and quantize in integers."""
    found = {"products": list[NetNode](), "functions": list[NetNode](), "movements": list[NetNode]()}
    for node in net.nodes():
        if not is_host(node):
            continue
        if node.op in _MOVES or node.op == "concatenate":
            if _move(net, node):
                found["movements"].append(node)
        elif node.op == "quantize" and (name := _quantized(net, node)):
            found[name].append(node)
    for node in net.nodes("conv2d", "dense", "matmul"):
        if is_host(node) and _product(net, node, None):
            found["products"].append(node)
    for node in net.nodes("quantized_dense"):
        if is_host(node) and not node.attrs["packed"] and node.inputs[1].constant is not None:
            given = {k: v for k, v in node.given_attrs().items() if k != "packed"}
            net.replace(node.output, integer_dense(net, node, list(node.inputs), **given))
            found["products"].append(node)
    for node in net.nodes():
        if (
            is_host(node)
            and (node.op == "fused" or steps.code_of(node.op or ""))
            and _map(net, node, None, None)
        ):
            found["functions"].append(node)
    for node in net.nodes("dequantize"):
        if is_host(node) and node.inputs[0].constant is not None and (made := folded(node)) is not None:
            value = net.constant(made, node.name)
            value.device = node.device
            net.replace(node.output, value)
    for name, nodes in found.items():
        if nodes:
            net.note("quantized", f"{len(nodes)} {name} on cpu run in integers", nodes)


def scaled_integers(net: Net) -> None:
    """float32(sums of a product of integers) * scale  ->  the product with a scale, whose result is
    float32: dynamic quantization."""
    for node in net.nodes("quantized_dense", "quantized_conv2d"):
        cast = only_reader(node.output) if node.attrs["to"] == "int32" else None
        if cast is None or cast.op != "cast" or cast.output.dtype != "float32":
            continue
        times = only_reader(cast.output)
        scale = other(times, cast.output) if times is not None and times.op == "multiply" else None
        if times is None or scale is None or times.output.type != cast.output.type:
            continue
        shape = _by_channel(node, scale.shape)
        if shape is None or not net.together([node, cast, times]):
            continue
        if scale.shape != shape:
            scale = net.add("reshape", [scale], before=times, **exactly(shape))
        attrs = {**node.given_attrs(), "to": "float32"}
        origins = tuple(o for n in (node, cast, times) for o in n.origins)
        made = net.add(node.op_name, [*node.inputs, scale], before=times, origins=origins, **attrs)
        net.note(
            "scaled_integers", f"{times.name} scales the sums of {node.name} as they are made", [node, times]
        )
        net.replace(times.output, made)


def _by_channel(node: NetNode, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """() or [n] for a factor that is one number, or one of each output channel; None for any other."""
    ndim = len(node.output.shape)
    if len(shape) > ndim:
        return None
    at = 1 if node.op == "quantized_conv2d" else ndim - 1
    wide = (1,) * (ndim - len(shape)) + shape
    if all(n == 1 for n in wide):
        return ()
    n = node.output.shape[at]
    return (n,) if wide == tuple(n if d == at else 1 for d in range(ndim)) else None


# ---------------------------------------------------------------- grids


class _Grid:
    """The grid of a tensor of bytes: one scale, one zero point, both known."""

    def __init__(self, node: NetNode, dtype: str):
        self.dtype = dtype
        scale, zero = node.inputs[1].scalar(), node.inputs[2].scalar()
        usable = scale is not None and zero is not None and np.isfinite(scale) and scale > 0
        self.known = usable and node.inputs[1].type.size == 1
        self.scale = np.float32(scale if self.known else 1)
        self.zero = int(zero or 0)

    def same(self, other: _Grid) -> bool:
        return (self.dtype, self.scale, self.zero) == (other.dtype, other.scale, other.zero)

    def real(self) -> np.ndarray:
        """float32 [256]: what each number means."""
        return (table_of(self.dtype).astype(np.int32) - self.zero).astype(np.float32) * self.scale

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """float32 on the grid, as quantize."""
        arrays = [np.asarray(x, np.float32), np.asarray(self.scale), np.asarray(self.zero, self.dtype)]
        return registry.require("quantize").reference(arrays, {"axis": 0})[0]


def _on_bytes(value: NetValue) -> tuple[NetValue, _Grid] | None:
    """(bytes, their grid) of a value that is dequantize of bytes on one grid."""
    if value.op != "dequantize":
        return None
    x = value.maker.inputs[0]
    if x.dtype not in BYTES or not is_host(value.maker):
        return None
    grid = _Grid(value.maker, x.dtype)
    return (x, grid) if grid.known else None


def _to_bytes(node: NetNode) -> _Grid | None:
    """The grid that a node quantize makes, where it is one of bytes."""
    if node.op != "quantize" or node.output.dtype not in BYTES or node.inputs[0].dtype != "float32":
        return None
    grid = _Grid(node, node.output.dtype)
    return grid if grid.known else None


# ---------------------------------------------------------------- what ends in quantize


def _quantized(net: Net, node: NetNode) -> str | None:
    """Put what makes bytes in integers in the place of ``node``, a quantize; the name of what it was."""
    grid, x = _to_bytes(node), node.inputs[0]
    if grid is None:
        return None
    if (source := _on_bytes(x)) is not None:
        net.replace(node.output, _moved_to(net, node, *source, grid))
        return "functions"
    maker = x.producer
    if maker is None or not is_host(maker) or only_reader(x) is not node:
        return None
    if maker.op in ("conv2d", "dense", "matmul"):
        return "products" if _product(net, maker, node) else None
    if maker.op == "concatenate":
        return "movements" if _concatenate(net, maker, node, grid) else None
    return "functions" if _function(net, maker, node, grid) or _map(net, maker, node, grid) else None


def _moved_to(net: Net, node: NetNode, x: NetValue, own: _Grid, grid: _Grid) -> NetValue:
    """Bytes of a grid on another one."""
    return x if own.same(grid) else _lookup(net, node, x, grid.nearest(own.real()))


def _lookup(net: Net, node: NetNode, x: NetValue, table: np.ndarray) -> NetValue:
    value = net.constant(Constant.of(table, f"a table of {node.name}"), f"{node.name}.table")
    value.device = node.device
    return net.add("lookup", [x, value], before=node)


def _function(net: Net, maker: NetNode, node: NetNode, grid: _Grid) -> bool:
    """An elementwise op, or a group of them, of one tensor of bytes and of numbers."""
    if not (steps.code_of(maker.op or "") or maker.op == "fused"):
        return False
    sources = {value: _on_bytes(value) for value in maker.inputs}
    tensors = {source[0]: source[1] for source in sources.values() if source is not None}
    if len(tensors) != 1:
        return False
    ((x, own),) = tensors.items()
    arrays = []
    for value, source in sources.items():
        number = value.scalar() if source is None else None
        if source is None and (number is None or value.type.size != 1):
            return False
    if maker.output.shape != x.shape:
        return False
    for value in maker.inputs:
        number = value.scalar()
        arrays.append(own.real() if sources[value] else np.asarray(number, np.float32))
    with np.errstate(all="ignore"):
        (made,) = registry.require(maker.op_name).reference(arrays, maker.attrs)
    net.replace(node.output, _lookup(net, node, x, grid.nearest(np.broadcast_to(made, 256))))
    return True


def _map(net: Net, maker: NetNode, end: NetNode | None, grid: _Grid | None) -> bool:
    """Elementwise ops of tensors on grids, and the quantize ``end`` behind them, as one node."""
    program = _program(maker)
    if program is None or any(value.dtype != "float32" for value in maker.inputs):
        return False
    sources = [_on_bytes(value) for value in dict.fromkeys(maker.inputs)]
    if end is None and not any(sources):
        return False
    values = [
        source[0] if source else v for v, source in zip(dict.fromkeys(maker.inputs), sources, strict=True)
    ]
    grids = [source[1] if source else None for source in sources] + [grid]
    attrs = {
        "body": program,
        "to": "float32" if grid is None else grid.dtype,
        "scales": [1.0 if g is None else float(g.scale) for g in grids],
        "zeros": [0 if g is None else g.zero for g in grids],
    }
    last = end or maker
    made = _on_host(net, "quantized_map", values, last, _origins(maker, end), attrs)
    if made is not None:
        net.replace(last.output, made)
    return made is not None


def _on_host(
    net: Net,
    op: str,
    inputs: list[NetValue],
    before: NetNode,
    origins: tuple[str, ...],
    attrs: Mapping[Any, Any],
) -> NetValue | None:
    """Another node, None where the host has no kernel for it."""
    try:
        call = op_call(op, [v.type for v in inputs], attrs)
    except GraphError:
        return None
    if not supports(op, call.attrs, HOST_KERNELS, [v.type for v in inputs], call.made):
        return None
    made: NetValue = net.add(op, inputs, before=before, origins=origins, **attrs)
    return made


def _program(node: NetNode) -> list[Any] | None:
    """The steps of an elementwise node over its inputs, each counted once; None for any other node."""
    at = {value: i for i, value in enumerate(dict.fromkeys(node.inputs))}
    if node.op == "fused":
        body = node.attrs["body"]
        return [
            [op, [at[node.inputs[k]] if k >= 0 else k for k in reads], given] for op, reads, given in body
        ]
    if not is_step(node):
        return None
    return [[node.op, [at[value] for value in node.inputs], node.given_attrs()]]


# ---------------------------------------------------------------- movements


def _move(net: Net, node: NetNode) -> bool:
    """move(dequantize(x))  ->  dequantize(move(x))"""
    if node.op == "concatenate":
        return False
    source = _on_bytes(node.inputs[0])
    if source is None or node.inputs[0].maker.inputs[0].constant is not None:
        return False
    _, scale, zero = node.inputs[0].maker.inputs
    made = _on_host(net, node.op_name, [source[0], *node.inputs[1:]], node, node.origins, node.given_attrs())
    if made is None:
        return False
    net.replace(node.output, net.add("dequantize", [made, scale, zero], before=node))
    return True


def _concatenate(net: Net, maker: NetNode, node: NetNode, grid: _Grid) -> bool:
    sources = [_on_bytes(value) for value in maker.inputs]
    if any(source is None for source in sources):
        return False
    parts = [_moved_to(net, node, x, own, grid) for x, own in filter(None, sources)]
    net.replace(node.output, net.add("concatenate", parts, before=node, **maker.given_attrs()))
    return True


# ---------------------------------------------------------------- products


class _Weight:
    """A constant weight on a grid of bytes: numbers, their zero points, and a scale each output channel."""

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
        """int16: the numbers less their zero points; ``transpose``: the last two dimensions swapped."""
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


def _product(net: Net, node: NetNode, end: NetNode | None) -> bool:
    """A product of bytes and a constant weight, and the quantize ``end`` behind it, in integers."""
    source = _on_bytes(node.inputs[0])
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
    if k > MOST_K or not np.isfinite(made["scale"]).all() or not np.abs(made["scale"]).min(initial=1) > 1e-37:
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
        result = net.add("quantized_conv2d", values, before=last, origins=_origins(node, end), **attrs)
    else:
        result = integer_dense(net, last, values, origins=_origins(node, end), **made)
    net.replace(last.output, result)
    return True


def _origins(node: NetNode, end: NetNode | None) -> tuple[str, ...]:
    return (*node.origins, *(end.origins if end is not None else ()))


def _shifted(program: Any, by: int) -> list[Any]:
    """An epilogue whose inputs lie ``by`` places further on."""
    return [[op, [k + by if k >= 0 else k for k in reads], attrs] for op, reads, attrs in program]


def _known(net: Net, node: NetNode, array: np.ndarray, what: str) -> NetValue:
    value = net.constant(Constant.of(array, f"the {what} of {node.name}"), f"{node.name}.{what}")
    value.device = node.device
    return value


def _bytes_end(node: NetNode, end: NetNode, own: int, scale: np.ndarray) -> dict[str, Any] | None:
    """Attributes, scale and bias of a product that quantize follows; None where its bias is on no grid that
    fits, or its epilogue is more than a bound."""
    grid = _to_bytes(end)
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
    """int32 numbers of a bias on the grid of the sums: dequantize of int32 with the product of both
    scales."""
    if value.op != "dequantize" or value.maker.inputs[0].dtype != "int32":
        return None
    numbers, own, zero = (v.look() for v in value.maker.inputs)
    if numbers is None or own is None or zero is None or zero.any():
        return None
    if not np.allclose(own.reshape(-1), scale, rtol=1e-5, atol=0):
        return None
    return np.ascontiguousarray(numbers.reshape(-1))


def _bounds(node: NetNode, grid: _Grid) -> tuple[int, int] | None:
    """The least and the greatest number that an epilogue of bounds leaves; None for any other."""
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
