"""Functions that nodes call, made from the attributes of tvm_op nodes (equal ones are one Func), and their
checks by the rules of the op."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...base.errors import DocumentError, GraphError
from ...base.json_text import json_path, parse_json
from ..graph import COPY, NOP, Func, Graph, NodeView
from ..ops import registry
from .columns import REQUIRED, NodeColumns

FOR_PEOPLE = ("gr.device", "gr.storage")  # attributes for readers of Netron; no code reads them
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DIGITS = re.compile(r"[0-9]{1,9}\Z")


# ---------------------------------------------------------------- attrs -> Func


def intern_functions(nodes: NodeColumns) -> tuple[np.ndarray, tuple[Func, ...]]:
    """(func_id, funcs). func_id: int32 [nodes], -1 for a null node; funcs: the distinct Funcs. Nodes with
    equal attrs share one Func.

    Raises GraphError, with the JSON path, for incomplete attrs, for counts that are no digit strings, and for
    a gr.* attribute that its op does not have."""
    ids: list[int] = []
    funcs: list[Func] = []
    by_name: dict[str | None, tuple[dict[str, str], int]] = {}  # nodes of one name are nearly always equal
    by_attrs: dict[tuple[Any, ...], int] = {}
    for nid, raw in nodes.runs:
        if not isinstance(raw, dict):  # the attrs are NULL: a null node
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
    """One Func for each pair (number of inputs, attrs). Raises GraphError as intern_functions does."""
    return tuple(
        _make_func(i, raw.get("func_name", ""), num_inputs, raw) for i, (num_inputs, raw) in enumerate(given)
    )


def _for_us(raw: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in raw.items() if key not in FOR_PEOPLE}


def _make_func(nid: int, node: str, num_inputs: int, raw: dict[str, str]) -> Func:
    def fail(text: str, *key: str, **fields: Any) -> NoReturn:
        text = f"node {node!r}: {text}"
        raise GraphError(text, path=json_path(("nodes", nid, "attrs", *key)), node=node, **fields)

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
    """{attribute: value} of the node's gr.* strings."""
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
    text = ""
    if op.is_nop and name != NOP:
        text = f"op {op.name} moves no data: its func_name must be {NOP}, got {name!r}"
    elif not op.is_nop and name in (COPY, NOP):
        text = f"{name} is no function of op {op.name}: give it a func_name of its own"
    if text:
        raise GraphError(text, op=op.name, got=name)
    return op.name, op.decode(attrs)


def _at_node(error: GraphError, nid: int, name: str, *path: str) -> GraphError:
    """The same error, with the node in its text and fields."""
    fields = {**error.fields, "path": json_path(("nodes", nid, *path)), "node": name, "nid": nid}
    return type(error)(f"node {name!r}: {error}", **fields)


# ---------------------------------------------------------------- checks on a whole graph


def check_functions(graph: Graph) -> None:
    """Raise GraphError if nodes that share a func_name differ in gr.* or in types, if columns differ from the
    types that an op's rule gives, or if __copy or __nop would change the number of bytes. The error is about
    the first node with such a fault, because a wrong type makes the types of its readers wrong, too."""
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
    """Check copies and nops: one input, one output, equal bytes, and for a nop with gr.op the types that the
    op's rule gives."""
    ins, outs = graph.in_ptr[nids + 1] - graph.in_ptr[nids], graph.row_ptr[nids + 1] - graph.row_ptr[nids]
    for nid in nids[(ins != 1) | (outs != 1)][:1].tolist():
        view = graph.node(nid)
        counts = f"{len(view.inputs)} and {len(view.outputs)}"
        text = f"{view.callee.name} takes one input and gives one output, it has {counts}"
        raise _wrong(nid, view, text)
    if not len(nids):
        return
    source, target = graph.type_id[graph.in_eid[graph.in_ptr[nids]]], graph.type_id[graph.row_ptr[nids]]
    nbytes = np.array([t.nbytes for t in graph.types], np.int64)
    for nid in nids[nbytes[source] != nbytes[target]][:1].tolist():
        view = graph.node(nid)
        types = f"its input {view.input_types[0]} and its output {view.output_types[0]}"
        raise _wrong(nid, view, f"{view.callee.name} keeps the bytes, but {types} differ in size")
    _, chosen = np.unique(np.stack([graph.func_id[nids], source, target]), axis=1, return_index=True)
    _check_rules(graph, np.sort(nids[chosen]))


def _check_agreement(graph: Graph, nids: np.ndarray, first: np.ndarray) -> None:
    """Check that each node of ``nids`` calls the function of node ``first``: equal gr.*, equal types."""
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
    these = f"this is {_signature(two)} and node {one.name!r} is {_signature(one)}"
    text = f"nodes that share func_name {two.callee.name!r} must agree in {what}, but {these}"
    return _wrong(b, two, f"{text}: give one of them another func_name")


def _check_rules(graph: Graph, nids: np.ndarray) -> None:
    """Check that the output columns of nodes are the types that their ops' rules give."""
    for nid in nids.tolist():
        view = graph.node(nid)
        if view.callee.op is not None:
            _check_rule(nid, view, registry.require(view.callee.op))


def _check_rule(nid: int, view: NodeView, op: registry.Op) -> None:
    path: tuple[str, ...] = ("inputs",)
    try:
        op.check_arity(len(view.inputs))
        path = ()
        inferred = tuple(op.infer(list(view.input_types), view.callee.attrs))
    except GraphError as error:
        raise _at_node(error, nid, view.name, *path) from None
    if inferred != view.output_types:
        text = f"op {op.name} gives {_texts(inferred)} for inputs {_texts(view.input_types)}, the columns"
        raise _wrong(nid, view, f"{text} dltype and shape say {_texts(view.output_types)}")


def _texts(types: tuple[Any, ...]) -> str:
    return ", ".join(map(str, types[:8])) + (", ..." if len(types) > 8 else "")


def _signature(view: NodeView) -> str:
    attrs = "".join(f", {k}={v}" for k, v in view.callee.attrs.items())
    return f"{view.op}({_texts(view.input_types)}{attrs}) -> {_texts(view.output_types)}"


def _wrong(nid: int, view: NodeView, text: str) -> GraphError:
    text, path = f"node {view.name!r}: {text}", json_path(("nodes", nid))
    return GraphError(text, path=path, node=view.name, op=view.op, nid=nid)
