"""Fidelity, Dst mode, fast or exact: from where they are said to the words that a tt kernel reads."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare
from graph_runtime.base.errors import GraphError, PlanError
from graph_runtime.binding.programs.program import lower
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.ops.numerics import NO_WORDS, WORDS, Numerics, tail
from graph_runtime.plan import plan
from graph_runtime.plan.compute_config import node_numerics
from graph_runtime.plan.record import record
from graph_runtime.run.kernels import resolve


def two_products(device="tt:0", **attrs) -> gr.GraphBuilder:
    """x @ w with attributes, then the same without; the second's node is the last one."""
    b = gr.GraphBuilder(device=device)
    x, w = b.input("x", (32, 32)), b.input("w", (32, 32))
    b.output(b.op("matmul", b.op("matmul", x, w, **attrs), w))
    return b


def words_of(planned) -> list[tuple[int, ...]]:
    """The words after the op's own and those of no epilogue, of each matmul, in order."""
    program = lower(planned, lambda *of: resolve(*of))
    kernels = [program.kernels[k] for k in program.kid[: program.main]]
    return [k.words[4:] for k in kernels if k.name.startswith("matmul")]


def planned(graph, **options):
    return plan(graph.build(), ["tt:0"], **options)


def test_no_word_is_the_documented_default():
    assert words_of(planned(two_products())) == [NO_WORDS] * 2
    assert len(NO_WORDS) == WORDS


def test_a_nodes_own_word_comes_before_the_callers():
    graph = two_products(fidelity="LoFi")
    a, b = words_of(planned(graph, numerics={"tt": {"fidelity": "HiFi3", "dst": "bf16"}}))
    assert (a[:3], b[:3]) == ((1, 16, 0), (3, 16, 0))


def test_a_devices_own_words_come_before_its_kinds():
    made = planned(
        two_products(),
        numerics={"tt": {"fidelity": "HiFi2", "numerics": "exact"}, "tt:0": {"fidelity": "HiFi4"}},
    )
    assert words_of(made)[1][:3] == (4, 32, 1)
    assert node_numerics(made, made.graph.num_nodes - 1) == Numerics("HiFi4", "", "exact")


def test_a_planned_file_says_what_was_chosen_and_is_followed():
    made = planned(two_products(), numerics={"tt": {"dst": "bf16"}})
    again = gr.load_graph(graph_to_json(record(made)))
    assert again.hints.numerics == {"tt:0": {"dst": "bf16"}}
    assert words_of(plan(again, ["tt:0"])) == words_of(made)
    overruled = plan(again, ["tt:0"], numerics={"tt": {"dst": "fp32"}})
    assert words_of(overruled)[0][:2] == (0, 32)
    assert plan(again, ["cpu:0"], device_map={"tt": "cpu:0"}).numerics == ()


def test_a_chosen_model_reaches_the_kernel():
    made = planned(two_products())
    model = SimpleNamespace(grid=(2, 1), t=3, dir="R", mblock=(4, 5), ublock=(6, 7), u_kt=8, l1_bytes=9)
    column = np.full(made.graph.num_nodes, -1, np.int32)
    column[-1] = 0
    made = replace(made, models=(model,), model_id=column)
    assert words_of(made) == [NO_WORDS, (0, 32, 0, 2, 1, 3, 1, 4, 5, 6, 7, 8, 9)]
    assert tail(Numerics("LoFi"), model)[:4] == (1, 32, 0, 2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tt": {"fidelity": "HiFi5"}}, "fidelity 'HiFi5' is unknown .did you mean 'HiFi"),
        ({"tt": {"fidelty": "HiFi4"}}, "no numerics option 'fidelty' .did you mean 'fidelity'"),
        ({"tt": {"dst": "bf61"}}, "dst 'bf61' is unknown"),
        ({"ttt": {"dst": "bf16"}}, "numerics of ttt: no such device or kind"),
    ],
)
def test_unknown_words_name_the_known_ones(options, text):
    with pytest.raises(PlanError, match=text):
        planned(two_products(), numerics=options)


def test_cpu_has_no_fidelity():
    with pytest.raises(PlanError, match="numerics of cpu: it computes in the graph's own dtypes"):
        plan(two_products("cpu:0").build(), ["cpu:0"], numerics={"cpu": {"fidelity": "LoFi"}})
    x = np.random.default_rng(0).standard_normal((2, 32, 32)).astype(np.float32)
    outputs = []
    for attrs in ({}, {"fidelity": "LoFi", "dst": "bf16"}):
        module = gr.create(two_products("cpu:0", **attrs), None, "cpu:0")
        module.run(x=x[0], w=x[1])
        outputs.append(module.get_output(0).numpy())
    np.testing.assert_array_equal(*outputs)


def test_an_unknown_word_in_a_file_has_its_path():
    document = json.loads(two_products("cpu:0").to_json())
    document["metadata"] = {"graph_runtime": {"version": 1, "numerics": {"tt": {"dst": "f32"}}}}
    with pytest.raises(GraphError, match=r"dst 'f32' is unknown .* - at `\$\.metadata\.graph_runtime\.numer"):
        gr.load_graph(json.dumps(document).encode())
    with pytest.raises(GraphError, match=r"'fidelity' is 'Hifi2', must be one of .*did you mean 'HiFi2'"):
        two_products(fidelity="Hifi2")


@pytest.mark.parametrize("said", ["by the node", "by the caller"])
def test_comparing_allows_for_what_was_asked(said):
    """A coarse product of float32 tensors is held to the bound of 16-bit floats, which it needs."""
    b = gr.GraphBuilder(device="tt:0")
    x, w = b.input("x", (32, 64)), b.input("w", (64, 32))
    b.output(b.op("matmul", x, w, **({"fidelity": "LoFi"} if said == "by the node" else {})))
    numerics = {"tt": {"fidelity": "LoFi"}} if said == "by the caller" else None
    report = compare(b.build(), None, ["tt:0"], numerics=numerics)
    assert report.ok
    assert report.bound > report.worst > 1e-5
