"""Evictions by another thread, at any moment of a write or a read: no write is lost, no block is read as what
it is not."""

from __future__ import annotations

import copy
import json
import threading

import numpy as np
import pytest

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder, InputError, eager
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.ir.graph import TensorType
from graph_runtime.run.queues.blocks import blocks
from graph_runtime.run.queues.buffer import Buffer
from graph_runtime.run.queues.template import Template
from graph_runtime.run.sessions import staging
from graph_runtime.run.single.upload import push
from graph_runtime.run.tensors import arrays, batches, copies, eviction, transfers
from graph_runtime.run.tensors.handle import Handle
from graph_runtime.run.tensors.spec import spec_of
from graph_runtime.run.tensors.tensor import Tensor
from graph_runtime.runtime.stitching import executable

SHAPE = (64, 128)
WIDE = (9600, 512)  # 307,200 bytes in each of the 64 banks of L1, which have 1,395,424
TILE, L1 = Layout("dram", "tile", "f32"), Layout("l1", "tile", "f32")


def put(device, array, layout=TILE):
    return rt.to_device(rt.create_owned_host_tensor(array), device, layout)


class Meanwhile:
    """``work`` runs once in another thread, at a moment of this one. It is waited for there, unless it waits
    itself for what that moment interrupts."""

    def __init__(self, monkeypatch, work):
        self._patch, self._work, self._here = monkeypatch, work, threading.current_thread()
        self._thread, self._failed = None, []

    def _run(self):
        self._thread = threading.Thread(target=self._try)
        self._thread.start()
        self._thread.join(0.3)

    def _try(self):
        try:
            self._work()
        except Exception as error:
            self._failed.append(error)

    def _comes(self):
        return self._thread is None and threading.current_thread() is self._here

    def before(self, home, name):
        """The moment is the next call of a function."""
        inner = getattr(home, name)

        def outer(*args, **options):
            if self._comes():
                self._run()
            return inner(*args, **options)

        self._patch.setattr(home, name, outer)

    def after_reading(self, home, name, times):
        """The moment is when a property was read so many times more."""
        inner, left = getattr(home, name).fget, times

        def outer(tensor):
            nonlocal left
            found = inner(tensor)
            if self._comes():
                left -= 1
                if left < 0:
                    self._run()
            return found

        self._patch.setattr(home, name, property(outer))

    def end(self):
        """Whether the moment came."""
        if self._thread is not None:
            self._thread.join(30)
            assert not self._thread.is_alive()
        self._patch.undo()
        assert self._failed == []
        return self._thread is not None


@pytest.fixture
def meanwhile(monkeypatch):
    return lambda work: Meanwhile(monkeypatch, work)


@pytest.fixture
def relu(new_bundle, output_in_l1):
    """Programs from DRAM into L1: small [64, 128], wide."""
    programs = {}
    for name, shape in (("small", SHAPE), ("wide", WIDE)):
        programs[name] = builder = GraphBuilder()
        builder.output(builder.op("relu", builder.input("x", shape)))
    return new_bundle(programs, edit=output_in_l1)


# **************** writes of tensors that are there ****************


def queued(x, source, values):
    rt.copy(x, source)


def at_once(x, source, values):
    x.copy_from(source)


def of_the_host(x, source, values):
    x.copy_from(values)


WRITES = {
    "queued, early": (queued, transfers, "queue_copy"),
    "queued": (queued, Template, "submit"),
    "at once": (at_once, core, "copy"),
    "of the host, early": (of_the_host, Handle, "_overwrite"),
    "of the host": (of_the_host, core, "host_arg"),
}


@pytest.fixture
def written(device, randn):
    """A tensor in L1, and a tensor and an array with what it will get."""
    values = np.abs(randn(*SHAPE))
    return put(device, randn(*SHAPE), L1), put(device, values), values


@pytest.mark.parametrize("case", WRITES)
def test_a_write_beside_an_eviction_is_not_lost(device, written, meanwhile, case):
    write, home, name = WRITES[case]
    x, source, values = written
    alias = x.alias()
    evicting = meanwhile(lambda: eviction.evict_unused(device.handle, []))
    evicting.before(home, name)
    write(x, source, values)
    assert evicting.end()
    assert x.layout == TILE
    for tensor in (x, alias):
        assert (tensor.numpy() == values).all()


@pytest.mark.parametrize("case", WRITES)
def test_an_eviction_beside_a_write_loses_nothing(device, written, meanwhile, case):
    """The write comes after the values were copied, before handles lead to the copy."""
    x, source, values = written
    writing = meanwhile(lambda: WRITES[case][0](x, source, values))
    writing.before(Tensor, "settle")
    eviction.evict_unused(device.handle, [])
    assert writing.end()
    assert (x.numpy() == values).all()


