"""What results should be, and how far they are from it.

Read: interpreter (numpy alone), rearrange (the same graph in other ways), differences (how far), compare
(devices with the interpreter), against (outputs with another runtime's); graphs, accuracy and placing make
random cases. plugin is pytest's: the fixture ``check_graph``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..run import oracle as oracle
    from .compare import compare_arrangements as compare_arrangements
    from .compare import random_inputs as random_inputs
    from .differences import Comparison as Comparison
    from .plugin import check_graph as check_graph

# public name -> what defines it; pytest need not be installed where nothing is tested
_HOME = {
    "Comparison": "differences",
    "check_graph": "plugin",
    "compare_arrangements": "compare",
    "random_inputs": "compare",
}
__all__ = sorted([*_HOME, "oracle"])


def __getattr__(name: str) -> Any:
    if name == "oracle":
        return import_module("..run.oracle", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
