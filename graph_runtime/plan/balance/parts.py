"""The ops that TT-Buda would make of a node, in order. Most nodes are one op; divide and reductions over
several axes are a few ops; normalisations are in norms.py, convolutions and pools in convolution.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.dtypes import FORMATS
from ...base.errors import PlanError, UnsupportedOpError
from ...base.machine.devices import Device
from ...costs.tt import vector_op
from ...ir.graph import NodeView
from ...ir.ops import registry
from ...ir.ops.epilogue import own_inputs
from ...ir.ops.numerics import Numerics
from .op import BalanceOp, Operand, Tiles, Tm, User
from .view import View

_ONE_TM = (User("op"),)


@dataclass(frozen=True, slots=True)
class Part:
    """One op of a node. ``principal``: the node is judged by this op, and its kernel follows the op's model.
    ``reads``: the source of each operand; n >= 0 is part n of the node, ~n the node's input n, None a table
    from the compiler. If ``reads`` is empty, operand i is input i."""

    name: str
    op: BalanceOp
    principal: bool = False
    reads: tuple[int | None, ...] = ()


# {value of an op's trait ``parts``: function that makes the parts}, for ops whose kind of work does not
# determine the parts
MAKERS: dict[str, Callable[[View, NodeView], list[Part]]] = {}


def maker_of(name: str) -> Callable[[View, NodeView], list[Part]] | None:
    """The function that makes the parts of an op's nodes; None for an unknown op."""
    op = registry.get(name)
    return None if op is None else MAKERS[op.parts] if op.parts else _OF_KIND.get(op.kind)


def parts_of(view: View, nid: int, device: Device) -> tuple[Part, ...]:
    """The ops of a node, exactly one of them principal.

    Raises UnsupportedOpError for a node that no core runs: an input, a copy, a reshape, a function of a
    library; PlanError for a node whose tensors have no elements.
    """
    node = view.graph.node(nid)
    make = maker_of(node.op) if node.func is not None and node.func.op is not None else None
    fields = {"node": node.name, "op": node.op, "device": str(device), "path": view.path(nid)}
    if make is None:
        text = f"node {node.name!r} (op {node.op}) runs on no core of {device}: there is nothing to balance"
        raise UnsupportedOpError(text, **fields)
    if not all(t.size for t in (*node.input_types, *node.output_types)):
        text = f"node {node.name!r} has a tensor without elements: there is nothing to balance"
        raise PlanError(text, **fields)
    try:
        parts = _with_epilogue(view, node, make(view, node))
    except PlanError as error:
        raise PlanError(f"node {node.name!r}: {error}", **fields) from None
    if not any(p.principal for p in parts):
        parts[0] = replace(parts[0], principal=True)
    return tuple(parts)


def result(
    view: View, node: NodeView, kind: str, cycles_op: str, operands: Sequence[Operand], **more
) -> BalanceOp:
    """The op that makes a node's output 0. Dst holds 32-bit elements if the format has 32 bits or the user
    requests them; products have full fidelity unless the node names another fidelity."""
    eid = node.outputs[0]
    fmt, asked = view.format(eid), Numerics.of(node.callee.attrs).over(view.numerics)
    wide = FORMATS[fmt].itemsize == 4 or asked.dst == "fp32"
    made = dict(
        out=view.tiles(eid),
        users=view.users(node),
        format=fmt,
        dst_bits=32 if wide else 16,
        fidelity=asked.fidelity or "HiFi4",
    )
    return BalanceOp(kind, cycles_op, operands=tuple(operands), **{**made, **more})


def chain(
    op: BalanceOp,
    cycles_op: str,
    out: Tiles,
    inputs: Sequence[Tiles],
    *,
    kind: str = "eltwise",
    users: tuple[User, ...] = _ONE_TM,
    **more,
) -> BalanceOp:
    """An op between two parts of a node: its operands come from earlier parts, its result goes to the next
    part."""
    operands = tuple(Operand(out if kind == "eltwise" else t, t, op.format, "op") for t in inputs)
    return replace(op, kind=kind, cycles_op=cycles_op, out=out, operands=operands, users=users, **more)


# **************** products ****************


def _product(view: View, node: NodeView) -> list[Part]:
    out, attrs = view.tiles(node.outputs[0]), node.callee.attrs
    turned = [(Tm("transpose"),) if attrs[f"transpose_{x}"] else () for x in "ab"]
    source = [view.tiles(e) for e in node.inputs[:2]]
    k = source[0].rt if turned[0] else source[0].ct
    operands = [
        view.operand(node, 0, Tiles(out.z, out.rt, k), tms=turned[0]),
        view.operand(node, 1, Tiles(out.z, k, out.ct), tms=turned[1], weight=True),
    ]
    if has_bias(node):
        operands.append(view.operand(node, 2, out))
    return [Part("matmul", result(view, node, "matmul", "matmul", operands, k=k), True)]


