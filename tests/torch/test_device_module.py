"""torch.tt and torch.accelerator: devices, memory, streams, events, random numbers, the profiler."""

from __future__ import annotations

import gc
import json
import threading
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import graph_runtime.runtime as rt  # noqa: E402
from graph_runtime.base.errors import HandleError  # noqa: E402

TIMED = {"enable_timing": True}


@pytest.fixture
def x():
    return torch.rand(64, 64).to("tt")


# **************** devices ****************


def test_the_accelerator_is_tt():
    accelerator = torch.accelerator
    assert accelerator.current_accelerator() == torch.device("tt")
    assert accelerator.is_available()
    assert accelerator.device_count() == torch.tt.device_count() == 2
    with accelerator.device_index(1):
        assert torch.empty(2, device="tt").device == torch.device("tt:1")
    assert accelerator.current_device_index() == 0
    assert torch.float32 in accelerator.get_device_capability()["supported_dtypes"]
    accelerator.empty_cache()
    accelerator.synchronize()


def test_the_current_device_is_a_threads_own():
    seen = []
    with torch.tt.device("tt:1"):
        thread = threading.Thread(target=lambda: seen.append(torch.tt.current_device()))
        thread.start()
        thread.join()
        assert torch.tt.current_device() == 1
    assert (seen, torch.tt.current_device()) == ([0], 0)
    with torch.tt.device_of(torch.ones(1).to("tt:1")):
        assert torch.tt.current_device() == 1
    with pytest.raises(RuntimeError, match="no device tt:7"):
        torch.tt.set_device(7)


def test_properties_are_the_boards():
    found = torch.tt.get_device_properties("tt:1")
    assert (found.name, found.device) == (torch.tt.get_device_name(1), "tt:1")
    assert found.total_memory == sum(torch.tt.mem_get_info(1)[1:])
    assert torch.tt.is_bf16_supported()


def test_the_default_device_makes_modules_there():
    with torch.device("tt"):
        layer = torch.nn.Linear(3, 2)
        assert layer.weight.device == torch.arange(3).device == torch.device("tt:0")
    torch.set_default_device("tt:1")
    try:
        assert torch.zeros(2).device == torch.device("tt:1")
    finally:
        torch.set_default_device(None)


# **************** memory ****************


def test_the_peak_is_what_was_held_at_once():
    gc.collect()
    torch.tt.reset_peak_memory_stats()
    before = torch.tt.memory_allocated()
    assert torch.tt.max_memory_allocated() == before
    one = torch.rand(256, 256).to("tt")
    each = torch.tt.memory_allocated() - before
    two = one + one
    del two
    three = one * 2
    del three
    assert torch.tt.memory_allocated() - before == each
    assert torch.tt.max_memory_allocated() - before == 2 * each
    assert torch.accelerator.max_memory_allocated() == torch.tt.max_memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.tt.memory_allocated()
    assert torch.tt.max_memory_reserved() >= torch.tt.max_memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.tt.max_memory_allocated() - before == each


def test_summary_and_snapshot_name_holders(x):
    stats = torch.tt.memory_stats()
    blocks = torch.tt.memory_snapshot()
    assert sum(b["total_size"] for b in blocks) == stats["reserved_bytes.all.current"]
    assert any("float32 [64, 64]" in b["holder"] for b in blocks) or x is None
    assert f"{stats['allocated']:,}" in torch.tt.memory_summary()


def test_out_of_memory_is_torchs_error_and_more_follows():
    with pytest.raises(torch.OutOfMemoryError, match="Out of Memory") as caught:
        torch.empty(1 << 40, device="tt")
    assert isinstance(caught.value, MemoryError)
    assert caught.value.device == "tt:0"
    assert torch.ones(2, device="tt").sum().item() == 2


# **************** streams and events ****************


def test_streams_are_torchs():
    stream = torch.Stream("tt:1")
    assert isinstance(stream, torch.tt.Stream)
    with stream:
        made = torch.ones(2, device="tt")
        assert torch.tt.current_stream() is stream
    assert made.device == torch.device("tt:1")
    stream.wait_stream(torch.tt.default_stream())
    stream.record_event().synchronize()
    stream.synchronize()
    assert stream.query()
    with torch.tt.stream(torch.tt.Stream()), torch.tt.stream(None):
        assert torch.accelerator.current_stream() is not torch.tt.default_stream()
    assert torch.accelerator.current_stream() is torch.tt.default_stream()


