"""softmax, log_softmax, layer_norm, rms_norm and attention, split into ops as TT-Buda would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.graph import NodeView
from .op import Operand, Tiles, Tm, User
from .parts import MAKERS, Part, axes_letters, chain, result
from .view import View

_ONE_TM = (User("op"),)


def _normalised(
    view: View, node: NodeView, dims: str, before: Sequence[str], after: Sequence[str]
) -> list[Part]:
    """Elementwise ops ``before`` on the whole tensor, a reduction along each of ``dims``, and ops ``after``
    that combine the reduced tensor with the whole one."""
    full = view.tiles(node.inputs[0])
    head = result(view, node, "eltwise", before[0], [view.operand(node, 0)], out=full, users=_ONE_TM)
    parts = [Part(before[0], head)]
    parts += [Part(name, chain(head, name, full, [full])) for name in before[1:]]
    shape = full
    for dim in dims:
        i = "zrc".index(dim)
        left = shape._replace(**{("z", "rt", "ct")[i]: 1})
        name = "reduce_z" if dim == "z" else "reduce"
        made = chain(head, name, left, [shape], kind="reduce", dim=dim, k=shape[i])
        parts.append(Part(f"reduce {dim}", made))
        shape = left
    for name in after:
        small = name in ("sqrt", "reciprocal")
        parts.append(
            Part(name, chain(head, name, shape if small else full, [shape] if small else [full, shape]))
        )
    parts[-1] = replace(parts[-1], op=replace(parts[-1].op, users=view.users(node)))
    return parts


def _softmax(view: View, node: NodeView) -> list[Part]:
    dims = axes_letters(view, node, [node.callee.attrs["axis"]])
    parts = _normalised(view, node, dims, ["exp"], ["reciprocal", "multiply"])
    n = len(dims)
    return _reading(parts, [(~0,), *((i,) for i in range(n)), (n,), (0, n + 1)], 0)


def _reading(parts: Sequence[Part], reads: Sequence[tuple[int, ...]], principal: int) -> list[Part]:
    """The parts with ``reads``, the sources of their operands; ``principal``: index of the principal part."""
    rows = enumerate(zip(parts, reads, strict=True))
    return [replace(part, principal=i == principal, reads=read) for i, (part, read) in rows]


def _layer_norm(view: View, node: NodeView) -> list[Part]:
    rank = len(node.input_types[0].shape)
    dims = axes_letters(view, node, range(node.callee.attrs["axis"] % rank, rank))
    mean = _normalised(view, node, dims, ["nop"], ["subtract"])
    parts = _normalised(view, node, dims, ["multiply"], ["sqrt", "reciprocal", "multiply", "multiply", "add"])
    parts = [*mean[1:], *parts]
    n = len(dims)  # part n is the input minus its mean
    reads = [
        (~0,),
        *((i,) for i in range(n - 1)),
        (~0, n - 1),
        (n,),
        *((n + 1 + i,) for i in range(n)),
        (2 * n + 1,),
        (2 * n + 2,),
        (n, 2 * n + 3),
        (2 * n + 4, ~1),
        (2 * n + 5, ~2),
    ]
    return _reading(parts, reads, len(parts) - 1)


def _rms_norm(view: View, node: NodeView) -> list[Part]:
    rank = len(node.input_types[0].shape)
    dims = axes_letters(view, node, range(node.callee.attrs["axis"] % rank, rank))
    parts = _normalised(view, node, dims, ["multiply"], ["sqrt", "reciprocal", "multiply", "multiply"])
    n = len(dims)
    reads = [(~0,), *((i,) for i in range(n)), (n,), (n + 1,), (~0, n + 2), (n + 3, ~1)]
    return _reading(parts, reads, len(parts) - 1)


def _attention(view: View, node: NodeView) -> list[Part]:
    """Attention: the scores, their softmax, and the product with the values."""
    out, q, k = (view.tiles(e) for e in (node.outputs[0], *node.inputs[:2]))
    scores, weights = Tiles(out.z, out.rt, k.rt), Tiles(out.z, out.rt, 1)
    keys = view.operand(node, 1, Tiles(out.z, q.ct, k.rt), tms=(Tm("transpose"),))
    made = Operand(scores, scores, view.format(node.outputs[0]), "op")
    values = view.operand(node, 2, Tiles(out.z, k.rt, out.ct))
    last = result(view, node, "matmul", "matmul", [made, values], k=k.rt)
    operands = view.operand(node, 0, Tiles(out.z, out.rt, q.ct)), keys
    first = replace(last, out=scores, k=q.ct, users=_ONE_TM, operands=operands)
    between = result(view, node, "eltwise", "nop", [])
    parts = [Part("scores", first, reads=(~0, ~1))]
    if len(node.inputs) == 4:
        bias = chain(between, "add", scores, [scores, scores])
        bias = replace(bias, operands=(bias.operands[0], view.operand(node, 3, scores)))
        parts.append(Part("add", bias, reads=(0, ~3)))
    n = len(parts)
    parts += [
        Part("exp", chain(between, "exp", scores, [scores]), reads=(n - 1,)),
        Part(
            "reduce c",
            chain(between, "reduce", weights, [scores], kind="reduce", dim="c", k=k.rt),
            reads=(n,),
        ),
        Part("reciprocal", chain(between, "reciprocal", weights, [weights]), reads=(n + 1,)),
        Part("multiply", chain(between, "multiply", scores, [scores, weights]), reads=(n, n + 2)),
        Part("matmul", last, True, (n + 3, ~2)),
    ]
    return parts


MAKERS.update(
    {"attention": _attention, "softmax": _softmax, "layer_norm": _layer_norm, "rms_norm": _rms_norm}
)
