"""Gradients of functions: NAME_bw.

Read: derivatives, backward.
"""

from . import backward  # noqa: F401  (each makes its operations)
