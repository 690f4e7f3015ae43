"""The datatypes of the Open Inference Protocol (version 2), and ours.

BYTES is not among them: bundles have no tensors of texts.
"""

from __future__ import annotations

import re

from ..base import dtypes

__all__ = ["BY_DATATYPE", "DATATYPES"]


def _named(dtype: str) -> str | None:
    """The protocol's name of a dtype, None where it has none: float32 -> FP32, int8 -> INT8, bool -> BOOL."""
    if dtype == "bool":
        return "BOOL"
    found = re.fullmatch(r"(float|bfloat|int|uint)(8|16|32|64)", dtype)
    if found is None or dtype == "float8":
        return None
    kind, bits = found.groups()
    return {"float": "FP", "bfloat": "BF"}.get(kind, kind.upper()) + bits


# canonical dtype -> datatype, and back
DATATYPES = {dtype: name for dtype in dtypes.BY_DTYPE if (name := _named(dtype)) is not None}
BY_DATATYPE = {name: dtype for dtype, name in DATATYPES.items()}
