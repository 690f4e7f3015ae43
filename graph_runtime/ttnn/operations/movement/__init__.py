"""Functions that bring values into another shape, order, layout or memory.

Read: shapes, parts, padding; moves, layouts.
"""

from . import layouts, moves, padding, parts, shapes  # noqa: F401  (each makes its operations)
