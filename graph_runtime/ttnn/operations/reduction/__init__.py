"""Functions along dimensions: sums, extremes, running sums, draws.

Read: reductions, draws.
"""

from . import draws, reductions  # noqa: F401  (each makes its operations)
