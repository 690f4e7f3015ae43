"""What depends on constants only is computed once, when the model is compiled: small results at once, so that
rules can look at them, large ones when they are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.errors import GraphRuntimeError
from ..base.machine.devices import HOST_KERNELS
from ..ir.model import Constant, op_recipe
from ..ir.ops import registry
from .net import Net, NetNode

__all__ = ["fold", "folded"]

_GROWTH = 4  # a result so many times as large as what it is made of is not worth keeping as a constant


def fold(net: Net) -> None:
    """Replace nodes whose inputs are all constants by constants of their results."""
    for node in net.nodes():
        if node.op is None or not node.inputs or any(v.constant is None for v in node.inputs):
            continue
        if len(node.outputs) != 1 or _grows(node) or node.output.heads or _is_late(net, node):
            continue
        made = folded(node)
        if made is None:
            continue
        net.note("fold", f"{node.name} ({node.op}) depends on constants only: {made.source}", [node])
        net.replace(node.output, net.constant(made, node.name))


def _is_late(net: Net, node: NetNode) -> bool:
    """Whether it waits for rewrite.quantized: an op on a grid, where only hosts run."""
    return registry.require(node.op_name).late and all(kind == HOST_KERNELS for kind in net.kinds)


def _grows(node: NetNode) -> bool:
    made, read = node.output.type.nbytes, sum(v.type.nbytes for v in node.inputs)
    return made > 1 << 16 and made > _GROWTH * read


def folded(node: NetNode) -> Constant | None:
    """The constant of a node's result. None where its reference fails, as it would when it ran."""
    compute = _reference(node)
    inputs = [v.constant for v in node.inputs if v.constant is not None]  # all are
    source = f"folded from {', '.join(dict.fromkeys(c.source for c in inputs))}"
    recipe = op_recipe(node.op_name, node.attrs)
    lazy = Constant.derived(node.output.type, compute, *inputs, source=_short(source), recipe=recipe)
    if not lazy.is_small or not all(c.is_small for c in inputs):
        return lazy
    try:
        array = lazy.peek()
    except GraphRuntimeError:
        return None
    return (
        lazy
        if array is None
        else Constant.folded(array, node.op_name, node.attrs, *inputs, source=lazy.source)
    )


def _reference(node: NetNode) -> Callable[..., np.ndarray]:
    op, attrs = registry.require(node.op_name), node.attrs
    shape = node.output.shape

    def compute(*arrays: np.ndarray) -> np.ndarray:
        if op.is_nop:
            return arrays[0].reshape(shape)
        return np.asarray(op.reference(list(arrays), attrs)[0])

    return compute


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]} ..."
