"""node_cost and copy_cost: every op of the registry on every device, every pair of places."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, replace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import costs
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.machine.shards import Shard
from graph_runtime.costs import cpu
from graph_runtime.ir.graph import Func, TensorType
from graph_runtime.ir.ops import all_ops
from graph_runtime.ir.ops.products.packed import grouped_panel_type
from graph_runtime.ir.ops.work import tiles_of

BOARDS = ("n150", "n300", "p150", "e150", "wormhole_b0", "wormhole_b0/buda")
HOST = Layout("host", "row_major", "f32")
DRAM = Layout("dram", "tile", "bf16")
SHARDED = Layout("l1", "tile", "bf16", Shard("height", ((0, 0), (7, 0)), (32, 256)))
BLOCKS = Layout("l1", "tile", "bf16", Shard("block", ((0, 0), (1, 1)), (128, 128)))
TENSOR = TensorType("float32", (256, 256))


def graph_of(op, inputs, attrs):
    """A graph of one call, and the nid of that call."""
    builder = gr.GraphBuilder()
    given = [builder.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(inputs)]
    made = builder.op(op, *given, **attrs)
    builder.output(*(made if isinstance(made, tuple) else (made,)))
    graph = builder.build()
    return graph, graph.num_nodes - 1


def cost_on(device, op, inputs, attrs=None, layout=None):
    graph, nid = graph_of(op, inputs, attrs or {})
    at = layout or (HOST if device.descriptor.on_host else DRAM)
    outputs = graph.row_ptr[nid + 1] - graph.row_ptr[nid]
    return costs.node_cost(graph, nid, device, [at] * (len(inputs) + outputs))


@pytest.mark.parametrize("name", sorted(all_ops()))
def test_every_op_costs_something_on_every_device(name):
    op = all_ops()[name]
    for device in (devices.cpu(), *(devices.tt(0, b) for b in BOARDS[:4])):
        for case in op.cases[:2]:
            cost = cost_on(device, name, case.inputs, case.attrs)
            assert math.isfinite(cost.cycles)
            assert cost.cycles > 0 or op.is_nop
            assert cost.basis in costs.BASES
            assert cost.note
            assert cost == cost_on(device, name, case.inputs, case.attrs)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("op", ["exp", "add", "softmax", "matmul", "layer_norm"])
def test_larger_tensors_take_longer(board, op):
    def cost(n):
        count = {"add": 2, "matmul": 2}.get(op, 1)
        inputs = [("float32", (n, 1024 if op == "matmul" else 512))] * count
        if op == "layer_norm":
            inputs += [("float32", (512,))] * 2
        if op == "matmul":
            inputs[1] = ("float32", (1024, 512))
        return cost_on(devices.tt(0, board), op, inputs).cycles

    assert cost(512) < cost(8192) < cost(65536)


def test_every_op_has_a_pace_on_the_host():
    """Its entry in the op table says which, or its kind of work does: there is no other default."""
    known = {field.name for field in fields(cpu.Machine)}
    assert {name: cpu.pace_of(name) for name in all_ops() if cpu.pace_of(name) not in known} == {}


def test_a_reciprocal_takes_as_long_as_a_quotient():
    """Both divide; a product and a sum are quicker."""
    big = TensorType("float32", (1024, 1024))

    def pace(op, count):
        """ns a flop of its arithmetic, beyond what memory takes."""
        func = Func(op, op, {}, count, 1)
        slow_memory = replace(costs.machine(), gb_per_s=1e9, cached_gb_per_s=1e9)
        return cpu.cpu_node_cost(func, (big,) * count, (big,), slow_memory).cycles

    assert pace("reciprocal", 1) == pytest.approx(pace("divide", 2), rel=0.3)
    assert pace("multiply", 2) < pace("reciprocal", 1) / 2


def test_a_fidelity_shows():
    inputs = [("float32", (1024, 1024))] * 2
    low, high = (cost_on(devices.tt(0), "matmul", inputs, {"fidelity": f}).cycles for f in ("LoFi", "HiFi4"))
    assert low < high


def test_a_sharded_product_is_the_measured_one():
    found = cost_on(devices.tt(0), "matmul", [("float32", (256, 256))] * 2, layout=SHARDED)
    assert found.basis == "fitted"
    assert found.cycles == pytest.approx(costs.sharded_matmul_cycles(256, 256, 256, 8).cycles)


def test_an_image_is_counted_with_its_channels_last():
    assert tiles_of((1, 2048, 7, 7)) == 2 * 64
    assert tiles_of((2, 12, 64, 64)) == 2 * 12 * 4


def test_a_function_of_a_library_is_assumed_to_move_its_tensors():
    graph, nid = graph_of("add", [("float32", (512, 512))] * 2, {})
    mine = replace(graph, funcs=(Func("mine", None, {}, 2, 1),))
    for device, at in ((devices.cpu(), HOST), (devices.tt(0), DRAM)):
        cost = costs.node_cost(mine, nid, device, [at] * 3)
        assert cost.cycles > 0
        assert cost.basis == "assumed"


def test_the_host_can_be_another_machine():
    graph, nid = graph_of("matmul", [("float32", (256, 256))] * 2, {})
    slow = costs.Machine(1.0, 1.0, 1.0, 1.0, 100.0)
    at = [HOST] * 3
    assert costs.node_cost(graph, nid, devices.cpu(), at, host=slow).cycles == pytest.approx(100 + 2 * 256**3)


def test_weights_come_from_a_cache_only_where_all_of_a_graph_fit_into_it():
    graph, nid = graph_of("dense", [("float32", (1, 256)), ("float32", (256, 256))], {})
    host = costs.Machine(1e9, 1e9, 1e9, 1e9, 0.0, weight_gb_per_s=1.0, cached_gb_per_s=4.0)
    for cache, rate in ((4 * 257 * 256, 4), (4 * 257 * 256 - 1, 1)):
        host = replace(host, cache_bytes=cache)
        memory = costs.weights_from_memory(graph, host)
        cost = costs.node_cost(graph, nid, devices.cpu(), [HOST] * 3, host=host, from_memory=memory)
        assert cost.cycles == pytest.approx(4 * 256 * 256 / rate)


PLACES = {
    "host": (devices.cpu(), HOST),
    "dram": (devices.tt(0), DRAM),
    "rows": (devices.tt(0), Layout("dram", "row_major", "bf16")),
    "l1": (devices.tt(0), Layout("l1", "tile", "bf16")),
    "height": (devices.tt(0), SHARDED),
    "block": (devices.tt(0), BLOCKS),
    "other": (devices.tt(1), DRAM),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PLACES, PLACES)))
def test_every_copy_has_a_cost(source, target):
    cost = costs.copy_cost(*PLACES[source], *PLACES[target], TENSOR)
    assert cost.basis in costs.BASES
    large = costs.copy_cost(*PLACES[source], *PLACES[target], TensorType("float32", (512, 256)))
    assert 0 < cost.cycles <= large.cycles


def test_boards_without_ethernet_copy_through_the_host():
    e150 = [devices.tt(i, "e150") for i in (0, 1)]
    cost = costs.copy_cost(e150[0], DRAM, e150[1], DRAM, TENSOR)
    assert "host" in cost.note


def test_a_resident_op_waits_for_its_slowest_buffer():
    board = devices.tt(0, "e150").descriptor
    kernel = costs.modelled_node_cost(10_000, (), (16,), board)
    assert kernel.cycles == pytest.approx(10_000 / 1.2)
    bound = costs.modelled_node_cost(10_000, (1 << 20,), (), board)
    assert bound.cycles > kernel.cycles
    assert bound.basis == "extrapolated"
    assert costs.modelled_node_cost(10_000, (1 << 20,), (), board, readers=120).cycles > bound.cycles


def test_a_product_of_a_board_is_priced_by_the_formats_of_both_operands_and_of_its_result():
    """Of few rows the weight is what comes from DRAM."""
    graph, nid = graph_of("matmul", [("float32", (32, 4096)), ("float32", (4096, 4096))], {})

    def ns(*formats):
        layouts = [Layout("dram", "tile", fmt) for fmt in formats]
        return costs.node_cost(graph, nid, devices.tt(0), layouts)

    plain, small = ns("bf16", "bf16", "bf16"), ns("bf16", "bfp8_b", "bf16")
    assert small.cycles < 0.7 * plain.cycles
    assert small.basis == "extrapolated"
    assert ns("bf16", "bf16", "f32").cycles > plain.cycles


def test_a_product_of_a_host_is_priced_by_the_format_of_its_panels():
    attrs = {"packed": 4096}
    rows, columns = ("float32", (1, 4096)), (128, 4096, 32)

    def ns(dtype, shape, memory):
        graph, nid = graph_of("dense", [rows, (dtype, shape)], attrs)
        return costs.node_cost(graph, nid, devices.cpu(), [HOST] * 3, from_memory=memory).cycles

    plain, pairs = ns("float32", columns, True), ns("bfloat16", (128, 2048, 64), True)
    assert pairs == pytest.approx(plain / 2, rel=0.01)  # one row waits for its weights
    graph, nid = graph_of("dense", [rows, ("float32", (4096, 4096))], {})
    words = {"constant_weight": True, "from_memory": True}
    to_come = costs.node_cost(graph, nid, devices.cpu(), [HOST] * 3, stored="bf16", **words)
    assert to_come.cycles == pairs
    assert costs.node_cost(graph, nid, devices.cpu(), [HOST] * 3, **words).cycles == plain


def _ns(op, inputs, attrs, host):
    graph, nid = graph_of(op, inputs, attrs)
    layouts = [HOST] * (len(inputs) + graph.row_ptr[nid + 1] - graph.row_ptr[nid])
    return costs.node_cost(graph, nid, devices.cpu(), layouts, host=host).cycles


IMAGE = {"layout": "NHWC", "packed": 64, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
BYTES = [("uint8", (128, 768)), ("int8", (24, 194, 128)), ("uint8", ())]
PACED = {
    "quantized_gflops": ("quantized_dense", BYTES, {"packed": 768, "to": "int32"}),
    "levels_gflops": (
        "dense",
        [("float32", (128, 768)), ("uint8", (24, 24, 640))],
        {"packed": 768, "levels": (4, 32)},
    ),
    "quantized_depthwise_gflops": (
        "quantized_conv2d",
        [("uint8", (1, 28, 28, 64)), ("int8", (2, 5, 128)), ("uint8", ()), ("float32", (64,))],
        {**IMAGE, "group": 64, "to": "uint8"},
    ),
    "depthwise_gflops": (
        "conv2d",
        [("float32", (1, 28, 28, 64)), ("float32", (2, 9, 32))],
        {**IMAGE, "group": 64},
    ),
    "grouped_gflops": (
        "conv2d",
        [("float32", (1, 28, 28, 64)), ("float32", (2, 72, 32))],
        {**IMAGE, "group": 8},
    ),
    "function_gflops": ("sigmoid", [("float32", (128, 512))], {}),
    "scalar_gflops": ("sin", [("float32", (128, 512))], {}),
}


@pytest.mark.parametrize("pace", PACED)
def test_each_kind_of_product_goes_at_its_own_rate(pace):
    """Each rate of a machine moves the nodes that are priced by it, and no others."""
    rates = {field.name: 100.0 for field in fields(cpu.Machine) if field.name.endswith("gflops")}
    host = costs.Machine(**{**rates, "gb_per_s": 1e6, "call_ns": 0.0, "cached_gb_per_s": 1e6})
    before = {name: _ns(*case, host) for name, case in PACED.items()}
    after = {name: _ns(*case, replace(host, **{pace: 50.0})) for name, case in PACED.items()}
    assert after[pace] == pytest.approx(2 * before[pace], rel=0.02)  # but what its results cost
    assert {k: v for k, v in after.items() if k != pace} == {k: v for k, v in before.items() if k != pace}


def test_groups_that_share_panels_are_priced_with_the_zeros_between_them():
    """A panel of 32 columns has one group of 12, or two of 6 and zeros for each other's channels."""
    host = costs.Machine(1e9, 1e9, 1e9, 1e9, 0.0, packed_gflops=100.0, cached_gb_per_s=1e9)

    def ns(group):
        own = 96 // group
        inputs = [("float32", (1, 9, 9, 96)), ("float32", grouped_panel_type(96, own, 9, group).shape)]
        return _ns("conv2d", inputs, {**IMAGE, "packed": 96, "group": group}, host)

    assert ns(3) == pytest.approx(2 * 81 * 9 * 32 * 96 / 66)
    assert ns(8) == pytest.approx(2 * 81 * 9 * 12 * 8 * 32 / 66)
    assert ns(16) == pytest.approx(ns(8))


