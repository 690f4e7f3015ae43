"""Elements by index, and their order.

Read: elements with ranks.
"""

from . import elements  # noqa: F401  (each makes its operations)
