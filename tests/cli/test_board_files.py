"""A board is one file: given by its path, commands plan, run and estimate on it, and nothing else says it."""

from __future__ import annotations

import json

import pytest

from graph_runtime import cli
from graph_runtime.artifacts.bundles.bundle import check_references
from graph_runtime.base.errors import DeviceError, DocumentError
from graph_runtime.base.files.mapped import data_folder
from graph_runtime.base.machine import devices
from graph_runtime.ir.builder import GraphBuilder

N150 = json.loads((data_folder("graph_runtime.schemas") / "devices" / "n150.json").read_text())


@pytest.fixture
def mine(tmp_path):
    """mine(**changes) -> the path of a board half as high as an n150 and twice as fast, with changes."""

    def write(name="mine.json", banks=32, **changes):
        made = {**N150, "board": "mine1", "default": False, "grid": [4, 8], "clock_mhz": 2000, **changes}
        made["memories"] = [N150["memories"][0], {**N150["memories"][1], "banks": banks}]
        made = {key: value for key, value in made.items() if value is not None}
        (tmp_path / name).write_text(json.dumps(made))
        return str(tmp_path / name)

    return write


@pytest.fixture
def call(capsys, tmp_path):
    """call(command, *options) on a product and a relu -> (code, stdout, stderr)."""
    b = GraphBuilder()
    x, w = b.input("x", (512, 512)), b.input("w", (512, 512))
    b.output(b.op("relu", b.op("matmul", x, w, name="mm"), name="r"))
    (tmp_path / "graph.json").write_text(b.to_json())

    def run(command, *options):
        with pytest.raises(SystemExit) as stopped:
            cli.main([command, str(tmp_path / "graph.json"), *options])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def test_commands_take_a_board_by_its_path(call, mine):
    device = f"tt:0={mine()}"
    code, out, err = call("plan", "--device", device)
    assert (code, err) == (0, "")
    assert "mm matmul tt:0 dram/tile/f32" in " ".join(out.split())
    code, _, err = call("run", "--device", device, "--input", "x=random", "--input", "w=random")
    assert code == 0, err
    code, _, err = call("verify", "--device", device)
    assert code == 0, err
    times = {}
    for board in (device, "tt:0=n150"):
        code, out, err = call("estimate", "--device", board, "--json")
        assert code == 0, err
        times[board] = json.loads(out)["latency_ns"]
    assert len(set(times.values())) == 2


def test_boards_by_name_and_by_path_are_compared(call, mine):
    path = mine()
    code, out, err = call(
        "estimate", "--board", f"n150,{path},{path}[clock=1000]", "--dtype", "bfp2_b", "--json"
    )
    assert code == 0, err
    rows = {row["board"]: row for row in json.loads(out)["boards"]}
    assert list(rows) == ["n150", path, f"{path}[clock=1000]"]
    assert rows[path]["latency_ns"] < rows[f"{path}[clock=1000]"]["latency_ns"]


def test_its_spelling_is_its_path(mine):
    path = mine()
    for text in (f"tt:1={path}", f"tt:1={path}[rows=3,clock=900]"):
        (device,) = devices.parse_list(text)
        assert device.spelling == text
        assert devices.parse(device.spelling, files=True) == device


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"formats": ["f32", "bfp3_b"]}, "no format 'bfp3_b' here (did you mean"),
        ({"kind": "ttt"}, "no kind 'ttt' here"),
        ({"kind": "cpu", "dl_type": 1}, "of kind cpu, not tt"),
        ({"dl_type": 13}, "no dl_type 13 here"),
        ({"arch": "wormhole"}, "no arch 'wormhole' here (did you mean 'wormhole_b0'"),
        ({"layouts": ["tiles"]}, "no layout 'tiles' here (did you mean 'tile'"),
        ({"color": "red"}, "is no descriptor of a board"),
        ({"clock_mhz": 0}, "$.clock_mhz is 0, must be a whole number from 1"),
        ({"grdi": [4, 8]}, "unknown key 'grdi' (did you mean 'grid'?)"),
        ({"grid": None}, "has no key 'grid': it is missing"),
        ({"noc": {"count": 2, "nodes": [12, 10]}}, "$.noc has no key 'flit_bytes': it is missing"),
        (
            {"banks": 64},
            "$.memories[1].banks is 64, must be 32: L1 has one bank for each core of the 4x8 grid",
        ),
    ],
)
def test_what_is_no_board_is_refused_with_the_reason(call, mine, changes, says):
    code, _, err = call("plan", "--device", f"tt:0={mine(**changes)}")
    assert code == 2
    assert says in " ".join(err.split())


def test_a_file_that_is_not_there_is_refused(call):
    code, _, err = call("estimate", "--board", "n150,./none.json")
    assert code == 2
    assert "cannot read board ./none.json" in " ".join(err.split())


def test_no_document_names_a_file(mine, tmp_path):
    """A document of another's must not make this machine read its files."""
    device = f"tt:0={mine()}"
    with pytest.raises(DeviceError, match="is a file"):
        devices.parse(device)
    with pytest.raises(DocumentError, match="other machines lack"):
        check_references(tmp_path, {"devices": [device], "programs": []})
