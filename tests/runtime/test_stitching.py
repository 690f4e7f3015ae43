"""What #671 promised: inputs on the device, outputs that stay there, conversion at submit, eviction from L1,
donation, and errors that say what to do."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time

import numpy as np
import pytest

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import (
    DeviceError,
    DeviceMemoryError,
    DocumentError,
    GraphBuilder,
    HandleError,
    InputError,
    KernelError,
    SessionBusyError,
    WaitTimeoutError,
)
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.machine.shards import Shard
from graph_runtime.binding import core
from graph_runtime.run.sessions import submission
from graph_runtime.run.tensors import eviction
from graph_runtime.runtime.stitching import executable
from graph_runtime.runtime.stitching import submit as stitching

TILE, ROWS = Layout("dram", "tile", "f32"), Layout("dram", "row_major", "f32")
L1 = Layout("l1", "tile", "f32")
WIDE = (9600, 512)  # 307,200 bytes in each of the 64 banks of L1, which have 1,395,424


def put(device, array, layout=TILE):
    return rt.to_device(rt.create_owned_host_tensor(array), device, layout)


@pytest.fixture
def pair(device, randn):
    """Two inputs for the programs of ``chain``."""
    return [put(device, randn(64, 128)) for _ in range(2)]


def state():
    """x and d -> x + d, written into x."""
    builder = GraphBuilder()
    x, d = builder.input("x", (32, 32)), builder.input("d", (32, 32))
    new = builder.op("add", x, d, name="new")
    builder.output(new)
    builder.alias(new, x)
    return builder


@pytest.fixture(scope="module")
def stateful(new_bundle):
    return new_bundle({"step": state()})


# **************** outputs and traffic ****************


def test_weights_pushed_once_over_many_submits(chain, device, randn):
    with rt.stats() as counted:
        weights = put(device, randn(64, 128))
        for _ in range(10):
            rt.submit(device, chain, "add", [put(device, randn(64, 128)), weights])
    assert counted.count("h2d", "tt:0") == 11
    assert counted.count("d2h") == 0


def test_outputs_of_one_bundle_feed_another_without_the_host(chain, new_bundle, binary, device, pair):
    other = new_bundle({"maximum": binary("maximum", (64, 128), "float32")})
    with rt.stats() as counted:
        (total,) = rt.submit(device, chain, "add", pair)
        (out,) = rt.submit(device, other, "maximum", [total, pair[0]])
    assert [row[0] for row in counted.rows()] == ["submit"]
    a, b = (t.numpy() for t in pair)
    assert (out.numpy() == np.maximum(a + b, a)).all()


def test_stats_agree_with_the_device_s_own_counters(device, randn):
    """Rows of 64 floats need no padding, so both count the same bytes."""
    before = device.handle.stats(0)
    with rt.stats() as counted:
        tensor = put(device, randn(40, 64), ROWS)
        tensor.numpy()
        rt.to_host(tensor)
        gr.gather([tensor, tensor])
    after = device.handle.stats(0)
    assert counted.bytes("h2d") == after.bytes_in - before.bytes_in == 40 * 64 * 4
    assert counted.bytes("d2h") == after.bytes_out - before.bytes_out == 4 * 40 * 64 * 4


def test_copies_inside_of_a_program_are_counted(tmp_path, new_bundle, device, randn):
    builder = GraphBuilder()
    x = builder.input("x", (8, 64), device="cpu:0")
    builder.output(builder.op("relu", builder.op("tanh", x, device="tt:0"), device="cpu:0"))
    bundle = new_bundle({"mixed": builder}, devices=("cpu:0", "tt:0"))
    x = rt.create_owned_host_tensor(randn(8, 64))
    with rt.stats() as counted:
        (out,) = rt.submit(device, bundle, "mixed", [x])
    assert (counted.bytes("h2d", "tt:0"), counted.bytes("d2h", "tt:0")) == (8 * 64 * 4, 8 * 64 * 4)
    assert np.allclose(out.numpy(), np.maximum(np.tanh(x.numpy()), 0), atol=1e-3)


def test_two_input_tensors_in_flight(chain, device, randn):
    values = [randn(64, 128) for _ in range(20)]
    slots, one = (
        [rt.create_empty_tensor((64, 128), "float32", device, TILE) for _ in range(2)],
        put(device, np.ones((64, 128), np.float32)),
    )
    outputs = []
    for i, value in enumerate(values):
        rt.copy(slots[i % 2], rt.create_borrowed_host_tensor(value))
        outputs += rt.submit(device, chain, "add", [slots[i % 2], one])
    for out, value in zip(outputs, values, strict=True):
        assert (out.numpy() == value + 1).all()


def test_outputs_stay_in_the_memory_that_the_program_says(new_bundle, binary, device, randn, output_in_l1):
    bundle = new_bundle({"add": binary("add", (64, 128), "float32")}, edit=output_in_l1)
    inputs = [put(device, randn(64, 128)) for _ in range(2)]
    (out,) = rt.submit(device, bundle, "add", inputs)
    assert rt.get_tensor_layout(out).memory == "l1"
    assert (out.numpy() == inputs[0].numpy() + inputs[1].numpy()).all()


# **************** conversion ****************


def test_a_mismatch_is_converted_and_counted(chain, device, randn):
    rows, tiles = put(device, randn(64, 128), ROWS), put(device, randn(64, 128))
    with rt.stats() as counted:
        (out,) = rt.submit(device, chain, "add", [rows, tiles])
    assert (counted.count("mismatch"), counted.count("conversion")) == (1, 1)
    assert counted.bytes("mismatch", "tt:0") == 64 * 128 * 4
    assert rt.has_layout(rows, ROWS)
    assert (out.numpy() == rows.numpy() + tiles.numpy()).all()


def test_strict_mode_raises_for_a_mismatch(chain, device, randn):
    inputs = [put(device, randn(64, 128)), put(device, randn(64, 128), ROWS)]
    with pytest.raises(
        InputError,
        match=r"input 1 \('y'\) .* layout mismatch: expected dram/tile/f32, got "
        "dram/row_major/f32",
    ):
        rt.submit(device, chain, "add", inputs, strict=True)
    rt.submit(device, chain, "add", [inputs[0], inputs[0]], strict=True)


# **************** eviction ****************


def test_evict_unused_moves_what_the_program_does_not_read(chain, device, randn):
    idle, used = (put(device, randn(64, 128), L1) for _ in range(2))
    retained = put(device, randn(64, 128), L1)
    rt.set_retain(retained, True)
    values = idle.numpy()
    with rt.stats() as counted:
        rt.submit(device, chain, "add", [used, used], evict="unused")
    assert counted.count("eviction") == 2
    assert [t.layout.memory for t in (idle, retained, used)] == ["dram", "dram", "l1"]
    assert (idle.numpy() == values).all()  # the handle is the same, and valid
    assert rt.get_retain(retained)


def test_handles_on_one_block_are_evicted_together(chain, device, pair, randn):
    first = put(device, randn(64, 128), L1)
    second = rt.to_device(first, device, L1)
    assert second.buffer is first.buffer
    rt.submit(device, chain, "add", pair, evict="unused")
    assert second.buffer is first.buffer
    assert first.layout.memory == second.layout.memory == "dram"


@pytest.mark.parametrize("force", [False, True])
def test_what_is_deallocated_while_others_are_evicted(chain, device, pair, randn, monkeypatch, force):
    """By another thread: here before the first of two is copied, and both are gone."""
    evicted = [put(device, randn(64, 128), L1) for _ in range(2)]

    def late(*args):
        for handle in [handle for handle in evicted if handle.is_allocated]:
            rt.deallocate(handle, force=force)
        return allocate(*args)

    allocate = eviction.allocate
    monkeypatch.setattr(eviction, "allocate", late)
    with rt.stats() as counted:
        (out,) = rt.submit(device, chain, "add", pair, evict="unused")
    assert counted.count("eviction") == 0
    assert (out.numpy() == pair[0].numpy() + pair[1].numpy()).all()
    assert [handle.buffer for handle in evicted] == [None, None]
    assert device.tensors("l1") == []


def test_what_is_given_up_while_it_is_copied_stays_given_up(chain, device, pair, randn, monkeypatch):
    """As a donation by another thread does."""
    evicted = put(device, randn(64, 128), L1)

    def slow_copy(*args):
        copy(*args)
        evicted.give_up("was donated")

    copy = eviction.copy
    monkeypatch.setattr(eviction, "copy", slow_copy)
    rt.submit(device, chain, "add", pair, evict="unused")
    assert evicted.buffer is None
    assert device.tensors("l1") == []


@pytest.fixture
def crowded(new_bundle, device, output_in_l1):
    """A program whose output goes to L1, its input, and four idle tensors that leave too little there."""
    builder = GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", WIDE)))
    bundle = new_bundle({"main": builder}, edit=output_in_l1)
    rt.load_program(device, bundle, "main")
    x = put(device, np.ones(WIDE, np.float32))
    return bundle, x, [rt.create_empty_tensor(WIDE, "float32", device, L1) for _ in range(4)]


def test_an_eviction_that_finds_no_room_in_dram_says_so(crowded, device, monkeypatch):
    bundle, x, idle = crowded

    def full(*_):
        raise DeviceMemoryError("DRAM is full", device="tt:0")

    monkeypatch.setattr(eviction, "allocate", full)
    with pytest.raises(DeviceMemoryError, match="DRAM is full"):
        rt.submit(device, bundle, "main", [x])
    assert [t.layout.memory for t in idle] == ["l1"] * 4


def test_evict_on_pressure_moves_the_oldest_and_no_more(crowded, device):
    bundle, x, idle = crowded
    with pytest.raises(DeviceMemoryError):
        rt.submit(device, bundle, "main", [x], evict="never")
    with rt.stats() as counted:
        (out,) = rt.submit(device, bundle, "main", [x])
    assert counted.count("eviction") == 1
    assert [t.layout.memory for t in (*idle, out)] == ["dram", "l1", "l1", "l1", "l1"]
    assert (out.numpy() == 1).all()


def test_out_of_memory_names_the_holders(device):
    with pytest.raises(DeviceMemoryError, match=r"L1 buffer .*held per bank by: tensor float32\[") as caught:
        assert not [rt.create_empty_tensor(WIDE, "float32", device, L1) for _ in range(10)]
    assert caught.value.device == "tt:0"


def test_sharded_tensors_are_converted_evicted_and_stored(chain, device, pair, randn, tmp_path):
    layout = Layout("l1", "tile", "f32", Shard("height", ((0, 0), (1, 0)), (32, 128)))
    values = randn(64, 128)
    sharded = put(device, values, layout)
    (out,) = rt.submit(device, chain, "add", [sharded, pair[0]])
    assert (out.numpy() == values + pair[0].numpy()).all()
    rt.dump_tensor(sharded, tmp_path / "sharded.bin")
    assert rt.get_tensor_layout(rt.load_tensor(tmp_path / "sharded.bin", device)) == layout
    rt.submit(device, chain, "add", pair, evict="unused")
    assert sharded.layout == TILE
    assert (sharded.numpy() == values).all()


# **************** donation, retain, deallocation ****************


def test_an_in_place_output_takes_its_input(stateful, device, randn):
    x, d = put(device, randn(32, 32)), put(device, randn(32, 32))
    wanted, addr = x.numpy() + d.numpy(), x.buffer.addr
    (new,) = rt.submit(device, stateful, "step", [x, d])
    assert new.buffer.addr == addr
    assert (new.numpy() == wanted).all()
    with pytest.raises(
        HandleError,
        match=r"donated to program 'step' of test.zip as input 0 \('x'\) in .*"
        r"test_stitching.py:\d+",
    ) as caught:
        x.numpy()
    assert caught.value.tensor == x.id
    assert d.is_allocated


def test_a_retained_input_survives_an_in_place_program(stateful, device, randn):
    x, d = put(device, randn(32, 32)), put(device, randn(32, 32))
    rt.set_retain(x, True)
    before = x.numpy()
    with pytest.warns(UserWarning, match="retained"), rt.stats() as counted:
        (new,) = rt.submit(device, stateful, "step", [x, d])
    assert counted.count("rescue") == 1
    assert (x.numpy() == before).all()
    assert (new.numpy() == before + d.numpy()).all()


def test_a_mismatched_input_of_an_in_place_program_is_donated_all_the_same(stateful, device, randn):
    x, d = put(device, randn(32, 32), ROWS), put(device, randn(32, 32))
    wanted = x.numpy() + d.numpy()
    (new,) = rt.submit(device, stateful, "step", [x, d])
    assert (new.numpy() == wanted).all()
    assert not x.is_allocated


def test_in_place_and_read_by_another_input(stateful, device, randn):
    x = put(device, randn(32, 32))
    with pytest.raises(InputError, match="another of its inputs"):
        rt.submit(device, stateful, "step", [x, x])
    with pytest.raises(InputError, match="another of its inputs"):
        rt.submit(device, stateful, "step", [x, x.to()])
    assert x.is_allocated


def _writer(new_bundle, name, reads=False):
    """A decoder's step: cache[at] = row; with ``reads`` it then takes a row, which may be out of range."""
    builder = GraphBuilder(device=name)
    cache, at = builder.input("cache", (64, 32)), builder.input("at", (1, 1), "int32")
    new = builder.op("scatter_nd", cache, at, builder.input("row", (1, 32)), name="write")
    builder.output(new)
    if reads:
        builder.output(builder.op("take", new, builder.input("look", (1,), "int32"), name="read", axis=0))
    builder.alias(new, cache)
    return new_bundle({"step": builder}, devices=(name,))


