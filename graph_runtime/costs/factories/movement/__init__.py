"""Steps of operations that move elements: the card programs that ttnn runs for a call, one after another, with
the tensors that the operation holds between them.

Read: steps (Board, Steps), tiling and places (which others use), then an operation: turns, repeats, slices,
reshapes, pads, joins.
"""

from .joins import joined
from .pads import with_padding
from .places import to_memory
from .repeats import repeated
from .reshapes import reshaped
from .slices import Cut, sliced, split
from .steps import Board, Steps, UnknownForm
from .tiling import to_rows, to_tiles
from .turns import permuted, transposed

__all__ = [
    "Board",
    "Cut",
    "Steps",
    "UnknownForm",
    "joined",
    "permuted",
    "repeated",
    "reshaped",
    "sliced",
    "split",
    "to_memory",
    "to_rows",
    "to_tiles",
    "transposed",
    "with_padding",
]
