"""The compiled core: the only module that imports ``_core`` (native/, cffi API mode).

Addresses cross this border as Python ints, so that numpy arrays can hold them; statuses become exceptions
here. Every call releases the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base import config, dtypes
from ..base.absent import no_core
from ..base.errors import (
    DeviceError,
    DeviceMemoryError,
    GraphRuntimeError,
    KernelError,
    LibraryError,
    SessionBusyError,
)
from ..base.files import mapped
from ..base.machine.layout import Layout, host_layout
from ..base.machine.pinning import pinned_cores
from .gr_arg import arg_fields

try:
    from .. import _core
except ImportError as error:
    raise no_core(Path(__file__).parents[1], error) from error

__all__ = [
    "Arg",
    "address_of",
    "blas_open",
    "check",
    "choose_threads",
    "copy",
    "copy_kernel",
    "ffi",
    "generic_kernels",
    "host_arg",
    "last_error",
    "lib",
    "library_close",
    "library_open",
    "library_symbol",
    "null_kernel",
    "packed_kernel",
    "pool_set_threads",
    "pool_threads",
    "program_create",
    "tensor_arg",
    "tvm_call",
    "tvm_contexts",
    "tvm_function",
    "tvm_import",
    "tvm_open",
    "tvm_pointer",
    "tvm_publish",
    "tvm_system",
]

ffi: Any = _core.ffi
lib: Any = _core.lib


# **************** errors ****************


def last_error() -> str:
    """The text of this thread's last failing call."""
    return ffi.string(lib.gr_last_error()).decode(errors="replace")


def check(status: int, **fields: Any) -> None:
    """Raise what a gr_status means, with the core's text; ``fields`` are the exception's (device=, node=).

    KernelError, DeviceMemoryError, SessionBusyError, DeviceError (an address outside of its tensor),
    GraphRuntimeError.
    """
    if status == lib.GR_OK:
        return
    kind = {
        lib.GR_ERR_KERNEL: KernelError,
        lib.GR_ERR_REFUSED: KernelError,
        lib.GR_ERR_OUT_OF_MEMORY: DeviceMemoryError,
        lib.GR_ERR_BUSY: SessionBusyError,
        lib.GR_ERR_BOUNDS: DeviceError,
    }.get(status, GraphRuntimeError)
    raise kind(last_error() or f"the core returned status {status}", **fields)


def address_of(pointer: Any) -> int:
    """A C pointer as an int."""
    return int(ffi.cast("uintptr_t", pointer))


# **************** mapped files ****************


def _watch(known: mapped.Watched) -> None:
    texts = b"\0".join(
        text.encode("utf-8", "replace").replace(b"\0", b"?") for text in (known.file, *known.parts)
    )
    spans = np.array([*known.parts.values()], np.uint64).reshape(-1)
    lib.gr_mapped_watch(
        known.begin,
        known.size,
        texts,
        len(texts),
        ffi.cast("uint64_t *", spans.ctypes.data),
        len(known.parts),
    )


mapped.tell_of(_watch, lib.gr_mapped_forget)


# **************** threads ****************

_threads_chosen = False


def pool_set_threads(count: int) -> None:
    """Size of the intra-op pool, the calling thread counted: 1 to 256, else GraphRuntimeError; GR_PIN."""
    global _threads_chosen
    if not isinstance(count, int) or count.bit_length() > 31:  # what C's int cannot be asked
        raise GraphRuntimeError(f"the intra-op pool has 1 to 256 threads, got {count!r}", got=count)
    cores = pinned_cores(str(config.get("PIN")))
    check(lib.gr_pool_set_cores(len(cores), cores) or lib.gr_pool_set_threads(count))
    _threads_chosen = True


def pool_threads() -> int:
    """Threads that one kernel may use."""
    return lib.gr_pool_threads()


def choose_threads() -> None:
    """Unless the user chose: GR_NUM_THREADS, or as many as the process may use."""
    if not _threads_chosen:
        pool_set_threads(int(config.get("NUM_THREADS")) or min(len(os.sched_getaffinity(0)), 256))


