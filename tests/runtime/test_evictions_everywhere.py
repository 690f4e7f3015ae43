"""Whatever needs room in L1 gets it from idle tensors: runs of sessions, eager operations, torch, what is
loaded. What a caller puts into L1 by name moves no other."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import DeviceMemoryError, GraphBuilder, eager
from graph_runtime.base.machine.layout import Layout
from graph_runtime.compat import ttnn
from graph_runtime.run.queues.buffer import Buffer

DRAM, L1 = Layout("dram", "tile", "f32"), Layout("l1", "tile", "f32")
TILE, ROOM = 4096, 1_395_424  # bytes of a tile and of one core's L1
SHAPE = (32 * 8, 2048)  # 8 tiles of each bank


@pytest.fixture(autouse=True)
def nothing_left(settle):
    """What earlier tests dropped is no longer in L1."""
    gc.collect()
    settle("tt:0")


@pytest.fixture
def fill():
    """A function that fills the lower end of tt:0's L1 with tensors, of which number i is full of i: a block
    that does not move has the upper end. At the end they have their values still."""
    made, tiles = [], 16
    held = Buffer.alloc(rt.open_device("tt:0").handle, 1, ROOM - 100 * TILE, "upper end", lasting=True)

    def fill():
        nonlocal tiles
        while tiles:
            try:
                made.append(gr.scatter([np.full((32 * tiles, 2048), len(made), np.float32)], "tt:0", L1)[0])
            except DeviceMemoryError:
                tiles //= 2
        return made

    yield fill
    assert all((tensor.numpy() == i).all() for i, tensor in enumerate(made))
    held.free()


@pytest.fixture
def full(fill):
    return fill()


def program(layouts=None, **options):
    """exp(exp(a) @ b), ready but for the room that it needs: a function that makes it."""
    builder = GraphBuilder()
    a, b = builder.input("a", (64, 64)), builder.param("b", np.eye(64, dtype=np.float32))
    builder.output(builder.op("exp", builder.op("matmul", builder.op("exp", a, name="inner"), b), name="out"))
    return lambda: gr.create(builder, None, "tt:0", layouts=layouts or {}, **options)


A = np.zeros((64, 64), np.float32)
WANTED = np.exp(np.eye(64) + (1 - np.eye(64)))


def run(make):
    module = make()
    module.run(a=A)
    return module.get_output(0).numpy()


def queued(make):
    return make().run_async(a=A).outputs[0].numpy()


def given_a_tensor(make):
    return make().run_async(a=gr.scatter([A], "tt:0", DRAM)[0]).outputs[0].numpy()


WAYS = {
    "run": (run, {}),
    "run, of threads": (run, {"queues": "threads"}),
    "run, in L1": (run, {"layouts": {"inner": "l1", "out": "l1"}}),
    "run, a constant in L1": (run, {"layouts": {"b": "l1"}}),
    "run_async": (queued, {}),
    "run_async, in L1": (queued, {"layouts": {"a": "l1", "inner": "l1", "out": "l1"}}),
    "run_async, of a tensor": (given_a_tensor, {"layouts": {"a": "l1"}}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_gets_the_room_of_idle_tensors(full, way):
    function, options = WAYS[way]
    with gr.stats() as counted:
        np.testing.assert_allclose(function(program(**options)), WANTED, rtol=1e-2)
    assert counted.count("eviction", "tt:0") >= 1
    assert counted.count("fallback") == 0
    assert any(tensor.layout.memory == "l1" for tensor in full)  # the fewest bytes


def test_a_module_that_was_made_before_gets_it_too(fill):
    module = program()()
    fill()
    for evictions in (True, False):  # once is enough
        with gr.stats() as counted:
            module.run(a=A)
            module.run_async(a=A).wait()
        np.testing.assert_allclose(module.get_output(0).numpy(), WANTED, rtol=1e-2)
        assert (counted.count("eviction") > 0) == evictions


def test_an_output_that_is_given_stays_where_it_is():
    """The lowest block of L1, in the way of circular buffers, is what the run writes."""
    module = program(layouts={"out": "l1"})()
    handle = rt.open_device("tt:0").handle
    above = Buffer.alloc(handle, 1, handle.stats(1).largest_free // 16 * 16 - TILE, "someone", lasting=True)
    out = gr.empty((64, 64), "float32", "tt:0", L1)
    above.free()
    with gr.stats() as counted, pytest.raises(DeviceMemoryError, match="circular buffers"):
        module.run_async(a=A, out=[out])
    assert counted.count("eviction") == 0
    assert out.layout == L1
    out = gr.empty((64, 64), "float32", "tt:0", L1)  # far up
    module.run_async(a=A, out=[out])
    np.testing.assert_allclose(out.numpy(), WANTED, rtol=1e-2)


def test_eager_operations_get_it(full):
    x = gr.scatter([np.ones((64, 64), np.float32)], "tt:0", DRAM)[0]
    with gr.stats() as counted, eager.strict():
        made = x @ x
        assert (made.numpy() == 64).all()
        assert ((full[0] + full[0]).numpy() == 0).all()
    assert counted.count("eviction") >= 1


def test_inputs_that_are_in_the_way_themselves_move(full):
    lowest = min(full, key=lambda tensor: tensor.buffer.addr)
    value = lowest.numpy().flat[0]
    with gr.stats() as counted, eager.strict():
        assert ((lowest + lowest).numpy() == 2 * value).all()
    assert counted.count("eviction") >= 1
    assert lowest.layout.memory == "dram"


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_torch_s_operations_and_programs_get_it(full, compiled):
    torch = pytest.importorskip("torch")
    import graph_runtime.torch as tt

    x = torch.ones(64, 64, device="tt")
    function = torch.compile(lambda a: (a @ a).relu(), backend="tt") if compiled else lambda a: a @ a
    with gr.stats() as counted, tt.no_fallback():
        assert function(x).cpu().eq(64).all()
    assert counted.count("eviction") >= 1
    assert counted.count("h2d") == counted.count("fallback") == 0


def test_what_is_put_into_l1_by_name_moves_no_other(full):
    x = gr.scatter([np.ones(SHAPE, np.float32)], "tt:0", DRAM)[0]
    with gr.stats() as counted:
        for ask in (
            lambda: x.to(layout=L1),
            lambda: gr.empty(SHAPE, "float32", "tt:0", L1),
            lambda: gr.scatter([np.ones(SHAPE, np.float32)], "tt:0", L1),
        ):
            with pytest.raises(DeviceMemoryError, match="held per bank by: "):
                ask()
    assert counted.count("eviction") == 0


def test_ttnn_s_functions_have_the_room_of_a_card(full):
    x = ttnn.ones((64, 64), ttnn.float32, ttnn.TILE_LAYOUT, ttnn.open_device(device_id=0))
    with gr.stats() as counted, pytest.raises(RuntimeError, match="Out of Memory"):
        ttnn.matmul(x, x)
    assert counted.count("eviction") == 0


def test_what_no_eviction_helps_is_refused_at_once():
    """Memory that does not move takes all of L1."""
    device = rt.open_device("tt:0")
    held = Buffer.alloc(device.handle, 1, ROOM - TILE, "someone", lasting=True)
    x = gr.scatter([np.ones((64, 64), np.float32)], "tt:0", DRAM)[0]
    with pytest.raises(DeviceMemoryError, match="circular buffers"):
        run(program())
    with pytest.raises(DeviceMemoryError, match="circular buffers"):
        queued(program())
    with gr.stats() as counted:
        assert ((x @ x).numpy() == 64).all()
    assert counted.count("fallback") == 1
    held.free()


# **************** threads ****************


def put(value, layout):
    """A tensor full of a value, in L1 where there is room."""
    try:
        return gr.scatter([np.full(SHAPE, value, np.float32)], "tt:0", layout)[0]
    except DeviceMemoryError:
        return put(value, DRAM)


def steps(rng, modules, count):
    """Runs, donations, writes and eager operations on tensors that others evict: each value is right."""
    mine = []
    for _ in range(count):
        value, layouts = int(rng.integers(100)), [L1 if rng.random() < 0.5 else DRAM for _ in range(2)]
        x, one = put(value, layouts[0]), put(1, layouts[1])
        alias, donate = x.alias(), [(), ("a",), ("a", "b")][rng.integers(3)]
        module = modules[rng.integers(len(modules))]
        try:
            (out,) = module.session.submit({"a": x, "b": one}, donate=donate).outputs
        except DeviceMemoryError:  # others have their tensors there just now
            assert (x.numpy() == value).all()
            continue
        mine.append((value + 1, out))
        assert (alias.numpy() == value).all()
        at = int(rng.integers(len(mine)))
        wanted, tensor = mine[at]
        assert ((tensor + tensor).numpy() == 2 * wanted).all()
        tensor.copy_from(np.full(SHAPE, value, np.float32))
        mine[at] = value, tensor
        del mine[:-6]
    assert all((tensor.numpy() == value).all() for value, tensor in mine)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_threads_run_donate_and_write_while_all_evict(seed):
    held = Buffer.alloc(rt.open_device("tt:0").handle, 1, ROOM - 180 * TILE, "upper end", lasting=True)
    builder = GraphBuilder()
    inner = builder.op("add", builder.input("a", SHAPE), builder.input("b", SHAPE), name="inner")
    builder.output(builder.op("relu", inner, name="out"))
    wishes = ({}, {"a": "l1", "out": "l1"}, {"a": "l1", "b": "l1", "inner": "l1"})
    modules = [gr.create(builder, None, "tt:0", layouts=layouts) for layouts in wishes]
    with gr.stats() as counted, ThreadPoolExecutor() as pool:
        rngs = [np.random.default_rng([seed, thread]) for thread in range(4)]
        for done in [pool.submit(steps, rng, modules, 25) for rng in rngs]:
            done.result()
    assert counted.count("eviction") > 0
    held.free()
