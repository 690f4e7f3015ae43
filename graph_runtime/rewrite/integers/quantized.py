"""The rules that run quantized graphs on hosts in integers (docs/cpu.md).

    quantize(f(dequantize(x), ..))  ->  f in integers, or a table of 256

    what f is                                                       what replaces it
    conv2d, dense, matmul of a constant weight                      quantized_conv2d, quantized_dense
    elementwise ops of one tensor, quantize of dequantize           lookup
    other elementwise ops                                           quantized_map
    weights of an lstm that may round its state                     weights in bytes
    reshapes, transposes, slices, takes, max_pool2d, concatenate    the same op on the integers
    dequantize of a constant                                        a constant

Grids are constants: scale and zero point. Everything else is computed in float32 between dequantize and
quantize.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...base.machine.descriptors import HOST_KERNELS
from ...ir.documents.draft import op_call
from ...ir.model import Constant
from ...ir.ops import registry, steps
from ...ir.ops.integers.quantized import table_of
from ...ir.ops.moving.shape import exactly
from ..folding import folded
from ..formats.byte_grids import ByteGrid, integer_dense, on_bytes, to_bytes
from ..formats.pack_weights import is_host
from ..groups import is_step
from ..matching import only_reader, other
from ..net import Net, NetNode, NetValue
from ..values import supports
from .integer_cells import integer_cell
from .integer_products import integer_product, origins_of

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
    "max_pool2d",  # the largest byte stands for the largest number
)


_ANY = "any byte"  # key of a number that depends on no tensor


def quantized_graphs(net: Net) -> None:
    """Compute nodes on hosts between dequantize and quantize in integers."""
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
        if is_host(node) and integer_product(net, node, None):
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
    found["cells"] = [node for node in net.nodes("lstm") if integer_cell(net, node)]
    for node in net.nodes("dequantize"):
        if is_host(node) and node.inputs[0].constant is not None and (made := folded(node)) is not None:
            value = net.constant(made, node.name)
            value.device = node.device
            net.replace(node.output, value)
    for name, nodes in found.items():
        if nodes:
            net.note("quantized", f"{len(nodes)} {name} on cpu run in integers", nodes)


def scaled_integers(net: Net) -> None:
    """Rewrite float32(sums of a product of integers) * scale, as dynamic quantization has it, to the product
    with this scale, whose result is float32."""
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
    """The shape of a factor: () for one number, (n,) for one number per output channel; None for any other
    factor."""
    ndim = len(node.output.shape)
    if len(shape) > ndim:
        return None
    at = 1 if node.op == "quantized_conv2d" else ndim - 1
    wide = (1,) * (ndim - len(shape)) + shape
    if all(n == 1 for n in wide):
        return ()
    n = node.output.shape[at]
    return (n,) if wide == tuple(n if d == at else 1 for d in range(ndim)) else None


# ---------------------------------------------------------------- ends in quantize


def _quantized(net: Net, node: NetNode) -> str | None:
    """Replace ``node``, a quantize, and the op before it by an integer op that makes the quantized bytes.
    Returns the kind of op replaced, for the note, or None if nothing was replaced."""
    grid, x = to_bytes(node), node.inputs[0]
    if grid is None:
        return None
    if (source := on_bytes(x)) is not None:
        net.replace(node.output, _moved_to(net, node, *source, grid))
        return "functions"
    maker = x.producer
    if maker is None or not is_host(maker) or only_reader(x) is not node:
        return None
    if maker.op in ("conv2d", "dense", "matmul"):
        return "products" if integer_product(net, maker, node) else None
    if maker.op == "concatenate":
        return "movements" if _concatenate(net, maker, node, grid) else None
    return "functions" if _function(net, maker, node, grid) or _map(net, maker, node, grid) else None


def _moved_to(net: Net, node: NetNode, x: NetValue, own: ByteGrid, grid: ByteGrid) -> NetValue:
    """Bytes on one grid (``own``), converted to another (``grid``)."""
    return x if own.same(grid) else _lookup(net, node, x, grid.nearest(own.real()))


def _lookup(net: Net, node: NetNode, x: NetValue, table: np.ndarray) -> NetValue:
    value = net.constant(Constant.of(table, f"a table of {node.name}"), f"{node.name}.table")
    value.device = node.device
    return net.add("lookup", [x, value], before=node)


def _function(net: Net, maker: NetNode, node: NetNode, grid: ByteGrid) -> bool:
    """Replace an elementwise op, or a group of elementwise ops, by a table, if its inputs are one tensor of
    bytes and otherwise numbers; False if ``maker`` is no such op."""
    if not (steps.code_of(maker.op or "") or maker.op == "fused"):
        return False
    sources = [_real_by_byte(value) for value in maker.inputs]
    if None in sources:
        return False
    known = [source for source in sources if source is not None]
    first = next((source for source in known if _ANY not in source), {})
    shared = [x for x in first if all(x in source or _ANY in source for source in known)]
    if not shared or maker.output.shape != (x := shared[-1]).shape:
        return False
    arrays = [source[x if x in source else _ANY] for source in known]
    with np.errstate(all="ignore"):
        (made,) = registry.require(maker.op_name).reference(arrays, maker.attrs)
    net.replace(node.output, _lookup(net, node, x, grid.nearest(np.broadcast_to(made, 256))))
    return True


def _real_by_byte(value: NetValue) -> dict[Any, np.ndarray] | None:
    """{tensor of bytes: float32 [256], the value by byte} for each tensor that alone determines the value,
    nearest first. {_ANY: number} for a single number; None for other values."""
    source = on_bytes(value)
    number = value.scalar() if source is None else source[0].scalar()
    if value.type.size == 1 and number is not None:
        return {_ANY: np.asarray(number if source is None else source[1].real_of(number), np.float32)}
    if source is None:
        return None
    x, grid = source
    return {tensor: grid.real_of(numbers) for tensor, numbers in _tables(x).items()}


def _tables(x: NetValue) -> dict[NetValue, np.ndarray]:
    """{tensor: table of x's numbers by the bytes of that tensor} for x, a tensor of bytes, and for the
    tensors from which x is looked up."""
    found, numbers = dict[NetValue, np.ndarray](), table_of(x.dtype)
    while True:
        found[x] = numbers
        table = x.maker.inputs[1].look() if x.op == "lookup" else None
        if table is None:
            return found
        numbers = numbers[table.astype(np.int64) - int(np.iinfo(x.dtype).min)]
        x = x.maker.inputs[0]


def _map(net: Net, maker: NetNode, end: NetNode | None, grid: ByteGrid | None) -> bool:
    """Replace elementwise ops on tensors that are on grids, and the quantize ``end`` after them, by one node;
    False if one node cannot compute them."""
    body = _body(maker)
    if body is None or any(value.dtype != "float32" for value in maker.inputs):
        return False
    sources = [on_bytes(value) for value in dict.fromkeys(maker.inputs)]
    if end is None and not any(sources):
        return False
    values = [
        source[0] if source else v for v, source in zip(dict.fromkeys(maker.inputs), sources, strict=True)
    ]
    grids = [source[1] if source else None for source in sources] + [grid]
    attrs = {
        "body": body,
        "to": "float32" if grid is None else grid.dtype,
        "scales": [1.0 if g is None else float(g.scale) for g in grids],
        "zeros": [0 if g is None else g.zero for g in grids],
    }
    last = end or maker
    made = _on_host(net, "quantized_map", values, last, origins_of(maker, end), attrs)
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
    """The result of a new node, or None if the host has no kernel for that node."""
    try:
        call = op_call(op, [v.type for v in inputs], attrs)
    except GraphError:
        return None
    if not supports(op, call.attrs, HOST_KERNELS, [v.type for v in inputs], call.made):
        return None
    made: NetValue = net.add(op, inputs, before=before, origins=origins, **attrs)
    return made


def _body(node: NetNode) -> list[Any] | None:
    """The steps of an elementwise node over its distinct inputs; None for any other node."""
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
    """Rewrite move(dequantize(x)) -> dequantize(move(x)); False if that is impossible."""
    if node.op == "concatenate":
        return False
    source = on_bytes(node.inputs[0])
    if source is None or node.inputs[0].maker.inputs[0].constant is not None:
        return False
    _, scale, zero = node.inputs[0].maker.inputs
    made = _on_host(net, node.op_name, [source[0], *node.inputs[1:]], node, node.origins, node.given_attrs())
    if made is None:
        return False
    net.replace(node.output, net.add("dequantize", [made, scale, zero], before=node))
    return True


def _concatenate(net: Net, maker: NetNode, node: NetNode, grid: ByteGrid) -> bool:
    sources = [on_bytes(value) for value in maker.inputs]
    if any(source is None for source in sources):
        return False
    parts = [_moved_to(net, node, x, own, grid) for x, own in filter(None, sources)]
    net.replace(node.output, net.add("concatenate", parts, before=node, **maker.given_attrs()))
    return True
