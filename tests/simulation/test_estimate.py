"""Estimates of boards: what bounds a node follows from its parts; what does not fit is said."""

from __future__ import annotations

import math

import pytest

from graph_runtime import GraphBuilder
from graph_runtime.base.machine.devices import parse
from graph_runtime.base.machine.layout import Layout
from graph_runtime.costs.tt import tt_limits, tt_node_cost
from graph_runtime.ir.graph import Func, TensorType
from graph_runtime.ir.ops import registry
from graph_runtime.plan import plan
from graph_runtime.simulation.estimate import bounds, compare_boards, estimate
from graph_runtime.simulation.simulation import simulate


def _limits(op, shapes, board="n150", memory="dram", format="bf16", **attrs):
    entry, descriptor = registry.require(op), parse(f"tt:0={board}").descriptor
    attrs, types = entry.decode(attrs), tuple(TensorType("float32", shape) for shape in shapes)
    made = tuple(entry.infer(list(types), attrs))
    func, layouts = Func("f", op, attrs, len(types), 1), (Layout(memory, "tile", format),) * (len(types) + 1)
    cost = tt_node_cost(func, types, made, layouts, descriptor).cycles * descriptor.clock_mhz / 1000
    return tt_limits(func, types, made, layouts, descriptor), cost


@pytest.mark.parametrize(
    ("op", "shapes", "options", "bound"),
    [
        ("matmul", [(4096, 4096), (4096, 4096)], {}, "math"),
        ("matmul", [(32, 8192), (8192, 32000)], {"format": "bfp8_b"}, "DRAM"),
        ("add", [(4096, 4096), (4096, 4096)], {}, "DRAM"),
        ("softmax", [(64, 512)], {"memory": "l1"}, "math"),
    ],
)
def test_what_bounds_a_kernel(op, shapes, options, bound):
    limits, _ = _limits(op, shapes, **options)
    assert max(limits, key=limits.__getitem__) == bound


@pytest.mark.parametrize("board", ["n150", "p150", "e150"])
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("matmul", [(512, 1024), (1024, 2048)]),
        ("matmul", [(1, 4096), (4096, 4096)]),
        ("dense", [(64, 512), (256, 512)]),
        ("relu", [(8, 4096)]),
        ("softmax", [(256, 1024)]),
        ("matmul", [(16, 128, 64), (16, 64, 128)]),
    ],
)
def test_no_part_takes_longer_than_the_whole(board, op, shapes):
    limits, cost = _limits(op, shapes, board)
    assert 0 < max(limits.values()) <= cost * 1.01
    assert all(math.isfinite(value) and value >= 0 for value in limits.values())


def _network(width: int) -> GraphBuilder:
    b = GraphBuilder()
    x = b.input("x", (32, width))
    y = b.op("matmul", x, b.param("w", (width, width)), name="product")
    b.output(b.op("relu", y, name="act"))
    return b


def test_copies_are_bound_by_pcie_and_tiny_ops_by_dispatch():
    planned = plan(_network(1024).build(), ["cpu:0", "tt:0"], place={"product": "tt:0"})
    found = {planned.graph.names[nid]: bound for nid, bound in bounds(simulate(planned)).items()}
    assert found.pop("act") == "host"
    assert found.pop("product") in ("math", "NoC", "DRAM", "dispatch")
    assert set(found.values()) == {"PCIe"}
    tiny = plan(_network(32).build(), ["tt:0"])
    assert bounds(simulate(tiny, traced=False))[tiny.graph.names.index("act")] == "dispatch"


def test_boards_side_by_side_and_one_that_is_too_small():
    graph = _network(16384).build()  # 1 GiB of float32 in one matrix
    small, large = compare_boards(
        lambda board: plan(graph, [f"tt:0={board}"], formats={"tt": "f32" if board == "e150" else "bfp8_b"}),
        ["e150", "p150"],
    )
    assert large.fits
    assert large.latency_ns > 0
    assert large.throughput >= 0.9e9 / large.latency_ns
    assert large.nodes[0]["name"] == "product"
    for row in (*small.memories, *large.memories):
        assert row["needed"] > 0
    whole = plan(graph, ["tt:0=p150"], formats={"tt": "bfp8_b"})
    assert estimate(whole).memories[0]["needed"] == whole.peak[0, 0]
    (huge,) = compare_boards(lambda board: plan(_network(1 << 17).build(), [f"tt:0={board}"]), ["n150"])
    assert not huge.fits
    assert "Out of Memory" in huge.problem
    assert huge.memories[0]["needed"] > huge.memories[0]["available"]
    assert huge.as_dict()["latency_ns"] is None
