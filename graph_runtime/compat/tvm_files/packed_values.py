"""Values of TVM's packed convention: numbers, texts, None and tensors, converted to arguments of calls and
back."""

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
from ...binding.core import ffi, lib, writable_view
from ...ir.graph import TensorType
from ...run.sessions.bind import DLTENSOR
from ...run.tensors.arrays import borrow
from ...run.tensors.tensor import Tensor

INT, FLOAT, HANDLE, NULL, TENSOR, STRING, ARRAY = 0, 2, 3, 4, 7, 11, 13  # type codes of TVM's values
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


def call_packed(function: Any, args: Sequence[Any]) -> Any:
    """The result of a call of ``function``, a pointer to a packed function. ``args``: numbers, texts, None,
    and arrays and Tensors of the host, which the function may write. Raises KernelError with the function's
    text, InputError or LibraryError for other arguments."""
    values, codes, _alive = _packed(args)
    result, code = ffi.new("uint64_t *"), ffi.new("int32_t *")
    core.check(lib.gr_tvm_call(function, values, codes, len(args), result, code))
    return value_of(result, code[0])


def _packed(args: Sequence[Any]) -> tuple[Any, Any, Any]:
    """(values, type codes, objects that must live during the call)."""
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
    """Write a number or None at ``at`` as a value of the ABI; returns its type code. ``what``: description of
    the value, for errors."""
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
    """The Python value for the value of the ABI at ``at``."""
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
    raise InputError(f"a packed value has the type code {code}, which is unknown here", got=code)


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
        raise InputError(f"a tensor has elements of a type that is unknown here: {error}", got=name) from None
    view = writable_view(type_, int(record["data"]) + int(record["byte_offset"]), None)
    if view is None:
        raise InputError(f"a tensor has elements of {name}, for which numpy has no dtype", got=name)
    return borrow(view)


def dl_tensors(arrays: Sequence[np.ndarray | Tensor]) -> tuple[np.ndarray, list[np.ndarray]]:
    """(DLTensor records of host arrays, the arrays to which the records point)."""
    table = np.zeros(len(arrays), DLTENSOR)
    shapes: list[np.ndarray] = []
    for record, array in zip(table, arrays, strict=True):
        if isinstance(array, Tensor) and array.layout.memory == HOST:
            array = array.__array__(copy=False)
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
            text = f"an operator takes C-contiguous arrays on the host, got {type(array).__name__}"
            raise LibraryError(text, got=type(array).__name__)
        dtype, shape = parse(from_numpy(array.dtype)), np.array(array.shape, np.int64)
        shapes += (shape, array)
        record["data"], record["shape"], record["ndim"] = array.ctypes.data, shape.ctypes.data, array.ndim
        record["code"], record["bits"], record["lanes"] = dtype.code, dtype.bits, dtype.lanes
        record["device_type"] = DLTYPE_CPU
    return table, shapes
