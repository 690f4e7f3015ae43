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
rows (softmax, norms, reductions), elementwise, moves, attention.
"""

from .attention import attention, concatenated_heads, split_heads
from .buffers import CardOperand, CardProgram, CardStage, CircularBuffer, HeldTensor, peak
from .convolutions import Convolution, convolution
from .elementwise import binary, ternary, unary
from .halo import HaloWindow, halo, halo_rows, pool
from .moves import concatenated, copied, embedded, resharded, tilized, transposed, untilized
from .products import ProductBlocks, product, simple_blocks
from .rows import layer_norm, reduced, sharded_layer_norm, sharded_softmax, softmax

__all__ = [
    "CardOperand",
    "CardProgram",
    "CardStage",
    "CircularBuffer",
    "Convolution",
    "HaloWindow",
    "HeldTensor",
    "ProductBlocks",
    "attention",
    "binary",
    "concatenated",
    "concatenated_heads",
    "convolution",
    "copied",
    "embedded",
    "halo",
    "halo_rows",
    "layer_norm",
    "peak",
    "pool",
    "product",
    "reduced",
    "resharded",
    "sharded_layer_norm",
    "sharded_softmax",
    "simple_blocks",
    "softmax",
    "split_heads",
    "ternary",
    "tilized",
    "transposed",
    "unary",
    "untilized",
]
