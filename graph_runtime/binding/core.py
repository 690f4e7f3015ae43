"""The compiled core: the only module that imports ``_core`` (native/, cffi API mode).

Addresses pass between Python and C as Python ints, so that numpy arrays can hold them. This module turns C's
statuses into exceptions. Every call releases the GIL."""

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
    DocumentError,
    GraphRuntimeError,
    KernelError,
    LibraryError,
    SessionBusyError,
)
from ..base.files import mapped
from ..base.machine.layout import HOST, LAYOUT_CODES, MEMORY_CODES, Layout, host_layout, pages
from ..ir.graph import TensorType

try:
    from .. import _core
except ImportError as error:
    raise no_core(Path(__file__).parents[1], error) from error

ffi: Any = _core.ffi
lib: Any = _core.lib


# **************** errors ****************


def last_error() -> str:
    """The error text of this thread's last failed call."""
    return ffi.string(lib.gr_last_error()).decode(errors="replace")


def check(status: int, **fields: Any) -> None:
    """Raise the error of a gr_status, with the core's text; ``fields`` are fields of the exception (device=,
    node=). Raises KernelError, DeviceMemoryError, SessionBusyError, DeviceError (an address outside of its
    tensor), GraphRuntimeError."""
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


mapped.tell_of(lib.gr_mapped_watch, lib.gr_mapped_forget)


# **************** threads ****************

_threads_chosen = False


def pool_set_threads(count: int) -> None:
    """Set the size of the intra-op pool, the calling thread included, and bind its threads to the cores that
    GR_PIN lists. Raises GraphRuntimeError unless the size is 1 to 256."""
    global _threads_chosen
    if not isinstance(count, int) or count.bit_length() > 31:  # a count of more bits does not fit C's int
        raise GraphRuntimeError(f"the intra-op pool has 1 to 256 threads, got {count!r}", got=count)
    text = str(config.get("PIN"))
    cores = pinned_cores(text) if text else []
    check(lib.gr_pool_set_cores(len(cores), cores) or lib.gr_pool_set_threads(count))
    _threads_chosen = True


def pool_threads() -> int:
    """Threads that one kernel may use."""
    return lib.gr_pool_threads()


def choose_threads() -> None:
    """Set the number of threads to GR_NUM_THREADS, or without this setting to the number of cores that the
    process may use. Do nothing if the user has set the number."""
    if not _threads_chosen:
        pool_set_threads(int(config.get("NUM_THREADS")) or min(len(os.sched_getaffinity(0)), 256))


# **************** copies ****************


class Arg:
    """A tensor as the copy engine sees it: ``pointer``: a ``gr_arg *``. The Arg keeps alive the memory of its
    shape, and the host array if there is one."""

    __slots__ = ("_owner", "_shape", "pointer")

    pointer: Any

    def __init__(self, record: dict[str, int], shape: Sequence[int], owner: object = None):
        self._shape = ffi.new("int64_t[]", list(shape))
        self._owner = owner
        self.pointer = ffi.new("gr_arg *", {**record, "shape": self._shape, "ndim": len(shape)})


def tensor_arg(addr: int, dtype: str, shape: Sequence[int], layout: Layout, owner: object = None) -> Arg:
    """The Arg of a tensor of a canonical dtype at an address of the memory that its layout names; the address
    of a sharded tensor includes the device's shard tag (run/device_handles.py)."""
    return Arg({"addr": addr, **arg_fields(dtype, shape, layout)}, shape, owner)


def host_arg(array: np.ndarray, dtype: str | None = None) -> Arg:
    """The Arg of a C-contiguous array; ``dtype``: the logical dtype, needed if the array's dtype does not
    tell it. Raises GraphRuntimeError for a strided array."""
    if not array.flags.c_contiguous:
        raise GraphRuntimeError(
            f"a copy needs a C-contiguous array, this one has strides {array.strides}: "
            "use numpy.ascontiguousarray",
            got=array.strides,
        )
    dtype = dtype or dtypes.from_numpy(array.dtype)
    return tensor_arg(array.ctypes.data, dtype, array.shape, host_layout(dtype), array)


