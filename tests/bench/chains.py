"""Graphs of many tiny adds on float32[16], as graph.json, for bench_dispatch.py and bench_load.py.

chain    x[i + 1] = x[i] + b
diamond  l = a + b, r = a + c, a' = l + r: three nodes each, repeated
"""

from __future__ import annotations

import json

import numpy as np

WIDTH = 16


def adds(kind: str, count: int) -> list[tuple[str, str, str]]:
    """(output, left, right) of each add; inputs are named a, b, c and the last output is the result."""
    nodes, value = [], "a"
    while len(nodes) < count:
        i = len(nodes)
        if kind == "diamond" and count - i >= 3:
            nodes += [(f"n{i}", value, "b"), (f"n{i + 1}", value, "c"), (f"n{i + 2}", f"n{i}", f"n{i + 1}")]
        else:
            nodes.append((f"n{i}", value, "b"))
        value = nodes[-1][0]
    return nodes


def inputs(kind: str) -> dict[str, np.ndarray]:
    """The graph's inputs."""
    rng = np.random.default_rng(7)
    names = "abc" if kind == "diamond" else "ab"
    return {name: rng.standard_normal(WIDTH).astype(np.float32) for name in names}


def graph_json(kind: str, count: int) -> str:
    """TVM's dialect, storage_id and device_index included, plus gr.op."""
    names = list(inputs(kind))
    rows = adds(kind, count)
    index = {name: i for i, name in enumerate([*names, *(out for out, _, _ in rows)])}
    attrs = {"func_name": "add16", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0", "gr.op": "add"}
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    nodes += [
        {"op": "tvm_op", "name": out, "attrs": attrs, "inputs": [[index[left], 0, 0], [index[right], 0, 0]]}
        for out, left, right in rows
    ]
    sid = storage(rows, names)
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": list(range(len(names))),
            "heads": [[len(nodes) - 1, 0, 0]],
            "node_row_ptr": list(range(len(nodes) + 1)),
            "attrs": {
                "dltype": ["list_str", ["float32"] * len(nodes)],
                "shape": ["list_shape", [[WIDTH]] * len(nodes)],
                "storage_id": ["list_int", [sid[name] for name in index]],
                "device_index": ["list_int", [1] * len(nodes)],
            },
        }
    )


def storage(rows: list[tuple[str, str, str]], names: list[str]) -> dict[str, int]:
    """A sid for each value: inputs have their own, then the first one that is free."""
    last = {value: i for i, row in enumerate(rows) for value in row[1:]}
    sid = {name: i for i, name in enumerate(names)}
    free: list[int] = []
    top = len(sid)
    for i, (out, left, right) in enumerate(rows):
        if free:
            sid[out] = free.pop()
        else:
            sid[out], top = top, top + 1
        free += [sid[value] for value in {left, right} if last[value] == i and value not in names]
    return sid


def expected(kind: str, count: int) -> np.ndarray:
    """The result, by numpy."""
    values = inputs(kind)
    with np.errstate(over="ignore"):
        for out, left, right in (rows := adds(kind, count)):
            values[out] = values[left] + values[right]
    return values[rows[-1][0]]
