"""Front ends read the model files of other systems into a Model. Each front end is imported, with its
library, when it is first used."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ..base.files.mapped import open_file
from ..base.json_text import is_path

__all__ = ["is_onnx", "is_stablehlo"]

_HEAD = 4096  # characters at the beginning of a text that are examined
_MLIR = re.compile(
    r"\ufeff?(?:\s+|//[^\n]*(?:\n|$))*"  # blanks and comments that may come first
    r"(?:(?:builtin\.)?module\b(?!\s*[=:\"])|func\.func\b|\"builtin\.module\"|#[\w.]+ = |\{-#)"
)
# tags of the ModelProto fields that writers put second
_SECOND_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x3A, 0x42)


def is_onnx(source: Any) -> bool:
    """Whether a source is an ONNX model: a path with a suffix of ONNX files, a file or bytes that begin as
    protobuf does, or a ModelProto."""
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
    except (OSError, ValueError):  # ValueError: the path contains a NUL
        return False


def is_stablehlo(source: Any) -> bool:
    """Whether a source is a StableHLO module: a path with the suffix .mlir, text or bytes that begin as MLIR,
    the result of jax's lower() (it has ``as_text``), or a Source."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _begins_mlir(bytes(source[:_HEAD]).decode(errors="replace"))
    if isinstance(source, str):
        return _begins_mlir(source[:_HEAD]) or ("\n" not in source and source.endswith(".mlir"))
    if isinstance(source, os.PathLike):
        return os.fspath(source).endswith(".mlir")
    return type(source).__name__ == "Source" or callable(getattr(source, "as_text", None))


def _begins_mlir(text: str) -> bool:
    """Whether a text begins as MLIR does; comments, and aliases of attributes and locations, may precede the
    first function."""
    return _MLIR.match(text) is not None


def _is_model_proto(head: bytes) -> bool:
    """Whether bytes begin as a ModelProto. Its field 1 is ir_version, a small number; the next tag must be
    that of another field of ModelProto."""
    return len(head) > 2 and head[0] == 0x08 and head[1] < 0x20 and head[2] in _SECOND_FIELDS
