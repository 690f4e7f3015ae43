"""Every rate in a board's file moves the times that rest on it, the right way; nonsense is refused with its
path."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from graph_runtime import GraphBuilder
from graph_runtime.base.errors import DeviceError
from graph_runtime.base.files.mapped import data_folder
from graph_runtime.base.machine.descriptors import boards, read_descriptor
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.machine.layout import DRAM, L1
from graph_runtime.plan import plan
from graph_runtime.simulation.simulation import simulate

FILES = sorted((data_folder("graph_runtime.schemas") / "devices").glob("*.json"), key=lambda f: f.name)
BOARDS = ("n150", "p150", "e150")


def ns_of(board, kind: str, layouts=None) -> int:
    """Simulated ns of one op on a board, or of the copy of its input there and its result back."""
    cpu, tt = parse_list(("cpu:0", "tt:0"))
    devices = (cpu, replace(tt, descriptor=board))
    b = GraphBuilder()
    x = b.input("x", (2048, 2048))
    if kind in ("upload", "download"):
        on = {"relu": "cpu:0", "tanh": "tt:0"} if kind == "upload" else {"relu": "tt:0", "tanh": "cpu:0"}
        b.output(b.op("tanh", b.op("relu", x)))
    else:
        on = {"*": "tt:0"}
        b.output(b.op("matmul", x, b.input("w", (2048, 2048))) if kind == "matmul" else b.op("relu", x))
    line = simulate(plan(b.build(), devices, place=on, layouts=layouts or {}))
    rows = line.is_copy if kind in ("upload", "download") else ~line.is_copy
    return int((line.duration - line.dispatch)[rows].sum())


def scaled(board, field: str, factor: float):
    """The board with one of its rates times ``factor``."""
    part, _, name = field.partition(".")
    if not name:
        return replace(board, **{part: int(board.clock_mhz * factor)})
    kind = getattr(board, part)
    return replace(
        board, **{part: replace(kind, **{name: type(getattr(kind, name))(getattr(kind, name) * factor)})}
    )


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("kind", ["matmul", "relu"])
def test_dram_bounds_what_comes_from_it(name, kind):
    board = boards()[name]
    times = [ns_of(scaled(board, "dram.channel_gb_per_s", f), kind) for f in (0.05, 0.25, 1, 4, 100)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 3 * times[1] > 3 * times[2], "DRAM is all that counts"
    assert times[0] > 8 * times[3]


def test_a_link_is_as_wide_as_its_lanes_and_as_fast_as_its_generation():
    board = boards()["p150"]
    for kind in ("upload", "download"):
        times = [
            ns_of(replace(board, pcie=replace(board.pcie, generation=g, lanes=n)), kind)
            for g, n in ((4, 4), (4, 8), (4, 16), (5, 16))
        ]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == 4
        assert ns_of(replace(board, pcie=replace(board.pcie, generation=5, lanes=8)), kind) == times[2]


@pytest.mark.parametrize("name", ["n150", "p150"])
@pytest.mark.parametrize("kind", ["matmul", "relu"])
def test_flits_bound_what_travels_between_cores(name, kind):
    board = boards()[name]
    layouts = {"*": "l1/tile"} if kind == "relu" else None
    times = [ns_of(scaled(board, "noc.flit_bytes", f), kind, layouts) for f in (1 / 16, 1 / 4, 1, 2)]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[1] > times[2]


@pytest.mark.parametrize("name", BOARDS)
def test_a_clock_moves_cores_but_not_dram_and_not_the_link(name):
    board = boards()[name]
    slow, fast = scaled(board, "clock_mhz", 0.5), scaled(board, "clock_mhz", 2)
    assert ns_of(slow, "matmul") > ns_of(board, "matmul") > ns_of(fast, "matmul")
    assert ns_of(slow, "upload") == ns_of(board, "upload") == ns_of(fast, "upload")
    starved = [scaled(one, "dram.channel_gb_per_s", 0.01) for one in (slow, board, fast)]
    times = [ns_of(one, "matmul") for one in starved]
    assert max(times) < 1.05 * min(times)


@pytest.mark.parametrize("field", ["traced", "untraced"])
def test_dispatch_is_what_the_file_says(field):
    board = boards()["n150"]
    one = replace(board, dispatch_ns=replace(board.dispatch_ns, **{field: 7777}))
    cpu, tt = parse_list(("cpu:0", "tt:0"))
    b = GraphBuilder()
    b.output(b.op("relu", b.input("x", (64, 64))))
    planned = plan(b.build(), (replace(tt, descriptor=one), cpu))
    assert simulate(planned, traced=field == "traced").dispatch.tolist() == [7777]


NONSENSE = [
    ("$.clock_mhz", 0),
    ("$.clock_mhz", -1),
    ("$.clock_mhz", "fast"),
    ("$.grid[0]", 0),
    ("$.grid[1]", -1),
    ("$.memories[0].banks", 0),
    ("$.memories[0].bank_bytes", 0),
    ("$.memories[0].bank_bytes", -1),
    ("$.memories[1].alignment", 0),
    ("$.memories[1].base", -1),
    ("$.dram.channel_gb_per_s", -1),
    ("$.dram.channel_gb_per_s", 0),
    ("$.noc.flit_bytes", 0),
    ("$.noc.count", -1),
    ("$.pcie.lanes", 0),
    ("$.pcie.generation", 1.5),
    ("$.dispatch_ns.traced", -1),
    ("$.tile_header_bytes", -1),
]


@pytest.mark.parametrize(("path", "value"), NONSENSE, ids=str)
def test_nonsense_is_refused_with_its_path(path, value):
    raw = json.loads(next(f for f in FILES if f.name == "n150.json").read_text())
    *way, last = [
        int(p) if p.isdigit() else p for p in path[2:].replace("[", ".").replace("]", "").split(".")
    ]
    at = raw
    for step in way:
        at = at[step]
    at[last] = value
    with pytest.raises(DeviceError) as caught:
        read_descriptor(json.dumps(raw).encode())
    assert path in str(caught.value)
    assert caught.value.fields["path"] == path


def test_every_packaged_file_is_accepted():
    assert {read_descriptor(f.read_bytes()).name for f in FILES} == set(boards())
    assert boards()["n150"].memory(DRAM).banks == 12
    assert boards()["n150"].memory(L1).banks == 64
