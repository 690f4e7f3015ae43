"""Elementwise functions.

Read: activations, unary with unary_bodies, binary with binary_bodies, ternary, gates, quantization.
"""

from . import binary, gates, quantization, ternary, unary  # noqa: F401  (each makes its operations)