def test_an_output_beside_an_eviction_is_not_lost(device, relu, written, meanwhile):
    x, source, values = written
    session = executable.executable(device, relu, "small").session
    evicting = meanwhile(lambda: eviction.evict_unused(device.handle, []))
    evicting.before(Template, "submit")
    session.submit({"x": source}, out=[x])
    assert evicting.end()
    assert x.layout == TILE
    assert (x.numpy() == values).all()
    with pytest.raises(InputError, match=r"the output is .*l1/tile"):
        session.submit({"x": source}, out=[x])


def _state_in_l1(_, text):
    """A program's text, with what it updates in L1."""
    document = json.loads(text)
    ours = document["metadata"]["graph_runtime"]
    sids = document["attrs"]["storage_id"][1]
    ours["layouts"].append({**ours["layouts"][0], "memory": "l1"})
    for entry in [at for at, sid in enumerate(sids) if sid == sids[-1]]:
        ours["layout"][entry] = len(ours["layouts"]) - 1
    ours["storage"][sids[-1]] |= {"memory": "l1", "offset": 0}
    return json.dumps(document)


@pytest.fixture
def in_place(new_bundle):
    """in_place(shape): a program "step" of x and d, x + d, written into x in L1."""

    def make(shape):
        builder = GraphBuilder()
        x, d = builder.input("x", shape), builder.input("d", shape)
        new = builder.op("add", x, d, name="new")
        builder.output(new)
        builder.alias(new, x)
        return new_bundle({"step": builder}, edit=_state_in_l1)

    return make


def test_a_program_in_place_beside_an_eviction_is_seen_by_all_handles(in_place, device, written, meanwhile):
    bundle = in_place(SHAPE)
    x, d, values = written
    wanted, alias, at = x.numpy() + values, x.alias(), x.buffer
    rt.load_program(device, bundle, "step")
    evicting = meanwhile(lambda: eviction.evict_unused(device.handle, []))
    evicting.before(Template, "submit")
    (out,) = rt.submit(device, bundle, "step", [x, d])
    assert evicting.end()
    assert out.buffer is not at
    assert out.buffer is alias.buffer
    assert (alias.numpy() == wanted).all()


def test_a_handle_made_beside_an_eviction_is_moved_with_the_others(device, written, meanwhile):
    """Else what is written through one of them would not be seen through the other."""
    x, _, values = written
    made = []
    aliasing = meanwhile(lambda: made.append(x.alias()))
    aliasing.before(Tensor, "settle")
    eviction.evict_unused(device.handle, [])
    assert aliasing.end()
    x.copy_from(values)
    assert (made[0].numpy() == values).all()


# **************** first writes ****************


def sent(source, values):
    return source.to(layout=L1)


def made(source, values):
    return arrays.array(values, "tt:0", layout=L1)


def pushed(source, values):
    return push(values, spec_of(source.device, source.type, L1))


FIRST = {
    "to, early": (sent, copies, "queue_copy"),
    "to": (sent, Template, "submit"),
    "array, early": (made, Tensor, "copy_from"),
    "array": (made, core, "host_arg"),
    "push": (pushed, Tensor, "copy_from"),
}


@pytest.mark.parametrize("case", FIRST)
def test_a_first_write_beside_an_eviction_is_not_lost(device, relu, randn, meanwhile, case):
    """The tensor takes most of L1, so it is what a program that is short of L1 can move."""
    write, home, name = FIRST[case]
    values = randn(4 * WIDE[0], WIDE[1])
    source = put(device, values)
    ones = put(device, np.ones(WIDE, np.float32))
    rt.load_program(device, relu, "wide")
    evicting = meanwhile(lambda: rt.submit(device, relu, "wide", [ones]))
    evicting.before(home, name)
    x = write(source, values)
    assert evicting.end()
    assert x.layout == TILE
    assert (x.numpy() == values).all()


def test_values_of_a_run_are_in_the_memory_that_was_taken_for_them(device, randn, meanwhile):
    """What is given to a run from the host lies in a buffer that no handle shows."""
    values, type_ = randn(*SHAPE), TensorType("float32", SHAPE)
    at = spec_of(device.device, type_, L1)
    evicting = meanwhile(lambda: [eviction.evict_unused(device.handle, []), rt.wait(device.tensors())])
    evicting.before(core, "copy")
    buffer = staging.written(at.handle, at.memory, at.extent, type_, L1, values, "x")
    assert evicting.end()
    assert (Tensor(at.device, at.handle, type_, L1, buffer.addr, buffer).numpy() == values).all()


# **************** reads ****************

