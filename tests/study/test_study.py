"""The experiment runner: its corpus, its table, what it leaves and goes on from, and the baselines."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graph_runtime import GraphBuilder
from graph_runtime.base.errors import InputError
from graph_runtime.cli.app import typer_app
from graph_runtime.plan.placing import evaluate
from graph_runtime.study import (
    BASELINES,
    COLUMNS,
    Study,
    chart,
    compared,
    corpus,
    read_rows,
    workload,
)
from graph_runtime.testing.placing import random_problem

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"models": ["lenet", "towers"], "policies": ["single", "greedy", "annealing"]}


def fails(problem):
    raise RuntimeError("no idea")


def drawn(problem, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(np.flatnonzero(row)) for row in problem.allowed])


# **************** corpus ****************


def test_the_corpus_is_current():
    done = subprocess.run([sys.executable, str(ROOT / "tests/tools/make_corpus.py"), "--check"], check=False)
    assert done.returncode == 0, "run python tests/tools/make_corpus.py"
    assert len(corpus()) == 20


@pytest.mark.parametrize("name", corpus())
def test_a_network_of_the_corpus_is_a_plannable_graph(name):
    one = workload(name)
    assert one.inputs
    assert all(i.startswith("x") for i in one.inputs)
    assert {i[0] for i in one.graph.input_names} <= {"x", "w"}
    assert all(func.op is not None for func in one.graph.funcs)


def test_names_that_are_no_network_are_refused_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'resnet50'"):
        workload("resnet5O")
    b = GraphBuilder()
    b.output(b.op("relu", b.input("x", (4,))))
    assert workload(b).name == "GraphBuilder"


# **************** the table ****************


@pytest.mark.slow
def test_rows_are_written_once_and_a_study_goes_on_where_it_was(tmp_path):
    out, told = tmp_path / "deep" / "results.csv", []
    study = Study(**SMALL, seeds=[0, 1])
    rows = study.run(out, lambda *said: told.append(said))
    assert len(rows) == len(told) == 2 * (1 + 1 + 2)  # only annealing takes a seed
    assert rows == read_rows(out)
    text = out.read_bytes()
    assert text.count(b"\n") == len(rows) + 1
    told.clear()
    assert study.run(out, lambda *said: told.append(said)) == rows
    assert told == []
    assert out.read_bytes() == text
    lines = text.splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # stopped in the middle of a row
    again = study.run(out, lambda *said: told.append(said))
    assert len(told) == len(rows) - 2
    assert [{**row, "place_s": 0} for row in again] == [{**row, "place_s": 0} for row in rows]


def test_a_study_goes_on_wherever_its_file_was_cut_off(tmp_path):
    out, study = tmp_path / "results.csv", Study(models=["mlp"], policies=["single"], objectives=["serial"])
    rows = [{**row, "place_s": 0} for row in study.run(out)]
    whole = out.read_bytes()
    head = whole.index(b"\n") + 1
    for cut in (head - 1, head + 9, len(whole)):
        out.write_bytes(whole[:cut])
        again = study.run(out)
        assert [{**row, "place_s": 0} for row in again] == rows
        assert read_rows(out) == again
    for torn in (whole[: head + 9] + b"\n", whole + b"\xff\xfe\n"):
        out.write_bytes(torn)
        with pytest.raises(InputError):
            study.run(out)
        assert out.read_bytes() == torn


@pytest.mark.slow
def test_a_row_says_what_was_predicted_what_was_simulated_and_a_bound(tmp_path):
    rows = Study(**SMALL, objectives=["serial", "makespan", "throughput"]).run(tmp_path / "r.csv")
    for row in rows:
        assert row["error"] is None
        assert 0 < row["bound_ns"] <= row["predicted_ns"]
        assert row["predicted_ns"] <= row["simulated_ns"] * 1.001 + 1
        assert row["nodes"] > 0
        assert row["peak_bytes"] > 0
    serial = [row for row in rows if row["objective"] == "serial"]
    assert all(row["simulated_ns"] == row["predicted_ns"] for row in serial)


def test_what_fails_is_a_row_with_its_error(tmp_path):
    policies = ["single", f"{__name__}:fails", drawn]
    rows = Study(models=["lenet"], policies=policies, seeds=[3, 4]).run(tmp_path / "r.csv")
    assert [row["policy"] for row in rows] == ["single", f"{__name__}:fails", "drawn", "drawn"]
    assert [row["seed"] for row in rows] == [None, None, 3, 4]
    assert rows[1]["error"].startswith(f"PlanError: placement policy {__name__}:fails failed: RuntimeError")
    found = {row["policy"]: row for row in compared(rows)}
    assert found[f"{__name__}:fails"]["failed"] == 1
    assert found[f"{__name__}:fails"]["over_best"] is None
    assert "<svg" in chart(rows)


def test_policies_are_compared_with_the_best_of_each_model():
    def row(model, policy, ns, seed=None):
        fixed = {"digest": "", "devices": "d", "objective": "makespan", "place_s": 1.0}
        return {**fixed, "model": model, "policy": policy, "seed": seed, "simulated_ns": ns}

    rows = [
        row("a", "p", 100),
        row("a", "q", 150, 0),
        row("a", "q", 250, 1),
        row("b", "p", 90),
        row("b", "q", 45),
    ]
    p, q = compared(rows)
    assert (p["over_best"], p["worst"], p["best_of"]) == (pytest.approx(2**0.5), 2, 1)
    assert (q["over_best"], q["worst"], q["best_of"]) == (pytest.approx(2**0.5), 2, 1)
    assert chart([]).startswith("<svg")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"policies": ["heftt"]}, "did you mean 'heft'"),
        ({"objectives": ["fast"]}, "unknown objective 'fast'"),
        ({"seeds": [-1]}, "whole number from 0"),
    ],
)
def test_words_that_are_none_are_refused_before_anything_runs(words, text):
    with pytest.raises(InputError, match=text):
        Study(**words)


_HEAD = ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n",
        f"{_HEAD}lenet,x,d,o,p,zero{',' * 7}\n",
        f"{_HEAD}{'x' * 131_073}{',' * 12}\n",
        f"{'x' * 131_073}\n",
        f"{_HEAD}lenet,x,d,o,p,{'9' * 5000}{',' * 7}\n",
        f'{_HEAD}"lenet\n',
    ],
)
def test_a_file_that_is_no_studys_is_refused_and_stays(tmp_path, text):
    out = tmp_path / "mine.csv"
    out.write_text(text)
    with pytest.raises(InputError, match=r"mine\.csv"):
        Study(**SMALL).run(out)
    assert out.read_text() == text


def test_the_command_writes_the_table_and_a_picture(tmp_path):
    out, svg = tmp_path / "r.csv", tmp_path / "r.svg"
    words = ["study", str(out), "--model", "lenet", "--placement", "single", "--placement", "m-etf"]
    done = CliRunner().invoke(typer_app(), [*words, "--devices", "cpu:0,tt:0", "--chart", str(svg)])
    assert done.exit_code == 0, done.output
    assert "m-etf" in done.stdout
    assert len(read_rows(out)) == 2
    assert svg.read_text().startswith("<svg")
    done = CliRunner().invoke(typer_app(), [*words, "--devices", "cpu:0,tt:0", "--json"])
    assert [row["policy"] for row in json.loads(done.stdout)["rows"]] == ["single", "m-etf"]


# **************** baselines ****************


@pytest.mark.sampled
@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 8))])
def test_a_baseline_is_a_placement_and_the_best_bounds_it(name, seed):
    devices = ("cpu:0", "tt:0", "tt:1")[: 2 + seed % 2]
    problem = random_problem(np.random.default_rng(seed), devices, nodes=9)
    did = np.asarray(BASELINES[name](problem))
    assert problem.allowed[np.arange(problem.num_nodes), did].all()
    options = [np.flatnonzero(row) for row in problem.allowed]
    rows = np.array(list(itertools.islice(itertools.product(*options), 20_000)), np.int16)
    assert evaluate(problem, did[None].astype(np.int16))[0] >= evaluate(problem, rows).min()


def test_annealing_is_the_same_for_a_seed_and_no_worse_than_one_device():
    problem = random_problem(np.random.default_rng(5), nodes=12)
    first, again = (BASELINES["annealing"](problem, seed=7) for _ in range(2))
    assert (first == again).all()
