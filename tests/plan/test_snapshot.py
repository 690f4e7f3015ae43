"""Snapshots of plans: what is read is what was planned, and damaged bytes are refused, never believed."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import orjson
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime import GraphBuilder
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.base.errors import DocumentError, GraphRuntimeError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.plan import plan
from graph_runtime.plan.snapshot import read_snapshot, write_snapshot
from graph_runtime.plan.snapshot_columns import COLUMNS

DEVICES = ["cpu:0", "tt:0"]


def _builder():
    b = GraphBuilder()
    x = b.input("x", (2, 3, 8, 8))
    y = b.op("conv2d", x, b.param("w", np.ones((4, 3, 3, 3), np.float32)), pads=[1, 1, 1, 1], name="conv")
    y = b.op("flatten", b.op("relu", y, name="act"), name="flat")
    b.output(b.op("softmax", y, name="out"))
    return b


def _planned(**options):
    options = {"place": {"conv": "tt:0"}, "formats": {"tt": "bf16"}, **options}
    return plan(_builder().build(), DEVICES, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"place": {"*": "cpu:0"}},
        {"numerics": {"tt": {"fidelity": "LoFi"}}},
        {"place": {"a*": "tt:0"}},
    ],
)
def test_what_is_read_is_what_was_planned(options):
    planned = _planned(**options)
    read = read_snapshot(memoryview(write_snapshot(planned)), parse_list(DEVICES))
    of_graph = ("funcs", "hints", "extra_columns", "control_deps")
    for owner, other, skipped in (
        (planned, read, ("graph", "storage", "placement")),
        (planned.graph, read.graph, of_graph),
        (planned.storage, read.storage, ()),
    ):
        for field in fields(owner):
            if field.name not in skipped:
                np.testing.assert_equal(getattr(other, field.name), getattr(owner, field.name), field.name)
    for mine, theirs in zip(planned.graph.funcs, read.graph.funcs, strict=True):
        for name in ("name", "op", "attrs", "raw", "num_inputs", "num_outputs", "flatten"):
            assert getattr(mine, name) == getattr(theirs, name)


def test_other_devices_and_other_versions_are_read_from_the_document():
    data = write_snapshot(_planned())
    assert read_snapshot(memoryview(data), parse_list(["cpu:0", "tt:1"])) is None
    assert read_snapshot(memoryview(b"GRPLAN\x02\x00" + data[8:]), parse_list(DEVICES)) is None
    assert write_snapshot(_planned(layouts={"act": "l1"}, place={"act": "tt:0"})) is not None
    assert write_snapshot(plan(_builder().build(), ["tt:0"], layouts={"out": "l1/height"})) is None


@pytest.mark.core
def test_a_bundle_runs_from_its_snapshot_and_on_other_devices_without(tmp_path, monkeypatch):
    path = build_bundle(_builder(), DEVICES, tmp_path / "net.bundle", place={"conv": "tt:0"}, compile=False)
    assert read_bundle(path).program().plan == "main.plan"
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    other = gr.load(path, DEVICES[::-1])
    other.run(x=x)
    monkeypatch.setattr("graph_runtime.artifacts.door.load_graph", None)  # no document is read from here on
    module = gr.load(path)
    module.run(x=x)
    np.testing.assert_allclose(module.get_output(0).numpy(), other.get_output(0).numpy(), rtol=1e-5)
    assert [str(device) for device in module.session.plan.devices] == DEVICES


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_a_column_of_another_dtype_is_refused(dtype):
    """at_input of int8 was an index where a mask was meant: wrong values and no error."""
    data = bytearray(write_snapshot(_planned()))
    at = data.index(b'"plan.at_input":["bool"')
    changed = data[at:].replace(b'"bool"', f'"{dtype}"'.encode(), 1)
    padding = changed.index(b"   ")
    del changed[padding : padding + len(dtype) - 4]
    with pytest.raises(DocumentError, match=f"column plan.at_input has dtype '{dtype}', must be bool"):
        read_snapshot(memoryview(data[:at] + changed), parse_list(DEVICES))


def test_every_column_is_held_against_its_row():
    """Each number that is out of its row's range is refused with the name of the column."""
    planned = _planned()
    for column in COLUMNS:
        group, _, name = column.name.rpartition(".")
        if not group:
            continue
        owner = {"graph": planned.graph, "plan": planned, "storage": planned.storage}[group]
        for value in (column.least - 1, 1 << 31 if column.dtype == "int32" else 1 << 62):
            if not np.iinfo(column.dtype if column.dtype != "bool" else np.uint8).min <= value:
                continue
            values = np.array(getattr(owner, name)).astype(np.uint8 if column.dtype == "bool" else np.int64)
            values[-1] = value if column.dtype != "bool" else 2
            raw = values.astype(column.dtype if column.dtype != "bool" else np.uint8)
            data = bytearray(write_snapshot(planned))
            begin = _place(data, column.name)
            data[begin : begin + raw.nbytes] = raw.tobytes()
            with pytest.raises(DocumentError, match=f"column {column.name} "):
                read_snapshot(memoryview(data), parse_list(DEVICES))


def _place(data: bytearray, name: str) -> int:
    size = int.from_bytes(data[8:16], "little")
    return 16 + size + orjson.loads(data[16 : 16 + size])["columns"][name][2]


def test_damaged_bytes_are_refused_or_checked():
    """Every damage is told by a typed error, or leaves a plan that the checker accepts."""
    data, rng, devices = bytearray(write_snapshot(_planned())), np.random.default_rng(1), parse_list(DEVICES)
    for size in rng.integers(8, len(data), 30).tolist():
        with pytest.raises(GraphRuntimeError):
            read_snapshot(memoryview(data[:size]), devices)
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for at in rng.integers(16, len(data), rng.integers(1, 4)).tolist():
            damaged[at] = rng.integers(256)
        try:
            read_snapshot(memoryview(damaged), devices)
        except GraphRuntimeError:
            refused += 1
    assert refused > 100