def _inputs_of_step(opened, bundle, **positions):
    """(cache, at, row, look if there is one) where the program wants them; positions are 64, out of range,
    but for those that are given."""
    found = []
    for name, type_, layout in [
        (s.name, s.type, s.layout) for s in executable.executable(opened, bundle, "step").inputs
    ]:
        value = positions.get(name, 64) if type_.dtype == "int32" else 7
        found.append(put(opened, np.full(type_.shape, value, type_.dtype), layout))
    return found


@pytest.mark.parametrize("name", ["cpu:0", "tt:0"])
def test_a_refused_position_leaves_the_cache_to_be_given_again(new_bundle, name):
    bundle = _writer(new_bundle, name)
    with rt.open_device(name) as opened:
        cache, bad, row = _inputs_of_step(opened, bundle)
        for _ in range(3):
            (out,) = rt.submit(opened, bundle, "step", [cache, bad, row])
            with pytest.raises(KernelError, match="out of range"):
                out.numpy()
            assert cache.is_allocated
            assert (cache.numpy() == 7).all()
        with pytest.raises(KernelError, match="out of range"):
            rt.submit(opened, bundle, "step", [cache, bad, row])[0].numpy()  # the output is not kept
        good = _inputs_of_step(opened, bundle, at=3)[1]
        (out,) = rt.submit(opened, bundle, "step", [cache, good, row])
        assert (out.numpy() == 7).all()
        with pytest.raises(HandleError, match=r"\('cache'\) in .*test_stitching.py:\d+") as told:
            cache.numpy()
        assert "failed" not in str(told.value)


