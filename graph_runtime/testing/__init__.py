"""What results should be, and how far they are from it.

Read: interpreter (numpy alone), rearrange (the same graph in other ways), differences (how far), compare
(devices with the interpreter), against (outputs with another runtime's); graphs, accuracy and placing make
random cases. plugin is pytest's: the fixture ``check_graph``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plugin import check_graph as check_graph

__all__ = ["check_graph"]


def __getattr__(name: str) -> Any:
    if name != "check_graph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .plugin import check_graph  # pytest need not be installed where nothing is tested

    return check_graph
