"""An unknown word of the command line is answered by the one that was meant and all that there are."""

from __future__ import annotations

import pytest

from graph_runtime import cli
from graph_runtime.ir.builder import GraphBuilder

PLAN = ("plan", "graph.json", "--device", "cpu:0", "--device", "tt:0=e150")


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """told(*arguments) -> the one line of a command that is refused, in a folder with a graph.json."""
    b = GraphBuilder()
    b.output(b.op("relu", b.input("image", (32, 32)), name="first"))
    (tmp_path / "graph.json").write_text(b.to_json())
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            cli.main(arguments)
        assert stopped.value.code == 2
        out, err = capsys.readouterr()
        assert not out, "nothing is printed before words are judged"
        return err

    return call


@pytest.mark.parametrize(
    ("arguments", "meant", "another"),
    [
        ((*PLAN, "--placement", "mincutt"), "mincut", "heft"),
        ((*PLAN, "--policy", "nlpp"), "nlp", "ribbon"),
        ((*PLAN, "--objective", "serail"), "serial", "makespan"),
        ((*PLAN, "--placement", "heft", "--objective", "serail"), "serial", "makespan"),
        ((*PLAN, "--fallback", "hst"), "host", "error"),
        ((*PLAN, "--reuse", "saef"), "safe", "off"),
        ((*PLAN, "--format", "tt=bf61"), "bf16", "bfp8_b"),
        ((*PLAN, "--format", "ttt=bf16"), "tt", "cpu"),
        ((*PLAN, "--fidelity", "tt=HiFi22"), "HiFi2", "LoFi"),
        ((*PLAN, "--fidelity", "ttt=HiFi2"), "tt", "cpu"),
        ((*PLAN, "--dst", "tt=fp23"), "fp32", "bf16"),
        ((*PLAN, "--numerics", "tt=fats"), "fast", "exact"),
        ((*PLAN, "--layout", "firts=l1"), "first", "relu"),
        ((*PLAN, "--layout", "first=l11"), "l1", "dram"),
        ((*PLAN, "--layout", "first=hight"), "height", "block"),
        ((*PLAN, "--place", "firts=tt:0"), "first", "relu"),
        ((*PLAN, "--place", "first=tt:3"), "tt:0", "cpu:0"),
        ((*PLAN, "--place", "first=ttt:0"), "tt", "cpu"),
        ((*PLAN, "--map", "oencl=tt:0"), "opencl", "cuda"),
        ((*PLAN, "--stream", "imag"), "image", ""),
        ((*PLAN, "--topology", "n30"), "n300", "galaxy"),
        (("plan", "graph.json", "--device", "tt:0=e15"), "e150", "n150"),
        (("plan", "graph.json", "--device", "tt:0=wormhole_b0/bud"), "buda", "ttnn"),
        (("plan", "graph.json", "--device", "tt:0=n150[row=3]"), "rows", "clock"),
        (("run", "graph.json", "--input", "imag=random"), "image", "image"),
        (("run", "graph.json", "--input", "image=random", "--against", "onnxruntim"), "onnxruntime", ""),
        (("accuracy", "graph.json", "--input", "imag=random"), "image", "image"),
        (("accuracy", "graph.json", "--as", "bf61"), "bf16", "bfp8_b"),
        (("accuracy", "graph.json", "--search", "pc=0.9"), "pcc", "cosine"),
        (("estimate", "graph.json", "--board", "e15"), "e150", "n150"),
        (("estimate", "graph.json", "--board", "e150", "--dtype", "bf61"), "bf16", "bfp8_b"),
        (("estimate", "graph.json", "--input", "imag"), "image", "image"),
        (("compile", "graph.json", "-o", "b", "--march", "nativ"), "native", "auto"),
        (("export", "graph.json", "-o", "b", "--dialect", "tvmm"), "tvm", "gr"),
        (("cache", "shwo"), "show", "prune"),
        (("study", "s.csv", "--objective", "serail"), "serial", "makespan"),
        (("study", "s.csv", "--placement", "heftt"), "heft", "mincut"),
        (("study", "s.csv", "--model", "resnet5"), "resnet50", ""),
        (("devises",), "devices", ""),
        (("cluster", "statu"), "status", ""),
        (("trust", "lst"), "list", ""),
    ],
)
def test_a_word_that_nobody_knows_is_answered(told, arguments, meant, another):
    text = told(*arguments)
    assert f"id you mean '{meant}'?" in text
    if another:
        assert another in text.split("there are: ")[1]
