"""AMX's tiles, as far as this process may use them."""

from __future__ import annotations

from . import core

__all__ = ["tile_products"]


def tile_products() -> tuple[str, ...]:
    """What AMX's tiles multiply in this process, of "bf16" and "int8": nothing where the CPU has none, the
    system does not allow them, or GR_AMX=0 says so. The first call asks the system."""
    made = core.lib.gr_host_amx()
    return tuple(kind for bit, kind in ((1, "bf16"), (2, "int8")) if made & bit)
