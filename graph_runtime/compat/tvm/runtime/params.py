"""tvm.runtime.params: parameter files. Arrays that are read are views of the file until they are written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ....artifacts.parameters import read_params
from ....ir.documents.params import save_params
from .ndarray import NDArray, lent, tensor_of

__all__ = [
    "load_param_dict",
    "load_param_dict_from_file",
    "save_param_dict",
    "save_param_dict_to_file",
]


def load_param_dict(
    param_bytes: bytes | bytearray | memoryview | str | os.PathLike[str],
) -> dict[str, NDArray]:
    """Parameters by name from TVM's binary; also from a path. Raises ParamsError."""
    return lent(read_params(param_bytes))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Parameters by name from a file. Raises ParamsError."""
    return lent(read_params(path))


def _on_host(params: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): tensor_of(value) for name, value in params.items()}


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """TVM's binary of arrays by name. Raises ParamsError for a dtype that it cannot hold."""
    return save_params(_on_host(params))


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write TVM's binary of arrays by name. Raises ParamsError, WriteError."""
    save_params(_on_host(params), path)
