"""Waiting for a device waits for what is queued there, also where its results were dropped."""

from __future__ import annotations

import ctypes
import threading

import pytest
import torch

SMALL, LARGE = (32, 32), (512, 512)


@pytest.fixture
def gate(tt, faulty_library, sabotage):
    """gate(False) holds the queue of tt:0 at the next exp; gate(True) lets it go."""
    flag = ctypes.c_int32.in_dll(faulty_library, "gate")
    sabotage("exp", "gated")
    for shape in (SMALL, LARGE):
        torch.exp(torch.ones(shape, device="tt"))  # a kernel is tried when it is selected
    torch.tt.synchronize()

    def move(is_open: bool) -> None:
        flag.value = int(is_open)

    yield move
    move(True)
    torch.tt.synchronize()
    sabotage("exp", None)


def waited(gate, wait) -> bool:
    """Whether ``wait`` came back only after the gate was opened."""
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.1)
    held = thread.is_alive()
    gate(True)
    thread.join()
    return held


WAITS = {
    "torch.tt": lambda event: torch.tt.synchronize(),
    "torch.accelerator": lambda event: torch.accelerator.synchronize("tt"),
    "a stream": lambda event: torch.tt.current_stream(0).synchronize(),
    "an event": lambda event: event.synchronize(),
    "a timed event": lambda event: torch.tt.Event(enable_timing=True).record(),
}


@pytest.mark.parametrize("name", WAITS)
def test_work_whose_results_were_dropped_is_waited_for(gate, name):
    x = torch.ones(SMALL, device="tt")
    torch.tt.synchronize()
    gate(False)
    torch.exp(x)
    torch.exp_(x.clone())
    event = torch.tt.Event()
    event.record()
    assert not event.query()
    assert not torch.tt.current_stream().query()
    assert waited(gate, lambda: WAITS[name](event))
    assert event.query()
    assert torch.tt.current_stream().query()


def test_an_event_does_not_wait_for_what_came_after_it(gate):
    x = torch.ones(SMALL, device="tt")
    made = x * 3
    event = torch.tt.Event()
    event.record()
    gate(False)
    torch.exp(made)
    event.synchronize()
    assert event.query()
    assert not torch.tt.current_stream().query()
    assert torch.tt.current_stream(1).query()


@pytest.mark.parametrize("kept", [False, True])
def test_python_is_few_large_operations_ahead_also_where_it_drops_their_results(gate, kept):
    x, made, held = torch.ones(LARGE, device="tt"), [], []
    torch.tt.synchronize()
    gate(False)

    def launch():
        for _ in range(20):
            held.append(torch.exp(x) if kept else torch.exp(x).shape)
            made.append(None)

    assert waited(gate, launch)
    assert len(held) == 20
