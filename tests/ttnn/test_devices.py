"""What open_device is asked for is acted on: sizes of memories, queues; closed devices; queues."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

pytestmark = pytest.mark.core
L1 = ttnn.BufferType.L1


def l1_of(**sizes):
    device = ttnn.open_device(device_id=3, **sizes)
    found = ttnn.get_memory_view(device, L1).total_bytes_per_bank
    ttnn.close_device(device)
    return found


def test_l1_small_and_worker_l1_size_change_the_room_of_l1():
    whole = l1_of()
    assert l1_of(l1_small_size=24576) == whole - 24576
    assert l1_of(l1_small_size=1) == whole - 32  # whole units of DRAM's alignment
    assert l1_of(worker_l1_size=1 << 20) == 1 << 20
    assert l1_of(worker_l1_size=1 << 20, l1_small_size=32768) == (1 << 20) - 32768
    device = ttnn.open_device(device_id=3, l1_small_size=24576, worker_l1_size=1 << 20)
    assert device.l1_size_per_core() == 1499136  # all of it, as on a card
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_per_bank == 24576


def test_the_trace_region_is_taken_from_each_bank_of_dram():
    sizes = []
    for asked in (0, 1 << 20):
        device = ttnn.open_device(device_id=3, trace_region_size=asked)
        sizes.append(ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_per_bank)
        assert ttnn.get_memory_view(device, ttnn.BufferType.TRACE).total_bytes_per_bank == asked
    assert sizes[0] - sizes[1] == 1 << 20


def test_a_tensor_that_fits_the_board_does_not_fit_beside_l1_small():
    """64 cores with 1.2 MB each, where half a MB is kept for L1_SMALL."""
    shape = (64 * 600, 1024)  # 1,228,800 bytes of bfloat16 a core
    for small in (0, 1 << 19):
        device = ttnn.open_device(device_id=3, l1_small_size=small)

        def make(device=device):
            return ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)

        if small:
            with pytest.raises(RuntimeError, match=r"Out of Memory:[^\0]*l1_small_size=524288"):
                make()
        else:
            ttnn.deallocate(make())
        ttnn.close_device(device)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"num_command_queues": 3}, "num_hw_cqs can be between 1 and 2"),
        ({"num_command_queues": 0}, "num_hw_cqs can be between 1 and 2"),
        ({"l1_small_size": 1 << 21}, "Reserved size must be less than bank size"),
        ({"worker_l1_size": 1 << 21}, "Worker L1 size 2097152 is larger than max size"),
        ({"worker_l1_size": 4096, "l1_small_size": 8192}, "Reserved size must be less than bank size"),
        ({"trace_region_size": 1 << 40}, "trace_region_size"),
        ({"l1_small_size": -1}, "must not be negative"),
    ],
)
def test_sizes_that_no_board_has_are_refused_by_name(asked, text):
    with pytest.raises(RuntimeError, match=text):
        ttnn.open_device(device_id=3, **asked)


def test_a_queue_that_was_not_opened_is_refused(device):
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    for call in (
        lambda: ttnn.add(x, x, queue_id=1),
        lambda: ttnn.from_device(x, cq_id=1),
        lambda: ttnn.synchronize_device(device, cq_id=1),
        lambda: ttnn.record_event(device, 1),
        lambda: ttnn.begin_trace_capture(device, cq_id=1),
    ):
        with pytest.raises(RuntimeError, match="cq_id 1 is out of range"):
            call()
    two = ttnn.open_device(device_id=3, num_command_queues=2)
    y = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=two)
    event = ttnn.record_event(two, 1)
    ttnn.wait_for_event(0, event)
    assert (ttnn.add(y, y, queue_id=1).to_numpy() == 2).all()
    ttnn.close_device(two)


def test_a_closed_device_refuses_and_another_one_works():
    device = ttnn.open_device(device_id=3)
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    trace = ttnn.begin_trace_capture(device, cq_id=0)  # which no one ends
    ttnn.close_device(device)
    with pytest.raises(RuntimeError, match="deallocated"):
        ttnn.add(x, x)
    with pytest.raises(RuntimeError, match="is closed"):
        ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    with pytest.raises(RuntimeError, match="not found"):
        ttnn.execute_trace(device, trace, cq_id=0)
    again = ttnn.open_device(device_id=3)
    y = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=again)
    assert (ttnn.add(y, y).to_numpy() == 2).all()
    ttnn.close_device(again)
