"""torch.tt: what devices' main memory holds. Bytes are what the device really gives: padded tiles and pages
of all banks, whatever holds them. Scalars that are kept to be used again are no one's, as what is idle is.
Peaks are since reset_peak_memory_stats."""

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


_DRAIN_NS = 200_000_000  # where other threads queue more and more, what is true changes anyway


def _opened(device: Any) -> DeviceHandle:
    """The device, when what is queued is over, and what torch dropped and what recipes kept is given back."""
    settle_all()
    collect()
    handle = open_device(devices()[device_of(device)])
    lib.gr_async_drain(handle.pointer, _DRAIN_NS)  # the values are there, and their runs may not be over
    sweep()
    return handle


def _peaks(handle: DeviceHandle, reset: bool = False) -> tuple[int, int]:
    """The most bytes a bank in use at once, and with what was kept for the next taker."""
    out = ffi.new("uint64_t[2]")
    core.check(lib.gr_buffers_most(handle.pointer, 0, reset, out), device=str(handle.device))
    return out[0], out[1]


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Bytes of the device's main memory: {"allocated", "free", "largest_free", "allocations", "idle",
    "scalars"}. ``idle``: given back, and kept for the next taker; ``scalars``: numbers of operations, kept to
    be used again, in neither "allocated" nor "idle". The same under torch's names:
    "allocated_bytes.all.current", ".peak", "reserved_bytes.all.current", ".peak"."""
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
    """Bytes that tensors, programs and sessions hold, padding counted."""
    return memory_stats(device)["allocated"]


def max_memory_allocated(device: Any = None) -> int:
    """The most that memory_allocated was, at any moment."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    """memory_allocated, and what is kept for the next taker."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Any = None) -> int:
    """The most that memory_reserved was, at any moment."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Peaks are what is held now."""
    _peaks(_opened(device), reset=True)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing: no statistics here are sums over time."""
    device_of(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free bytes, bytes in all)."""
    stats = memory_stats(device)
    free = stats["free"] + stats["idle"] + stats["scalars"]
    return free, free + stats["allocated"]


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """Each block of the device's main memory, by address: {"address", "total_size" bytes of all banks,
    "state": "active_allocated", "active_pending_free" (queued work alone needs it) or "inactive", "holder":
    what asked for it first}."""
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
    """memory_stats as a table, and unless ``abbreviated`` the largest holders."""
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
    """Nothing: processes share no memory of a device."""
