"""tvm.runtime.params: parameter files. Arrays read from a file are views of the file until they are
written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ....artifacts.prepare import read_params
from ....ir.documents.params import save_params
from .ndarray import NDArray, lent, tensor_of

__all__ = ["load_param_dict", "load_param_dict_from_file", "save_param_dict", "save_param_dict_to_file"]


def load_param_dict(
    param_bytes: bytes | bytearray | memoryview | str | os.PathLike[str],
) -> dict[str, NDArray]:
    """Parameters by name from bytes in TVM's binary format, or from a file at a path. Raises ParamsError for
    invalid data."""
    return lent(read_params(param_bytes))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Parameters by name from a file in TVM's binary format. Raises ParamsError for an invalid file."""
    return lent(read_params(path))


def _on_host(params: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): tensor_of(value) for name, value in params.items()}


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Arrays by name in TVM's binary format. Raises ParamsError for a dtype that the format cannot store."""
    return save_params(_on_host(params))


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write arrays by name in TVM's binary format. Raises ParamsError for a dtype that the format cannot
    store, WriteError if the file cannot be written."""
    save_params(_on_host(params), path)