@pytest.mark.parametrize("name", ["cpu:0", "tt:0"])
def test_a_donated_cache_says_that_its_run_failed(new_bundle, name):
    bundle = _writer(new_bundle, name, reads=True)
    with rt.open_device(name) as opened:
        cache, at, row, look = _inputs_of_step(opened, bundle, at=3)
        out, read = rt.submit(opened, bundle, "step", [cache, at, row, look])
        with pytest.raises(KernelError, match="out of range"):
            read.numpy()
        with pytest.raises(
            HandleError,
            match=r"\('cache'\) in .*test_stitching.py:\d+, to a run that "
            r"failed \(node 'read'.*its contents are lost",
        ):
            cache.numpy()
        assert (out.numpy() == 7).all()


def test_a_converted_cache_comes_back_in_its_own_layout(new_bundle):
    bundle = _writer(new_bundle, "tt:0", reads=True)
    with rt.open_device("tt:0") as opened:
        cache, at, row, look = _inputs_of_step(opened, bundle, at=3)
        layout = TILE if cache.layout == ROWS else ROWS
        cache = put(opened, np.full((64, 32), 5, np.float32), layout)
        _, read = rt.submit(opened, bundle, "step", [cache, at, row, look])
        with pytest.raises(KernelError, match="out of range"):
            read.numpy()
        assert (cache.numpy() == 5).all()
        assert cache.layout == layout


