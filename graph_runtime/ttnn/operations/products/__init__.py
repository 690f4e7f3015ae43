"""Matrix products, all in matmul."""

from . import matmul  # noqa: F401  (makes its operations)
