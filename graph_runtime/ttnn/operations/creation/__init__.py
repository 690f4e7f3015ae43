"""Tensors from numbers, from torch or numpy, from files, and back.

Read: filled, conversion, constructor.
"""

from . import constructor, conversion, filled  # noqa: F401  (each makes its operations)
