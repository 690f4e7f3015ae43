"""Circular buffers and tensors share a core's L1: what planning refuses, what submit moves out of the way and
when it does not, and that no kernel ever meets a tensor where its circular buffers are."""

from __future__ import annotations

import threading
import time
from itertools import combinations

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle, write_prepared
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import CapacityError, DeviceMemoryError, GraphBuilder
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import circular, core
from graph_runtime.plan import plan
from graph_runtime.run.queues.blocks import blocks
from graph_runtime.run.queues.buffer import Buffer
from graph_runtime.run.tensors.eviction import Resident, cheapest
from graph_runtime.run.tensors.transfers import to

DRAM, L1 = Layout("dram", "tile", "f32"), Layout("l1", "tile", "f32")
BANKS, TILE = 64, 4096
ROOM = 1_395_424  # bytes of one core's L1


@pytest.fixture(autouse=True)
def nothing_left(settle):
    """What earlier tests dropped is no longer in L1."""
    settle("tt:0")


def tensor(device, fill, layout=L1, rows=TILE // 128 * 75):
    """A tensor of ``rows`` x 2048 values; 2048 columns of 32 rows take one tile of each bank."""
    return rt.to_device(rt.create_owned_host_tensor(np.full((rows, 2048), fill, np.float32)), device, layout)


def fill_l1(device, least=1):
    """Tensors of shrinking sizes until no more fits; number i is full of i."""
    made, tiles = [], 64
    while tiles >= least:
        try:
            made.append(tensor(device, len(made), rows=32 * tiles))
        except DeviceMemoryError:
            tiles //= 2
    return made


def holds(tensors):
    return all((t.numpy() == i).all() for i, t in enumerate(tensors))


@pytest.fixture(scope="module")
def mm(tmp_path_factory):
    """x @ y of [256, 256]."""
    builder = GraphBuilder()
    x, y = builder.input("x", (256, 256)), builder.input("y", (256, 256))
    builder.output(builder.op("matmul", x, y, name="mm"))
    path = build_bundle({"mm": builder}, "tt:0", tmp_path_factory.mktemp("b") / "mm", compile=False)
    return rt.load_bundle(path)


@pytest.fixture
def x(device):
    return rt.to_device(rt.create_owned_host_tensor(2 * np.eye(256, dtype=np.float32)), device, DRAM)


def opens(device, bundle, name):
    """Bytes of circular buffers of a program."""
    rt.load_program(device, bundle, name)
    return int(device.programs[bundle][name].session.program.circular.max())


# **************** submit ****************


def test_submit_moves_only_what_is_in_the_way_of_circular_buffers(mm, device, x):
    need = opens(device, mm, "mm")
    idle = fill_l1(device)
    base = device.device.descriptor.memory("l1").base
    low = [t.buffer.addr < base + need for t in idle]
    assert 0 < sum(low) < len(idle)
    with gr.stats() as counted:
        (out,) = rt.submit(device, mm, "mm", [x, x])
        assert (out.numpy() == 4 * np.eye(256)).all()
    assert counted.count("eviction") == sum(low)
    assert [t.layout.memory == "dram" for t in idle] == low
    assert holds(idle)


def test_a_clash_is_told_at_submit_and_nothing_is_queued_or_donated(mm, device, x):
    idle = fill_l1(device)
    text = r"buffers of mm need \d+ B of each core's L1 on tt:0, up to address \d+, where tensors are: tensor"
    with gr.stats() as counted, pytest.raises(DeviceMemoryError, match=text):
        rt.submit(device, mm, "mm", [x, x], evict="never", donate=True)
    assert counted.rows() == []
    assert x.is_allocated
    assert holds(idle)
    del idle[:]
    rt.submit(device, mm, "mm", [x, x], evict="never")[0].wait()


def test_an_input_that_is_in_the_way_itself_moves_too(tmp_path, device):
    builder = GraphBuilder()
    builder.output(builder.op("exp", builder.input("x", (32 * 8, 2048)), name="out"))
    bundle = rt.load_bundle(
        build_bundle(
            {"main": builder}, "tt:0", tmp_path / "b", compile=False, layouts={"x": "l1", "out": "l1"}
        )
    )
    need = opens(device, bundle, "main")
    idle = []
    while device.handle.stats(1).largest_free >= 8 * TILE:
        idle.append(tensor(device, 0, rows=32 * 8))
    at = min(range(len(idle)), key=lambda i: idle[i].buffer.addr)
    lowest = idle[at]
    assert lowest.buffer.addr < device.device.descriptor.memory("l1").base + need
    (out,) = rt.submit(device, bundle, "main", [lowest])
    assert (out.numpy() == 1).all()
    assert out.layout.memory == "l1"
    assert not any(t.numpy().any() for t in idle)
    assert lowest.layout.memory == "dram"


def test_what_is_made_while_a_program_is_queued_keeps_out_of_its_circular_buffers(mm, device, x):
    """L1 fills up while programs are in flight: no allocation gets what they keep, all results are right."""
    need = opens(device, mm, "mm")
    for _ in range(5):
        outs = [rt.submit(device, mm, "mm", [x, x])[0] for _ in range(6)]
        made = fill_l1(device, least=2)
        for out in outs:
            assert (out.numpy() == 4 * np.eye(256)).all()
        assert holds(made)
        made.clear()
    kept = core.ffi.new("uint64_t[3]")
    core.lib.gr_circular_stats(device.handle.pointer, 1, kept)
    assert kept[0] == 0 < need <= kept[1] == rt.memory_view(device)["l1"].circular_bytes_per_bank
    assert rt.memory_view(device)["dram"].circular_bytes_per_bank == 0


def test_room_that_is_kept_is_not_given_away(device):
    lib, pointer = core.lib, device.handle.pointer
    assert lib.gr_circular_hold(pointer, ROOM - 64 * TILE, b"someone") == 0
    try:
        keep = tensor(device, 1, rows=32 * 64).wait()
        with pytest.raises(DeviceMemoryError, match=r"kept free for circular buffers of queued work: \d+ B"):
            device.handle.alloc(1, TILE, "late")
        assert lib.gr_circular_hold(pointer, ROOM - 63 * TILE, b"another") == core.lib.GR_ERR_OUT_OF_MEMORY
        assert "circular buffers of another need" in core.last_error()
    finally:
        lib.gr_circular_drop(pointer, ROOM - 64 * TILE)
    del keep
    device.handle.free(1, device.handle.alloc(1, ROOM - ROOM % 16, "all"))


# **************** inline runs and single operations ****************


def lasting(device):
    """Memory that does not move: the whole of L1, but for its end."""
    return Buffer.alloc(device.handle, 1, ROOM - TILE, "someone", lasting=True)


def test_an_inline_run_is_refused_before_any_node_runs(device):
    builder = GraphBuilder()
    a, b = builder.input("a", (64, 64)), builder.input("b", (64, 64))
    builder.output(builder.op("exp", builder.op("matmul", a, b)))
    mod = gr.create(builder, None, "tt:0")
    held = lasting(device)
    device.handle.cores(reset=True)
    for _ in range(2):
        with pytest.raises(DeviceMemoryError, match=r"buffers of session need \d+ B of each core's L1"):
            mod.run(a=np.eye(64, dtype=np.float32), b=np.zeros((64, 64), np.float32))
    assert device.handle.cores().opened == 0
    held.free()
    mod.run()
    assert (mod.get_output(0).numpy() == 1).all()


def test_an_eager_operation_without_room_is_the_host_s(device, x):
    held = lasting(device)
    with gr.stats() as counted:
        assert ((x + x).numpy() == 4 * np.eye(256)).all()
    assert counted.count("fallback") == 1
    held.free()
    with gr.stats() as counted:
        assert ((x + x).numpy() == 4 * np.eye(256)).all()
    assert counted.count("fallback") == 0


def test_a_session_whose_region_would_be_in_its_own_way_is_refused(device):
    builder = GraphBuilder()
    builder.output(builder.op("exp", builder.op("exp", builder.input("a", (32 * 8, 2048)), name="inner")))
    held = Buffer.alloc(device.handle, 1, 300 * TILE, "someone", lasting=True)
    with pytest.raises(DeviceMemoryError, match=r"circular buffers of its nodes need all up to \d+"):
        gr.create(builder, None, "tt:0", layouts={"inner": "l1"})
    held.free()
    gr.create(builder, None, "tt:0", layouts={"inner": "l1"}).run(a=np.zeros((32 * 8, 2048), np.float32))


def test_a_session_waits_for_queued_work_that_gives_its_room_back(device):
    builder = GraphBuilder()
    builder.output(builder.op("exp", builder.op("exp", builder.input("a", (32 * 8, 2048)), name="inner")))
    idle = [tensor(device, i, rows=32 * 100) for i in range(3)]
    copies = [x.to(layout=DRAM) for x in idle for _ in range(6)]
    idle.clear()
    module = gr.create(builder, None, "tt:0", layouts={"inner": "l1"})
    del copies
    module.run(a=np.zeros((32 * 8, 2048), np.float32))


# **************** planning ****************


def wide(tiles):
    """exp of a tensor that takes so many tiles of each bank of L1."""
    builder = GraphBuilder()
    held = builder.op("relu", builder.input("a", (32 * tiles, 2048)), name="held")
    builder.output(builder.op("exp", held, name="out"))
    return builder


def test_a_plan_without_room_for_circular_buffers_is_refused():
    text = (
        r"node '\w+' \(\w+ on tt:0\) opens \d+ B of circular buffers on a core, whose L1 has 1395424 B, "
        r"and the plan's tensors take 1228800 B of it, held by 'held' 1228800 B: at most \d+ B of "
        r"tensors fit beside; shard it, or keep it in dram \(--layout 'held=dram'\)"
    )
    with pytest.raises(CapacityError, match=text) as caught:
        gr.create(wide(300), None, "tt:0", layouts={"held": "l1"})
    error = caught.value
    assert (error.available, error.holders) == (ROOM - 1228800, [("'held'", 1228800)])
    assert error.needed > error.available
    fits = (ROOM - error.needed) // TILE
    mod = gr.create(wide(fits), None, "tt:0", layouts={"held": "l1"})
    assert mod.session.plan.circular_peak() == {0: error.needed}
    mod.run(a=np.zeros((32 * fits, 2048), np.float32))
    assert (mod.get_output(0).numpy() == 1).all()
    with pytest.raises(CapacityError, match="circular buffers"):
        gr.create(wide(fits + 1), None, "tt:0", layouts={"held": "l1"})


def test_a_plan_that_was_made_without_asking_is_refused_when_it_is_loaded():
    planned = plan(wide(300).build(), "tt:0", layouts={"held": "l1"})
    assert planned.circular is None
    with pytest.raises(CapacityError, match="circular buffers"):
        gr.create(planned)


def test_what_a_compiled_kernel_opens_is_what_the_built_in_one_says(tmp_path, device):
    builder = GraphBuilder()
    builder.output(builder.op("softmax", builder.input("a", (70, 300)), name="out"))
    mod = gr.load(build_bundle({"main": builder}, "tt:0", tmp_path / "b"))
    device.handle.cores(reset=True)
    mod.run(a=np.zeros((70, 300), np.float32))
    said = mod.session.program.circular
    assert device.handle.cores().most_bytes == said.max() == circular.of_plan(mod.session.plan).max() > 0


# **************** which blocks ****************


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.booleans()), max_size=7),
    st.integers(0, 12),
    st.integers(0, 6),
    st.integers(0, 4),
)
def test_no_cheaper_blocks_would_do(gaps, need, low, beyond):
    blocks, at = [], 0
    for gap, extent, pinned in gaps:
        blocks.append(Resident(at + gap, extent, (), pinned))
        at = blocks[-1].end
    high = at + beyond

    def fits(left):
        taken = {byte for block in left for byte in range(block.addr, block.end)}
        return any(not taken & set(range(first, first + need)) for first in range(low, high - need + 1))

    free = [block for block in blocks if not block.pinned]
    ways = [
        way
        for n in range(len(free) + 1)
        for way in combinations(free, n)
        if fits([block for block in blocks if block not in way])
    ]
    chosen = cheapest(blocks, low, high, need)
    if not ways:
        assert chosen == []
    else:
        assert tuple(chosen) in ways
        assert sum(b.extent for b in chosen) == min(sum(b.extent for b in way) for way in ways)


