"""AMX tiles of the CPU, if this process may use them."""

from __future__ import annotations

from . import core


def tile_products() -> tuple[str, ...]:
    """Types that AMX tiles multiply in this process, of "bf16" and "int8". The result is empty if the CPU has
    no tiles, the system does not allow them, or GR_AMX is 0. The first call asks the system."""
    made = core.lib.gr_host_amx()
    return tuple(kind for bit, kind in ((1, "bf16"), (2, "int8")) if made & bit)