def copy(src: Any, src_arg: Arg, dst: Any, dst_arg: Arg) -> None:
    """Copy a tensor between two devices, ``src`` and ``dst``. Each device is given by its handle (None for
    the host), and its tensor by an Arg with layout and format.

    Both tensors have the same logical dtype and shape, except that two host tensors of equally many bytes may
    differ in them. float32 is rounded to bf16 and block formats to nearest, ties to even. Raises DeviceError
    if a device tensor is not inside an allocation, GraphRuntimeError if no such copy exists."""
    check(
        lib.gr_copy(
            src.env if src else ffi.NULL, src_arg.pointer, dst.env if dst else ffi.NULL, dst_arg.pointer
        )
    )


# **************** kernels, programs, libraries ****************


@cache
def generic_kernels(plain: bool = False) -> dict[str, int]:
    """{name: address} of the kernels built into the core, as "cpu/softmax/f32". ``plain``: whether to give
    the variants that run on any machine."""
    entry = lib.gr_generic_plain_fn if plain else lib.gr_generic_fn
    names = [ffi.string(lib.gr_generic_name(i)).decode() for i in range(lib.gr_generic_count())]
    return {name: address_of(entry(i)) for i, name in enumerate(names)}


def copy_kernel() -> int:
    """Address of the kernel of ``__copy``; the attrs of its call point to a gr_copy_envs."""
    return address_of(lib.gr_copy_kernel_fn())


def packed_kernel() -> int:
    """Address of the kernel that calls a function of TVM's packed ABI; the attrs of its call point to a
    gr_packed_call."""
    return address_of(lib.gr_packed_kernel_fn())


def null_kernel() -> int:
    """Address of the kernel that does nothing, which serves every op of a null device."""
    return address_of(lib.gr_null_kernel_fn())


def program_create(instrs: int, count: int) -> Any:
    """A ``gr_program *`` over ``count`` gr_instr records at the address ``instrs``. The records must outlive
    the program, which is freed with its last reference. Raises GraphRuntimeError for a record without a
    kernel or of another ABI."""
    out = ffi.new("gr_program **")
    check(lib.gr_program_create(ffi.cast("gr_instr *", instrs), count, out))
    return ffi.gc(out[0], lib.gr_program_destroy)


def library_open(path: str | os.PathLike[str]) -> int:
    """dlopen a library of kernels whose manifest was checked before. Raises LibraryError with the linker's
    reason."""
    out = ffi.new("void **")
    if lib.gr_library_open(os.fsencode(path), out) != lib.GR_OK:
        raise LibraryError(last_error(), got=os.fspath(path))
    return address_of(out[0])


def blas_open(path: str | os.PathLike[str], prefix: str) -> None:
    """Open an OpenBLAS for the kernels that call it, once in a process; ``prefix``: beginning of the names of
    its symbols. Raises LibraryError if the file cannot be opened or is no OpenBLAS."""
    if lib.gr_blas_open(os.fsencode(path), prefix.encode()) != lib.GR_OK:
        raise LibraryError(last_error(), got=os.fspath(path))


def library_symbol(handle: int, name: str) -> int:
    """Address of a symbol in an open library, 0 if the library has no symbol of that name."""
    return address_of(lib.gr_library_symbol(ffi.cast("void *", handle), name.encode()))


def library_close(handle: int) -> None:
    """Close a library. No kernel of the library may run, now or later."""
    lib.gr_library_close(ffi.cast("void *", handle))


# **************** libraries that TVM made ****************


def tvm_open(path: str | os.PathLike[str], externs: bool) -> int:
    """Open a TVM library, connect it to this package's services, and return a module handle. The library
    stays open until the process ends, because its operators keep pointers to the services. ``externs``:
    whether the library refers to the services as plain undefined symbols. Raises LibraryError with the
    linker's reason."""
    out = ffi.new("gr_tvm_module **")
    if lib.gr_tvm_open(os.fsencode(path), externs, out) != lib.GR_OK:
        raise LibraryError(last_error(), got=os.fspath(path))
    return address_of(out[0])


