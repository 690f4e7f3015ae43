"""gr.stats() counts each movement once, in every way of running, with the bytes that shapes predict."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder, KernelError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle
from graph_runtime.run.tensors.traffic import MOVEMENTS

SHAPE, BYTES = (40, 64), 40 * 64 * 4
WIDE = (9600, 512)  # 307,200 bytes in each of the 64 banks of L1, which have 1,395,424
TILE, ROWS, L1 = (
    Layout(*words) for words in (("dram", "tile", "f32"), ("dram", "row_major", "f32"), ("l1", "tile", "f32"))
)


def moved(counted):
    """{kind and device: (count, bytes)} of movement, without causes and submissions."""
    return {
        f"{kind} {device}": (count, nbytes)
        for kind, device, count, nbytes in counted.rows()
        if kind in MOVEMENTS
    }


def mixed():
    """tanh on tt:0 between two nodes on the host: two copies inside of the graph."""
    builder = GraphBuilder()
    x = builder.op("negative", builder.input("x", SHAPE), device="cpu:0", name="first")
    builder.output(builder.op("relu", builder.op("tanh", x, device="tt:0"), device="cpu:0"))
    return builder


def across():
    """The host, tt:0, tt:1, the host."""
    builder = GraphBuilder()
    x = builder.op("tanh", builder.op("negative", builder.input("x", SHAPE), device="cpu:0"), device="tt:0")
    builder.output(builder.op("negative", builder.op("exp", x, device="tt:1"), device="cpu:0"))
    return builder


def at_input():
    """An input on the host that only tt:0 reads: its copy is made when it is set."""
    builder = GraphBuilder()
    x = builder.input("x", SHAPE, device="cpu:0")
    builder.output(builder.op("relu", builder.op("tanh", x, device="tt:0"), device="cpu:0"))
    return builder


THERE_AND_BACK = {"h2d tt:0": (1, BYTES), "d2h tt:0": (1, BYTES)}
ACROSS = {"h2d tt:0": (1, BYTES), "d2d tt:1": (1, BYTES), "d2h tt:1": (1, BYTES)}
DEVICES = ["cpu:0", "tt:0", "tt:1"]


@pytest.fixture
def x(randn):
    return randn(*SHAPE)


@pytest.fixture(params=["inline", "threads"])
def load(request):
    """Modules of graphs, run in the caller's thread or by queues."""
    return lambda builder: gr.create(builder, None, DEVICES, queues=request.param)


# **************** programs ****************


@pytest.mark.parametrize(("graph", "wanted"), [(mixed, THERE_AND_BACK), (across, ACROSS)])
def test_run_counts_the_copies_of_its_graph(load, x, graph, wanted):
    mod = load(graph())
    mod.set_input("x", x)
    for _ in range(3):
        with gr.stats() as counted:
            mod.run()
        assert moved(counted) == wanted


@pytest.mark.parametrize(
    ("graph", "wanted"), [(mixed, THERE_AND_BACK), (across, ACROSS), (at_input, THERE_AND_BACK)]
)
def test_run_async_and_submit_count_when_they_are_queued(load, x, graph, wanted):
    mod = load(graph())
    with gr.stats() as counted:
        runs = [mod.run_async(x=x) for _ in range(5)]
    queued = moved(counted)
    for run in runs:
        run.wait()
    assert queued == {kind: (5 * count, 5 * nbytes) for kind, (count, nbytes) in wanted.items()}
    with gr.stats() as counted:
        mod.session.submit({0: gr.eager.array(x, device="cpu:0")}).wait()
    assert moved(counted) == wanted


def test_set_input_counts_its_copy_and_run_the_others(load, x):
    mod = load(at_input())
    with gr.stats() as counted:
        mod.set_input("x", x)
    assert moved(counted) == {"h2d tt:0": (1, BYTES)}
    for _ in range(2):
        with gr.stats() as counted:
            mod.run()
        assert moved(counted) == {"d2h tt:0": (1, BYTES)}


