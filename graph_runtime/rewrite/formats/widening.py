"""The rule by which hosts compute float16 and bfloat16 models in float32.

    f(x, w) in float16  ->  cast(f(cast(x), w as float32))

and the two casts between such nodes vanish: the next node reads the result in float32. The rule begins with
products and follows their results: on hosts, fast kernels of products exist for float32 only, and kernels for
16 bits convert each element to float32.
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

_HALVES = ("float16", "bfloat16")
_WIDE = "float32"
_PRODUCTS = ("dense", "matmul", "conv2d", "attention")
_OF_TYPES = ("cast", "bitcast")  # ops whose meaning is the dtype


def compute_wide(net: Net) -> list[str]:
    """Compute nodes of 16 bits on hosts in float32. Outputs of the graph, and values that other devices or
    the model's own casts read, are rounded to their dtype. Other values are not, so that none of them becomes
    infinity because its dtype is too small (float16: above 65504).

    Returns the names of products that were in bfloat16: store_weights can store their weights in bfloat16
    without rounding."""
    wide, widened, narrow = dict[NetValue, NetValue](), list[NetNode](), list[str]()
    for node in net.nodes():
        if is_host(node) and _computes_in_halves(node, wide):
            made = _again(net, node, [_wide(net, node, v, wide) for v in node.inputs])
            if made is not None:
                widened.append(node)
                if node.op in _PRODUCTS and node.output.dtype == PAIRED:
                    narrow.append(node.name)  # name of the new node; the old node may lose it
                _replace(net, node, made, wide)
    if widened:
        net.note("compute_wide", f"{len(widened)} nodes of 16 bits on cpu compute in float32", widened)
    return narrow


def _computes_in_halves(node: NetNode, wide: dict[NetValue, NetValue]) -> bool:
    """Whether to compute the node in float32: all its floats have 16 bits, and it is a product or some of its
    inputs exist in float32. For other ops a cast costs more than it saves."""
    op = registry.get(node.op) if node.op else None
    if op is None or node.op in _OF_TYPES or registry.KERNEL in node.attrs or not node.inputs:
        return False
    floats = {t.dtype for t in (*node.input_types, *node.output_types) if "float" in t.dtype}
    if len(floats) != 1 or not floats <= set(_HALVES):
        return False
    packs = op.panels is not None or op.prefers is not None  # whether the float32 kernel packs an operand
    return packs or any(value in wide for value in node.inputs)


def _wide(net: Net, node: NetNode, value: NetValue, wide: dict[NetValue, NetValue]) -> NetValue:
    """A 16-bit value as float32; a value of another dtype is returned unchanged."""
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
    """A constant in another float dtype, rounded once; the result is a new constant for ``node``."""
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
    """The node's results for inputs in float32; None if the node does not accept such inputs, or if an
    attribute gives the dtype of its result."""
    given: dict[str, Any] = node.given_attrs()
    try:
        made = net.add(node.op_name, inputs, before=node, **given)
    except (GraphError, UnsupportedOpError):
        return None
    made = [made] if isinstance(made, NetValue) else list(made)
    wanted = [_WIDE if v.dtype in _HALVES else v.dtype for v in node.outputs]
    return made if [v.dtype for v in made] == wanted else None


def _replace(net: Net, node: NetNode, made: list[NetValue], wide: dict[NetValue, NetValue]) -> None:
    """Replace the node's results by ``made``, rounded for readers of 16 bits."""
    back = list(made)
    for i, (was, now) in enumerate(zip(node.outputs, made, strict=True)):
        if was.dtype != now.dtype:
            back[i] = net.add("cast", [now], before=node, name=f"{node.name}_rounded", to=was.dtype)
    net.replace_all(node, back)
    wide.update((v, now) for v, now in zip(back, made, strict=True) if v is not now)