# **************** copies ****************


class Arg:
    """One tensor as the copy engine sees it: ``pointer`` is a ``gr_arg *``. Keeps its shape, and a host
    array, alive."""

    __slots__ = ("_owner", "_shape", "pointer")

    pointer: Any

    def __init__(self, record: dict[str, int], shape: Sequence[int], owner: object = None):
        self._shape = ffi.new("int64_t[]", list(shape))
        self._owner = owner
        self.pointer = ffi.new("gr_arg *", {**record, "shape": self._shape, "ndim": len(shape)})


def tensor_arg(
    addr: int,
    dtype: str,
    shape: Sequence[int],
    layout: Layout,
    owner: object = None,
    handle: Any = None,
) -> Arg:
    """The Arg of a tensor of a canonical dtype at an address of the memory that its layout names; ``handle``
    its device's handle (run/device_handles.py), which only sharded ones need."""
    addr |= handle.shard_tag(layout, tuple(shape)) if handle is not None else 0
    return Arg({"addr": addr, **arg_fields(dtype, shape, layout)}, shape, owner)


def host_arg(array: np.ndarray, dtype: str | None = None) -> Arg:
    """The Arg of a C-contiguous array; ``dtype`` where numpy's does not tell it. Raises GraphRuntimeError for
    a strided one."""
    if not array.flags.c_contiguous:
        raise GraphRuntimeError(
            f"a copy needs a C-contiguous array, this one has strides {array.strides}: "
            "use numpy.ascontiguousarray",
            got=array.strides,
        )
    dtype = dtype or dtypes.from_numpy(array.dtype)
    return tensor_arg(array.ctypes.data, dtype, array.shape, host_layout(dtype), array)


def copy(src: Any, src_arg: Arg, dst: Any, dst_arg: Arg) -> None:
    """Copy a tensor between devices, by their handles, layouts and formats; None is the host.

    The logical dtype and shape stay, but two host tensors of equal bytes may be of any. float32 is rounded to
    bf16 and block formats to nearest, ties to even. Raises DeviceError where a device tensor is not inside an
    allocation, GraphRuntimeError where no such copy exists.
    """
    check(
        lib.gr_copy(
            src.env if src else ffi.NULL, src_arg.pointer, dst.env if dst else ffi.NULL, dst_arg.pointer
        )
    )


# **************** kernels, programs, libraries ****************


@cache
def generic_kernels(plain: bool = False) -> dict[str, int]:
    """Address of every kernel built into the core, by name: "cpu/softmax/f32"; ``plain``: for any machine."""
    entry = lib.gr_generic_plain_fn if plain else lib.gr_generic_fn
    names = [ffi.string(lib.gr_generic_name(i)).decode() for i in range(lib.gr_generic_count())]
    return {name: address_of(entry(i)) for i, name in enumerate(names)}


def copy_kernel() -> int:
    """Address of the kernel of ``__copy``; attrs of its call point to a gr_copy_envs."""
    return address_of(lib.gr_copy_kernel_fn())


def packed_kernel() -> int:
    """Address of the kernel that calls a function of TVM's packed ABI; attrs of its call point to a
    gr_packed_call."""
    return address_of(lib.gr_packed_kernel_fn())


def null_kernel() -> int:
    """Address of the kernel that does nothing: every op of a null device."""
    return address_of(lib.gr_null_kernel_fn())


def program_create(instrs: int, count: int) -> Any:
    """A ``gr_program *`` over ``count`` gr_instr records at an address, which must outlive it; freed with its
    last reference. Raises GraphRuntimeError for a record without a kernel or of another ABI."""
    out = ffi.new("gr_program **")
    check(lib.gr_program_create(ffi.cast("gr_instr *", instrs), count, out))
    return ffi.gc(out[0], lib.gr_program_destroy)


def library_open(path: str | os.PathLike[str]) -> int:
    """dlopen a library of kernels, whose manifest has been judged before. Raises LibraryError with the
    linker's reason."""
    out = ffi.new("void **")
    if lib.gr_library_open(os.fsencode(path), out) != lib.GR_OK:
        raise LibraryError(last_error(), got=os.fspath(path))
    return address_of(out[0])


