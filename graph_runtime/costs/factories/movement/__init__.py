"""Steps of operations that move elements: the card programs that ttnn runs for a call, one after another,
with the tensors that the operation holds between them.

Read: steps (Board, Steps), tiling and relocations (which others use), then turns, repeats, slices,
reshapes, pads, joins.
"""

from .joins import joined
from .pads import with_padding
from .relocations import cloned, to_memory
from .repeats import repeated
from .reshapes import reshaped
from .slices import SliceBounds, sliced, split, tile_slice
from .steps import Board, Steps, UnknownForm
from .tiling import fill_padding, to_rows, to_tiles
from .turns import permuted, transposed

__all__ = [
    "Board",
    "SliceBounds",
    "Steps",
    "UnknownForm",
    "cloned",
    "fill_padding",
    "joined",
    "permuted",
    "repeated",
    "reshaped",
    "sliced",
    "split",
    "tile_slice",
    "to_memory",
    "to_rows",
    "to_tiles",
    "transposed",
    "with_padding",
]
