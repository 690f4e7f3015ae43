"""Tensors from numbers, torch, numpy and files, and their conversion back.

Read: filled, conversion.
"""

from . import conversion, filled  # noqa: F401  (each makes its operations)