def _product_of_rows(view: View, node: NodeView) -> list[Part]:
    """The parts of a product whose weight is transposed. A weight that is a graph input counts as stored [K,
    N], because transposing a constant costs nothing at run time."""
    out, k = view.tiles(node.outputs[0]), view.tiles(node.inputs[0]).ct
    n = view.tiles(node.inputs[1]).rt
    weight = view.operand(node, 1, Tiles(out.z, k, n), source=Tiles(1, k, n))
    if weight.source == "op":
        weight = view.operand(node, 1, Tiles(out.z, k, n), tms=(Tm("transpose"),))
    operands = [view.operand(node, 0), weight]
    if has_bias(node):
        operands.append(view.operand(node, 2, out))
    return [Part("matmul", result(view, node, "matmul", "matmul", operands, k=k), True)]


def _recurrent(view: View, node: NodeView) -> list[Part]:
    """lstm, gru, rnn as one product with as much work: the rows of all steps by the gate weights of a
    direction, [gates x hidden, hidden]. A core of the kernel does all steps, so the kernel, not the balancer,
    chooses its blocks."""
    out, k = view.tiles(node.outputs[0]), view.tiles(node.inputs[1]).rt
    weight = view.operand(node, 1, Tiles(out.z, k, out.ct), source=Tiles(1, k, out.ct), weight=True)
    operands = [view.operand(node, 0, Tiles(out.z, out.rt, k)), weight]
    return [Part("matmul", result(view, node, "matmul", "matmul", operands, k=k), True)]


def has_bias(node: NodeView) -> bool:
    """Whether a product's third input is its bias, not an input of its epilogue."""
    return own_inputs(len(node.inputs), node.callee.attrs) == 3


# ****************  steps  ****************


def _with_epilogue(view: View, node: NodeView, parts: list[Part]) -> list[Part]:
    """``parts``, then a part for each step of the product's epilogue, one after the other, as in TT-Buda."""
    epilogue = node.callee.attrs.get("epilogue")
    if not epilogue:
        return parts
    product = replace(parts[-1], op=replace(parts[-1].op, users=_ONE_TM))
    return _steps(view, node, [*parts[:-1], product], epilogue, len(parts) - 1)


def _fused(view: View, node: NodeView) -> list[Part]:
    return _steps(view, node, [], node.callee.attrs["body"], 0)


def _steps(view: View, node: NodeView, parts: list[Part], steps: Sequence[Any], first: int) -> list[Part]:
    """``parts`` with one more part for each step; ``first``: index of the part that the steps refer to as
    -1."""
    out = view.tiles(node.outputs[0])
    main = result(view, node, "eltwise", "nop", [])
    for name, reads, attrs in steps:
        op = chain(main, vector_op(name), out, [out] * len(reads), approx=attrs.get("approximate") == "tanh")
        operands = tuple(
            made if k < 0 else view.operand(node, k, out) for k, made in zip(reads, op.operands, strict=True)
        )
        parts.append(
            Part(
                name,
                replace(op, operands=operands),
                reads=tuple(first - 1 - k if k < 0 else ~k for k in reads),
            )
        )
    parts[-1] = replace(parts[-1], op=replace(parts[-1].op, users=main.users))
    return parts


# **************** elementwise ****************


def _elementwise(view: View, node: NodeView) -> list[Part]:
    out = view.tiles(node.outputs[0])
    operands = [view.operand(node, port, out) for port in range(len(node.inputs))]
    name = registry.require(node.op).pace.get("tt", node.op)
    approx = node.callee.attrs.get("approximate") == "tanh"
    return [Part(node.op, result(view, node, "eltwise", name, operands, approx=approx), True)]


def _bias_add(view: View, node: NodeView) -> list[Part]:
    out, (bias,) = view.tiles(node.outputs[0]), node.input_types[1].shape
    rank = len(node.input_types[0].shape)
    axis = node.callee.attrs["axis"] % rank
    along_columns = axis == (1 if view.image[node.inputs[0]] else rank - 1)
    n = view.tiles(node.inputs[1]).ct
    source = Tiles(1, 1, n) if along_columns else Tiles(1, n, 1) if axis == rank - 2 else Tiles(bias, 1, 1)
    source = source if source.z in (1, out.z) else Tiles(1, 1, 1)
    operands = [view.operand(node, 0, out), view.operand(node, 1, out, source=source)]
    return [Part("add", result(view, node, "eltwise", "add", operands), True)]


