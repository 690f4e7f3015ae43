"""The rule by which hosts compute float16 and bfloat16 models in float32.

    f(x, w) in float16  ->  cast(f(cast(x), w as float32))

and of casts there and back between two such nodes nothing is left: what one makes the next reads in float32.
It begins with products, whose fast kernels on hosts are of float32 only (those of 16 bits compute in it, too,
but element by element), and goes on as far as their results do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base.errors import GraphError, UnsupportedOpError
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import registry, rules
from ...ir.ops.products.packed import PAIRED
from ..net import Net, NetNode, NetValue
from .pack_weights import is_host

__all__ = ["compute_wide", "constant_in"]

_HALVES = ("float16", "bfloat16")
_WIDE = "float32"
_PRODUCTS = ("dense", "matmul", "conv2d", "attention")
_OF_TYPES = ("cast", "bitcast")  # which are about the dtype itself


def compute_wide(net: Net) -> list[str]:
    """Nodes on hosts that compute in 16 bits compute in float32. What the graph's outputs, other devices and
    casts of the model's own read is rounded to its dtype; between others nothing is, so a value that 16 bits
    do not hold (65504 is the most of float16) is no infinity there.

    The names of products that were of bfloat16: their weights are stored so (store_weights), which rounds
    nothing."""
    wide, widened, narrow = dict[NetValue, NetValue](), list[NetNode](), list[str]()
    for node in net.nodes():
        if is_host(node) and _computes_in_halves(node, wide):
            made = _again(net, node, [_wide(net, node, v, wide) for v in node.inputs])
            if made is not None:
                widened.append(node)
                if node.op in _PRODUCTS and node.output.dtype == PAIRED:
                    narrow.append(node.name)  # that of the new node; this one may lose it
                _replace(net, node, made, wide)
    if widened:
        net.note("compute_wide", f"{len(widened)} nodes of 16 bits on cpu compute in float32", widened)
    return narrow


def _computes_in_halves(node: NetNode, wide: dict[NetValue, NetValue]) -> bool:
    """Floats that it reads and makes have 16 bits; and it is a product, or some of them are there in float32:
    an op of few passes gains less than a cast takes."""
    op = registry.get(node.op) if node.op else None
    if op is None or node.op in _OF_TYPES or registry.KERNEL in node.attrs or not node.inputs:
        return False
    floats = {t.dtype for t in (*node.input_types, *node.output_types) if "float" in t.dtype}
    if len(floats) != 1 or not floats <= set(_HALVES):
        return False
    packs = op.panels is not None or op.prefers is not None  # a kernel of float32 that packs an operand
    return packs or any(value in wide for value in node.inputs)


def _wide(net: Net, node: NetNode, value: NetValue, wide: dict[NetValue, NetValue]) -> NetValue:
    """A value of 16 bits in float32, any other as it is."""
    if value.dtype not in _HALVES:
        return value
    if value not in wide:
        wide[value] = (
            net.add("cast", [value], before=node, name=f"{value.name}_wide", to=_WIDE)
            if value.constant is None
            else constant_in(net, node, value, _WIDE, f"{value.name}.wide")
        )
    return wide[value]


def constant_in(net: Net, node: NetNode, value: NetValue, dtype: str, name: str) -> NetValue:
    """A constant in another float dtype, rounded once, where a node reads it."""
    constant = value.constant
    assert constant is not None, f"{value.name} is no constant"
    made = Constant.derived(
        TensorType(dtype, value.shape),
        partial(rules.narrow, dtype=dtype),
        constant,
        source=f"{constant.source} in {dtype}",
        recipe=(f"as_{dtype}",),
    )
    converted = net.constant(made, name)
    converted.device = node.device
    return converted


def _again(net: Net, node: NetNode, inputs: list[NetValue]) -> list[NetValue] | None:
    """What the node makes of inputs in float32; None where it does not take them, or its attributes say the
    dtype of what it makes."""
    given: dict[str, Any] = node.given_attrs()
    try:
        made = net.add(node.op_name, inputs, before=node, **given)
    except (GraphError, UnsupportedOpError):
        return None
    made = [made] if isinstance(made, NetValue) else list(made)
    wanted = [_WIDE if v.dtype in _HALVES else v.dtype for v in node.outputs]
    return made if [v.dtype for v in made] == wanted else None


def _replace(net: Net, node: NetNode, made: list[NetValue], wide: dict[NetValue, NetValue]) -> None:
    """``made`` in the place of what the node makes, rounded for those that read 16 bits."""
    back = list(made)
    for i, (was, now) in enumerate(zip(node.outputs, made, strict=True)):
        if was.dtype != now.dtype:
            back[i] = net.add("cast", [now], before=node, name=f"{node.name}_rounded", to=was.dtype)
    net.replace_all(node, back)
    wide.update((v, now) for v, now in zip(back, made, strict=True) if v is not now)