def tvm_publish() -> None:
    """Let libraries that other code opens, for example by ctypes.CDLL, find this package's services. Raises
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
    """Address of the packed function called ``name``, 0 if the module has no such function; ``imports``:
    whether imported modules are searched, too."""
    return address_of(lib.gr_tvm_function(_tvm(module), name.encode(), imports))


def tvm_contexts(module: int) -> list[str]:
    """Names of the pointer variables through which a library calls the services."""
    bits = lib.gr_tvm_contexts(_tvm(module))
    names = [ffi.string(lib.gr_tvm_context_name(i)).decode() for i in range(bits.bit_length())]
    return [name for i, name in enumerate(names) if bits >> i & 1]


def tvm_call(fn: int, tensors: int, count: int) -> None:
    """Call a packed function with ``count`` DLTensors (48 bytes each) at an address. Raises KernelError with
    the function's text."""
    values = ffi.new("uint64_t[]", [tensors + 48 * i for i in range(count)])
    codes = ffi.new("int32_t[]", [7] * count)
    ret, ret_code = ffi.new("int64_t *"), ffi.new("int32_t *")
    check(lib.gr_tvm_call(ffi.cast("void *", fn), values, codes, count, ret, ret_code))


def tvm_pointer(fn: int, number: int) -> int:
    """The address that a packed function of one integer returns, 0 for null. Raises KernelError if the
    function fails, LibraryError if its result is no pointer."""
    value, code = ffi.new("int64_t *", number), ffi.new("int32_t *", 0)
    ret, ret_code = ffi.new("int64_t *"), ffi.new("int32_t *")
    check(lib.gr_tvm_call(ffi.cast("void *", fn), value, code, 1, ret, ret_code))
    if ret_code[0] not in (3, 4):  # type codes of an opaque handle and of null
        text = f"a function that returns a pointer returned a value of type code {ret_code[0]}"
        raise LibraryError(text, got=ret_code[0], wanted=3)
    return ret[0] if ret_code[0] == 3 else 0


class _HostMemory:
    """Base object of a numpy view of host memory, which keeps the memory's owner alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, addr: int, nbytes: int, owner: object):
        self.owner = owner
        self.__array_interface__ = {"data": (addr, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def host_view(type_: TensorType, addr: int, owner: object) -> np.ndarray | None:
    """The values at a host address as a read-only array that keeps ``owner`` alive; None for a dtype without
    an array form (handles, vector lanes)."""
    view = _view(type_, addr, owner)
    if view is not None:
        view.flags.writeable = False
    return view


def writable_view(type_: TensorType, addr: int, turn: object) -> np.ndarray | None:
    """The array of host_view, but writable. ``turn`` allows the write and is kept alive: it is the Writing of
    the Buffer at the address, or the owner of memory that no queued work uses."""
    return _view(type_, addr, turn)


def _view(type_: TensorType, addr: int, owner: object) -> np.ndarray | None:
    try:
        dtype = dtypes.to_numpy(type_.dtype)
    except DocumentError:
        return None
    if not type_.nbytes:
        return np.empty(type_.shape, dtype)
    return np.asarray(_HostMemory(addr, type_.nbytes, owner)).view(dtype).reshape(type_.shape)


def arg_fields(dtype: str, shape: Sequence[int], layout: Layout) -> dict[str, int]:
    """The fields of a gr_arg that say how a tensor of a canonical dtype is stored: all fields but the
    pointers and the rank."""
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
        fields["page_bytes"] = dtypes.parse(dtype).itemsize  # copies take the element size from this field
    return fields


def pinned_cores(text: str) -> list[int]:
    """Numbers of the cores that GR_PIN lists. ``text``: a list such as "0,2,4-7", "all" for all cores that
    this process may use, or "" for no cores. Raises GraphRuntimeError for another text."""
    if text == "all":
        return sorted(os.sched_getaffinity(0))
    cores: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and max(len(first), len(last)) < 5):
            said = f"GR_PIN={text!r} is no list of cores: {part!r}; give them as 0,2,4-7, or all"
            raise GraphRuntimeError(said, got=text)
        cores += range(int(first), int(last or first) + 1)
    return cores
