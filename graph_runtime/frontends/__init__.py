"""Front-ends: other systems' model files -> Model. Each is imported where it is needed, with its library."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ..base.files.mapped import open_file
from ..ir.documents.document import is_path

__all__ = ["is_onnx", "is_stablehlo"]

_HEAD = 4096  # characters of a text that are looked at
_MLIR = re.compile(
    r"\ufeff?(?:\s+|//[^\n]*(?:\n|$))*"  # what may come first
    r"(?:(?:builtin\.)?module\b(?!\s*[=:\"])|func\.func\b|\"builtin\.module\"|#[\w.]+ = |\{-#)"
)
# tags of the fields of a ModelProto that writers put after the first
_SECOND_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x3A, 0x42)


def is_onnx(source: Any) -> bool:
    """Whether a source is an ONNX model: a path by its suffix, a file and bytes by how protobuf begins; or a
    ModelProto."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _is_model_proto(bytes(source[:16]))
    if type(source).__name__ == "ModelProto" and hasattr(source, "SerializeToString"):
        return True
    if not isinstance(source, (str, os.PathLike)) or not is_path(source):
        return False
    path = Path(source)
    if path.suffix in (".onnx", ".json"):
        return path.suffix == ".onnx"
    try:
        with open_file(path) as file:
            return _is_model_proto(file.read(16))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def is_stablehlo(source: Any) -> bool:
    """Whether a source is a StableHLO module: a path by its suffix .mlir, text and bytes by how MLIR begins,
    what jax has lowered (it has ``as_text``), or a text that is read."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _begins_mlir(bytes(source[:_HEAD]).decode(errors="replace"))
    if isinstance(source, str):
        return _begins_mlir(source[:_HEAD]) or ("\n" not in source and source.endswith(".mlir"))
    if isinstance(source, os.PathLike):
        return os.fspath(source).endswith(".mlir")
    return type(source).__name__ == "Source" or callable(getattr(source, "as_text", None))


def _begins_mlir(text: str) -> bool:
    """Comments, aliases of attributes and locations may come before the first function."""
    return _MLIR.match(text) is not None


def _is_model_proto(head: bytes) -> bool:
    """Field 1 is ir_version, a small number; the field after it has a name, a number or a message."""
    return len(head) > 2 and head[0] == 0x08 and head[1] < 0x20 and head[2] in _SECOND_FIELDS
