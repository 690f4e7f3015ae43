"""Plan + kernels -> Program.

Vectorised: Python runs once for each distinct kernel and each distinct (type, layout), never once a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.machine.layout import HOST
from ...ir.graph import NOP, Func, Graph, TensorType
from ...ir.ops import registry
from ...ir.ops.numerics import Numerics
from ...ir.ops.select import numeric_words
from ...plan.columns import first_of, input_behind, intern, ragged, starts
from ...plan.types import Plan
from ..gr_arg import ARG, arg_record
from .program import Kernel, Program

__all__ = ["Resolve", "chosen", "lower"]

# (function, kind of kernels, input types, output types) -> its kernel, or LibraryError, UnsupportedOpError
Resolve = Callable[[Func, str, Sequence[TensorType], Sequence[TensorType]], Kernel]


def lower(plan: Plan, resolve: Resolve) -> Program:
    """The program of a plan. ``resolve`` is asked once for each function and kind of kernels; errors pass."""
    graph = plan.graph
    order, main, at_input = _schedule(plan)
    kid, kernels = _kernels(plan, order, resolve)
    arg_ptr, eid, flat = _arguments(graph, order)
    args, shapes = _records(plan, eid, flat)
    return Program(
        plan=plan,
        kernels=kernels,
        main=main,
        nid=order,
        kid=kid,
        arg_ptr=arg_ptr,
        eid=eid,
        args=args,
        shapes=shapes,
        words=np.array([w for k in kernels for w in k.words], np.int64),
        word_ptr=starts(np.array([len(k.words) for k in kernels], np.int64)),
        scratch=max((k.scratch for k in kernels), default=0),
        at_input=at_input,
    )


def _schedule(plan: Plan) -> tuple[np.ndarray, int, dict[int, tuple[int, int]]]:
    """nids in instruction order, how many of them a run executes, and the span of each input's own copies."""
    graph = plan.graph
    is_nop = np.array([f.name == NOP for f in graph.funcs] + [True])  # a null node's -1 reads the last one
    calls = np.flatnonzero(~is_nop[graph.func_id])
    early = plan.at_input[calls]
    if not early.any():
        return calls, len(calls), {}
    main, copies = calls[~early], calls[early]
    source = input_behind(graph, copies)
    index_of = np.full(graph.num_nodes, -1, np.int64)
    index_of[graph.inputs] = np.arange(len(graph.inputs))
    owner = index_of[source]
    by_owner = np.argsort(owner, kind="stable")
    copies, owner = copies[by_owner], owner[by_owner]
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    lasts = [*firsts[1:].tolist(), len(owner)]
    spans = {int(owner[a]): (len(main) + int(a), len(main) + b) for a, b in zip(firsts, lasts, strict=True)}
    return np.concatenate([main, copies]), len(main), spans


def _kernels(plan: Plan, order: np.ndarray, resolve: Resolve) -> tuple[np.ndarray, tuple[Kernel, ...]]:
    graph = plan.graph
    kinds = list(dict.fromkeys(d.kernels for d in plan.devices))
    kind_of = np.array([kinds.index(d.kernels) for d in plan.devices], np.int64)
    plain = graph.func_id[order] * len(kinds) + kind_of[plan.did[order]]
    ways, way = _ways(plan, order)
    keys = plain * len(ways) + way
    distinct, kid = intern(keys, len(graph.funcs) * len(kinds) * len(ways))
    first = first_of(kid, len(distinct))
    resolved, kernels = {}, []
    for key, at in zip(distinct.tolist(), first.tolist(), strict=True):
        view = graph.node(int(order[at]))
        key, (numerics, model) = key // len(ways), ways[key % len(ways)]
        func, kind = graph.funcs[key // len(kinds)], kinds[key % len(kinds)]
        if key not in resolved:
            resolved[key] = resolve(func, kind, view.input_types, view.output_types)
        kernels.append(chosen(resolved[key], func, kind, numerics, model))
    return kid.astype(np.int32), tuple(kernels)


def _ways(plan: Plan, order: np.ndarray) -> tuple[list[tuple[Numerics, Any]], np.ndarray]:
    """The distinct (numerics of the device, chosen op model), and which of them each instruction has."""
    if not plan.numerics and plan.model_id is None:
        return [(Numerics(), None)], np.zeros(len(order), np.int64)
    numerics = plan.numerics or (Numerics(),)
    of_device = plan.did[order].astype(np.int64) if plan.numerics else np.zeros(len(order), np.int64)
    model = np.full(len(order), -1, np.int64) if plan.model_id is None else plan.model_id[order]
    distinct, way = np.unique(of_device * (len(plan.models) + 1) + model + 1, return_inverse=True)
    split = [divmod(pair, len(plan.models) + 1) for pair in distinct.tolist()]
    return [(numerics[n], plan.models[m - 1] if m else None) for n, m in split], way


def chosen(kernel: Kernel, func: Func, kind: str, numerics: Numerics, model: Any) -> Kernel:
    """The kernel with the words of what was chosen for the node in place of the defaults."""
    words = numeric_words(registry.get(func.op or ""), func.attrs, kind, numerics, model)
    if not kernel.words or not words:
        return kernel
    return replace(kernel, words=kernel.words[: len(kernel.words) - len(words)] + words)


def _arguments(graph: Graph, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row pointers, entries (a node's inputs, then its outputs) and whether each is presented as 1-d."""
    n_in = graph.in_ptr[order + 1] - graph.in_ptr[order]
    n_out = graph.row_ptr[order + 1] - graph.row_ptr[order]
    arg_ptr = starts(n_in + n_out)
    eid = np.empty(int(arg_ptr[-1]), np.int64)
    eid[ragged(arg_ptr[:-1], n_in)] = graph.in_eid[ragged(graph.in_ptr[order], n_in)]
    eid[ragged(arg_ptr[:-1] + n_in, n_out)] = ragged(graph.row_ptr[order], n_out)
    flatten = np.array([f.takes_flat for f in graph.funcs], bool)
    return arg_ptr, eid, np.repeat(flatten[graph.func_id[order]], n_in + n_out)


def _records(plan: Plan, eid: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gr_arg of each argument, and the pool of shapes they point into."""
    graph, num_layouts = plan.graph, len(plan.layouts)
    on_host = np.array([layout.memory == HOST for layout in plan.layouts], bool)
    flat = flat & on_host[plan.layout_id[eid]]  # tiles and pages have the shape that they have
    keys = (graph.type_id.astype(np.int64) * num_layouts + plan.layout_id)[eid] * 2 + flat
    distinct, row = intern(keys, len(graph.types) * num_layouts * 2)
    table = np.zeros(len(distinct), ARG)
    pool: list[int] = []
    for i, key in enumerate(distinct.tolist()):
        type_, layout = graph.types[key // 2 // num_layouts], plan.layouts[key // 2 % num_layouts]
        shape = (type_.size,) if key % 2 else type_.shape
        table[i] = arg_record(type_, layout, shape)
        table[i]["shape"] = 8 * len(pool)
        pool.extend(shape)
    as_words = table.view(np.uint64).reshape(-1, 4)  # numpy takes plain rows faster than records
    return as_words.take(row, axis=0).reshape(-1).view(ARG), np.array(pool, np.int64)
