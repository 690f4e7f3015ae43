"""The command line, in process: each command, its JSON, its exit codes, its one-line errors."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

from graph_runtime import cli
from graph_runtime.base.config import config
from graph_runtime.cli.app import COMMANDS, typer_app
from graph_runtime.ir.documents.params import save_params

F32 = np.float32


@pytest.fixture
def command(capsys, tmp_path, monkeypatch, kernel_cache):
    """command(*args) -> (exit code, stdout, stderr), in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        with config(CACHE_DIR=kernel_cache), pytest.raises(SystemExit) as stopped:
            cli.main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def _commands(found, name=""):
    """(name, click's command) of each command, and of those of groups."""
    if not hasattr(found, "commands"):
        return [(name, found)]
    return [row for key, one in found.commands.items() for row in _commands(one, f"{name} {key}".strip())]


def test_every_command_takes_json():
    rows = _commands(typer.main.get_command(typer_app()))
    assert len(rows) > len(COMMANDS)
    assert [name for name, one in rows if "json" not in {param.name for param in one.params}] == []


@pytest.fixture
def folder(document, tmp_path):
    """graph.json: y = tanh(relu(x) + w), x and w float32[3, 5]; w.bin; io.npz with the answer."""
    x, w = document.input("x", (3, 5)), document.input("w", (1, 5))
    relu = document.call("relu_15", x, op="relu", shape=(3, 5), name="act")
    added = document.call("add_15", relu, w, op="add", shape=(3, 5), name="bias")
    y = document.call("tanh_15", added, op="tanh", shape=(3, 5), name="y")
    (tmp_path / "graph.json").write_text(document.json(y))
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((3, 5)).astype(F32), rng.standard_normal((1, 5)).astype(F32)
    save_params({"w": weights}, tmp_path / "w.bin")
    np.save(tmp_path / "x.npy", values)
    want = np.tanh(np.maximum(values, 0) + weights)
    np.savez(tmp_path / "io.npz", **{"in:x": values, "output0": want})
    np.savez(tmp_path / "wrong.npz", **{"in:x": values, "output0": want + 1})
    return tmp_path


def test_run(command, folder):
    code, out, err = command("run", "graph.json", "--input", "x=x.npy", "--params", "w.bin", "-o", "out.npz")
    assert (code, err) == (0, "")
    assert "output 0 y: float32[3, 5]" in out
    np.testing.assert_allclose(np.load("out.npz")["y"], np.load("io.npz")["output0"], rtol=1e-5)
    command("run", "graph.json", "--input", "x=x.npy", "--params", "w.bin", "-o", "out")
    assert (folder / "out").read_bytes()[:2] == b"PK", "the name is the one that was given"


def test_run_compares_with_a_file_and_with_the_interpreter(command, folder):
    devices = ["--device", "cpu:0", "--device", "tt:0", "--place", "act=tt:0"]
    code, out, _ = command(
        "run", "graph.json", "--params", "w.bin", "--expect", "io.npz", "--compare", *devices
    )
    assert code == 0
    assert "as expected" in out
    assert "as numpy" in out
    code, out, _ = command("run", "graph.json", "--params", "w.bin", "--expect", "wrong.npz", "--json")
    assert code == 1
    assert json.loads(out)["expect"][0]["wrong"] == 15
    code, _, _ = command("run", "graph.json", "--params", "w.bin", "--expect", "wrong.npz", "--atol", "2")
    assert code == 0


def test_expected_outputs_have_their_names_too(command, folder):
    with np.load(folder / "io.npz") as stored:
        np.savez(folder / "named.npz", y=stored["output0"])
        np.savez(folder / "other.npz", z=stored["output0"])
    given = ["run", "graph.json", "--params", "w.bin", "--input", "x=x.npy", "--expect"]
    code, out, _ = command(*given, "named.npz")
    assert code == 0
    assert "output 0: as expected" in out
    code, _, err = command(*given, "other.npz")
    assert code == 2
    assert "the file has ['z'], the graph's outputs are ['y']" in err


def test_layouts_by_name_are_planned_and_run(command, folder):
    options = ["--device", "tt:0=n300", "--params", "w.bin", "--layout", "act=l1/row_major/height[3x1]"]
    code, out, err = command("run", "graph.json", "--compare", *options)
    assert (code, err) == (0, "")
    assert "as numpy" in out
    code, out, _ = command("plan", "graph.json", *options[:2], *options[4:])
    assert code == 0
    assert "l1/row_major/f32/height[3x1:1x5]" in out
    code, _, err = command("plan", "graph.json", *options[:2], "--layout", "act=l1/hight")
    assert code == 2
    assert "did you mean 'height'" in err


