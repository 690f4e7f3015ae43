"""Converters by family; importing this package fills the table of context.py."""

from . import (
    attention,
    control,
    conv,
    elementwise,
    gather,
    grid_sample,
    linear,
    normalise,
    pool,
    quantize,
    recurrent,
    reduce,
    resize,
    shapes,
)

__all__ = [
    "attention",
    "control",
    "conv",
    "elementwise",
    "gather",
    "grid_sample",
    "linear",
    "normalise",
    "pool",
    "quantize",
    "recurrent",
    "reduce",
    "resize",
    "shapes",
]
