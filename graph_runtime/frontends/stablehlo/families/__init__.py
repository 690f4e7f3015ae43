"""Converters by family; importing this package fills the table of op_context.py."""

from . import (
    batch_norm,
    calls,
    conv,
    elementwise,
    indexing,
    products,
    random,
    reduce,
    shapes,
    sorts,
    windows,
)
