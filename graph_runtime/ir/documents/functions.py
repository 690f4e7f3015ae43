"""What nodes call: attrs of tvm_op nodes -> interned Funcs, and the checks that an op's rule allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...base.errors import DocumentError, GraphError
from ...base.json_text import json_path, parse_json
from ..graph import COPY, NOP, Func, Graph, NodeView
from ..ops import registry
from .nodes import REQUIRED, NodeColumns

__all__ = ["FOR_PEOPLE", "check_functions", "intern_functions", "make_functions"]

FOR_PEOPLE = ("gr.device", "gr.storage")  # written for Netron, never read
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DIGITS = re.compile(r"[0-9]{1,9}\Z")


# ---------------------------------------------------------------- attrs -> Func


def intern_functions(nodes: NodeColumns) -> tuple[np.ndarray, tuple[Func, ...]]:
    """(func_id int32 [nodes], -1 for a null node; the distinct Funcs). Nodes with equal attrs share one Func.

    Raises GraphError with the JSON path: attrs incomplete, numbers that are no digit strings, gr.* that its
    op does not know.
    """
    ids: list[int] = []
    funcs: list[Func] = []
    by_name: dict[str | None, tuple[dict[str, str], int]] = {}  # nearly always all nodes of a name are equal
    by_attrs: dict[tuple[Any, ...], int] = {}
    for nid, raw in nodes.runs:
        if not isinstance(raw, dict):  # NULL
            ids.append(-1)
            continue
        known = by_name.get(raw.get("func_name"))
        if known is not None and (known[0] == raw or known[0] == _for_us(raw)):
            ids.append(known[1])
            continue
        raw = _for_us(raw)
        fid = by_attrs.setdefault(tuple(sorted(raw.items())), len(funcs))
        if fid == len(funcs):
            funcs.append(_make_func(nid, nodes.names[nid], int(nodes.in_count[nid]), raw))
            by_name.setdefault(raw["func_name"], (raw, fid))
        ids.append(fid)
    starts = [nid for nid, _ in nodes.runs]
    return np.repeat(np.array(ids, np.int32), np.diff([*starts, len(nodes.names)])), tuple(funcs)


def make_functions(given: Sequence[tuple[int, dict[str, str]]]) -> tuple[Func, ...]:
    """The Funcs of (number of inputs, attrs) each. Raises GraphError as intern_functions does."""
    return tuple(
        _make_func(i, raw.get("func_name", ""), num_inputs, raw) for i, (num_inputs, raw) in enumerate(given)
    )


def _for_us(raw: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in raw.items() if key not in FOR_PEOPLE}


def _make_func(nid: int, node: str, num_inputs: int, raw: dict[str, str]) -> Func:
    def fail(text: str, *key: str, **fields: Any) -> NoReturn:
        raise GraphError(
            f"node {node!r}: {text}",
            path=json_path(("nodes", nid, "attrs", *key)),
            node=node,
            **fields,
        )

    missing = [key for key in REQUIRED if key not in raw]
    if missing:
        fail(f"its attrs lack {', '.join(missing)}; a tvm_op needs {', '.join(REQUIRED)}", wanted=REQUIRED)
    for key in REQUIRED[1:]:
        if not _DIGITS.match(raw[key]):
            fail(f"{key} must be a string of 1 to 9 digits, got {raw[key][:40]!r}", key, got=raw[key])
    name = raw["func_name"]
    if not _IDENTIFIER.match(name):
        fail(
            f"func_name {name[:60]!r} is no C identifier: letters, digits and _, not beginning with a digit",
            "func_name",
            got=name,
        )
    given = _given_attrs(raw, fail)
    try:
        op, attrs = _decode(name, raw["gr.op"], given) if "gr.op" in raw else (None, {})
    except GraphError as error:
        to_blame = f"gr.{error.fields.get('attribute', 'op')}"
        raise _at_node(error, nid, node, "attrs", to_blame) from None
    return Func(name, op, attrs, num_inputs, int(raw["num_outputs"]), int(raw["flatten_data"]) != 0, raw)


def _given_attrs(raw: dict[str, str], fail: Callable[..., NoReturn]) -> dict[str, Any]:
    """The values of the node's gr.<attr>, by attr."""
    given = {}
    for key in raw:
        if not key.startswith("gr.") or key == "gr.op":
            continue
        if "gr.op" not in raw:
            fail(f"{key} stands without gr.op, which says what op it belongs to", key, got=key)
        try:
            given[key[3:]] = parse_json(raw[key].encode("utf-8", "surrogatepass"), key)
        except DocumentError as error:
            fail(f'{key} must hold JSON text, as "[2,2]": {error}', key, got=raw[key])
    return given