def test_products_of_pairs_are_priced_by_the_instructions_of_this_machine(monkeypatch):
    def rate(*features):
        monkeypatch.setattr(cpu, "host_features", lambda: frozenset(features))
        return cpu.machine.__wrapped__().paired_gflops

    assert rate() == rate("avx512f") < rate("avx512_bf16") < rate("avx512_bf16", "amx_bf16")
    least = rate()
    monkeypatch.setattr(cpu, "host_features", lambda: None)  # a system that does not say
    assert cpu.machine.__wrapped__().paired_gflops == least


def test_the_softmax_of_attention_goes_at_the_pace_of_functions():
    host = costs.Machine(1e9, 1e9, 10.0, 1e9, 0.0, packed_gflops=100.0)
    inputs = [("float32", (2, 64, 32))] * 3
    ns = _ns("attention", inputs, {"kernel": "attention_panels"}, host)
    assert ns == pytest.approx(2 * 64 * 64 * (4 * 32 / 100 + 8 / 10))


def test_results_of_products_of_bytes_are_scaled_and_rounded():
    """Where few products make many results, as 1 x 1 convolutions of few channels do, that is most of it."""
    host = costs.Machine(1e9, 10.0, 1e9, 1e9, 0.0, quantized_gflops=1e9, cached_gb_per_s=1e9)
    assert _ns(*PACED["quantized_gflops"], host) == pytest.approx(4 * 128 * 768 / 10.0, rel=1e-3)


