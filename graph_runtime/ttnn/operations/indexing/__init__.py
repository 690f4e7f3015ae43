"""Elements by index, and their order.

Read: elements, membership.
"""

from . import elements, membership  # noqa: F401  (each makes its operations)
