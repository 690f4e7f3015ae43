"""What results should be, and how far they are from it.

Read: interpreter (numpy alone), rearrange (the same graph in other ways), ulp and differences (how far),
compare (devices with the interpreter), against (outputs with another runtime's); precision (ways to
compute), sweeping (an op over all bf16 numbers), side_by_side (a model in several precisions), thresholds,
coarsening and searching (which nodes may be coarser), ways and bounding (where and in which format nodes run
within an error bound); graphs, accuracy and placing make random cases. plugin is pytest's: the fixture
``check_graph``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..base.errors import no_attribute

if TYPE_CHECKING:
    from ..run import oracle as oracle
    from .compare import compare_arrangements as compare_arrangements
    from .compare import random_inputs as random_inputs
    from .differences import Comparison as Comparison
    from .plugin import check_graph as check_graph
    from .precision import Precision as Precision
    from .searching import Goal as Goal
    from .searching import search as search
    from .side_by_side import Question as Question
    from .sweeping import sweep as sweep
    from .thresholds import Thresholds as Thresholds

# public name -> what defines it; pytest need not be installed where nothing is tested
_HOME = {
    "Comparison": "differences",
    "Goal": "searching",
    "Question": "side_by_side",
    "Precision": "precision",
    "Thresholds": "thresholds",
    "check_graph": "plugin",
    "compare_arrangements": "compare",
    "random_inputs": "compare",
    "search": "searching",
    "sweep": "sweeping",
}
__all__ = sorted([*_HOME, "oracle"])


def __getattr__(name: str) -> Any:
    if name == "oracle":
        return import_module("..run.oracle", __name__)
    if name not in _HOME:
        raise no_attribute(__name__, name, __all__)
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
