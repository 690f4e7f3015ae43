"""Writes of the host's own: each waits for the queued work that uses the memory, and none goes round that."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import host_layout
from graph_runtime.binding import core
from graph_runtime.ir.graph import TensorType
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.buffer import Buffer
from graph_runtime.run.queues.template import copy
from graph_runtime.run.tensors.arrays import borrow

F32 = np.float32
BIG = TensorType("uint8", (1 << 26,))


@pytest.fixture(scope="module")
def cpu():
    return open_device(devices.cpu())


@pytest.fixture(scope="module")
def blocks(cpu):
    return [Buffer.alloc(cpu, 0, BIG.nbytes, "test") for _ in range(2)]


def copying(source: Buffer, target: Buffer, times: int = 6) -> None:
    """Queue copies of 64 MiB: some tens of ms."""
    for _ in range(times):
        copy(source, host_layout("uint8"), target, host_layout("uint8"), BIG)


def test_scatter_leaves_blocks_alone_that_are_still_copied():
    busy = gr.scatter([np.zeros((2048, 2048), F32)] * 4, "tt:0")
    tensors = [gr.scatter([np.full((64, 64), i, F32)], "tt:0")[0] for i in range(64)]
    assert [i for i, t in enumerate(tensors) if (t.numpy() != i).any()] == []
    assert all(t.ready for t in busy)


def test_scatter_leaves_inputs_of_queued_runs_alone():
    b = gr.GraphBuilder()
    x = b.input("x", (64, 64))
    product = b.op("matmul", b.input("big", (512, 512)), b.param("w", np.ones((512, 512), F32)))
    b.output(product, b.op("add", x, x))
    mods = [gr.create(b, None, "cpu:0") for _ in range(4)]
    big = np.ones((512, 512), F32)
    runs = [mod.run_async(x=np.full((64, 64), i, F32), big=big) for i in range(8) for mod in mods]
    scattered = [gr.scatter([np.full((64, 64), -1, F32)], "tt:0")[0] for _ in range(64)]
    for i, run in enumerate(runs):
        assert (run.wait().outputs[1].numpy() == 2 * (i // 4)).all()
    assert all((t.numpy() == -1).all() for t in scattered)


def test_a_block_to_write_is_one_that_nothing_uses(cpu, blocks):
    """Of 40 idle blocks whose readers are queued none is handed out, and none is waited for."""
    type_ = TensorType("uint8", (12345,))
    copying(*blocks)
    for _ in range(40):
        with Buffer.to_write(cpu, 0, type_.nbytes, "test") as turn:
            assert not core.lib.gr_buffer_pending(turn.buffer.pointer, True)
        target = Buffer.alloc(cpu, 0, type_.nbytes, "test")
        copy(turn.buffer, host_layout("uint8"), target, host_layout("uint8"), type_)
        del turn
    assert not blocks[1].ready  # all of that while the queue was busy


def test_blocks_to_write_do_not_fill_the_memory(cpu, blocks):
    before, most = cpu.stats(0).allocated, 0
    copying(*blocks)
    for _ in range(300):
        with Buffer.to_write(cpu, 0, 1 << 20, "test") as turn:
            pass
        copy(
            turn.buffer,
            host_layout("uint8"),
            Buffer.alloc(cpu, 0, 1 << 20, "test"),
            host_layout("uint8"),
            TensorType("uint8", (1 << 20,)),
        )
        most = max(most, cpu.stats(0).allocated - before)
    assert most < 200 << 20


def test_writing_waits_for_readers_and_writers(cpu, blocks):
    for block in blocks:  # one is read, the other written
        copying(*blocks)
        assert core.lib.gr_buffer_pending(block.pointer, True)
        with block.writing():
            assert not core.lib.gr_buffer_pending(block.pointer, True)


def test_a_view_that_may_be_written_waits_for_readers(blocks):
    tensor = gr.array(np.zeros(BIG.shape, np.uint8))
    copying(tensor.buffer, blocks[1])
    view = np.from_dlpack(tensor)
    assert blocks[1].ready
    assert view.flags.writeable
    view[:8] = 1
    assert (tensor.numpy()[:8] == 1).all()


def test_handles_that_borrow_the_same_memory_know_of_each_others_readers(blocks):
    array = np.zeros(BIG.shape, np.uint8)
    first, second = borrow(array), borrow(array)
    copying(first.buffer, blocks[1])
    assert core.lib.gr_buffer_pending(second.buffer.pointer, True)
    del first
    third = borrow(array)  # also while only queued work uses the first
    third.copy_from(np.ones(BIG.shape, np.uint8))
    assert blocks[1].ready
    np.testing.assert_array_equal(second.numpy()[:100], 1)


def test_a_value_that_is_refused_changes_nothing():
    tensor = gr.array(np.arange(4, dtype=F32))
    version = tensor.version
    with pytest.raises(gr.InputError, match="has shape"):
        tensor.copy_from(np.zeros(5, F32))
    assert tensor.version == version
    np.testing.assert_array_equal(tensor.numpy(), np.arange(4))


def test_ctrl_c_ends_the_wait(cpu, blocks, ctrl_c_after):
    copying(*blocks, times=250)
    begun = time.monotonic()
    with ctrl_c_after(0.1):
        blocks[0].writing()
    assert time.monotonic() - begun < 5
    blocks[1].wait(60)
    with blocks[0].writing():
        pass


def test_random_pushes_pulls_and_drops_of_many_threads():
    """Every value is checked; sizes are few, so that blocks are used again while they are read."""
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for round_ in range(40):
            shapes = [(int(rng.integers(1, 4)) * 32, 64) for _ in range(4)]
            values = [np.full(shape, seed * 1000 + round_ + k / 8, F32) for k, shape in enumerate(shapes)]
            tensors = gr.scatter(values, "tt:0" if round_ % 3 else "cpu:0")
            moved = [t.to("cpu:0" if round_ % 3 else "tt:0") for t in tensors]
            del tensors
            wrong.extend(
                (seed, round_)
                for got, want in zip(gr.gather(moved), values, strict=True)
                if (got != want).any()
            )

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
