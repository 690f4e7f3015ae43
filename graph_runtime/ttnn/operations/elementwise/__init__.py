"""Elementwise functions.

Read: activations, unary with unary_bodies, binary with binary_bodies, ternary, quantization.
"""

from . import binary, quantization, ternary, unary  # noqa: F401  (each makes its operations)