# **************** all of it at random ****************


def programs(rng):
    """{name: (builder, layouts, reference)}, with inputs, intermediates and outputs here and there in L1."""
    made = {}
    for number in range(4):
        rows, op = 32 * int(rng.integers(1, 30)), rng.choice(["relu", "negative", "abs"])
        builder = GraphBuilder()
        a, b = builder.input("a", (rows, 2048)), builder.input("b", (rows, 2048))
        inner = builder.op("add", a, b, name="inner")
        builder.output(builder.op(op, inner, name="out"))
        layouts = {name: "l1" for name in ("a", "b", "inner", "out") if rng.random() < 0.5}
        made[f"p{number}"] = (
            builder,
            layouts,
            (rows, 2048),
            {"relu": lambda v: np.maximum(v, 0), "negative": np.negative, "abs": np.abs}[op],
        )
    return made


@pytest.mark.parametrize(
    ("seed", "held"),
    [
        (0, 0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1, 0), (2, 0), (3, 0), (4, 0.5), (5, 0.7))
        ),
        (6, 0.8),
    ],
)
def test_random_programs_among_random_tensors(tmp_path, device, seed, held):
    """Every program fits an empty L1, which is full of tensors all the time. Each submission is right, each
    tensor keeps its values. Where memory that does not move takes ``held`` of the L1, some are refused."""
    rng = np.random.default_rng(seed)
    bundles, refused = {}, 0
    lasting = held and Buffer.alloc(device.handle, 1, int(held * ROOM), "lasting", lasting=True)
    for name, (builder, layouts, shape, reference) in programs(rng).items():
        path = build_bundle({"main": builder}, "tt:0", tmp_path / name, compile=False, layouts=layouts)
        bundles[name] = rt.load_bundle(path), shape, reference
        rt.load_program(device, bundles[name][0])
    idle = []
    for step in range(12):
        while rng.random() < 0.7:
            try:
                idle.append((step, tensor(device, step, rows=32 * int(rng.integers(1, 80)))))
            except DeviceMemoryError:
                break
        if idle and rng.random() < 0.5:
            idle.pop(rng.integers(len(idle)))
        bundle, (rows, _), reference = bundles[rng.choice(list(bundles))]
        low = -float(step)
        given = [tensor(device, low, DRAM, rows), tensor(device, 1, DRAM, rows)]
        try:
            if rng.random() < 0.5:
                (first,) = rt.submit(device, bundle, "main", given)
                (out,) = rt.submit(device, bundle, "main", {"b": given[1], "a": first})
                wanted = reference(reference(low + 1) + 1)
            else:
                (out,) = rt.submit(device, bundle, "main", given, donate=[0])
                wanted = reference(low + 1)
        except DeviceMemoryError:
            refused += 1
            assert given[0].is_allocated
            continue
        if rng.random() < 0.3:
            idle.append((wanted, out))
        assert (out.numpy() == wanted).all()
    for value, kept in idle:
        assert (kept.numpy() == value).all()
    assert not refused if not lasting else refused > 0 or held < 0.8