def test_memory_of_failed_in_place_runs_is_that_of_the_handles(new_bundle):
    bundle = _writer(new_bundle, "tt:0")
    with rt.open_device("tt:0") as opened:

        def held() -> list[tuple[int, ...]]:
            found = (h.tensors for h in opened.memory_view()["dram"].holders if h.kind == "tensor")
            return sorted(ids for ids in found if ids not in others)

        others: list[tuple[int, ...]] = []
        others = held()
        cache, bad, row = _inputs_of_step(opened, bundle)

        mine = sorted((t.id,) for t in (cache, bad, row))
        assert held() == mine
        for _ in range(3):
            (out,) = rt.submit(opened, bundle, "step", [cache, bad, row])
            with pytest.raises(KernelError):
                out.wait()
        assert held() == mine
        good = _inputs_of_step(opened, bundle, at=3)[1]
        (out,) = rt.submit(opened, bundle, "step", [cache, good, row])
        out.wait()
        assert held() == sorted((t.id,) for t in (out, bad, good, row))
        del out
        assert held() == sorted((t.id,) for t in (bad, good, row))
        assert not cache.is_allocated


def test_a_chain_of_in_place_steps_is_exact(stateful, device):
    x, one = put(device, np.zeros((32, 32), np.float32)), put(device, np.ones((32, 32), np.float32))
    for _ in range(100):
        (x,) = rt.submit(device, stateful, "step", [x, one])
    assert (x.numpy() == 100).all()


def test_donated_inputs_by_number(chain, device, pair):
    rt.submit(device, chain, "add", pair, donate=[1])
    assert [t.is_allocated for t in pair] == [True, False]
    with pytest.raises(InputError, match="donate"):
        rt.submit(device, chain, "add", [pair[0]] * 2, donate=[2])


def test_deallocating_what_a_queued_run_reads(chain, device, randn):
    """Its memory is not used again before that run is over."""
    for _ in range(30):
        a, b = randn(64, 128), randn(64, 128)
        inputs = [put(device, a), put(device, b)]
        (out,) = rt.submit(device, chain, "add", inputs)
        for tensor in inputs:
            rt.deallocate(tensor, force=True)
        noise = [put(device, randn(64, 128)) for _ in range(2)]
        assert (out.numpy() == a + b).all()
        del noise


