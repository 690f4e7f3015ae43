"""Attention, its heads, and caches of keys and values.

Read: heads, transformer, caches, decoding.
"""

from . import caches, decoding, heads, transformer  # noqa: F401  (each makes its operations)
