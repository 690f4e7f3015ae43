"""Recurrent states of linear attention.

Read: delta_rules, kda.
"""

from . import delta_rules, kda  # noqa: F401  (each makes its operations)
