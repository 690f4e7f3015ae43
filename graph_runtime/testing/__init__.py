"""For tests: pytest's plugin with the fixture ``check_graph``, and the names of accuracy/ that tests use.

Read plugin; graphs, placing and operands make random cases for the project's own tests and benchmarks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..base.errors import no_attribute

if TYPE_CHECKING:
    from ..accuracy.compare import compare_arrangements as compare_arrangements
    from ..accuracy.compare import random_inputs as random_inputs
    from ..accuracy.differences import Comparison as Comparison
    from ..accuracy.precision import Precision as Precision
    from ..accuracy.searching import Goal as Goal
    from ..accuracy.searching import search as search
    from ..accuracy.side_by_side import Question as Question
    from ..accuracy.sweeping import sweep as sweep
    from ..accuracy.thresholds import Thresholds as Thresholds
    from ..run import oracle as oracle
    from .plugin import check_graph as check_graph

# public name -> what defines it; pytest need not be installed where nothing is tested
_HOME = {
    "Comparison": "..accuracy.differences",
    "Goal": "..accuracy.searching",
    "Question": "..accuracy.side_by_side",
    "Precision": "..accuracy.precision",
    "Thresholds": "..accuracy.thresholds",
    "check_graph": ".plugin",
    "compare_arrangements": "..accuracy.compare",
    "random_inputs": "..accuracy.compare",
    "search": "..accuracy.searching",
    "sweep": "..accuracy.sweeping",
}
__all__ = sorted([*_HOME, "oracle"])


def __getattr__(name: str) -> Any:
    if name == "oracle":
        return import_module("..run.oracle", __name__)
    if name not in _HOME:
        raise no_attribute(__name__, name, __all__)
    return getattr(import_module(_HOME[name], __name__), name)