def test_an_input_and_an_output_on_the_device(x):
    builder = GraphBuilder()
    builder.output(builder.op("tanh", builder.input("x", SHAPE)))
    mod = gr.create(builder, None, ["tt:0"])
    with gr.stats() as counted:
        mod.run(x=x)
        mod.get_output(0).numpy()
    assert moved(counted) == THERE_AND_BACK


def test_relayouts_inside_of_a_program_are_conversions(x):
    """What the plan converts is counted with every run, and only that."""
    builder = GraphBuilder()
    tanh = builder.op("tanh", builder.input("x", SHAPE), name="t")
    builder.output(builder.op("relu", builder.op("reshape", tanh, shape=(64, 40))))
    mod = gr.create(builder, None, ["tt:0"])
    graph = mod.session.plan.graph
    copies = [
        nid
        for nid in range(graph.num_nodes)
        if graph.func_id[nid] >= 0 and graph.funcs[graph.func_id[nid]].name == "__copy"
    ]
    assert copies
    mod.set_input("x", x)
    with gr.stats() as counted:
        mod.run()
    assert moved(counted) == {"conversion tt:0": (len(copies), len(copies) * BYTES)}


def test_a_bundle_s_program_counts_once_a_submission(new_bundle, device, x):
    bundle = new_bundle({"mixed": at_input()}, devices=("cpu:0", "tt:0"))
    host = rt.create_owned_host_tensor(x)
    with rt.stats() as counted:
        for _ in range(3):
            rt.submit(device, bundle, "mixed", [host])
    assert moved(counted) == {"h2d tt:0": (3, 3 * BYTES), "d2h tt:0": (3, 3 * BYTES)}
    assert counted.count("submit", "tt:0") == 3


def test_what_was_refused_is_not_counted(load, x):
    mod = load(mixed())
    with gr.stats() as counted, pytest.raises(gr.InputError):
        mod.run_async(x=x[:3])
    assert moved(counted) == {}


# **************** tensors ****************


def test_gather_and_scatter(x):
    with gr.stats() as counted:
        tensors = gr.scatter([x] * 7, "tt:1")
    assert moved(counted) == {"h2d tt:1": (7, 7 * BYTES)}
    with gr.stats() as counted:
        gr.gather([*tensors, *gr.scatter([x], "cpu:0")])
        tensors[0].numpy()
    assert moved(counted) == {"d2h tt:1": (8, 8 * BYTES)}


def test_moves_of_one_tensor(x):
    (start,) = gr.scatter([x], "tt:0", TILE)
    steps = [
        ("conversion tt:0", lambda: start.to(layout=ROWS)),
        ("d2d tt:1", lambda: start.to("tt:1")),
        ("d2h tt:0", lambda: start.to("cpu:0")),
        ("conversion tt:0", lambda: start.to(layout=L1)),
        ("copy tt:0", lambda: start.__deepcopy__({})),
        ("h2d tt:0", lambda: start.copy_from(x)),
    ]
    for wanted, step in steps:
        with gr.stats() as counted:
            step()
        assert moved(counted) == {wanted: (1, BYTES)}
    with gr.stats() as counted:
        gr.eager.array(x, device="cpu:0").to("cpu:1").to("cpu:0")
    assert moved(counted) == {}  # host memory to host memory


def test_bytes_are_those_of_values_whatever_the_device_stores(x):
    with gr.stats() as counted:
        (small,) = gr.scatter([x], "tt:0", Layout("dram", "tile", "bfp8_b"))
        small.to(layout=TILE)
        gr.scatter([np.zeros((0, 5), np.float32)], "tt:0")
        gr.scatter([np.ones((3, 5), np.int16)], "tt:1")
    assert moved(counted) == {"h2d tt:0": (1, BYTES), "conversion tt:0": (1, BYTES), "h2d tt:1": (1, 30)}


