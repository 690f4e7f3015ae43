"""Attention, its heads, and caches of keys and values.

Read: heads, model_heads, positions, transformer, caches, decoding.
"""

from . import caches, decoding, heads, model_heads, positions, transformer  # noqa: F401  (each makes its operations)