def _divide(view: View, node: NodeView) -> list[Part]:
    main = _elementwise(view, node)[0].op
    below = view.tiles(node.inputs[1])
    inverse = replace(
        main, cycles_op="reciprocal", out=below, operands=(view.operand(node, 1, below),), users=_ONE_TM
    )
    product = replace(
        main, cycles_op="multiply", operands=(main.operands[0], replace(main.operands[1], source="op"))
    )
    return [Part("reciprocal", inverse, reads=(~1,)), Part("multiply", product, True, (~0, 0))]


# **************** movement ****************


def _moved(view: View, node: NodeView) -> list[Part]:
    """A plain copy: the addresses of its reader do the move. The reader needs the whole input of the move, so
    this input waits in DRAM."""
    operand = view.operand(node, 0)
    rank = len(node.input_types[0].shape)
    perm = node.callee.attrs.get("perm") or range(rank)[::-1]
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    turned = "perm" in node.callee.attrs and rank > 1 and [p % rank for p in perm] == swapped
    operand = replace(operand, shape=view.tiles(node.outputs[0]), tms=(Tm("transpose"),) if turned else ())
    return [Part("nop", result(view, node, "eltwise", "nop", [operand]), True)]


def _spliced(view: View, node: NodeView) -> list[Part]:
    out = view.tiles(node.outputs[0])
    ports = range(2 if "starts" in node.callee.attrs else len(node.inputs))
    shapes = [view.tiles(node.inputs[port]) for port in ports]
    dim = next(
        (d for d, same in zip("zrc", zip(out, *shapes, strict=True), strict=True) if len(set(same)) > 1), "z"
    )
    axis, edges = "zrc".index(dim), [0]
    for s in shapes:
        edges.append(edges[-1] + s[axis])
    operands = [view.operand(node, port) for port in ports]
    op = result(view, node, "splice", "splice", operands, dim=dim, splice_edges=tuple(edges[1:-1]))
    return [Part("splice", op, True)]


def _take(view: View, node: NodeView) -> list[Part]:
    operands = [view.operand(node, 0), view.operand(node, 1)]
    return [Part("embedding", result(view, node, "embedding", "nop", operands), True)]


# **************** reductions ****************


def axes_letters(view: View, node: NodeView, axes: Sequence[int]) -> str:
    """The tile dimensions of ``axes``, one letter per axis, in the order in which they are reduced."""
    rank = len(node.input_types[0].shape)
    image = bool(view.image[node.inputs[0]])
    names = ["z", "c", "r", "r"] if image else [*"z" * (rank - 2), *"rc"[-min(rank, 2) :]]
    return "".join(d for d in "crz" if d in {names[a % rank] for a in axes})


def reductions(view: View, node: NodeView, dims: str) -> list[Part]:
    """A chain of reductions, each along one tile dimension; the result of the last reduction has the form of
    the node's output."""
    main = result(view, node, "reduce", "reduce", [view.operand(node, 0)])
    parts: list[Part] = []
    shape = view.tiles(node.inputs[0])
    for dim in dims:
        i = "zrc".index(dim)
        left = shape._replace(**{("z", "rt", "ct")[i]: 1})
        step = replace(
            main,
            cycles_op="reduce_z" if dim == "z" else "reduce",
            dim=dim,
            k=shape[i],
            out=left,
            operands=(
                Operand(shape, shape, main.operands[0].format, "op" if parts else main.operands[0].source),
            ),
            users=_ONE_TM,
        )
        parts.append(Part(f"reduce {dim}", step, reads=(len(parts) - 1,) if parts else ()))
        shape = left
    parts[-1] = replace(parts[-1], op=replace(parts[-1].op, users=main.users))
    return parts


def _reduce(view: View, node: NodeView) -> list[Part]:
    rank = len(node.input_types[0].shape)
    dims = axes_letters(view, node, node.callee.attrs["axes"] or range(rank))
    return reductions(view, node, dims) if dims else _elementwise(view, node)


def _arg(view: View, node: NodeView) -> list[Part]:
    dims = axes_letters(view, node, [node.callee.attrs["axis"]])
    return reductions(view, node, dims)


def _global_pool(view: View, node: NodeView) -> list[Part]:
    return reductions(view, node, "r")


_OF_KIND = {"elementwise": _elementwise, "movement": _moved, "reduction": _reduce}
MAKERS.update(
    {
        "product": _product,
        "product_of_rows": _product_of_rows,
        "recurrent": _recurrent,
        "bias": _bias_add,
        "quotient": _divide,
        "splice": _spliced,
        "embedding": _take,
        "arg": _arg,
        "lines": _elementwise,
        "moved": _moved,
        "global_pool": _global_pool,
        "steps": _fused,
    }
)
