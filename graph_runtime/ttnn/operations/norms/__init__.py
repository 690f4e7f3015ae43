"""Softmax and norms.

Read: normalization, row_statistics (in two steps), group_norms.
"""

from . import group_norms, normalization, row_statistics  # noqa: F401  (each makes its operations)
