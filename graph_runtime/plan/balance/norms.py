"""softmax, log_softmax, layer_norm and rms_norm as the ops that TT-Buda would make of them."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...graph import NodeView
from .op import User
from .parts import MAKERS, Part, axes_letters, chain, result
from .view import View

__all__ = ["MAKERS"]

_ONE_TM = (User("op"),)


def _normalised(view: View, node: NodeView, dims: str, before: Sequence[str], after: Sequence[str]):
    """Ops over the whole tensor, then a reduction, then ops that bring its result back to the whole."""
    full = view.tiles(node.inputs[0])
    head = result(view, node, "eltwise", before[0], [view.operand(node, 0)], out=full, users=_ONE_TM)
    parts = [Part(before[0], head)]
    parts += [Part(name, chain(head, name, full, [full])) for name in before[1:]]
    shape = full
    for dim in dims:
        i = "zrc".index(dim)
        left = shape._replace(**{("z", "rt", "ct")[i]: 1})
        parts.append(Part(f"reduce {dim}", chain(head, "reduce_z" if dim == "z" else "reduce", left, [shape],
                                                 kind="reduce", dim=dim, k=shape[i])))
        shape = left
    for name in after:
        small = name in ("sqrt", "reciprocal")
        parts.append(Part(name, chain(head, name, shape if small else full,
                                      [shape] if small else [full, shape])))
    parts[-1] = replace(parts[-1], op=replace(parts[-1].op, users=view.users(node)))
    return parts


def _softmax(view: View, node: NodeView) -> list[Part]:
    dims = axes_letters(view, node, [node.func.attrs["axis"]])
    parts = _normalised(view, node, dims, ["exp"], ["reciprocal", "multiply"])
    n = len(dims)
    reads = [(~0,), *((i,) for i in range(n)), (n,), (0, n + 1)]
    return [replace(p, principal=p.name == "exp", reads=r) for p, r in zip(parts, reads, strict=True)]


def _layer_norm(view: View, node: NodeView) -> list[Part]:
    rank = len(node.input_types[0].shape)
    dims = axes_letters(view, node, range(node.func.attrs["axis"] % rank, rank))
    mean = _normalised(view, node, dims, ["nop"], ["subtract"])
    parts = _normalised(view, node, dims, ["multiply"], ["sqrt", "reciprocal", "multiply", "multiply", "add"])
    parts = [*mean[1:], *parts]
    n, last = len(dims), len(parts) - 1                 # part n is the input less its mean
    reads = [(~0,), *((i,) for i in range(n - 1)), (~0, n - 1), (n,), *((n + 1 + i,) for i in range(n)),
             (2 * n + 1,), (2 * n + 2,), (n, 2 * n + 3), (2 * n + 4, ~1), (2 * n + 5, ~2)]
    return [replace(p, principal=i == last, reads=r)
            for i, (p, r) in enumerate(zip(parts, reads, strict=True))]


def _rms_norm(view: View, node: NodeView) -> list[Part]:
    rank = len(node.input_types[0].shape)
    dims = axes_letters(view, node, range(node.func.attrs["axis"] % rank, rank))
    parts = _normalised(view, node, dims, ["multiply"], ["sqrt", "reciprocal", "multiply", "multiply"])
    n, last = len(dims), len(parts) - 1
    reads = [(~0,), *((i,) for i in range(n)), (n,), (n + 1,), (~0, n + 2), (n + 3, ~1)]
    return [replace(p, principal=i == last, reads=r)
            for i, (p, r) in enumerate(zip(parts, reads, strict=True))]


MAKERS.update({"softmax": _softmax, "log_softmax": _softmax, "layer_norm": _layer_norm,
               "rms_norm": _rms_norm})
