"""Values of TVM's packed convention: numbers, texts, None and tensors, into calls and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import from_numpy, parse
from ...base.errors import DocumentError, InputError, LibraryError
from ...base.machine.devices import DLTYPE_CPU
from ...base.machine.layout import HOST
from ...binding import core
from ...binding.core import ffi, lib
from ...ir.graph import TensorType
from ...run.sessions.bind import DLTENSOR
from ...run.tensors.arrays import borrow
from ...run.tensors.host_values import writable_view
from ...run.tensors.tensor import Tensor

__all__ = ["STRING", "call_packed", "dl_tensors", "put_value", "value_of"]

INT, FLOAT, HANDLE, NULL, TENSOR, STRING, ARRAY = 0, 2, 3, 4, 7, 11, 13  # TVM's type codes
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


def call_packed(function: Any, args: Sequence[Any]) -> Any:
    """What a packed function, a pointer, returns for arguments: numbers, texts, None, arrays and Tensors of
    the host, which it may write. Raises KernelError with its text; InputError or LibraryError for other
    arguments."""
    values, codes, _alive = _packed(args)
    result, code = ffi.new("uint64_t *"), ffi.new("int32_t *")
    core.check(lib.gr_tvm_call(function, values, codes, len(args), result, code))
    return value_of(result, code[0])


def _packed(args: Sequence[Any]) -> tuple[Any, Any, Any]:
    """(values, type codes, what has to live during the call)."""
    values, codes = ffi.new("uint64_t[]", max(len(args), 1)), ffi.new("int32_t[]", max(len(args), 1))
    table, shapes = dl_tensors([arg for arg in args if isinstance(arg, np.ndarray | Tensor)])
    alive: list[Any] = [table, shapes]
    at = 0
    for i, arg in enumerate(args):
        if isinstance(arg, np.ndarray | Tensor):
            codes[i], values[i] = TENSOR, table.ctypes.data + at * DLTENSOR.itemsize
            at += 1
        elif isinstance(arg, str):
            alive.append(ffi.new("char[]", arg.encode()))
            codes[i], values[i] = STRING, core.address_of(alive[-1])
        else:
            codes[i] = put_value(arg, values + i, f"argument {i} of a packed function")
    return values, codes, alive


def put_value(value: Any, at: Any, what: str) -> int:
    """Write a number or None as a value of the ABI; its type code."""
    if value is None:
        at[0] = 0
        return NULL
    if isinstance(value, bool | int | np.integer):
        ffi.cast("int64_t *", at)[0] = int(value)
        return INT
    if isinstance(value, float | np.floating):
        ffi.cast("double *", at)[0] = float(value)
        return FLOAT
    raise InputError(
        f"{what} is a {type(value).__name__}, not a number, a text or None", got=type(value).__name__
    )


def value_of(at: Any, code: int) -> Any:
    """A value of the ABI."""
    if code in (TENSOR, ARRAY):
        return _tensor(int(at[0]))
    if code in (INT, HANDLE):
        return int(ffi.cast("int64_t *", at)[0])
    if code == FLOAT:
        return float(ffi.cast("double *", at)[0])
    if code == STRING:
        return ffi.string(ffi.cast("char *", at[0])).decode(errors="replace")
    if code == NULL:
        return None
    raise InputError(f"a value of type code {code}, which is not known here", got=code)


def _tensor(address: int) -> Tensor:
    """A Tensor over a DLTensor's memory."""
    raw = ffi.buffer(ffi.cast("char *", address), DLTENSOR.itemsize)
    record = np.frombuffer(raw, DLTENSOR)[0]
    shape = tuple(ffi.cast("int64_t *", int(record["shape"]))[0 : int(record["ndim"])])
    name = f"{_CODES.get(int(record['code']), 'code')}{int(record['bits'])}"
    name = "bool" if name == "uint1" else name
    try:
        type_ = TensorType(dtypes.canonical(name), shape)
    except DocumentError as error:
        raise InputError(f"a tensor of elements that are not known here: {error}", got=name) from None
    view = writable_view(type_, int(record["data"]) + int(record["byte_offset"]), None)
    if view is None:
        raise InputError(f"a tensor of {name} has no form in numpy", got=name)
    return borrow(view)


def dl_tensors(arrays: Sequence[np.ndarray | Tensor]) -> tuple[np.ndarray, list[np.ndarray]]:
    """DLTensor records of host arrays, and what they point into."""
    table = np.zeros(len(arrays), DLTENSOR)
    shapes: list[np.ndarray] = []
    for record, array in zip(table, arrays, strict=True):
        if isinstance(array, Tensor) and array.layout.memory == HOST:
            array = array.__array__(copy=False)
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
            raise LibraryError(
                f"an operator takes C-contiguous arrays on the host, got {type(array).__name__}",
                got=type(array).__name__,
            )
        dtype, shape = parse(from_numpy(array.dtype)), np.array(array.shape, np.int64)
        shapes += (shape, array)
        record["data"], record["shape"], record["ndim"] = array.ctypes.data, shape.ctypes.data, array.ndim
        record["code"], record["bits"], record["lanes"] = dtype.code, dtype.bits, dtype.lanes
        record["device_type"] = DLTYPE_CPU
    return table, shapes