def _decode(name: str, op_name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    op, attrs = registry.resolve(op_name, given)
    if op.is_nop and name != NOP:
        raise GraphError(
            f"op {op.name} moves no data: its func_name must be {NOP}, got {name!r}", op=op.name, got=name
        )
    if not op.is_nop and name in (COPY, NOP):
        raise GraphError(
            f"{name} is no function of op {op.name}: give it a func_name of its own", op=op.name, got=name
        )
    return op.name, op.decode(attrs)


def _at_node(error: GraphError, nid: int, name: str, *path: str) -> GraphError:
    """The same error with its node."""
    fields = {**error.fields, "path": json_path(("nodes", nid, *path)), "node": name, "nid": nid}
    return type(error)(f"node {name!r}: {error}", **fields)


# ---------------------------------------------------------------- checks on a whole graph


def check_functions(graph: Graph) -> None:
    """Raise GraphError where nodes that share a func_name differ in gr.* or in types, where the columns are
    not what an op's rule gives, or where __copy or __nop would change the number of bytes: the first such
    node's, for what reads a wrong type is wrong, too.
    """
    names = {name: i for i, name in enumerate(dict.fromkeys(func.name for func in graph.funcs))}
    name_id = np.array([names[func.name] for func in graph.funcs], np.int64)
    moves = np.array([func.name in (COPY, NOP) for func in graph.funcs], bool)
    calls = np.flatnonzero(graph.func_id >= 0)
    if not len(calls):
        return
    moving = moves[graph.func_id[calls]]
    copies, calls = calls[moving], calls[~moving]
    group = name_id[graph.func_id[calls]]
    first = np.full(len(names), -1, np.int64)
    first[group[::-1]] = calls[::-1]
    found: list[GraphError] = []
    for check in (
        lambda: _check_rules(graph, np.sort(first[first >= 0])),
        lambda: _check_agreement(graph, calls, first[group]),
        lambda: _check_moves(graph, copies),
    ):
        try:
            check()
        except GraphError as error:
            found.append(error)
    if found:
        raise min(found, key=lambda error: error.fields["nid"])


def _check_moves(graph: Graph, nids: np.ndarray) -> None:
    """Copies and nops: one input, one output, equal bytes, and a nop with gr.op by its rule."""
    ins, outs = graph.in_ptr[nids + 1] - graph.in_ptr[nids], graph.row_ptr[nids + 1] - graph.row_ptr[nids]
    for nid in nids[(ins != 1) | (outs != 1)][:1].tolist():
        view = graph.node(nid)
        raise _wrong(
            nid,
            view,
            f"{view.callee.name} takes one input and gives one output, it has {len(view.inputs)} and "
            f"{len(view.outputs)}",
        )
    if not len(nids):
        return
    source, target = graph.type_id[graph.in_eid[graph.in_ptr[nids]]], graph.type_id[graph.row_ptr[nids]]
    nbytes = np.array([t.nbytes for t in graph.types], np.int64)
    for nid in nids[nbytes[source] != nbytes[target]][:1].tolist():
        view = graph.node(nid)
        raise _wrong(
            nid,
            view,
            f"{view.callee.name} keeps the bytes, but its input {view.input_types[0]} and its output "
            f"{view.output_types[0]} differ in size",
        )
    _, chosen = np.unique(np.stack([graph.func_id[nids], source, target]), axis=1, return_index=True)
    _check_rules(graph, np.sort(nids[chosen]))


def _check_agreement(graph: Graph, nids: np.ndarray, first: np.ndarray) -> None:
    """Each node of ``nids`` calls what node ``first`` calls: equal gr.*, equal input and output types."""
    fid, first_fid = graph.func_id[nids], graph.func_id[first]
    for a, b in np.unique(np.stack([first_fid, fid]), axis=1).T.tolist() if (fid != first_fid).any() else ():
        f, g = graph.funcs[a], graph.funcs[b]
        if (f.op, f.attrs) != (g.op, g.attrs):
            at = int(np.argmax(fid == b))
            raise _differ(graph, int(first[at]), int(nids[at]), "gr.* attributes")
    for ptr, types in ((graph.in_ptr, graph.type_id[graph.in_eid]), (graph.row_ptr, graph.type_id)):
        count, wanted = ptr[nids + 1] - ptr[nids], ptr[first + 1] - ptr[first]
        bad = count != wanted
        if not bad.any():
            begin = np.repeat(ptr[nids], count)
            within = np.arange(len(begin)) - np.repeat(np.cumsum(count) - count, count)
            unequal = types[begin + within] != types[np.repeat(ptr[first], count) + within]
            bad = np.zeros(len(nids), bool)
            bad[np.repeat(np.arange(len(nids)), count)[unequal]] = True
        for at in np.flatnonzero(bad)[:1].tolist():
            raise _differ(graph, int(first[at]), int(nids[at]), "types")


def _differ(graph: Graph, a: int, b: int, what: str) -> GraphError:
    one, two = graph.node(a), graph.node(b)
    return _wrong(
        b,
        two,
        f"nodes that share func_name {two.callee.name!r} must agree in {what}, but this is "
        f"{_signature(two)} and node "
        f"{one.name!r} is {_signature(one)}: give one of them another func_name",
    )


def _check_rules(graph: Graph, nids: np.ndarray) -> None:
    """The output columns of nodes are what their ops' rules give for their inputs."""
    for nid in nids.tolist():
        _check_rule(graph, nid)


def _check_rule(graph: Graph, nid: int) -> None:
    view = graph.node(nid)
    func = view.callee
    if func.op is None:
        return
    op = registry.require(func.op)
    try:
        op.check_arity(len(view.inputs))
    except GraphError as error:
        raise _at_node(error, nid, view.name, "inputs") from None
    try:
        inferred = tuple(op.infer(list(view.input_types), func.attrs))
    except GraphError as error:
        raise _at_node(error, nid, view.name) from None
    if inferred != view.output_types:
        raise _wrong(
            nid,
            view,
            f"op {op.name} gives {_texts(inferred)} for inputs {_texts(view.input_types)}, the columns "
            "dltype and "
            f"shape say {_texts(view.output_types)}",
        )


def _texts(types: tuple[Any, ...]) -> str:
    return ", ".join(map(str, types[:8])) + (", ..." if len(types) > 8 else "")


def _signature(view: NodeView) -> str:
    attrs = "".join(f", {k}={v}" for k, v in view.callee.attrs.items())
    return f"{view.op}({_texts(view.input_types)}{attrs}) -> {_texts(view.output_types)}"


def _wrong(nid: int, view: NodeView, text: str, *path: str) -> GraphError:
    return GraphError(
        f"node {view.name!r}: {text}",
        path=json_path(("nodes", nid, *path)),
        node=view.name,
        op=view.op,
        nid=nid,
    )
