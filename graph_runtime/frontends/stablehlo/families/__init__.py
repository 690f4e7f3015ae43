"""Converters by family; importing this package fills the table of context.py."""

from . import (
    batch_norm,
    calls,
    conv,
    division,
    elementwise,
    gather,
    products,
    random,
    reduce,
    scatter,
    shapes,
    sorts,
    special,
    windows,
)