def test_compile_then_run_verify_and_inspect_the_bundle(command, folder):
    code, out, _ = command(
        "compile",
        "graph.json",
        "--params",
        "w.bin",
        "-o",
        "net.bundle",
        "--device",
        "cpu:0",
        "--device",
        "tt:0",
        "--place",
        "bias=tt:0",
    )
    assert (code, out) == (0, "wrote net.bundle\n")
    code, out, _ = command("run", "net.bundle", "--expect", "io.npz", "--json")
    assert code == 0
    assert json.loads(out)["expect"][0]["ok"] is True
    code, out, _ = command("verify", "net.bundle", "--json")
    assert code == 0
    assert json.loads(out)["kernels"] >= 3
    code, out, _ = command("inspect", "net.bundle", "--json")
    found = json.loads(out)
    assert found["devices"] == ["cpu:0", "tt:0"]
    assert found["programs"][0]["params"] == 1
    code, out, _ = command("inspect", "net.bundle/kernels.so")
    assert "tt   add_15: add(float32[3, 5], float32[1, 5]) -> float32[3, 5]" in out
    code, out, _ = command("run", "net.bundle", "--input", "x=random", "--compare", "--seed", "7")
    assert code == 0


def test_plan_writes_a_file_that_verifies(command, folder):
    place = ["--device", "cpu:0", "--device", "tt:0", "--place", "tanh=tt:0"]
    code, out, _ = command("plan", "graph.json", *place, "-o", "planned.json")
    assert code == 0
    assert "tt:0" in out
    _, out, _ = command("plan", "planned.json", "--json")  # it names its devices itself
    rows = json.loads(out)["nodes"]
    assert {row["name"]: row["device"] for row in rows}["y"] == "tt:0"
    assert not any(row["inserted"] for row in rows)
    assert command("verify", "planned.json")[0] == 0
    text = (folder / "planned.json").read_text()
    broken = json.loads(text)
    broken["attrs"]["storage_id"][1] = [0] * len(broken["attrs"]["storage_id"][1])
    (folder / "broken.json").write_text(json.dumps(broken))
    code, _, err = command("verify", "broken.json")
    assert code in (1, 2)
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_inspect_tells_files_apart(command, folder):
    assert "3, 5" in command("inspect", "graph.json")[1]
    _, out, _ = command("inspect", "w.bin", "--json")
    assert json.loads(out)["arrays"] == [{"name": "w", "dtype": "float32", "shape": [1, 5], "bytes": 20}]


def test_devices_and_settings(command, folder):
    code, out, _ = command("devices")
    assert code == 0
    assert "tt:N=n150" in out
    assert "GR_CACHE_DIR" in json.loads(command("devices", "--settings", "--json")[1])
    boards = json.loads(command("devices", "--json")[1])
    assert boards["wormhole_b0/buda"]["noc"] == {"count": 2, "flit_bytes": 32, "nodes": [12, 10]}
    assert boards["e150"]["sources"]["grid"].startswith("tt-buda-backend")


def test_debug_levels_say_more_on_stderr(command, folder):
    arguments = [
        "run",
        "graph.json",
        "--params",
        "w.bin",
        "--input",
        "x=x.npy",
        "--device",
        "cpu:0",
        "--device",
        "tt:0",
        "--place",
        "act=tt:0",
    ]
    said = []
    for level in range(4):
        with config(DEBUG=level):
            code, out, err = command(*arguments)
        assert code == 0
        assert out.startswith("output 0 y: ")
        said.append(err)
    assert said[0] == ""
    assert "on cpu:0, tt:0" in said[1]
    assert "lower_bound" in said[1]
    timed = [line.split()[2:] for line in said[2].splitlines() if " us  " in line]
    assert ["tt:0", "act", "(relu)"] in timed
    assert len(timed) >= 4
    assert "pin 'act': tt:0" in said[3]
    assert "pin 'act': tt:0" not in said[2]


