"""Attention, its heads, and caches of keys and values.

Read: heads, model_heads, positions, transformer, caches, padded_caches, decoding,
latent, sparse.
"""

from . import caches, decoding, heads, latent, model_heads, padded_caches, positions, sparse, transformer  # noqa: F401  (each makes its operations)