@pytest.mark.parametrize("make", [lambda: torch.Event("tt", **TIMED), lambda: torch.tt.Event(**TIMED)])
def test_events_tell_simulated_and_wall_time(x, make):
    times = []
    for count in (1, 3):
        start, end = make(), make()
        start.record()
        for _ in range(count):
            x = x @ x
        end.record()
        assert end.query()
        end.synchronize()
        times.append((start.elapsed_time(end), start.elapsed_wall_time(end)))
    (one, _), (three, wall) = times
    assert three == pytest.approx(3 * one)
    assert 0 < one < wall


def test_a_compiled_programs_time_counts(x):
    run = torch.compile(torch.nn.Linear(64, 64).to("tt"), backend="tt")
    run(x)
    start, end = torch.tt.Event(**TIMED), torch.tt.Event(**TIMED)
    start.record()
    run(x)
    end.record()
    assert start.elapsed_time(end) > 0


def test_what_is_filled_in_takes_the_same_time_whatever_it_is(x):
    times = []
    for value in (0.0, float("-inf"), float("nan")):
        start, end = torch.tt.Event(**TIMED), torch.tt.Event(**TIMED)
        start.record()
        torch.nn.functional.pad(x, (0, 3), value=value)
        end.record()
        times.append(start.elapsed_time(end))
    assert times[0] > 0
    assert times == [times[0]] * 3


def test_the_time_between_events_that_have_none_is_refused():
    plain, timed = torch.tt.Event(), torch.tt.Event(**TIMED)
    with pytest.raises(RuntimeError, match="enable_timing"):
        timed.elapsed_time(plain)
    with pytest.raises(RuntimeError, match="recorded"):
        timed.elapsed_time(timed)
    other = torch.tt.Event("tt:1", **TIMED)
    timed.record()
    other.record()
    with pytest.raises(RuntimeError, match="one device"):
        timed.elapsed_time(other)


def test_the_profiler_has_the_devices_time(x, tmp_path):
    run = torch.compile(torch.nn.Linear(64, 64).to("tt"), backend="tt")
    run(x)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as made:
        for _ in range(2):
            torch.relu(x @ x)
            run(x)
    rows = {row.key: row for row in made.key_averages()}
    assert rows["aten::mm"].self_device_time_total > 0
    assert rows["aten::mm"].self_device_time_total == pytest.approx(rows["matmul"].self_device_time_total)
    assert rows["aten::mm"].count == 2
    programs = [
        row for key, row in rows.items() if key.startswith("forward_") or key.startswith("inference_")
    ]
    assert [row.count for row in programs] == [2]
    assert "Self TT" in made.key_averages().table(sort_by="self_device_time_total")
    made.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    shown = [event for event in trace if event.get("cat") == "kernel"]
    assert {event["pid"].split()[0] for event in shown} == {"tt:0"}
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(shown))
    assert {event["name"] for event in shown} >= {"matmul", "relu"}


# **************** random numbers ****************


def test_a_generator_of_the_device_is_a_stream_of_its_own():
    first, second = (torch.Generator(device="tt").manual_seed(3) for _ in range(2))
    assert first.device == torch.device("tt:0")
    assert isinstance(first, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device == torch.device("cpu")
    before = torch.get_rng_state()
    made = torch.randn(4, device="tt", generator=first)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(made.cpu(), torch.randn(4, device="tt", generator=second).cpu())
    state = first.get_state()
    again = torch.rand(3, device="tt", generator=first)
    first.set_state(state)
    assert torch.equal(torch.rand(3, device="tt", generator=first).cpu(), again.cpu())
    assert torch.randperm(9, device="tt", generator=first).sum().item() == 36
    assert torch.bernoulli(torch.full((8,), 1.0).to("tt"), generator=first).sum().item() == 8
    assert torch.equal(first.clone_state().get_state(), first.get_state())


def test_states_are_saved_and_restored():
    states = torch.tt.get_rng_state_all()
    assert len(states) == 2
    made = torch.rand(3, device="tt")
    torch.tt.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="tt").cpu(), made.cpu())
    with torch.random.fork_rng(devices=[0], device_type="tt"):
        torch.rand(3, device="tt")
        torch.tt.manual_seed_all(5)
    assert torch.tt.initial_seed() == torch.initial_seed()


def test_a_device_that_was_closed_elsewhere_is_synchronized_and_counted():
    held = torch.ones(4, device="tt:1") * 3.0
    with rt.open_device("tt:1"):
        pass
    torch.tt.synchronize(1)
    assert torch.tt.current_stream(1).query()
    assert torch.tt.memory_stats(1)["allocated"] == 0
    with pytest.raises(HandleError, match="which was closed"):
        held.cpu()
    assert (torch.ones(4, device="tt:1") * 3.0).sum().item() == 12