def test_force_frees_despite_aliases_and_retain_wins(device, randn):
    tensor = put(device, randn(64, 128))
    alias = rt.to_device(tensor, device, TILE)
    assert not rt.get_retain(alias)
    assert rt.deallocate(tensor)  # the memory stays for the alias
    assert alias.numpy().shape == (64, 128)
    third = alias.to()
    rt.set_retain(third, True)
    with pytest.warns(UserWarning, match="retained"):
        assert not rt.deallocate(third, force=True)
    assert rt.is_allocated(third)
    assert rt.deallocate(alias, force=True)
    with pytest.raises(HandleError, match="by force, through another handle"):
        third.numpy()


# **************** bad input ****************


def test_use_after_deallocate_and_double_deallocate(chain, device, pair):
    x = pair[0]
    rt.deallocate(x)
    for use in (
        x.numpy,
        x.wait,
        x.to,
        lambda: rt.deallocate(x),
        lambda: rt.to_host(x),
        lambda: gr.gather([x]),
        lambda: rt.submit(device, chain, "add", pair),
        lambda: rt.set_retain(x, True),
        lambda: x.copy_from(np.zeros((64, 128), np.float32)),
        lambda: x.ready,
        lambda: x + 1,
    ):
        with pytest.raises(HandleError, match=f"tensor {x.id} .* was deallocated") as caught:
            use()
        assert caught.value.tensor == x.id
    assert "was deallocated" in repr(x)
    assert x.shape == (64, 128)  # what needs no values still answers


def test_inputs_must_be_on_the_device(chain, device, pair, randn):
    host = rt.create_owned_host_tensor(randn(64, 128))
    text = r"input 1 \('y'\) of program 'add' .* must be on tt:0, tensor \d+ is on cpu:0: move it with"
    with pytest.raises(DeviceError, match=text):
        rt.submit(device, chain, "add", [pair[0], host])
    with rt.open_device("tt:1") as other, pytest.raises(DeviceError, match="must be on tt:0"):
        rt.submit(device, chain, "add", [pair[0], put(other, randn(64, 128))])


def test_wrong_count_shape_dtype_and_kind(chain, device, pair, randn):
    with pytest.raises(InputError, match=r"takes 2 inputs \(x, y\), got 1"):
        rt.submit(device, chain, "add", pair[:1])
    text = r"input 0 .*: shape mismatch: expected float32\[64, 128\], got float32\[3\]"
    with pytest.raises(InputError, match=text):
        rt.submit(device, chain, "add", [put(device, randn(3), ROWS), pair[1]])
    with pytest.raises(InputError, match="dtype mismatch"):
        rt.submit(
            device,
            chain,
            "add",
            [put(device, np.zeros((64, 128), np.int32), Layout("dram", "row_major", "int32")), pair[1]],
        )
    with pytest.raises(InputError, match="is a ndarray, not a Tensor"):
        rt.submit(device, chain, "add", [randn(64, 128), pair[1]])
    for program, error in ((3, InputError), (-1, InputError), (True, InputError), ("ad", DocumentError)):
        with pytest.raises(error, match="program"):
            rt.submit(device, chain, program, pair)
    with pytest.raises(InputError, match="evict"):
        rt.submit(device, chain, "add", pair, evict="all")
    with pytest.raises(InputError, match="no input"):
        rt.get_layout(chain, "add", 2)


def test_things_of_another_kind(chain, device, pair):
    array = np.zeros((64, 128), np.float32)
    no_tensor = (
        lambda: rt.to_device(array, device),
        lambda: rt.to_layout(array, device, TILE),
        lambda: rt.to_host(array),
        lambda: rt.deallocate(array),
        lambda: rt.set_retain(array, True),
        lambda: rt.get_retain(array),
        lambda: rt.is_allocated(array),
        lambda: rt.has_layout(array, TILE),
        lambda: rt.wait([array]),
        lambda: rt.copy(pair[0], array),
        lambda: rt.memcpy(array, array),
        lambda: rt.dump_tensor(array, "x"),
        lambda: rt.get_tensor_desc(array),
        lambda: rt.create_borrowed_host_tensor("text"),
        lambda: rt.create_owned_host_tensor(object()),
    )
    no_device_or_bundle = (
        lambda: rt.to_device(pair[0], "tt:0"),
        lambda: rt.memory_view("tt:0"),
        lambda: rt.close_device("tt:0"),
        lambda: rt.submit("tt:0", chain, "add", pair),
        lambda: rt.submit(device, "x.zip", "add", pair),
        lambda: rt.get_layout("x.zip", 0, 0),
        lambda: rt.set_memory_log_level(3),
    )
    no_list = (
        lambda: rt.submit(device, chain, "add", pair[0]),
        lambda: rt.submit(device, chain, "add", 3),
        lambda: rt.submit(device, chain, "add", pair, donate=1),
        lambda: rt.submit(device, chain, "add", pair, donate=["x"]),
    )
    for use in (*no_tensor, *no_device_or_bundle, *no_list):
        with pytest.raises(InputError):
            use()


