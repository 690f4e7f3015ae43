"""Rewrite rules from outside, and times node by node: through create() and the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import graph_runtime as gr
from graph_runtime.cli.app import typer_app


def squares(net):
    """x * x by the op that says it."""
    for node in net.nodes("multiply"):
        a, b = node.inputs
        if a is b and net.keeps_support([node], "square", [a]):
            net.note("squares", f"{node.name} is a square", [node])
            net.replace(node.output, net.add("square", [a], before=node))


def broken(net):
    raise ValueError("no such net")


def graph():
    b = gr.GraphBuilder()
    x = b.input("x", (4, 8))
    b.output(b.op("softmax", b.op("multiply", x, x, name="y"), name="z"))
    return b


@pytest.mark.parametrize("rule", [squares, f"{__name__}:squares"])
def test_a_rule_from_outside_runs_between_simplifying_and_fusing(rule):
    module = gr.create(graph(), rules=[rule])
    assert "square" in {
        node.op for node in map(module.session.graph.node, range(module.session.graph.num_nodes))
    }
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    plain = gr.create(graph())
    for one in (module, plain):
        one.run(x=x)
    np.testing.assert_allclose(module.get_output(0).numpy(), plain.get_output(0).numpy(), rtol=1e-6)


def test_rules_that_cannot_run_are_named():
    with pytest.raises(gr.PlanError, match="rewrite rule broken failed: ValueError: no such net"):
        gr.create(graph(), rules=[broken])
    with pytest.raises(gr.InputError, match="leave one of the two out"):
        gr.create(graph(), rules=[squares], fuse=False)
    with pytest.raises(gr.InputError, match="rules is a list"):
        gr.create(graph(), rules="a:b")
    with pytest.raises(gr.InputError, match="a rule is a function of a Net"):
        gr.create(graph(), rules=[3])
    gr.create(graph()).run(x=np.ones((4, 8), np.float32))


def test_nodes_are_timed_alone_over_many_runs():
    module = gr.create(graph(), devices=["cpu:0", "tt:0"], place={"z": "tt:0"})
    times = module.benchmark_nodes(7, x=np.ones((4, 8), np.float32))
    rows = times.rows()
    assert times.ns.shape == (7, len(rows))
    assert [row["node"] for row in rows if row["op"] in ("multiply", "softmax")] == ["y", "z"]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert all(row["min_ns"] <= row["median_ns"] <= row["max_ns"] for row in rows)
    assert "7 runs node by node" in str(times)
    assert "z (softmax)" in str(times)
    with pytest.raises(gr.InputError, match="runs must be a number from 1"):
        module.benchmark_nodes(0)


def test_the_command_line_takes_what_is_from_outside(tmp_path, monkeypatch):
    (tmp_path / "mine_of_the_cli.py").write_text(
        "from graph_runtime.costs import CostModel\n"
        "class Slow(CostModel):\n"
        "    def node(self, *args, **words): return 123456\n"
        "def order(laid_out): return range(laid_out.placed.graph.num_nodes)\n"
        "def packer(groups, size, capacity): return 'unknown', None\n"
        "def rule(net): net.note('mine', 'was here')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "net.json").write_text(graph().to_json())
    mine, net = "mine_of_the_cli", str(tmp_path / "net.json")
    flags = ["--costs", f"{mine}:Slow", "--order", f"{mine}:order", "--packer", f"{mine}:packer"]
    done = CliRunner().invoke(
        typer_app(), ["plan", net, "--json", "--rule", f"{mine}:rule", "--placement", "greedy", *flags]
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert "123456" in done.stdout
    assert any("was here" in json.dumps(note) for note in said.get("notes", [said]))
    done = CliRunner().invoke(typer_app(), ["bench", net, "--nodes", "--repeat", "3", "--json"])
    assert done.exit_code == 0, done.output
    assert {row["op"] for row in json.loads(done.stdout)["nodes"]} == {"multiply", "softmax"}
