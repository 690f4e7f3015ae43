"""Elements by index, and their order.

Read: elements with ranks, items.
"""

from . import elements, items  # noqa: F401  (each makes its operations)