def blas_open(path: str | os.PathLike[str], prefix: str) -> None:
    """Open an OpenBLAS for the kernels that call one, once a process; ``prefix``: what its symbols begin
    with. Raises LibraryError where it cannot be opened or is none."""
    if lib.gr_blas_open(os.fsencode(path), prefix.encode()) != lib.GR_OK:
        raise LibraryError(last_error(), got=os.fspath(path))


def library_symbol(handle: int, name: str) -> int:
    """Address of a symbol in an open library, 0 if it has none of that name."""
    return address_of(lib.gr_library_symbol(ffi.cast("void *", handle), name.encode()))


def library_close(handle: int) -> None:
    """Close a library; no kernel of it may run, now or later."""
    lib.gr_library_close(ffi.cast("void *", handle))


# **************** libraries that TVM made ****************


def tvm_open(path: str | os.PathLike[str], externs: bool) -> int:
    """Open a library of TVM's and give it our services: a module handle. It stays open to the end of the
    process, because its operators keep what they were given. ``externs``: it reaches the services as plain
    undefined symbols. Raises LibraryError with the linker's reason."""
    out = ffi.new("gr_tvm_module **")
    if lib.gr_tvm_open(os.fsencode(path), externs, out) != lib.GR_OK:
        raise LibraryError(last_error(), got=os.fspath(path))
    return address_of(out[0])


def tvm_publish() -> None:
    """Let libraries that something else opens, as ctypes.CDLL, find our services. Raises
    GraphRuntimeError."""
    check(lib.gr_tvm_publish())


def tvm_system() -> int:
    """The module of the functions that system libraries have registered."""
    return address_of(lib.gr_tvm_system())


def _tvm(module: int) -> Any:
    return ffi.cast("gr_tvm_module *", module)


def tvm_import(parent: int, child: int) -> None:
    """Let operators of ``parent`` find functions of ``child`` by name."""
    check(lib.gr_tvm_import(_tvm(parent), _tvm(child)))


def tvm_function(module: int, name: str, imports: bool = False) -> int:
    """Address of a packed function, 0 if there is none; ``imports``: also in imported modules."""
    return address_of(lib.gr_tvm_function(_tvm(module), name.encode(), imports))


def tvm_contexts(module: int) -> list[str]:
    """Which of the services' pointer variables a library has."""
    bits = lib.gr_tvm_contexts(_tvm(module))
    names = [ffi.string(lib.gr_tvm_context_name(i)).decode() for i in range(bits.bit_length())]
    return [name for i, name in enumerate(names) if bits >> i & 1]


def tvm_call(fn: int, tensors: int, count: int) -> None:
    """Call a packed function with ``count`` DLTensors (48 bytes each) that stand at an address. Raises
    KernelError with the function's text."""
    values = ffi.new("uint64_t[]", [tensors + 48 * i for i in range(count)])
    codes = ffi.new("int32_t[]", [7] * count)
    ret, ret_code = ffi.new("int64_t *"), ffi.new("int32_t *")
    check(lib.gr_tvm_call(ffi.cast("void *", fn), values, codes, count, ret, ret_code))


def tvm_pointer(fn: int, number: int) -> int:
    """The address that a packed function of one integer returns, 0 for null. Raises KernelError where it
    fails, LibraryError where it returns no pointer."""
    value, code = ffi.new("int64_t *", number), ffi.new("int32_t *", 0)
    ret, ret_code = ffi.new("int64_t *"), ffi.new("int32_t *")
    check(lib.gr_tvm_call(ffi.cast("void *", fn), value, code, 1, ret, ret_code))
    if ret_code[0] not in (3, 4):  # an opaque handle, or null
        raise LibraryError(
            f"a function that returns a pointer returned a value of type code {ret_code[0]}",
            got=ret_code[0],
            wanted=3,
        )
    return ret[0] if ret_code[0] == 3 else 0
