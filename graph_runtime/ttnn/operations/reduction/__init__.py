"""Functions along dimensions: sums, extremes, running sums, draws.

Read: reductions, draws, scans.
"""

from . import draws, reductions, scans  # noqa: F401  (each makes its operations)
