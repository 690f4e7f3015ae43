"""Elementwise functions.

Read: activations, unary with unary_bodies, binary with binary_bodies, ternary, gates, neighbours,
quantization."""

from . import (  # noqa: F401  (each makes its operations)
    binary,
    gates,
    neighbours,
    quantization,
    ternary,
    unary,
)
