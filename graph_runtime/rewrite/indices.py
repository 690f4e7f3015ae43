"""Conversion of 64-bit indices to 32-bit ones for devices that support no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.graph import TensorType
from .net import Net, NetNode, NetValue
from .values import supports

# ops whose input 1 has indices
_BY_INDEX = ("take", "take_along_axis", "gather_nd", "scatter_elements", "scatter_nd")
_FINDING = {
    "argmax": 0,
    "argmin": 0,
    "topk": 1,
    "max_pool2d_indices": 1,
    "max_pool2d_argmax": 0,
}  # {op: index of its result that holds indices}
_LEAST, _MOST = -(2.0**31), 2.0**31 - 1


def narrow_indices(net: Net) -> None:
    """Cast the indices that a node reads or makes, before or after the node, if some device runs the node
    only with int32. Indices beyond int32 stay out of range. Pinned nodes are left alone, because their casts
    might have to run on another device."""
    for node in net.nodes(*_BY_INDEX):
        if node.device is None and node.inputs[1].dtype == "int64" and _pays(net, node, 1, {}):
            data, index, *rest = node.inputs
            _again(net, node, [data, _short(net, node, index), *rest], {})
    for node in net.nodes(*_FINDING):
        if (
            node.device is None
            and node.attrs["dtype"] == "int64"
            and _pays(net, node, None, {"dtype": "int32"})
        ):
            _again(net, node, node.inputs, {"dtype": "int32"})


def _pays(net: Net, node: NetNode, port: int | None, attrs: dict[str, Any]) -> bool:
    """Whether a device kind that does not accept the node accepts it with int32 at input ``port`` and these
    attributes."""
    inputs = [TensorType("int32", t.shape) if i == port else t for i, t in enumerate(node.input_types)]
    outputs = list(node.output_types)
    if attrs:
        at = _FINDING[node.op_name]
        outputs[at] = TensorType("int32", outputs[at].shape)
    return any(
        not node.supported_on(kind) and supports(node.op_name, node.attrs | attrs, kind, inputs, outputs)
        for kind in net.kinds
    )


def _short(net: Net, node: NetNode, index: NetValue) -> NetValue:
    """The indices as int32; indices beyond int32 are clipped first."""
    known = index.look()
    if known is None or np.abs(known.astype(np.float64)).max(initial=0) > _MOST:
        index = net.add("clip", [index], before=node, name=f"{node.name}_range", min=_LEAST, max=_MOST)
    return net.add("cast", [index], before=node, name=f"{node.name}_index", to="int32")


def _again(net: Net, node: NetNode, inputs: Sequence[NetValue], attrs: dict[str, Any]) -> None:
    """Replace the node by one of the same op with other inputs or attributes. Results that became int32 are
    cast back."""
    given = node.given_attrs() | attrs
    made = net.add(node.op_name, inputs, before=node, **given)
    made = [made] if isinstance(made, NetValue) else list(made)
    for i, (was, now) in enumerate(zip(node.outputs, made, strict=True)):
        if was.type != now.type:
            made[i] = net.add("cast", [now], before=node, name=f"{node.name}_wide", to=was.dtype)
    net.note("narrow_indices", f"{node.name} ({node.op}) goes by int32 indices, as tt has them", [node])
    net.replace_all(node, made)
