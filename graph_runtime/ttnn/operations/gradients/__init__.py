"""Gradients of functions: NAME_bw for the function NAME.

Read: derivatives, backward.
"""

from . import backward  # noqa: F401  (each makes its operations)
