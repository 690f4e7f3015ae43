"""Matrix products.

Read: matmul, minimal.
"""

from . import matmul, minimal  # noqa: F401  (each makes its operations)
