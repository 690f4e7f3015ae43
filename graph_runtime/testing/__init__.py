"""Tools for tests: the pytest plugin with the fixture ``check_graph``, and those functions and classes of
accuracy/ that tests use.

Read plugin; graphs, placing and operands make random cases for the project's own tests and benchmarks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.late_names import LateNames

if TYPE_CHECKING:  # the public names, for type checkers and LateNames
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

_late = LateNames(__name__)  # only tests need pytest


def __getattr__(name: str) -> Any:
    return _late.find(name)
