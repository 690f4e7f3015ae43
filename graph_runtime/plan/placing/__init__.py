"""The device on which each node runs, chosen by predicted time.

Graph + devices --problem--> PlacementProblem --policies--> device of each node --causes, rows--> why
"""

from .policies import PLACEMENT_POLICIES, decide
from .problem import UNSUPPORTED, PlacementProblem, make_problem
from .schedule import OBJECTIVES, evaluate

__all__ = [
    "OBJECTIVES",
    "PLACEMENT_POLICIES",
    "UNSUPPORTED",
    "PlacementProblem",
    "decide",
    "evaluate",
    "make_problem",
]
