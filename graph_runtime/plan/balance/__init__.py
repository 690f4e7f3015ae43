"""The balancer of stack buda: the ways in which each op may be cut onto the cores, and the cost of each way.

node --parts--> ops --models--> candidates, each with a verdict
"""

from __future__ import annotations

from .chip import BUDA, Chip, chip_of
from .choose import assign_models, balance_device, require_policy
from .epochs import Balanced, Choice
from .explain import as_json, as_table
from .forks import Buffering
from .grid import Grid, Stream
from .legal import explained, legal_models, part_models, require_legal
from .memory import Settings
from .models import MOST_MODELS, enumerate_models
from .op import DIRECTIONS, BalanceOp, Operand, Tiles, Tm, User
from .rows import balanced_json, balanced_text, node_rows, rows_text
from .types import (
    BALANCER_POLICIES,
    LEGAL,
    REASONS,
    BlockShape,
    Candidate,
    Candidates,
    L1Buffer,
    OpModel,
    Overrides,
)
from .view import View, view_of

__all__ = [
    "BALANCER_POLICIES",
    "BUDA",
    "DIRECTIONS",
    "LEGAL",
    "MOST_MODELS",
    "REASONS",
    "BalanceOp",
    "Balanced",
    "BlockShape",
    "Buffering",
    "Candidate",
    "Candidates",
    "Chip",
    "Choice",
    "Grid",
    "L1Buffer",
    "OpModel",
    "Operand",
    "Overrides",
    "Settings",
    "Stream",
    "Tiles",
    "Tm",
    "User",
    "View",
    "as_json",
    "as_table",
    "assign_models",
    "balance_device",
    "balanced_json",
    "balanced_text",
    "chip_of",
    "enumerate_models",
    "explained",
    "legal_models",
    "node_rows",
    "part_models",
    "require_legal",
    "require_policy",
    "rows_text",
    "view_of",
]
