"""Sessions of which one runs at a time have what they compute on the way in one arena."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.run.factory import open_prepared
from graph_runtime.run.sessions.arena import Arena, passing


def network(rows):
    """Wide values on the way, an output of two aliases, another that is read on."""
    b = GraphBuilder()
    x = b.input("x", (rows, 64))
    wide = b.op("exp", b.op("concatenate", *([x] * 8), axis=1, name="wide"), name="e")
    a = b.op("slice", wide, starts=(0,), ends=(64,), axes=(1,), name="a")
    c = b.op("tanh", b.op("add", a, x, name="sum"), name="c")
    b.output(b.op("reshape", c, shape=(64, rows), name="turned"))
    b.output(b.op("multiply", c, a, name="m"))
    return b


def expected(x):
    c = np.tanh(np.exp(x) + x)
    return c.reshape(64, -1), c * np.exp(x)


def opened(rows, arena, device="cpu:0", **options):
    return open_prepared(prepare(network(rows), [device], compile=False, **options), arena=arena)


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_sessions_of_many_sizes_are_right_in_one_block(device):
    arena, rng = Arena(), np.random.default_rng(0)
    modules = {}
    for rows in (32, 96, 64, 160, 32):
        modules.setdefault(rows, opened(rows, arena, device))
    blocks = {id(b) for m in modules.values() for b in m.session.bound._blocks.values()}
    assert len(blocks) == 1
    kept, largest = [], modules[160].session.bound
    assert sum(b.extent for b in largest._blocks.values()) > 0
    for rows in (32, 160, 64, 96, 160, 32):
        x = rng.standard_normal((rows, 64)).astype(np.float32)
        modules[rows].run(x=x)
        kept = [*[each for each in kept if each[0] is not modules[rows]], (modules[rows], expected(x))]
        for module, wants in kept:  # outputs stay, whatever ran since
            for i, want in enumerate(wants):
                tolerance = 1e-5 if device == "cpu:0" else 2e-2
                np.testing.assert_allclose(module.get_output(i).numpy(), want, rtol=tolerance, atol=tolerance)


def test_an_arena_takes_what_the_largest_needs():
    arena, alone = Arena(), [opened(rows, None).session.bound for rows in (64, 128, 256)]
    shared = [opened(rows, arena).session.bound for rows in (64, 128, 256)]
    block = next(iter(shared[-1]._blocks.values())).extent
    own = sum(r.extent for bound in shared for r in bound.regions.values())
    assert own + block < sum(r.extent for bound in alone for r in bound.regions.values())
    assert block <= 20 * 256 * 64 * 4
    assert len({bound._scratch.ctypes.data for bound in shared}) == 1


def test_inputs_and_outputs_and_their_aliases_are_no_values_on_the_way():
    plan = prepare(network(32), ["cpu:0"], compile=False).plan
    names = [plan.graph.names[nid] for nid in plan.graph.entry_nid[passing(plan)]]
    assert names == ["wide", "e", "a", "sum"]


def test_the_arena_goes_with_its_sessions():
    arena = Arena()
    first, second = opened(64, arena), opened(256, arena)
    x = np.ones((64, 64), np.float32)
    del second
    gc.collect()
    first.run(x=x)
    np.testing.assert_allclose(first.get_output(1).numpy(), expected(x)[1], rtol=1e-5)
    del first
    gc.collect()
    assert not arena._blocks
    assert not arena._users


def test_no_room_for_a_larger_one_leaves_the_others_as_they_were(monkeypatch):
    arena = Arena()
    module, x = opened(64, arena), np.full((64, 64), 0.5, np.float32)
    module.run(x=x)
    block = dict(arena._blocks)

    def refuse(*_):
        raise gr.DeviceMemoryError("Out of Memory")

    with monkeypatch.context() as patched:
        patched.setattr("graph_runtime.run.sessions.bind.Region", refuse)
        with pytest.raises(gr.DeviceMemoryError):
            opened(512, arena)
    assert dict(arena._blocks) == block
    module.run(x=x)
    np.testing.assert_allclose(module.get_output(1).numpy(), expected(x)[1], rtol=1e-5)


def test_queued_runs_and_zero_copy_beside_an_arena():
    arena = Arena()
    module, x = opened(64, arena), np.full((64, 64), 0.25, np.float32)
    run = module.run_async(x=x)
    out = gr.aligned_empty((64, 64), "float32")
    module.set_output_zero_copy(1, out)
    opened(512, arena).run(x=np.ones((512, 64), np.float32))
    module.run(x=x)
    for found in (out, run.outputs[1].numpy()):
        np.testing.assert_allclose(found, expected(x)[1], rtol=1e-5)
