"""What ops and transfers cost: cycles and ns with the ground each number stands on.

Pure functions; nothing is read but the packaged weights, once.
"""

from .buda import NonZero
from .opmodel import op_cycles
from .types import BASES, Cost, worst

__all__ = ["BASES", "Cost", "NonZero", "op_cycles", "worst"]
