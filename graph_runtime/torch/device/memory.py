"""torch.tt: use of the devices' main memory. Bytes are those allocated on the device for any holder: padded
tiles and pages, summed over all banks. Cached scalars and idle memory have no holder. Peaks are counted since
reset_peak_memory_stats."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ...binding import core
from ...binding.core import ffi, lib
from ...run.device_handles import DeviceHandle, open_device
from ...run.queues.blocks import blocks
from ...run.queues.limbo import sweep
from ...run.single.operands import constant_bytes
from ...run.tensors.lineage import settle_all
from ..store import collect, device_of, devices

__all__ = [
    "empty_cache",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


_DRAIN_NS = 200_000_000  # limit of the wait for queued work: other threads may queue work for ever


def _opened(device: Any) -> DeviceHandle:
    """The device, after its queued work has ended. Memory that torch has dropped, and memory that recipes
    kept, has been freed."""
    settle_all()
    collect()
    handle = open_device(devices()[device_of(device)])
    lib.gr_async_drain(handle.pointer, _DRAIN_NS)  # values may be ready before the runs that make them end
    sweep()
    return handle


def _peaks(handle: DeviceHandle, reset: bool = False) -> tuple[int, int]:
    """(peak without, peak with the memory kept for reuse). A peak is the most bytes of a bank that were in
    use at once."""
    out = ffi.new("uint64_t[2]")
    core.check(lib.gr_buffers_most(handle.pointer, 0, reset, out), device=str(handle.device))
    return out[0], out[1]


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """{key: number} about the device's main memory. All numbers but "allocations" are bytes.

    "allocated": memory that tensors, programs and sessions hold.
    "allocations": number of allocated blocks.
    "free": free memory; "largest_free": the largest free block.
    "idle": freed memory that is kept for reuse.
    "scalars": cached operands that are numbers, counted neither in "allocated" nor in "idle".
    "allocated_bytes.all.current", "allocated_bytes.all.peak": torch's names of memory_allocated and its peak.
    "reserved_bytes.all.current", "reserved_bytes.all.peak": torch's names of memory_reserved and its peak.
    """
    handle = _opened(device)
    banks = handle.device.main_memory.banks
    stats, idle = handle.stats(0), lib.gr_buffers_idle(handle.pointer, 0)
    used, held = _peaks(handle)
    scalars = constant_bytes(handle.device)
    allocated = (stats.allocated - idle) * banks - scalars
    return OrderedDict(
        {
            "allocated": allocated,
            "free": stats.free * banks,
            "largest_free": stats.largest_free * banks,
            "allocations": stats.allocations,
            "idle": idle * banks,
            "scalars": scalars,
            "allocated_bytes.all.current": allocated,
            "allocated_bytes.all.peak": max(allocated, used * banks - scalars),
            "reserved_bytes.all.current": stats.allocated * banks,
            "reserved_bytes.all.peak": held * banks,
        }
    )


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors, programs and sessions hold, including padding."""
    return memory_stats(device)["allocated"]


def max_memory_allocated(device: Any = None) -> int:
    """The maximum of memory_allocated."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    """memory_allocated plus the bytes kept for reuse."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Any = None) -> int:
    """The maximum of memory_reserved."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peaks to the current values."""
    _peaks(_opened(device), reset=True)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Do nothing, because no statistic of tt is accumulated over time."""
    device_of(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free bytes, total bytes)."""
    stats = memory_stats(device)
    free = stats["free"] + stats["idle"] + stats["scalars"]
    return free, free + stats["allocated"]


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """Each block of the device's main memory, by address: {"address", "total_size" bytes of all banks,
    "state": "active_allocated", "active_pending_free" (queued work alone needs it) or "inactive", "holder":
    name of its first user}."""
    handle = _opened(device)
    banks = handle.device.main_memory.banks
    states = {"queued": "active_pending_free", "idle": "inactive"}
    return [
        {
            "device": device_of(device),
            "address": block.addr,
            "total_size": block.extent * banks,
            "state": states.get(block.kind, "active_allocated"),
            "holder": block.holder,
        }
        for block in blocks(handle, 0)
    ]


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """memory_stats as a table, followed by the largest holders unless ``abbreviated``."""
    stats = memory_stats(device)
    lines = [f"memory of {devices()[device_of(device)]}", f"{'bytes':12}{'now':>16}{'most':>16}"]
    for name in ("allocated", "reserved"):
        now, most = (stats[f"{name}_bytes.all.{which}"] for which in ("current", "peak"))
        lines.append(f"{name:12}{now:>16,}{most:>16,}")
    lines.append(f"{'free':12}{stats['free']:>16,}")
    if not abbreviated:
        held: dict[str, int] = {}
        for block in memory_snapshot(device):
            if block["state"] != "inactive":
                held[block["holder"]] = held.get(block["holder"], 0) + block["total_size"]
        most_held = sorted(held.items(), key=lambda item: -item[1])[:10]
        lines += [f"{nbytes:>28,}  {holder}" for holder, nbytes in most_held]
    return "\n".join(lines)


def empty_cache() -> None:
    """Give idle memory back to the devices."""
    for index in range(len(devices())):
        lib.gr_reclaim(_opened(index).pointer, 0, 0)


def ipc_collect() -> None:
    """Do nothing, because processes share no memory of a device."""
