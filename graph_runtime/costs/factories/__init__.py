"""What ttnn's program factories open in a core's L1, from an operation's operands and configuration.

A program of ttnn's has circular buffers, each so many pages of so many bytes on each core of its grid; an
operation runs one program or several, and may hold tensors of its own between them (a halo, a resharded
input). Its peak on a core is what lies there of tensors, of these, and of circular buffers, while the worst
of its programs runs.

Pure functions: nothing is asked of a device. Each docstring names the file of tt-metal whose sizes it gives,
below ttnn/cpp/ttnn/operations/ at a8c5af0f (docs/memory.md).

Read: buffers (the values), then products, convolutions (with halo: its tensors), rows (softmax, norms),
elementwise, reductions, moves, attention, pooling.
"""

from .attention import attention, concatenated_heads, split_heads
from .buffers import CardOperand, CardProgram, CardStage, CircularBuffer, HeldTensor, peak
from .convolutions import Convolution, convolution
from .elementwise import binary, ternary, unary
from .halo import HaloWindow, halo, halo_rows
from .moves import concatenated, copied, embedded, resharded, tilized, transposed, untilized
from .pooling import pool
from .products import ProductBlocks, product, simple_blocks
from .reductions import reduced
from .rows import layer_norm, sharded_layer_norm, sharded_softmax, softmax

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
