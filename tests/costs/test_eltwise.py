"""Times of ttnn's elementwise ops: what they follow from, and rows of a published report near them."""

from __future__ import annotations

import math

import pytest

from graph_runtime import costs
from graph_runtime.base.errors import PlanError
from graph_runtime.base.machine import devices
from graph_runtime.costs import eltwise
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.plan import plan

TILES = 4096 * 4096 // 1024

# us, least of ten samples: tt-eltwise-accuracy-report (Apache-2.0), 4096 x 4096, runs 20260903 and 20260920
MEASURED = {
    ("relu", 1, "wormhole_b0", "bf16"): 399.1,
    ("relu", 1, "blackhole", "f32"): 381.6,
    ("add_", 2, "wormhole_b0", "f32"): 989.8,
    ("multiply", 2, "blackhole", "bf16"): 277.4,
    ("addcmul", 3, "wormhole_b0", "bf16"): 679.2,
    ("acosh", 1, "wormhole_b0", "bf16"): 920.5,
    ("asinh", 1, "blackhole", "f32"): 582.3,
    ("logaddexp", 2, "wormhole_b0", "f32"): 1478.8,
    ("div_no_nan", 2, "blackhole", "bf16"): 722.8,
    ("multigammaln", 1, "wormhole_b0", "f32"): 20780.2,
    ("asin_bw", 2, "wormhole_b0", "bf16"): 7397.0,
}


def _us(op: str, inputs: int, arch: str, format: str, **more) -> float:
    cost = costs.eltwise_cycles(op, arch, tiles=TILES, inputs=inputs, format=format, **more)
    return cost.cycles / {"wormhole_b0": 1000, "blackhole": 1350}[arch]


@pytest.mark.parametrize(("row", "us"), MEASURED.items(), ids=lambda x: x[0] if isinstance(x, tuple) else "")
def test_rows_of_the_report(row, us):
    assert _us(*row) == pytest.approx(us, rel=0.15)


def test_more_bytes_and_more_blocks_take_longer():
    for arch in ("wormhole_b0", "blackhole"):
        for format in ("bf16", "f32"):
            unary, binary, ternary = (_us("abs", n, arch, format) for n in (1, 2, 3))
            assert unary < binary < ternary
            assert binary / unary < 1.5  # reads are cheaper than writes: 3 / 2 of the bytes
            assert _us("abs", 1, arch, format) < _us("exp", 1, arch, format) < _us("asinh", 1, arch, format)
            assert _us("add_", 2, arch, format) > _us("add", 2, arch, format)
        assert _us("erf", 1, arch, "f32") > _us("erf", 1, arch, "bf16") * 1.4  # longer code for 32 bits
        assert _us("abs", 1, arch, "bfp8_b") < _us("abs", 1, arch, "bf16")


def test_tiles_are_dealt_out_evenly():
    one, most, next_ = (costs.eltwise_cycles("erf", "wormhole_b0", tiles=n).cycles for n in (1, 64, 65))
    assert one <= most < next_
    twice = costs.eltwise_cycles("erf", "wormhole_b0", tiles=128).cycles
    assert next_ == pytest.approx(twice)
    few = costs.eltwise_cycles("erf", "wormhole_b0", tiles=TILES, cores=32).cycles
    assert few > 1.5 * costs.eltwise_cycles("erf", "wormhole_b0", tiles=TILES).cycles


def test_the_tables_name_what_there_is():
    names = {line[0] for line in eltwise._lines(eltwise._KERNELS)}
    for name in names:
        for wide in (False, True):
            assert eltwise.blocks_of(name, wide).keys() <= set(eltwise.BLOCKS)
            assert eltwise.blocks_of(name, wide)
    for name, *_ in eltwise._lines(eltwise._COMPOSITES):
        for program in (
            *eltwise.eltwise_programs(name, 1, False),
            *eltwise.eltwise_programs(name, 1, True),
        ):
            assert program.kind in eltwise.PROGRAMS
            assert not program.kernel or program.kernel in names, name
    assert eltwise.eltwise_programs("no_such_op", 2, False) == (
        eltwise.EltwiseProgram("binary", "no_such_op"),
    )


def test_what_is_not_known_is_said():
    assert costs.eltwise_cycles("exp", "wormhole_b0", tiles=1).basis == "fitted"
    assert costs.eltwise_cycles("exp", "wormhole_b0", tiles=1, format="bfp8_b").basis == "extrapolated"
    assert costs.eltwise_cycles("exp", "grayskull", tiles=1).basis == "assumed"
    with pytest.raises(PlanError, match="architecture"):
        costs.eltwise_cycles("exp", "x86", tiles=1)
    with pytest.raises(PlanError, match="bf17"):
        costs.eltwise_cycles("exp", "wormhole_b0", tiles=1, format="bf17")


def _node_cycles(op: str, count: int, board: str, format: str, **words) -> float:
    b = GraphBuilder(device="tt:0")
    xs = [b.input(f"x{i}", (4096, 4096)) for i in range(count)]
    b.output(b.op(op, *xs, name="node", device="tt:0"))
    planned = plan(b.build(), [f"tt:0={board}"], formats={"tt": format}, **words)
    nid = planned.graph.names.index("node")
    node = planned.graph.node(nid)
    layouts = tuple(planned.layout(eid) for eid in (*node.inputs, *node.outputs))
    return costs.node_cost(planned.graph, nid, planned.devices[0], layouts).cycles


def test_a_node_of_a_graph_costs_what_the_program_does():
    for board, arch in (("n150", "wormhole_b0"), ("p150", "blackhole")):
        for op, name, count in (("acosh", "acosh", 1), ("power", "pow", 2), ("addcmul", "addcmul", 3)):
            ns = _node_cycles(op, count, board, "bf16")
            assert ns / 1000 == pytest.approx(_us(name, count, arch, "bf16"), rel=1e-6)
    in_l1 = _node_cycles("abs", 1, "n150", "bf16", layouts={"*": "l1"})
    assert not math.isclose(in_l1, _node_cycles("abs", 1, "n150", "bf16"))
    assert devices.parse("tt:0=e150").descriptor.stack == "buda"
