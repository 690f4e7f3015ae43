"""The rule that puts constant weights of cpu products into panels, once, when a model is compiled.

    dense(x, w)        ->  dense(x, panels, packed=n)
    matmul(x, w)       ->  dense(x, panels, packed=n)      w constant and of two dimensions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..model import Constant
from ..ops import registry
from ..ops.packed import panel_type
from .net import Net, Node, Value

__all__ = ["is_host", "pack_weights", "packed_weight", "without_defaults"]

_KEPT = ("epilogue",)


def is_host(node: Node) -> bool:
    """Whether it runs on a cpu."""
    return (node.device or "").partition(":")[0] == "cpu"


def pack_weights(net: Net) -> None:
    """Weights of dense and matmul on cpu in panels."""
    packed = []
    for node in net.nodes("dense", "matmul"):
        if _takes_panels(node):
            packed.append(node)
            _pack(net, node)
    if packed:
        net.note("pack_weights", f"weights of {len(packed)} products on cpu are in panels", packed)


def packed_weight(net: Net, node: Node, weight: Value, transpose: bool, n: int, k: int) -> Value:
    """A constant weight in panels, as a constant beside ``node``."""
    constant, op = weight.constant, registry.require("pack_panels")
    made = panel_type(n, k)

    def pack(array: np.ndarray) -> np.ndarray:
        return op.reference([array], {"transpose": transpose})[0]

    value = net.constant(Constant.derived(made, pack, constant, source=f"panels of {constant.source}"),
                         f"{weight.name}.panels")
    value.device = node.device
    return value


def without_defaults(op: str, attrs: Mapping[str, Any], keep: tuple[str, ...]) -> dict[str, Any]:
    """Those attributes of a node that another one takes over."""
    defaults = {a.name: a.default for a in registry.require(op).attrs}
    return {name: attrs[name] for name in keep if name in attrs and attrs[name] != defaults.get(name)}


def _takes_panels(node: Node) -> bool:
    """A float32 product on cpu whose weight is a constant of its own plane."""
    x, w = node.inputs[:2]
    if not is_host(node) or x.dtype != "float32" or w.constant is None or len(w.shape) != 2:
        return False
    if not node.output.type.size or "kernel" in node.attrs or node.attrs.get("packed"):
        return False
    return node.op == "dense" or not node.attrs["transpose_a"]


def _pack(net: Net, node: Node) -> None:
    x, w, *rest = node.inputs
    transpose = node.op == "matmul" and not node.attrs["transpose_b"]
    n, k = w.shape[::-1] if transpose else w.shape
    panels = packed_weight(net, node, w, transpose, n, k)
    kept = without_defaults(node.op, node.attrs, _KEPT)
    made = net.add("dense", [x, panels, *rest], before=node, packed=n, **kept)
    net.replace(node.output, made)
