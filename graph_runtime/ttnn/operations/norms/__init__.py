"""Softmax and norms.

Read: normalization, group_norms.
"""

from . import group_norms, normalization  # noqa: F401  (each makes its operations)