def test_threads_submit_and_fill_l1_at_once(mm, device, x):
    """What one thread makes in L1 is never where another's program opens circular buffers."""
    failed, idle = [], tensor(device, 9, rows=32 * 120)

    def run(number):
        try:
            for _ in range(8):
                (out,) = rt.submit(device, mm, "mm", [x, x])
                mine = tensor(device, number, rows=32 * 24)
                assert (out.numpy() == 4 * np.eye(256)).all()
                assert (mine.numpy() == number).all()
        except Exception as error:
            failed.append(error)

    rt.load_program(device, mm, "mm")
    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (idle.numpy() == 9).all()


def test_a_block_of_l1_that_no_work_needs_is_not_taken_again_while_there_is_room_further_up(device):
    """Even between the end of its work and the moment in which the worker gives it back."""
    source, low, l1 = tensor(device, 1, DRAM, rows=32 * 8), 0, circular.l1_number(device.handle.device)
    for turn in range(1000):
        while blocks(device.handle, l1):
            pass
        held = Buffer.alloc(device.handle, l1, 1 << 20, lasting=True)
        below, freed = to(source, layout=L1), held.addr
        assert below.buffer.addr < freed
        del below, held
        until = time.perf_counter() + turn % 400 * 1e-6
        while time.perf_counter() < until:
            pass
        low += to(source, layout=L1).buffer.addr < freed
    assert low == 0