@pytest.mark.core
def test_a_quantized_network_is_priced_as_what_it_becomes():
    """What a plan of the rewritten graph costs: products of bytes at theirs, not at float32's."""
    from graph_runtime.artifacts.prepare import prepare
    from graph_runtime.ir.model import Model

    builder = gr.GraphBuilder()
    known = {
        name: builder.param(name, np.asarray(value, dtype))
        for name, value, dtype in (
            ("s", 0.02, "float32"),
            ("z", 3, "uint8"),
            ("w", np.ones((768, 768)), "int8"),
            ("zw", 0, "int8"),
        )
    }
    x = builder.op("dequantize", builder.input("x", (256, 768), "uint8"), known["s"], known["z"])
    y = builder.op("dense", x, builder.op("dequantize", known["w"], known["s"], known["zw"]))
    builder.output(builder.op("quantize", y, known["s"], known["z"]))
    graph = prepare(Model.from_builder(builder), "cpu:0").plan.graph
    nid = graph.num_nodes - 1
    assert graph.node(nid).func.op == "quantized_dense"
    host = costs.machine()
    ns = costs.node_cost(graph, nid, devices.cpu(), [HOST] * 5, host=host).cycles
    flops = 2 * 256 * 768 * 768
    assert flops / host.quantized_gflops < ns < flops / host.packed_gflops / 1.5