def test_a_closed_device(chain, randn):
    device = rt.open_device("tt:0")
    tensor = put(device, randn(64, 128))
    (out,) = rt.submit(device, chain, "add", [tensor, tensor])
    rt.close_device(device)
    for handle in (tensor, out):
        with pytest.raises(HandleError, match="was on device tt:0, which was closed"):
            handle.numpy()
    for use in (
        lambda: rt.close_device(device),
        lambda: rt.submit(device, chain, "add", [tensor, tensor]),
        lambda: rt.memory_view(device),
        lambda: put(device, randn(64, 128)),
    ):
        with pytest.raises(DeviceError, match="is closed: open_device"):
            use()
    with rt.open_device("tt:0") as again:
        assert put(again, randn(4, 4)).numpy().shape == (4, 4)


def test_a_device_that_the_bundle_has_no_part_for(chain):
    with rt.open_device("cpu:0") as host, pytest.raises(InputError, match="it has no part for cpu:0"):
        rt.load_program(host, chain, "add")


def test_a_const_result_is_not_kept_for_what_is_written_meanwhile(
    new_bundle, binary, device, randn, monkeypatch
):
    bundle = new_bundle({"fold": binary("add", (32, 32), "float32")}, const=("fold",))
    a, b = put(device, randn(32, 32)), put(device, randn(32, 32))
    submitted = stitching._submitted

    def write_after(*args, **options):
        outputs = submitted(*args, **options)
        a.copy_from(np.zeros((32, 32), np.float32))  # as another thread might
        return outputs

    with monkeypatch.context() as patch:
        patch.setattr(stitching, "_submitted", write_after)
        rt.submit(device, bundle, "fold", [a, b])
    (folded,) = rt.submit(device, bundle, "fold", [a, b])
    np.testing.assert_array_equal(folded.numpy(), b.numpy())


def test_a_const_program_cannot_overwrite_its_inputs(new_bundle, stateful):
    with pytest.raises(DocumentError, match="const and overwrites"):
        new_bundle({"step": state()}, const=("step",))


def test_a_hook_that_submits_the_same_program(chain, device, pair):
    def again(*_):
        rt.submit(device, chain, "add", pair)

    rt.debug_hooks(pre_op=again)
    try:
        with pytest.raises(SessionBusyError, match="program 'add'"):
            rt.submit(device, chain, "add", pair)
    finally:
        rt.unregister_hooks()
    (out,) = rt.submit(device, chain, "add", pair)
    assert (out.numpy() == pair[0].numpy() + pair[1].numpy()).all()


def test_op_contexts_end_with_their_hook(chain, device, pair):
    seen = []
    rt.debug_hooks(post_op=lambda bundle, program, op: seen.append((op, *rt.get_op_output_refs(op))))
    try:
        rt.submit(device, chain, "add", pair)
    finally:
        rt.unregister_hooks()
    ((op, ref),) = seen
    with pytest.raises(InputError, match="has returned"):
        rt.retrieve_tensor_from_pool(op, ref)
    with pytest.raises(InputError, match="there is no hook 'pre_ops'"):
        rt.debug_hooks(pre_ops=print)
    with pytest.raises(InputError, match="cannot be called"):
        rt.debug_hooks(pre_op=3)


def test_files_that_are_none(tmp_path):
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(gr.ParamsError):
        rt.load_tensor(tmp_path / "junk")
    with pytest.raises(gr.ParamsError, match="cannot read"):
        rt.load_tensor(tmp_path / "absent")
    from graph_runtime.ir.documents.params import save_params

    save_params({"w": np.zeros(3, np.float32)}, tmp_path / "params")
    with pytest.raises(DocumentError, match="did not write"):
        rt.load_tensor(tmp_path / "params")


# **************** memory view, threads ****************