READS = {
    "to": lambda device, chain, x, y: x.to(layout="row_major"),
    "copy": lambda device, chain, x, y: copy.deepcopy(x),
    "add": lambda device, chain, x, y: eager.add(x, y) - y,
    "submit": lambda device, chain, x, y: rt.submit(device, chain, "add", [x, y])[0] - y,
    "session": lambda device, chain, x, y: (
        executable.executable(device, chain, "add").session.submit({"x": x, "y": y}).outputs[0] - y
    ),
}


@pytest.mark.parametrize("case", READS)
@pytest.mark.parametrize("times", range(4))
def test_a_read_beside_an_eviction_is_of_one_time(device, chain, randn, meanwhile, case, times):
    """The tensor is moved just after its buffer was looked at, before its layout is."""
    values, y = randn(*SHAPE), put(device, np.zeros(SHAPE, np.float32))
    x = put(device, values, L1)
    rt.submit(device, chain, "add", [y, y])
    moving = meanwhile(lambda: eviction.evict_unused(device.handle, []))
    moving.after_reading(Tensor, "buffer", times)
    out = READS[case](device, chain, x, y)
    moving.end()
    assert (out.numpy() == values).all()


@pytest.mark.parametrize("fetch", [Tensor.numpy, arrays.array, lambda x: gr.gather([x])[0]])
def test_what_is_freed_by_force_is_kept_while_it_is_fetched(device, randn, meanwhile, fetch):
    """Else another tensor gets the block."""
    x, values, others = put(device, randn(*SHAPE), L1), randn(*SHAPE), []
    wanted = x.numpy()
    freeing = meanwhile(lambda: [x.deallocate(force=True), others.append(put(device, values, L1))])
    freeing.before(core, "copy")
    freeing.before(batches, "_gather")
    assert (np.asarray(fetch(x)) == wanted).all()
    assert freeing.end()
    assert (others[0].numpy() == values).all()


def test_handles_that_are_freed_by_force_beside_an_eviction_are_all_gone(device, written, meanwhile):
    x = written[0]
    alias = x.alias()
    freeing = meanwhile(lambda: x.deallocate(force=True))
    freeing.before(Tensor, "settle")
    eviction.evict_unused(device.handle, [])
    assert freeing.end()
    assert not x.is_allocated
    assert not alias.is_allocated


# **************** room ****************


def test_a_submission_that_makes_room_holds_no_block(in_place, device, randn, monkeypatch):
    """Two threads would wait for the blocks that the refused submission of the other holds."""
    shape, held = (1024, 512), []
    bundle, values = in_place(shape), randn(*shape)
    rt.load_program(device, bundle, "step")
    above = [rt.create_empty_tensor(WIDE, "float32", device, L1) for _ in range(4)]
    x, d = put(device, values, L1), put(device, values)
    at, memory, make_room = x.buffer.addr, x.buffer.memory, eviction.make_room

    def looked(*args):
        moved = make_room(*args)
        held.append([block.addr for block in blocks(device.handle, memory) if block.kind == "held"])
        return moved

    monkeypatch.setattr(eviction, "make_room", looked)
    (out,) = rt.submit(device, bundle, "step", [x, d])
    assert at not in held[0]
    assert (out.numpy() == 2 * values).all()
    assert "l1" in [tensor.layout.memory for tensor in above]


def test_a_writer_that_waits_long_for_its_turn_is_waited_for(device, relu, randn):
    """The writer still holds the block that an eviction emptied, as on a busy machine, which gives its thread
    no turn for a while."""
    values = randn(4 * WIDE[0], WIDE[1])
    source = put(device, values)
    ones = put(device, np.ones(WIDE, np.float32))
    rt.load_program(device, relu, "wide")
    x = made(source, values)
    held = [x.buffer]
    letting_go = threading.Timer(0.3, held.clear)
    letting_go.start()
    (out,) = rt.submit(device, relu, "wide", [ones])
    letting_go.join()
    assert (out.numpy() == 1).all()
    assert x.layout == TILE
    assert (x.numpy() == values).all()


def test_a_constant_is_not_waited_for(device, relu, monkeypatch):
    """No thread gives a constant's block back, so a program without room is refused at once."""
    spec = spec_of(device.device, TensorType("float32", (4 * WIDE[0], WIDE[1])), L1)
    constant = Buffer.alloc(device.handle, spec.memory, spec.extent, "a constant", lasting=True)
    device.handle.constants.add(constant)
    ones = put(device, np.ones(WIDE, np.float32))
    rt.load_program(device, relu, "wide")
    monkeypatch.setattr(eviction.time, "sleep", lambda seconds: pytest.fail("it waits"))
    with pytest.raises(gr.DeviceMemoryError, match="a constant"):
        rt.submit(device, relu, "wide", [ones])
    del constant
    (out,) = rt.submit(device, relu, "wide", [ones])
    assert (out.numpy() == 1).all()
