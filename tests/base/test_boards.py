"""Boards: what each descriptor says and from where, names with stacks and parameters, two stacks in one
plan."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from graph_runtime.base.errors import DeviceError
from graph_runtime.base.machine import devices
from graph_runtime.ir.graph import TensorType
from graph_runtime.plan import plan
from graph_runtime.testing.graphs import GraphMaker

FILES = [
    f
    for f in resources.files("graph_runtime.schemas").joinpath("devices").iterdir()
    if f.name.endswith(".json")
]
BOARDS = {name: d for name, d in devices.boards().items() if d.kind == "tt"}


def numbers(value, path=""):
    """The path of every number in a descriptor; a memory goes by its name."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key != "sources":
                yield from numbers(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part, f"{path}.{part['name']}" if isinstance(part, dict) else path)
    elif not isinstance(value, (str, bool)):
        yield path


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_number_has_a_source(file):
    raw = json.loads(file.read_text())
    paths = set(numbers(raw))
    for path in paths:
        parts = path.split(".")
        assert any(".".join(parts[:n]) in raw["sources"] for n in range(len(parts), 0, -1)), path
    for said in raw["sources"]:
        assert said == "formats" or any(p == said or p.startswith(f"{said}.") for p in paths), said


def test_what_the_boards_are():
    assert set(BOARDS) == {"e150", "n150", "n300", "p150", "wormhole_b0", "wormhole_b0/buda"}
    said = {n: (d.stack, d.grid, d.clock_mhz, d.memories[0].banks, d.l1_budget) for n, d in BOARDS.items()}
    assert said == {
        "e150": ("buda", (10, 12), 1200, 8, 577408),
        "n150": ("ttnn", (8, 8), 1000, 12, 1325652),
        "n300": ("ttnn", (8, 8), 1000, 12, 1325652),
        "p150": ("ttnn", (10, 13), 1350, 8, 1400832),
        "wormhole_b0": ("ttnn", (8, 8), 1000, 12, 1423206),
        "wormhole_b0/buda": ("buda", (10, 8), 1000, 6, 1027968),
    }
    for descriptor in BOARDS.values():
        assert descriptor.memories[1].banks == descriptor.grid[0] * descriptor.grid[1]
        assert descriptor.tile_header_bytes == {"buda": 16, "ttnn": 0}[descriptor.stack]
        assert (descriptor.dispatch_ns is None) == (descriptor.stack == "buda")
    assert devices.parse("tt:0").descriptor is BOARDS["n150"]


@pytest.mark.parametrize(
    ("text", "name", "grid", "clock"),
    [
        ("tt:0=e150", "e150", (10, 12), 1200),
        ("tt:3=wormhole_b0", "wormhole_b0", (8, 8), 1000),
        ("tt:0=wormhole_b0/ttnn", "wormhole_b0", (8, 8), 1000),
        ("tt:0=wormhole_b0/buda[rows=9]", "wormhole_b0/buda", (9, 8), 1000),
        ("tt:0=n150[rows=7,clock=900]", "n150", (7, 8), 900),
        ("tt:0=p150[cols=11]", "p150", (10, 11), 1350),
        ("tt[clock=500]", "n150", (8, 8), 500),
    ],
)
def test_names_say_board_stack_and_parameters(text, name, grid, clock):
    device = devices.parse(text)
    descriptor = device.descriptor
    assert (descriptor.name, descriptor.grid, descriptor.clock_mhz) == (name, grid, clock)
    assert descriptor.memories[1].banks == grid[0] * grid[1]
    assert devices.parse(device.spelling) == device
    assert hash(devices.parse(device.spelling)) == hash(device)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tt:0=n15", "did you mean 'n150'"),
        ("tt:0=wormhole_b0/bud", "did you mean 'buda'"),
        ("tt:0=n150/buda", "no stack 'buda'.*there are: ttnn"),
        ("tt:0=n150[row=3]", "did you mean 'rows'"),
        ("tt:0=n150[rows=9]", "from 1 to 8"),
        ("tt:0=n150[rows=0]", "from 1 to 8"),
        ("tt:0=n150[clock=x]", "whole number"),
        ("tt:0=n150[]", "not NAME=VALUE"),
        ("tt:0=n150[rows=1,rows=2]", "said twice"),
        ("cpu:0[rows=1]", "it takes none"),
        ("tt:0=", "cannot read device"),
        ("tt:0/buda", "cannot read device"),
        ("gpu:0=n150", "unknown device kind"),
    ],
)
def test_names_that_say_nothing(text, says):
    with pytest.raises(DeviceError, match=says):
        devices.parse(text)


def test_two_stacks_are_never_in_one_plan():
    maker = GraphMaker()
    maker.op("tanh", [maker.input(TensorType("float32", (64, 64)))])
    with pytest.raises(DeviceError, match=r"tt:0=e150 \(stack buda\) and tt:1=n150 \(stack ttnn\) in one"):
        plan(maker.graph([1]), ["tt:0=e150", "cpu:0", "tt:1=n150"])
    assert plan(maker.graph([1]), ["tt:0=e150", "cpu:0", "tt:1=wormhole_b0/buda"]).did.tolist() == [0, 0]