def test_an_input_with_room_only_where_circular_buffers_will_be_is_refused(tmp_path, device):
    """Where memory that does not move leaves only the low end of L1, an input is converted to there, is in
    the way, and would be converted to there again: submit says so, and does not try for ever."""
    builder = GraphBuilder()
    builder.output(builder.op("exp", builder.input("x", (32 * 8, 2048)), name="out"))
    layouts = {"x": "l1", "out": "dram"}
    path = build_bundle({"main": builder}, "tt:0", tmp_path / "b", compile=False, layouts=layouts)
    bundle = rt.load_bundle(path)
    need = opens(device, bundle, "main")
    held = Buffer.alloc(device.handle, 1, ROOM - max(need, 8 * TILE), "lasting", lasting=True)
    idle = tensor(device, 5, DRAM, rows=32)
    given = tensor(device, 0, DRAM, rows=32 * 8)
    for _ in range(2):
        with pytest.raises(DeviceMemoryError, match=r"circular buffers of b need \d+ B .* where tensors are"):
            rt.submit(device, bundle, "main", [given], donate=True)
    assert given.is_allocated
    assert (idle.numpy() == 5).all()
    del held
    assert (rt.submit(device, bundle, "main", [given])[0].numpy() == 1).all()


def test_a_bundle_s_plan_is_asked_again_where_it_is_loaded(tmp_path, device):
    """A plan that knows its circular buffers is written as any other."""
    prepared = prepare(wide(3), "tt:0")
    assert prepared.plan.circular_peak()
    bundle = rt.load_bundle(write_prepared({"main": prepared}, tmp_path / "b", prepared.options))
    assert bundle.programs[0].plan is not None
    assert opens(device, bundle, "main") == prepared.plan.circular_peak()[0]
