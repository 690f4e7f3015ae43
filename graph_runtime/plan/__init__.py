"""Planning: the decisions that turn a graph and a device list into a checked Plan, one pass per module.

    place -> insert_transfers -> assign_layouts -> assign_storage -> assign_numerics -> assign_models -> check

types has the values that the passes hand on. Read the passes in this order: passes (plan() and place()) with
placing/ (the policies), supports (capabilities of devices) and globs (names of nodes); then transfers,
layouts (with wishes), storage/, compute_config, balance/ and checker/. queues/ finds the instructions that
may run side by side; record and snapshot write a plan to files. columns has arithmetic and lifetimes that all
passes share.

A name is imported when it is first used, because a plan that is read from a bundle needs no passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.late_names import LateNames

if TYPE_CHECKING:  # the public names: type checkers see them, and LateNames reads them
    from .checker.check import check as check
    from .compute_config import assign_numerics as assign_numerics
    from .layouts import assign_layouts as assign_layouts
    from .passes import plan as plan
    from .storage.memory import assign_storage as assign_storage
    from .transfers import insert_transfers as insert_transfers
    from .types import LaidOutGraph as LaidOutGraph
    from .types import PlacedGraph as PlacedGraph
    from .types import Placement as Placement
    from .types import Plan as Plan
    from .types import Storage as Storage

_late = LateNames(__name__)


def __getattr__(name: str) -> Any:
    return _late.find(name)
