"""Front-ends: other systems' model files -> Model. Each is imported where it is needed, with its library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..base.mapped import open_file

__all__ = ["is_onnx"]

# tags of the fields of a ModelProto that writers put after the first
_SECOND_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x3A, 0x42)


def is_onnx(source: Any) -> bool:
    """Whether a source is an ONNX model: a path by its suffix, a file and bytes by how protobuf begins; or a
    ModelProto."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _is_model_proto(bytes(source[:16]))
    if type(source).__name__ == "ModelProto" and hasattr(source, "SerializeToString"):
        return True
    if not isinstance(source, (str, os.PathLike)) or str(source).lstrip().startswith("{"):
        return False
    path = Path(source)
    if path.suffix in (".onnx", ".json"):
        return path.suffix == ".onnx"
    try:
        with open_file(path) as file:
            return _is_model_proto(file.read(16))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def _is_model_proto(head: bytes) -> bool:
    """Field 1 is ir_version, a small number; the field after it has a name, a number or a message."""
    return len(head) > 2 and head[0] == 0x08 and head[1] < 0x20 and head[2] in _SECOND_FIELDS
