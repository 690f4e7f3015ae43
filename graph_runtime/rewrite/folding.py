"""Folding of values that depend only on constants, when the model is compiled. Small results, and results of
small inputs, are computed at once; large results when they are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.errors import GraphRuntimeError, MissingDataError
from ..base.machine.descriptors import HOST_KERNELS
from ..ir.model import Constant, op_recipe
from ..ir.ops import registry
from .net import Net, NetNode

_GROWTH = 4  # a result this many times larger than its inputs is kept as a constant
_KEPT = 1 << 20  # only if it has at most this many bytes


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
    """The nodes, all of whose inputs are constants, that are worth folding: nodes whose result is not much
    larger than their inputs, and nodes that only nodes worth folding read (the results of the latter need not
    be kept)."""
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
    """Whether the node must stay for integers/quantized.py: it is an op on a grid of integers, and the model
    runs on hosts only."""
    return registry.require(node.op_name).late and all(kind == HOST_KERNELS for kind in net.kinds)


def _grows(node: NetNode) -> bool:
    made, read = node.output.type.nbytes, sum(v.type.nbytes for v in node.inputs)
    return made > max(_KEPT, _GROWTH * read)


def folded(node: NetNode, held: set[Constant] | None = None) -> Constant | None:
    """A node's result as a constant; None if the op's reference fails, in which case the run would fail, too.
    ``held``: constants computed so far; new ones are added. A result of few bytes is computed at once if its
    inputs are small or already computed, because otherwise each of its readers would compute it again."""
    compute = _reference(node)
    inputs = [v.constant for v in node.inputs if v.constant is not None]  # drops none: all are constants
    source = f"folded from {', '.join(dict.fromkeys(c.source for c in inputs))}"
    source = source if len(source) <= 200 else f"{source[:200]} ..."
    recipe = op_recipe(node.op_name, node.attrs)
    lazy = Constant.derived(node.output.type, compute, *inputs, source=source, recipe=recipe)
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
