"""The rule that names a kernel where the cpu has several for an op, by what they cost.

Times come from a table of measurements where there is one for this machine (``--tune``, tuning.py), else from
the rules below: what packs an operand first is worth it when enough rows use it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..graph import TensorType
from .net import Net, Node
from .pack_weights import is_host

__all__ = ["choose_kernels", "kernel_by_rule"]

_ROWS = 12        # of the left operand, from which packing the right one pays


def choose_kernels(net: Net) -> None:
    """Name the kernels of attention and of products of activations on cpu."""
    chosen: dict[str, list[Node]] = {}
    for node in net.nodes("attention", "matmul"):
        if not is_host(node) or "kernel" in node.attrs or not node.output.type.size:
            continue
        kernel = kernel_by_rule(node.op, node.input_types, node.attrs)
        if kernel is None:
            continue
        chosen.setdefault(kernel, []).append(node)
        attrs = {name: value for name, value in node.attrs.items() if value is not None}
        net.replace(node.output, net.add(node.op, node.inputs, before=node, kernel=kernel, **attrs))
    for kernel, nodes in chosen.items():
        net.note("choose_kernels", f"{kernel} runs {len(nodes)} nodes: many rows use what it packs", nodes)


def kernel_by_rule(op: str, inputs: list[TensorType], attrs: Mapping) -> str | None:
    """The variant to be named for a float32 node, None for the op's default kernel."""
    if inputs[0].dtype != "float32":
        return None
    if op == "attention":
        return "attention_panels" if inputs[0].shape[-2] >= _ROWS else None
    rows = inputs[0].shape[-1 if attrs["transpose_a"] else -2]
    return "matmul_panels" if rows >= _ROWS and not attrs["epilogue"] else None
