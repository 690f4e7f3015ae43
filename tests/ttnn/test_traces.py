"""Traces: what a replay reads and writes, addresses that the script frees and takes again, and what a capture
refuses."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from graph_runtime.compat import ttnn

pytestmark = pytest.mark.core


def test_a_trace_is_replayed_on_the_same_memory(device):
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.add(ttnn.relu(x * 2.0), 1.0)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    made = ttnn.relu(x * 2.0) + 1.0
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert (made.to_numpy() == 3).all()
    fresh = ttnn.from_torch(np.full((32, 32), 4.0, np.float32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    ttnn.copy_host_to_device_tensor(fresh, x)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    assert (made.to_numpy() == 9).all()
    ttnn.release_trace(device, trace)
    with pytest.raises(RuntimeError, match="not found"):
        ttnn.execute_trace(device, trace, cq_id=0)


def test_a_result_on_its_operands_memory_is_made_anew_by_a_replay(device):
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)

    def steps():
        doubled = x * 2.0
        same = ttnn.to_memory_config(doubled, doubled.memory_config())
        doubled.deallocate()
        made = same + 1.0
        same.deallocate()
        return made

    steps()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    made = steps()
    ttnn.end_trace_capture(device, trace, cq_id=0)
    fresh = ttnn.from_torch(np.full((32, 32), 4.0, np.float32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    ttnn.copy_host_to_device_tensor(fresh, x)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    assert (made.to_numpy() == 9).all()


def test_a_trace_may_free_what_it_makes(device):
    old = np.arange(64, dtype=np.float32)[None].repeat(3072, 0)
    x = ttnn.from_torch(old, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)

    def held():
        ttnn.synchronize_device(device)
        return ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank

    def comes_down():
        """The result, not the 32,768 bytes a bank of each of six; what is freed goes when its readers end."""
        limit = time.monotonic() + 20
        while held() - before > 2 * 32768 and time.monotonic() < limit:
            time.sleep(0.01)
        return held() - before <= 2 * 32768

    ttnn.add(x, 1.0)
    before = held()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    made = x
    for _ in range(6):
        last, made = made, ttnn.add(made, 1.0)
        if last is not x:
            ttnn.deallocate(last)
    del last  # the handle of a tensor whose run had not ended keeps what that read
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert comes_down()
    ttnn.copy_host_to_device_tensor(ttnn.from_torch(-old, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT), x)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    assert (made.to_numpy() == 6 - old).all()
    assert comes_down()
    ttnn.release_trace(device, trace)


def test_a_trace_has_ops_of_several_outputs(device):
    old = np.arange(64, dtype=np.float32)[None].repeat(32, 0)
    x = ttnn.from_torch(old, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.topk(ttnn.multiply(x, 2.0), 32)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    values, places = ttnn.topk(ttnn.multiply(x, 2.0), 32)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert (places.to_numpy()[0] == np.arange(63, 31, -1)).all()
    new = np.ascontiguousarray(old[:, ::-1])
    ttnn.copy_host_to_device_tensor(ttnn.from_torch(new, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT), x)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    assert (values.to_numpy()[0] == 2 * new[0, :32]).all()
    assert (places.to_numpy()[0] == np.arange(32)).all()
    ttnn.release_trace(device, trace)


def test_a_trace_whose_input_has_gone_says_so(device):
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.exp(x)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    made = ttnn.exp(x)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.deallocate(x)
    with pytest.raises(RuntimeError, match="a tensor that the trace reads was freed"):
        ttnn.execute_trace(device, trace, cq_id=0)
    assert made.is_allocated()


# **************** addresses ****************


def sharded(rows):
    grid = ttnn.CoreGrid(x=2, y=1)
    return ttnn.create_sharded_memory_config((1, 1, rows, 64), grid, ttnn.ShardStrategy.HEIGHT)


def model(x):
    """tt-metal's models free the input as soon as they can."""
    made = ttnn.tilize(x)
    ttnn.deallocate(x)
    return ttnn.to_layout(ttnn.relu(made), ttnn.ROW_MAJOR_LAYOUT)