def test_memory_view_names_its_holders(device):
    before = rt.memory_view(device)["dram"]
    tensor = rt.create_empty_tensor((640, 320), "float32", device, TILE)
    now = rt.memory_view(device)["dram"]
    assert {h.tensor for h in now.holders} - {h.tensor for h in before.holders} == {tensor.id}
    holder = next(h for h in now.holders if h.tensor == tensor.id)
    assert holder.bytes_per_bank >= -(-20 * 10 // now.num_banks) * 4096
    assert now.total_bytes_allocated_per_bank >= before.total_bytes_allocated_per_bank


def test_one_program_from_many_threads(chain, device):
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(15):
            a, b = (rng.standard_normal((64, 128)).astype(np.float32) for _ in range(2))
            (out,) = rt.submit(device, chain, "subtract", [put(device, a), put(device, b)])
            if not (out.numpy() == a - b).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# **************** faults ****************


@pytest.fixture(scope="module")
def failing(packed_library, new_document, tmp_path_factory):
    """A program on cpu:0 that fails where its input begins with a negative number."""
    from graph_runtime.codegen.build import build_bundle

    document = new_document()
    x = document.input("x")
    head = document.call("fail_if_negative", x, name="picky")
    text = document.json(document.call("myadd", head, name="after"))
    path = tmp_path_factory.mktemp("failing") / "failing.zip"
    return rt.load_bundle(build_bundle(text, ["cpu:0"], path, libraries=[packed_library]))


def test_a_kernel_that_fails_in_the_third_of_five_runs(failing):
    with rt.open_device("cpu:0") as host:
        outputs = []
        for i in range(5):
            x = rt.create_owned_host_tensor(np.full(4, -1 if i == 2 else i, np.float32))
            outputs += rt.submit(host, failing, None, [x])
        (late,) = rt.submit(host, failing, None, [outputs[2]])  # reads what never came
        for i in (0, 1, 3, 4):
            assert outputs[i].numpy()[0] == i + 1
        for poisoned in (outputs[2], late):
            with pytest.raises(KernelError, match="'picky'") as caught:
                poisoned.numpy()
            assert (caught.value.node, caught.value.device) == ("picky", "cpu:0")
        with pytest.raises(KernelError, match="'picky'"):
            gr.wait_all(outputs)
        (out,) = rt.submit(host, failing, None, [outputs[4]])
        assert out.numpy()[0] == 6


def test_a_wait_that_is_interrupted_leaves_the_run_alone(chain, device, pair, monkeypatch):
    from graph_runtime.run.queues import buffer

    (out,) = rt.submit(device, chain, "add", pair)
    with monkeypatch.context() as patched:
        patched.setattr(buffer, "_pending", lambda *_: True)

        def interrupted(*_):
            raise KeyboardInterrupt

        patched.setattr(buffer, "wait_in_slices", interrupted)
        with pytest.raises(KeyboardInterrupt):
            out.numpy()
    assert (out.numpy() == pair[0].numpy() + pair[1].numpy()).all()


def test_out_of_memory_in_the_middle_of_a_pipeline(chain, device, pair):
    """What was queued before goes on, and the next submit is right."""
    (first,) = rt.submit(device, chain, "add", pair)
    with pytest.raises(DeviceMemoryError):
        rt.create_empty_tensor((1 << 20, 4096), "float32", device, TILE)
    (second,) = rt.submit(device, chain, "multiply", [first, pair[0]])
    a, b = (t.numpy() for t in pair)
    assert np.allclose(second.numpy(), (a + b) * a, atol=1e-6)


@pytest.fixture(scope="module")
def slow(packed_library, new_document, tmp_path_factory):
    """A program on cpu:0 that takes 10 ms and adds 1."""
    from graph_runtime.codegen.build import build_bundle

    document = new_document()
    text = document.json(document.call("slow", document.input("x"), name="slow"))
    path = tmp_path_factory.mktemp("slow") / "slow.zip"
    return rt.load_bundle(build_bundle(text, ["cpu:0"], path, libraries=[packed_library]))


def test_wait_with_a_timeout_and_await(slow):
    with rt.open_device("cpu:0") as host:
        x = rt.create_owned_host_tensor(np.zeros(4, np.float32))
        for _ in range(6):
            (x,) = rt.submit(host, slow, None, [x])
        assert not x.ready
        for wait in (lambda: x.wait(0), lambda: rt.wait([x], timeout=0.001)):
            with pytest.raises(WaitTimeoutError):
                wait()
        assert x.shape == (4,)

        async def values():
            return [(await t).numpy()[0] for t in rt.submit(host, slow, None, [x])]

        assert asyncio.run(values()) == [7]
        assert x.ready
        assert x.numpy()[0] == 6


def test_submit_returns_before_the_work_is_done(slow):
    with rt.open_device("cpu:0") as host:
        x = rt.create_owned_host_tensor(np.zeros(4, np.float32))
        rt.load_program(host, slow)
        outputs = [out for _ in range(4) for out in rt.submit(host, slow, None, [x])]
        assert not outputs[-1].ready  # 40 ms of work are queued
        assert [out.numpy()[0] for out in outputs] == [1] * 4


def test_nothing_leaks(chain, stateful, device, randn):
    """Memory in use, blocks kept for reuse not counted, is after many submissions what it was before."""

    def used():
        gc.collect()
        rt.wait(device.tensors())
        return [
            device.handle.stats(m).allocated - core.lib.gr_buffers_idle(device.handle.pointer, m)
            for m in (0, 1)
        ]

    def work():
        x, w = put(device, randn(32, 32)), put(device, randn(64, 128), ROWS)
        idle = put(device, randn(64, 128), L1)
        for _ in range(20):
            (x,) = rt.submit(device, stateful, "step", [x, put(device, randn(32, 32))])
            rt.submit(device, chain, "add", [w, w], evict="unused")
        gr.gather([x, idle])

    work()
    before = used()
    for _ in range(5):
        work()
    assert used() == before


def test_an_in_place_program_does_not_write_to_constants(new_bundle):
    """Memory that was borrowed read-only is copied; what was borrowed writable is written."""
    bundle = new_bundle({"step": state()}, devices=("cpu:0",))
    with rt.open_device("cpu:0") as host:
        for writable in (False, True):
            array = gr.aligned_empty((32, 32))  # kernels take no other host memory as it is
            array[:] = 1
            array.flags.writeable = writable
            x, d = rt.create_borrowed_host_tensor(array), rt.create_owned_host_tensor(array)
            (new,) = rt.submit(host, bundle, "step", [x, d])
            assert (new.numpy() == 2).all()
            assert (array == (2 if writable else 1)).all()
            assert not x.is_allocated


def test_tensors_of_a_device_are_listed_while_threads_make_others(device, randn):
    first, stop = put(device, randn(32, 32)), threading.Event()
    many = [rt.to_device(first, device, TILE) for _ in range(300)]

    def make():
        while not stop.is_set():
            for tensor in [device.adopt(first.alias()) for _ in range(50)]:
                tensor.deallocate()

    thread, interval = threading.Thread(target=make), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(300):
            seen = [tensor.id for tensor in device.tensors()]
            assert len(seen) > len(many)
            assert seen == sorted(seen)
            (holder,) = (h for h in device.memory_view()["dram"].holders if first.id in h.tensors)
            assert len(holder.tensors) > len(many)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("layout", [TILE, ROWS], ids=["as it is", "converted"])
@pytest.mark.parametrize("direct", [0, 4, 8])
def test_many_threads_donate_one_tensor(stateful, device, randn, monkeypatch, layout, direct):
    """By rt.submit, and ``direct`` by Session.submit: the first thread gets it."""
    x, d = put(device, randn(32, 32), layout), put(device, randn(32, 32))
    wanted, results = x.numpy() + d.numpy(), []
    session = executable.executable(device, stateful, "step").session
    start, place_inputs = threading.Barrier(8), submission.Submitter._place_inputs

    def slow_place_inputs(*args):
        placed = place_inputs(*args)
        time.sleep(0.01)  # others come
        return placed

    def work(i):
        start.wait()
        try:
            results.extend(
                session.submit({0: x, 1: d}, donate=[0]).forget()
                if i < direct
                else rt.submit(device, stateful, "step", [x, d])
            )
        except HandleError as error:
            results.append(error)

    monkeypatch.setattr(submission.Submitter, "_place_inputs", slow_place_inputs)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (new,) = (r for r in results if not isinstance(r, HandleError))
    assert len(results) == 8
    assert (new.numpy() == wanted).all()


# **************** inputs by name, and how many at once ****************


def test_inputs_by_name(chain, device, pair):
    x, y = pair
    (first,) = rt.submit(device, chain, "subtract", {"y": y, "x": x})
    assert (first.numpy() == x.numpy() - y.numpy()).all()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("x", "yy"), r"has no input 'yy' \(did you mean 'y'\?\)"),
        (("x", 1), r"has no input 1"),
        (("y",), r"takes 2 inputs \(x, y\): x missing"),
        ((), r"takes 2 inputs \(x, y\): x, y missing"),
    ],
)
def test_names_that_are_no_inputs(chain, device, pair, given, text):
    with pytest.raises(InputError, match=text):
        rt.submit(device, chain, "subtract", {name: pair[0] for name in given})


def test_max_in_flight_of_a_program(chain, pair):
    with rt.open_device("tt:0") as mine:
        rt.load_program(mine, chain, "subtract")
        session = mine.programs[chain]["subtract"].session
        assert session.max_in_flight == 8
        rt.load_program(mine, chain, "subtract", max_in_flight=2)
        assert session.max_in_flight == 2
        rt.load_program(mine, chain, "subtract")
        assert session.max_in_flight == 2
        for wrong in (0, True, 1.5, "two"):
            with pytest.raises(InputError, match="max_in_flight must be a number of runs"):
                rt.load_program(mine, chain, "subtract", max_in_flight=wrong)
