"""``gr_arg`` of native/include/gr_abi.h, made in Python: one tensor as kernels and the copy engine see it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base import dtypes
from ..base.machine.layout import HOST, LAYOUT_CODES, MEMORY_CODES, Layout, pages
from ..ir.graph import TensorType

__all__ = ["ARG", "arg_fields", "arg_record"]

ARG = np.dtype(  # 32 bytes; tests/native/test_executor.py compares it with C
    [
        ("addr", "<u8"),
        ("shape", "<u8"),
        ("ndim", "<i4"),
        ("dtype", "u1"),
        ("format", "u1"),
        ("layout", "u1"),
        ("memory", "u1"),
        ("page_bytes", "<u4"),
        ("num_pages", "<u4"),
    ]
)


def arg_fields(dtype: str, shape: Sequence[int], layout: Layout) -> dict[str, int]:
    """The fields that say how a tensor of a canonical dtype is stored: all but its pointers and its rank."""
    logical, stored = dtypes.format_of(dtype), dtypes.FORMATS.get(layout.format)
    fields = {
        "dtype": logical.code if logical else dtypes.OPAQUE,
        "format": stored.code if stored else dtypes.OPAQUE,
        "layout": LAYOUT_CODES[layout.layout],
        "memory": MEMORY_CODES[layout.memory],
    }
    if layout.memory != HOST:
        page = pages(layout, tuple(shape))
        fields |= {"page_bytes": page.nbytes, "num_pages": page.count}
    elif stored is None:
        fields["page_bytes"] = dtypes.parse(dtype).itemsize  # how copies know its size
    return fields


def arg_record(type_: TensorType, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """One ARG without its pointers: ``shape`` is what the kernel is shown, pages are the entry's."""
    record = np.zeros((), ARG)
    record["ndim"] = len(shape)
    for name, value in arg_fields(type_.dtype, type_.shape, layout).items():
        record[name] = value
    return record
