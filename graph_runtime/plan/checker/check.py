"""The independent checker: no plan runs that it has not seen, whatever made the plan.

It shares no code with the passes: it reads a Plan, works out by itself which bytes every entry takes and how
long they are needed, and refuses the plan with the first rule that it breaks:

    columns    lengths and ids are in range
    order      a read comes after its write
    device     nodes read their own device
    layout     memory, layout and format exist on the device and can hold the dtype
    copy       what a __copy may convert
    nop        a reshape shares its input's bytes, and they mean the same
    storage    the right memory, large enough, aligned, inside the device
    at_input   only copies of graph inputs run when an input is set
    alias      an output may be written into an input's buffer
    overlap    no write to bytes that something still needs
    models     what a balancer chose fits node, core and chip; epochs and cores make sense

It is conservative where it need not know more: bytes count by whole entries with their padding, two storages
that overlap in space by their whole extent, a graph input is needed for ever (it may be set once and run many
times), a __nop reads its input, a write without a reader is still a write, and in-place use asks for equal
types and a permission of the op.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types import Plan
from .facts import Facts, check_columns
from .models import check_models
from .nodes import check_copies, check_devices, check_layouts, check_nops, check_order
from .overlap import check_alias, check_overlap
from .storage import check_at_input, check_storage

__all__ = ["check"]


def check(plan: Plan, *, inplace: Mapping[str, tuple[int, ...]] | None = None) -> Plan:
    """The plan itself, if it is safe to run.

    ``inplace``: func_name -> inputs that output 0 may overwrite, from the libraries' manifests; it goes
    before the op registry's. Raises CheckError with ``rule``, ``node``, ``entries`` and the path in the file.
    """
    check_columns(plan)
    facts = Facts.of(plan, inplace or {})
    check_order(facts)
    check_devices(facts)
    check_layouts(facts)
    check_copies(facts)
    check_nops(facts)
    check_storage(facts)
    check_at_input(facts)
    check_overlap(facts, check_alias(facts))
    check_models(plan)
    return plan
