"""graph-runtime plan --placement: the table, its JSON, a policy from outside, and what is refused."""

from __future__ import annotations

import json

import pytest

from graph_runtime import cli
from graph_runtime.ir.builder import GraphBuilder


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """run(command, *options) on a graph of a product, a relu and a float64 exp -> (code, stdout, stderr)."""
    b = GraphBuilder()
    x, w = b.input("x", (512, 512)), b.param("w", (512, 512))
    b.output(b.op("relu", b.op("matmul", x, w, name="mm"), name="r"))
    b.output(b.op("exp", b.input("d", (8,), "float64"), name="e"))
    (tmp_path / "graph.json").write_text(b.to_json())
    (tmp_path / "my_policy.py").write_text(
        "def last(problem):\n    return problem.allowed.shape[1] - 1 - problem.allowed[:, ::-1].argmax(1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def call(command, *options):
        with pytest.raises(SystemExit) as stopped:
            cli.main(
                [command, str(tmp_path / "graph.json"), "--device", "cpu:0", "--device", "tt:0", *options]
            )
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


def test_the_table_says_where_why_and_how_long(run):
    code, out, _ = run("plan", "--placement", "mincut", "--place", "r=cpu:0")
    assert code == 0
    table = out[out.index("placement: where each node runs") :]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line[:1] in "mre" and line}
    assert rows["mm"][:3] == ["mm", "matmul", "tt:0"]
    assert rows["r"][:4] == ["r", "relu", "cpu:0", "cpu:0"], "asked, and there"
    assert "to cpu:0 1048576 B" in table
    assert "copies of every run" in table
    assert "predicted: no placement takes less than the bound" in table


@pytest.mark.parametrize("option", ["--placement", "--policy"])
def test_json_has_the_rows_of_a_policy_from_outside(run, option):
    code, out, _ = run("plan", option, "my_policy:last", "--objective", "makespan", "--json")
    assert code == 0
    placement = json.loads(out)["placement"]
    assert {row["node"]: row["device"] for row in placement["nodes"]} == {
        "mm": "tt:0",
        "r": "tt:0",
        "e": "cpu:0",
    }
    assert placement["nodes"][0]["why"].startswith("my_policy:last (makespan): ")
    assert [row["objective"] for row in placement["predictions"]] == ["serial", "makespan", "throughput"]


def test_fallback_is_an_error_unless_it_is_asked_for(run):
    code, _, err = run("plan", "--place", "*=tt:0")
    assert code
    assert "'e' (op exp) cannot run on tt:0" in err
    code, out, _ = run("plan", "--place", "*=tt:0", "--fallback", "host", "--placement", "single", "--json")
    assert code == 0
    told = json.loads(out)
    assert [row["node"] for row in told["placement"]["elsewhere"]] == ["e"]
    assert any("was asked to run on tt:0 and runs on cpu:0" in text for text in told["warnings"])
    values = [text for name in ("x", "w", "d") for text in ("--input", f"{name}=random")]
    code, _, err = run("run", "--place", "e=tt:0", "--fallback", "host", *values)
    assert code == 0
    assert "warning: node 'e' (op exp) was asked to run on tt:0 and runs on cpu:0" in err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--placement", "mincat"), "did you mean 'mincut'"),
        (("--placement", "my_policy:lst"), "'last'"),
        (("--placement", "nowhere:f"), "folder of nowhere on PYTHONPATH"),
        (("--policy", "mincat"), "'mincut'"),
        (("--policy", "heft", "--placement", "single"), "give one"),
        (("--placement", "mincut", "--format", "tt=bfp8"), "did you mean 'bfp8_b'"),
        (("--fallback", "no"), "fallback is 'error'"),
        (("--placement", "single", "--objective", "speed"), "unknown objective 'speed'"),
    ],
)
def test_words_that_nobody_knows_are_told(run, option, says):
    code, _, err = run("plan", *option)
    assert code
    assert says in err
