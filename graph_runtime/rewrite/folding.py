"""What depends on constants only is computed once, when the model is compiled: at once what is small or made
of what is, large results when they are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.errors import GraphRuntimeError, MissingDataError
from ..base.machine.devices import HOST_KERNELS
from ..ir.model import Constant, op_recipe
from ..ir.ops import registry
from .net import Net, NetNode

__all__ = ["fold", "folded"]

_GROWTH = 4  # a result so many times as large as what it is made of is not worth keeping as a constant,
_KEPT = 1 << 20  # unless it has no more bytes than this


def fold(net: Net) -> None:
    """Replace nodes whose inputs are all constants by constants of their results."""
    worth, held, apart = _worth(net), set[Constant](), list[NetNode]()
    for node in net.nodes():
        if node not in worth or any(v.constant is None for v in node.inputs):
            continue
        made = folded(node, held)
        if made is None:
            continue
        net.note("fold", f"{node.name} ({node.op}) depends on constants only: {made.source}", [node])
        if registry.require(node.op_name).late:
            apart.append(node)
        net.replace(node.output, net.constant(made, node.name))
    others = [kind for kind in net.kinds if kind != HOST_KERNELS]
    if apart and others:
        net.note(
            "fold",
            f"{len(apart)} constants on integer grids are floats, because {', '.join(others)} may run what"
            " reads them: products are of integers where all devices are hosts",
            apart,
        )


def _worth(net: Net) -> set[NetNode]:
    """The nodes of constants only whose results are worth keeping: those that do not grow, and those that
    nothing but such nodes read, so that they are not kept themselves."""
    found = dict[NetNode, None]()
    for node in net.nodes():
        if node.op is None or not node.inputs or len(node.outputs) != 1 or node.output.heads:
            continue
        known = all(v.constant is not None or v.producer in found for v in node.inputs)
        if known and not _is_late(net, node):
            found[node] = None
    worth = set[NetNode]()
    for node in reversed(found):
        users = node.output.users()
        if not _grows(node) or (users and worth.issuperset(users)):
            worth.add(node)
    return worth


def _is_late(net: Net, node: NetNode) -> bool:
    """Whether it waits for rewrite.quantized: an op on a grid, where only hosts run."""
    return registry.require(node.op_name).late and all(kind == HOST_KERNELS for kind in net.kinds)


def _grows(node: NetNode) -> bool:
    made, read = node.output.type.nbytes, sum(v.type.nbytes for v in node.inputs)
    return made > max(_KEPT, _GROWTH * read)


def folded(node: NetNode, held: set[Constant] | None = None) -> Constant | None:
    """The constant of a node's result. None where its reference fails, as it would when it ran. ``held``: the
    constants that this has computed; more come in. A result of those and of small ones is computed at
    once where it has few bytes: else each reader of what is read twice would compute it again."""
    compute = _reference(node)
    inputs = [v.constant for v in node.inputs if v.constant is not None]  # all are
    source = f"folded from {', '.join(dict.fromkeys(c.source for c in inputs))}"
    recipe = op_recipe(node.op_name, node.attrs)
    lazy = Constant.derived(node.output.type, compute, *inputs, source=_short(source), recipe=recipe)
    few = lazy.is_small if held is None else lazy.type.nbytes <= _KEPT
    if not few or not all(c.is_small or (held and c in held) for c in inputs):
        return lazy
    try:
        array = lazy.read()
    except MissingDataError:
        return lazy
    except GraphRuntimeError:
        return None
    made = Constant.folded(array, node.op_name, node.attrs, *inputs, source=lazy.source)
    if held is not None:
        held.add(made)
    return made


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
