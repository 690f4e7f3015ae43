"""Converters by family; importing this package fills the table of context.py."""

from . import (
    calls,
    conv,
    elementwise,
    gather,
    products,
    random,
    reduce,
    scatter,
    shapes,
    sorts,
    windows,
)

__all__ = [
    "calls",
    "conv",
    "elementwise",
    "gather",
    "products",
    "random",
    "reduce",
    "scatter",
    "shapes",
    "sorts",
    "windows",
]
