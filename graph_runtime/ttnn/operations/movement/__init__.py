"""Functions that bring values into another shape, order, layout or memory.

Read: shapes, parts, padding; moves, layouts; partial.
"""

from . import layouts, moves, padding, partial, parts, shapes  # noqa: F401  (each makes its operations)
