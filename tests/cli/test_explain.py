"""graph-runtime plan --explain: the table and the JSON of one node, and its errors."""

from __future__ import annotations

import itertools
import json

import pytest

from graph_runtime import cli
from graph_runtime.ir.builder import GraphBuilder


@pytest.fixture
def explain(capsys, tmp_path):
    """explain(*options) of the published matmul, node "mm" -> (exit code, stdout, stderr)."""
    b = GraphBuilder()
    x, w = b.input("x", (12544, 128), "bfloat16"), b.param("w", (128, 64), "bfloat16")
    b.output(b.op("matmul", x, w, name="mm", fidelity="HiFi3", stream_dirs=["R"]))
    (tmp_path / "graph.json").write_text(b.to_json())

    def run(*options):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["plan", str(tmp_path / "graph.json"), *options])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def test_the_table_has_the_published_row(explain):
    code, out, _ = explain("--device", "tt:0=e150", "--policy", "nlp", "--explain", "mm")
    assert code == 0
    row = next(line for line in out.splitlines() if line.split()[:3] == ["4x1", "2", "R"])
    assert row.split() == "4x1 2 R 7x2 7x1 1 4 56 16 196 557440 86240 legal".split()
    assert "201 legal of 210 tried: 67 of 76" in out


def test_json_has_every_candidate_in_order(explain):
    code, out, _ = explain("--device", "tt:0=e150", "--policy", "nlp", "--explain", "mm", "--json")
    assert code == 0
    told = json.loads(out)
    assert {
        "grid": [8, 1],
        "t": 7,
        "dir": "R",
        "mblock": [1, 2],
        "ublock": [7, 1],
        "m_k": 1,
        "u_kt": 4,
        "input_tiles": [56, 16],
        "output_tiles": 28,
        "l1_bytes": 208000,
        "cycles": 43120,
        "fidelity": "HiFi3",
        "verdict": "legal",
    } in told["candidates"]
    assert len(told["candidates"]) == told["counts"]["tried"] == 210
    grids = [c["grid"] for c in told["candidates"]]
    assert grids == sorted(grids)


def test_formats_and_fidelity_of_the_command_line_are_what_is_balanced(explain):
    _, out, _ = explain("--device", "tt:0=e150", "--format", "tt=bfp8_b", "--explain", "mm", "--json")
    told = json.loads(out)
    assert told["format"] == "bfp8_b"
    first = next(c for c in told["candidates"] if c["verdict"] == "legal")
    assert first["l1_bytes"] == (sum(first["input_tiles"]) + first["output_tiles"]) * 1120


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--device", "tt:0", "--explain", "mm"], "only boards of stack buda are balanced"),
        (["--device", "cpu:0", "--explain", "mm"], "node 'mm' is on cpu:0, where nothing is cut"),
        (["--device", "tt:0=e150", "--explain", "m"], "there is no node 'm'"),
        (["--device", "tt:0=e150", "--explain", "x"], "runs on no core"),
        (["--device", "tt:0=e150", "--policy", "nlb", "--explain", "mm"], "did you mean 'nlp'"),
    ],
)
def test_errors_are_one_line(explain, options, text):
    code, _, err = explain(*options)
    assert code != 0
    assert text in err
    assert len(err.splitlines()) == 1


def test_a_policy_shows_what_was_chosen(explain):
    code, out, _ = explain("--device", "tt:0=e150", "--policy", "nlp")
    assert code == 0
    head, row = next((a, b) for a, b in itertools.pairwise(out.splitlines()) if a.startswith("node  part"))
    assert head.split()[:6] == ["node", "part", "grid", "at", "cores", "t"]
    assert row.split()[:2] == ["mm", "matmul"]
    assert "policy nlp" in out


def test_explaining_with_a_policy_says_what_it_takes(explain):
    code, out, _ = explain("--device", "tt:0=e150", "--policy", "nlp", "--explain", "mm", "--json")
    assert code == 0
    told = json.loads(out)
    (row,) = told["chosen"]
    same = ("grid", "t", "dir", "mblock", "ublock", "m_k", "u_kt", "l1_bytes", "cycles")
    assert {k: row[k] for k in same} in [{k: c[k] for k in same} for c in told["candidates"]]
    assert "policy nlp takes:" in explain("--device", "tt:0=e150", "--policy", "nlp", "--explain", "mm")[1]


def test_a_policy_as_json(explain):
    code, out, _ = explain("--device", "tt:0=e150", "--policy", "ribbon", "--json")
    assert code == 0
    (told,) = json.loads(out)["balance"]
    (row,) = told["ops"]
    assert row["node"] == "mm"
    assert row["cores"] == row["grid"][0] * row["grid"][1]
    assert told["cycles"] == told["epochs"][row["epoch"]]["cycles"] >= row["cycles"]


def test_a_policy_without_a_board_for_it_says_so(explain):
    code, out, _ = explain("--device", "tt:0", "--policy", "nlp")
    assert code == 0
    assert "policy nlp: no device is a board of stack buda" in out