def test_eager_operations_count_what_they_convert(x):
    a, b = gr.scatter([x], "tt:0", TILE)[0], gr.scatter([x], "tt:0", ROWS)[0]
    with gr.stats() as counted:
        c = gr.eager.tanh(a + b)
    assert moved(counted) == {}  # kernels read both layouts
    with gr.stats() as counted:
        d = c.reshape(64, 40)
        e = gr.eager.tanh(b).reshape(64, 40)
    assert moved(counted) == {"conversion tt:0": (2, 2 * BYTES)}  # elements change their tiles
    assert np.allclose(d.numpy(), np.tanh(x + x).reshape(64, 40), atol=1e-6)
    with gr.stats() as counted:
        np.sum(e).item()
    assert counted.bytes("d2h") == 4


def test_an_eviction_is_one_conversion(new_bundle, device, output_in_l1):
    builder = GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", WIDE)))
    bundle = new_bundle({"main": builder}, edit=output_in_l1)
    given = rt.create_empty_tensor(WIDE, "float32", device, TILE)
    idle = [rt.create_empty_tensor(WIDE, "float32", device, L1) for _ in range(2)]
    for tensor in idle:
        tensor.copy_from(np.ones(WIDE, np.float32))  # "unused" leaves what nothing was written to
    with rt.stats() as counted:
        rt.submit(device, bundle, "main", [given], evict="unused")
    nbytes = 4 * WIDE[0] * WIDE[1]
    assert moved(counted) == {"conversion tt:0": (2, 2 * nbytes)}
    assert counted.bytes("eviction", "tt:0") == 2 * nbytes
    assert [t.layout.memory for t in idle] == ["dram", "dram"]


def test_a_mismatch_and_a_rescue_are_one_copy_each(chain, device, randn):
    a, b = (rt.to_device(rt.create_owned_host_tensor(randn(64, 128)), device, lay) for lay in (ROWS, TILE))
    with rt.stats() as counted:
        rt.submit(device, chain, "add", [a, b])
    assert moved(counted) == {"conversion tt:0": (1, 64 * 128 * 4)}
    assert counted.bytes("mismatch") == 64 * 128 * 4


def test_torch_copies(x):
    torch = pytest.importorskip("torch")
    import graph_runtime.torch as tt

    assert tt
    host = torch.from_numpy(x.copy())
    with gr.stats() as counted:
        there = host.to("tt")
    assert moved(counted) == {"h2d tt:0": (1, BYTES)}
    with gr.stats() as counted:
        beside = there.to("tt:1")
        back = beside.cpu()
    assert moved(counted) == {"d2d tt:1": (1, BYTES), "d2h tt:1": (1, BYTES)}
    assert torch.equal(back, host)


# **************** counters ****************


def test_a_device_that_was_closed_stays_in_the_counts(x):
    from graph_runtime.base.machine.devices import parse

    with gr.stats() as counted:
        with DeviceHandle(parse("tt:3")) as handle:
            arg = core.tensor_arg(handle.alloc(0, 1 << 16, "test"), "float32", SHAPE, ROWS)
            core.copy(None, core.host_arg(x), handle, arg)
        with DeviceHandle(parse("tt:3")) as handle:
            arg = core.tensor_arg(handle.alloc(0, 1 << 16, "test"), "float32", SHAPE, ROWS)
            core.copy(None, core.host_arg(x), handle, arg)
    assert moved(counted) == {"h2d tt:3": (2, 2 * BYTES)}


def test_a_copy_that_fails_is_not_counted(x):
    from graph_runtime.base.machine.devices import parse

    with DeviceHandle(parse("tt:3")) as handle, gr.stats() as counted:
        arg = core.tensor_arg(0, "float32", SHAPE, ROWS)
        with pytest.raises((gr.DeviceError, KernelError)):
            core.copy(None, core.host_arg(x), handle, arg)
    assert moved(counted) == {}
