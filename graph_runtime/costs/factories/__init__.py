"""Circular buffers that ttnn's program factories open in a core's L1, computed from an operation's operands
and configuration.

A card program, which is one of ttnn's, has circular buffers, each with a number of pages and bytes per page
on each core of its grid. An operation runs one card program or several, and may hold tensors of its own
between them (a halo, a resharded input). For each card program, the bytes of its circular buffers and of all
tensors on a core, the operation's own included, are added up; the largest of these sums is the operation's
peak on that core.

Pure functions, without access to a device. Each docstring names the file of tt-metal that defines its sizes,
below ttnn/cpp/ttnn/operations/ at a8c5af0f (docs/memory.md).

Read: buffers (the values), then products, convolutions (and halo: the tensors that they hold, and pools),
rows and group_norms, softmaxes, reductions, lookups, resizing, elementwise, moves, attention. The package
movement has the steps of operations that run several card programs.
"""

from .attention import CAUSAL, attention, concatenated_heads, created_heads, scaled_mask, split_heads
from .buffers import CardOperand, CardProgram, CardStage, CircularBuffer, HeldTensor, peak
from .convolutions import Convolution, convolution
from .elementwise import binary, ternary, unary
from .group_norms import ChannelGroups, group_norm
from .halo import HaloWindow, halo, halo_rows, pool
from .lookups import embedded, gathered
from .moves import concatenated, copied, resharded, tilized, transposed, untilized
from .products import ProductBlocks, added_row, idle_senders, product, simple_blocks
from .reductions import (
    accumulated,
    greatest,
    greatest_index,
    greatest_index_of_rows,
    greatest_plane,
    multiplied,
    reduced,
    reduced_rows,
    summed_planes,
    varied,
)
from .resizing import upsampled
from .rows import layer_norm, sharded_layer_norm
from .softmaxes import Exponents, sharded_softmax, softmax, softmax_of_columns, softmax_of_planes

__all__ = [
    "CAUSAL",
    "CardOperand",
    "CardProgram",
    "CardStage",
    "ChannelGroups",
    "CircularBuffer",
    "Convolution",
    "Exponents",
    "HaloWindow",
    "HeldTensor",
    "ProductBlocks",
    "accumulated",
    "added_row",
    "attention",
    "binary",
    "concatenated",
    "concatenated_heads",
    "convolution",
    "copied",
    "created_heads",
    "embedded",
    "gathered",
    "greatest",
    "greatest_index",
    "greatest_index_of_rows",
    "greatest_plane",
    "group_norm",
    "halo",
    "halo_rows",
    "idle_senders",
    "layer_norm",
    "multiplied",
    "peak",
    "pool",
    "product",
    "reduced",
    "reduced_rows",
    "resharded",
    "scaled_mask",
    "sharded_layer_norm",
    "sharded_softmax",
    "simple_blocks",
    "softmax",
    "softmax_of_columns",
    "softmax_of_planes",
    "split_heads",
    "summed_planes",
    "ternary",
    "tilized",
    "transposed",
    "unary",
    "untilized",
    "upsampled",
    "varied",
]
