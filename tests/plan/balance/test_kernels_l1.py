"""What kernels open of a core's L1 is what their op model says, and no number depends on it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError
from graph_runtime.base.machine.devices import parse
from graph_runtime.binding import circular
from graph_runtime.plan import plan
from graph_runtime.plan.balance import BALANCER_POLICIES
from graph_runtime.plan.supports import circular_room

pytestmark = pytest.mark.core

BOARD = "tt:0=e150"
LEAST = 65_536  # bytes that a kernel opens for its floats where the op model has fewer
FOLLOW = ("matmul", "dense", "conv2d", "add", "subtract", "multiply")
OTHERS = [p for p in BALANCER_POLICIES if p != "optimal"]
CONVOLUTIONS = [
    ((1, 256, 34, 56), (40, 256, 1, 1), {}),  # of the kind that ResNet-50 was refused for
    ((1, 33, 40, 56), (34, 33, 3, 3), {"pads": (1,) * 4}),
    ((2, 3, 100, 70), (40, 3, 7, 7), {"pads": (3,) * 4, "strides": (2, 2)}),
    ((1, 3, 112, 112), (24, 3, 16, 16), {"strides": (16, 16)}),
    ((1, 32, 30, 33), (32, 4, 3, 3), {"group": 8, "dilations": (6, 2), "pads": (6, 2, 6, 2)}),
    ((1, 96, 14, 14), (96, 1, 5, 5), {"group": 96, "pads": (2,) * 4}),
]


def convolution(x, w, attrs, bias=True):
    b = gr.GraphBuilder(device="tt:0")
    more = [b.param("b", w[:1])] if bias else []
    b.output(b.op("conv2d", b.input("x", x), b.param("w", w), *more, name="y", **attrs))
    return gr.load_graph(b.to_json())


def with_l1(planned, l1_bytes, u_kt):
    nid = planned.graph.names.index("y")
    model = SimpleNamespace(
        grid=(4, 2), t=1, dir="R", mblock=(1, 2), ublock=(1, 1), u_kt=u_kt, l1_bytes=l1_bytes
    )
    ids = np.where(np.arange(planned.graph.num_nodes) == nid, 0, -1).astype(np.int32)
    return replace(planned, models=(model,), model_id=ids), nid


@pytest.mark.parametrize("stored", ["bf16", "bfp8_b"])
@pytest.mark.parametrize(("x", "w", "attrs"), CONVOLUTIONS, ids=lambda v: "x".join(map(str, v)) or None)
def test_a_convolution_in_less_l1_has_the_same_bits(x, w, attrs, stored):
    """In bfp8_b sums that leave Dst are rounded: where, is the op model's, however little L1 there is."""
    rng = np.random.default_rng(0)
    values = {"x": x, "w": w, "b": w[:1]}
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in values.items()}
    planned = plan(
        convolution(x, w, attrs), [BOARD], formats={"tt": stored}, numerics={"tt": {"dst": "bf16"}}
    )
    results = []
    for l1_bytes in (0, 200_000, 60_000, 20_000):
        chosen, nid = with_l1(planned, l1_bytes, u_kt=2)
        opens = int(circular.of_plan(chosen)[nid])
        assert opens == l1_bytes or l1_bytes == 0 or l1_bytes < opens <= LEAST
        module = gr.create(chosen)
        for name, value in values.items():
            module.set_input(name, value)
        module.run()
        results.append(module.get_output(0).numpy().copy())
    assert np.abs(results[0]).max() > 1
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def network():
    """A stem, a bottleneck and a head: a product, sums and convolutions in one graph."""
    b = gr.GraphBuilder()
    op = b.op

    def conv(x, cin, cout, k, stride=1, name=None):
        w = b.param(name or f"w{cin}x{cout}x{k}", (cout, cin, k, k), "bfloat16")
        return op("conv2d", x, w, pads=(k // 2,) * 4, strides=(stride,) * 2)

    h = op("relu", conv(b.input("x", (1, 3, 224, 224), "bfloat16"), 3, 64, 7, 2))
    h = op("max_pool2d", h, kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4)
    h = conv(h, 64, 256, 1)
    y = conv(op("relu", conv(op("relu", conv(h, 256, 64, 1)), 64, 64, 3)), 64, 256, 1, name="last")
    h = op("reshape", op("global_avg_pool2d", op("relu", op("add", h, y))), shape=(1, 256))
    b.output(op("dense", h, b.param("fc", (1000, 256), "bfloat16")))
    return gr.load_graph(b.to_json())


@pytest.mark.parametrize("stored", ["bf16", "bfp8_b"])
@pytest.mark.parametrize("policy", OTHERS)
def test_kernels_open_what_their_op_model_says(policy, stored):
    made = circular.planned(plan(network(), [BOARD], policy=policy, formats={"tt": stored}))
    checked = 0
    for nid in np.flatnonzero(made.model_id >= 0).tolist():
        if made.graph.node(nid).op in FOLLOW:
            said, opens = made.models[made.model_id[nid]].l1_bytes, int(made.circular[nid])
            assert opens == said or said < opens <= LEAST, made.graph.names[nid]
            checked += 1
    assert checked >= 5


def test_op_models_are_made_for_the_room_beside_tensors():
    """A tensor in L1 leaves a convolution fewer models, the same room that the capacity check sees."""
    b = gr.GraphBuilder(device="tt:0")
    kept = b.op("relu", b.input("x", (1600, 1600)), name="kept")
    y = b.op("matmul", kept, b.param("w", (1600, 1600)), name="y")
    b.output(b.op("add", y, kept))
    graph = gr.load_graph(b.to_json())
    room = circular_room(parse(BOARD))
    words = {"policy": "minimize_grid", "formats": {"tt": "bf16"}}
    free = circular.planned(plan(graph, [BOARD], **words))
    tight = circular.planned(plan(graph, [BOARD], layouts={"kept": "l1"}, **words))
    (taken,) = (size for (_, memory), size in tight.peak.items() if memory == 1)
    most = [max(p.models[i].l1_bytes for i in p.model_id if i >= 0) for p in (free, tight)]
    assert 0 < taken < room
    assert most[1] <= room - taken < most[0]


def test_tensors_that_leave_no_room_are_named():
    b = gr.GraphBuilder(device="tt:0")
    b.output(b.op("relu", b.input("x", (5760, 5792), "bfloat16"), name="kept"))
    b.output(b.op("matmul", b.input("a", (32, 32), "bfloat16"), b.param("w", (32, 32), "bfloat16"), name="y"))
    with pytest.raises(CapacityError, match=r"node 'kept' .*in L1, where the plan's tensors take \d+: keep"):
        plan(gr.load_graph(b.to_json()), [BOARD], policy="nlp", layouts={"kept": "l1"})