def test_bench(command, folder):
    code, out, _ = command(
        "bench", "graph.json", "--device", "null:0", "--repeat", "3", "--min-repeat-ms", "1", "--json"
    )
    assert code == 0
    assert len(json.loads(out)["results"]) == 3


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["run", "nothing.json"], 2, "there is no file nothing.json"),
        (["run", "graph.json", "--params", "w.bin"], 2, "inputs without a value: x"),
        (["run", "graph.json", "--params", "w.bin", "--input", "y=random"], 2, "there are: x"),
        (["run", "graph.json", "--params", "w.bin", "--input", "x"], 2, "--input NAME=VALUE"),
        (["plan", "graph.json", "--device", "tt:0", "--fidelity", "LoFi"], 2, "write --fidelity tt=HiFi2"),
        (["run", "graph.json", "--params", "w.bin", "--input", "x=none.npy"], 2, "none.npy"),
        (["run", "graph.json", "--params", "x.npy", "--input", "x=x.npy"], 2, "x.npy"),
        (["run", "graph.json", "--device", "gpu:0"], 2, "unknown device kind 'gpu'"),
        (["run", "graph.json", "--place", "bias=tt:0", "--input", "x=random"], 2, "tt:0"),
        (["run", "x.npy"], 2, "not valid JSON"),
        (["run", "graph.json", "--input", "x=x.npy", "--input", "w=io.npz"], 2, "io.npz is an .npz"),
        (["run", "graph.json", "--params", "w.bin", "--expect", "x.npy"], 2, "x.npy is a single array"),
        (
            ["run", "graph.json", "--params", "w.bin", "--input", "x=x.npy", "-o", "no/y.npz"],
            2,
            "no/y.npz: No such file or directory",
        ),
        (["inspect", "nothing.json"], 2, "nothing.json: No such file or directory"),
        (["compile", ".", "-o", "net.bundle"], 2, "no bundle"),
        (["run", "graph.json", "--library", "w.bin", "--input", "x=random"], 2, "w.bin"),
        (["verify", "w.bin"], 2, "error"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command, folder, args, code, words):
    got, out, err = command(*args)
    assert (got, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1


def test_arrays_that_numpy_s_own_reader_fails_on_are_one_line_and_exit_code_2(command, folder):
    header = b"{'descr': ',', 'fortran_order': False, 'shape': (1,), }\n"
    Path("odd.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(4))
    np.savez_compressed("odd.npz", y=np.arange(1000.0))
    data = bytearray(Path("odd.npz").read_bytes())
    data[80:120] = bytes(40)
    Path("odd.npz").write_bytes(data)
    for option, value in (("--input", "x=odd.npy"), ("--expect", "odd.npz")):
        code, out, err = command(
            "run", "graph.json", "--params", "w.bin", "--input", "x=x.npy", option, value
        )
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert "cannot read odd.np" in err


@pytest.mark.parametrize(
    "args",
    [
        ["run"],
        ["run", "graph.json", "--nope"],
        ["fly"],
        ["bench", "graph.json", "--repeat", "many"],
        ["run", "graph.json", "--threads", "99999999999999999999"],
    ],
)
def test_bad_usage_is_one_line_too(command, folder, args):
    code, out, err = command(*args)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "--help" in err


def test_no_arguments_at_all_show_the_help(command):
    code, out, err = command()
    assert (code, err) == (2, "")
    assert "compile" in out


def test_a_file_that_asks_for_two_billion_devices_is_refused(command, new_document, folder):
    document = new_document()
    x = document.input("x")
    (folder / "many.json").write_text(document.json(x, device_index=[12], device_id=[2**31 - 1]))
    code, out, err = command("verify", "many.json")
    assert (code, out) == (2, "")
    assert "2147483648 tt devices" in err
    assert "--device" in err


def test_out_of_memory_is_exit_code_3(command, document, folder):
    x = document.input("big", (1 << 17, 1 << 17))
    (folder / "big.json").write_text(document.json(x))
    code, _, err = command("run", "big.json", "--device", "tt:0", "--input", "big=random")
    assert code == 3
    assert err.count("\n") == 1


def test_a_failing_kernel_is_exit_code_4(command, document, packed_library, tmp_path):
    x = document.input("x")
    (tmp_path / "bad.json").write_text(document.json(document.call("fail_if_negative", x, name="the_gate")))
    np.save(tmp_path / "x.npy", np.full(4, -1, F32))
    code, _, err = command("run", "bad.json", "--library", packed_library, "--input", "x=x.npy")
    assert code == 4
    assert "the_gate" in err


# a shell's background jobs, and so their children, ignore SIGINT
_INTERRUPTIBLE = """
import signal
from graph_runtime.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


def test_ctrl_c_is_exit_code_130(document, packed_library, tmp_path):
    entry = document.input("x")
    for _ in range(3000):
        entry = document.call("slow", entry)
    (tmp_path / "slow.json").write_text(document.json(entry))
    arguments = ["run", "slow.json", "--library", packed_library, "--input", "x=random"]
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTIBLE, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            time.sleep(3)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=20)
        finally:
            child.kill()
    assert child.returncode == 130, (out, err)


def test_help_has_examples(command, folder):
    for name in ("compile", "run", "plan", "verify", "inspect", "devices", "bench"):
        code, out, _ = command(name, "--help")
        assert code == 0
        assert f"Example: graph-runtime {name}" in " ".join(out.split())