@pytest.mark.parametrize("rows", [64, 512])
def test_an_input_freed_in_the_capture_is_an_address(device, rows):
    values = np.random.default_rng(0).standard_normal((3, 1, 1, rows, 64)).astype(np.float32)
    hosts = [ttnn.from_torch(one, ttnn.bfloat16) for one in values]
    config = sharded(rows)
    kept = ttnn.to_device(hosts[0], device)
    ttnn.deallocate(model(ttnn.to_memory_config(kept, config)))
    x = ttnn.to_memory_config(kept, config)
    spec, address = x.spec, x.buffer_address()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    made = model(x)
    again = ttnn.allocate_tensor_on_device(spec, device)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert again.buffer_address() == address != made.buffer_address()
    for host in hosts:
        ttnn.copy_host_to_device_tensor(host, kept)
        again = ttnn.to_memory_config(kept, config, output_tensor=again)
        assert again.buffer_address() == address
        ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
        assert (made.to_numpy() == np.maximum(host.to_numpy(), 0)).all()
    ttnn.release_trace(device, trace)


def test_freed_l1_is_given_again_at_its_place(device):
    """Whatever is queued, and whether tensors are freed by name or dropped."""
    x = ttnn.ones((1, 1, 512, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, sharded(512))
    first = ttnn.exp(x)
    places = [(x.buffer_address(), first.buffer_address())]
    for _ in range(5):
        small = ttnn.to_memory_config(first, ttnn.L1_MEMORY_CONFIG)
        ttnn.deallocate(first)
        first = ttnn.exp(small, memory_config=sharded(512))
        del small
        places.append((x.buffer_address(), first.buffer_address()))
    assert len(set(places)) == 1
    ttnn.deallocate(x)
    ttnn.deallocate(first)


# **************** what a capture refuses ****************


def test_a_capture_refuses_transfers_of_its_queue_and_new_programs():
    device = ttnn.open_device(device_id=3, num_command_queues=2)
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    host = ttnn.from_torch(np.full((32, 32), 2.0, np.float32), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    ttnn.exp(x)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    writes, reads = "Writes are not supported during trace capture", "Reads are not supported during trace"
    events = "Event Synchronization is not supported during trace capture"
    for text, call in (
        (writes, lambda: ttnn.copy_host_to_device_tensor(host, x)),
        (writes, lambda: ttnn.to_device(host, device)),
        (writes, lambda: ttnn.zeros((32, 32), device=device)),
        (reads, lambda: ttnn.to_torch(x)),
        (reads, lambda: ttnn.from_device(x)),
        (reads, x.to_list),
        (events, lambda: ttnn.record_event(device, 0)),
        (events, lambda: ttnn.synchronize_device(device)),
        (writes, lambda: ttnn.tan(x)),  # its card program is new
        ("CQ 0 is already being used for tracing", lambda: ttnn.begin_trace_capture(device, cq_id=0)),
        ("CQ 1 is not being used for tracing", lambda: ttnn.end_trace_capture(device, trace, cq_id=1)),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    ttnn.copy_host_to_device_tensor(host, x, cq_id=1)
    ttnn.record_event(device, 1)
    assert (x.cpu(cq_id=1).to_numpy() == 2).all()
    made = ttnn.exp(x)
    view = ttnn.reshape(x, (1, 1, 32, 32))  # no card program
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert np.allclose(made.to_numpy(), np.exp(2), rtol=0.01)
    assert view.shape == [1, 1, 32, 32]
    ttnn.close_device(device)


def test_a_tensor_allocated_while_there_are_traces_is_told_of_once():
    device = ttnn.open_device(device_id=3)
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.exp(x)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    ttnn.exp(x)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    with pytest.warns(UserWarning, match="unsafe due to the existence of an active trace"):
        ttnn.exp(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ttnn.exp(x)
    ttnn.close_device(device)
