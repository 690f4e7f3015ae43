"""The C++ way of calls that repeat (native/torch/repeated_calls.cpp): compiled once, kept in the cache, and
put above Python's kernels.

    register()  --load, offer-->  found in the cache: in use from the import on
    eager, writes  --tell-->     a call that Python did again: C++ will do it from now on
                                 where C++ is not in use, after some thousand of them it is compiled

GR_TORCH_NATIVE says when it is compiled: "auto" beside the program, by a process that ends with it, "build"
at the first call that repeats, which waits for it, "off" never, and then it is not used either. Python's way
goes on until then, and where there is no compiler. ``which`` says which way calls take, and why.
"""

from __future__ import annotations

import sysconfig
import threading
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from typing import Any

from ..base.config import get as setting
from ..base.errors import CompileError, GraphRuntimeError, InputError, did_you_mean
from ..base.files.temporary import temporary_folder
from ..base.files.writing import write_whole
from ..base.locks import new_lock
from ..binding.core import ffi, lib
from ..run.queues.buffer import Buffer
from ..run.single import verification
from ..run.tensors.tensor import Tensor
from . import pinned, store

__all__ = ["build", "load", "offer", "program", "tell", "which"]

_MODES = ("auto", "build", "off")
_ENOUGH = (
    10_000  # calls that repeat after which a process pays for the compiler, for itself and those after it
)
_FUNCTIONS = (
    "gr_submit_call",
    "gr_submit",
    "gr_handle_export",
    "gr_handle_address",
    "gr_handle_drop",
    "gr_handles_collect",
)


class _Way:
    """``module``: the C++, where it is in use, ``opened`` before; ``why`` it is not; ``left``: calls until it
    is compiled, 0: it is not going to be."""

    def __init__(self) -> None:
        self.module: Any = None
        self.opened: Any = None
        self.why = "it is not compiled yet"
        self.left = 0
        self.offered: Sequence[Any] = ()
        self.views: Sequence[Any] = ()
        self.building: threading.Thread | None = None
        self.lock = new_lock()


_way = _Way()


def which() -> str:
    """How calls that repeat are done: "C++", or "Python: " and why."""
    return "C++" if _way.module is not None else f"Python: {_way.why}"


def load() -> None:
    """Open what was compiled before, if it may be used; before torch is told of the device, because only then
    it takes hooks in C++. Raises InputError for a GR_TORCH_NATIVE that is none."""
    mode = str(setting("TORCH_NATIVE"))
    if mode not in _MODES:
        text = f"GR_TORCH_NATIVE is {mode!r}{did_you_mean(mode, _MODES)}: it is one of {', '.join(_MODES)}"
        raise InputError(text, got=mode, wanted=_MODES)
    if mode == "off":
        _way.why = "GR_TORCH_NATIVE=off"
    elif sysconfig.get_config_var("Py_GIL_DISABLED"):
        _way.why = "this Python has no GIL, which guards what C++ and Python share"
    elif (module := _opened()) is not None:
        module.register_hooks(pinned.memory)
        _way.opened = module
    else:
        _way.left = 1 if mode == "build" else _ENOUGH


def offer(offered: Sequence[Any], views: Sequence[Any]) -> None:
    """These operations (repeats.Repeating), and overloads that only view, go the C++ way as soon as it is
    opened."""
    _way.offered, _way.views = offered, views
    if _way.opened is not None:
        _use(_way.opened)


def tell(operation: Any, ready: Any, call: Any) -> None:
    """Python did a call again, a ``ready`` of repeats.py: C++ will do the next of its signature."""
    if _way.module is not None:
        _way.module.keep(operation, ready, call.looked_at())
    elif _way.left:
        _count()


def program(*told: Any) -> Any:
    """A Program of native/torch/programs.h: None where C++ is not in use."""
    return None if _way.module is None else _way.module.Program(*told)


def build() -> str:
    """Compile the C++ way where it is not in the cache, which takes some 20 s, and use it from now on;
    ``which()`` then. Call it while no other thread uses tt tensors. Raises CompileError where there is no C++
    compiler, or it fails, and for GR_TORCH_NATIVE=off; WriteError."""
    if setting("TORCH_NATIVE") == "off":
        raise CompileError("GR_TORCH_NATIVE=off: the C++ way of calls is not to be compiled", got="off")
    if _way.module is None:
        module = _opened()
        if module is None:
            _compile()
            module = _opened()
        _use(module)
    return which()


# **************** when it is compiled ****************


def _count() -> None:
    with _way.lock:
        if not _way.left:
            return
        _way.left -= 1
        if _way.left:
            return
        if _way.building is None and setting("TORCH_NATIVE") == "auto":
            _way.building = threading.Thread(target=_build_beside, name="graph_runtime c++", daemon=True)
            _way.building.start()
            _way.left = _ENOUGH  # then look whether it is there
            return
        beside = _way.building
    if beside is not None:
        _adopt(beside)
        return
    try:
        build()
    except GraphRuntimeError as error:
        _way.why = _said(error)


def _adopt(beside: threading.Thread) -> None:
    """Use what was compiled beside the program, unless another thread may call what would be changed."""
    if beside.is_alive() or threading.active_count() > 1:
        _way.left = _ENOUGH
    else:  # where it failed, why says so
        _use(_opened())


def _build_beside() -> None:
    try:
        _compile()
    except GraphRuntimeError as error:
        _way.why = _said(error)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


# **************** loading ****************


def _compile() -> None:
    from ..codegen.torch_calls import compile_calls, key_of_calls

    compile_calls(key_of_calls())


def _opened() -> Any:
    """The module, from the cache; None where it is not there, or cannot be loaded."""
    from ..codegen.torch_calls import NAME, find_calls, key_of_calls

    try:
        key = key_of_calls()
        data = find_calls(key)
        if data is None:
            return None
        # what was hashed is what is opened: never the cache's file, which may change
        path = temporary_folder() / f"{key}.so"
        write_whole(path, data, 0o700)
        loader = ExtensionFileLoader(NAME, str(path))
        module = module_from_spec(ModuleSpec(NAME, loader, origin=str(path)))
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        _way.why = f"what was compiled cannot be loaded: {_said(error)}"
        return None
    return module


def _use(module: Any) -> None:
    """Put its kernels above Python's."""
    if module is None:
        return
    addresses = {name: int(ffi.cast("uintptr_t", ffi.addressof(lib, name))) for name in _FUNCTIONS}
    types = [ffi.typeof(name) for name in ("gr_buffer *", "gr_run *")]
    found = store.stores, store.lock, store.current, store.Store
    module.start(*found, Tensor, Buffer, *types, addresses)
    for op in _way.views:
        module.install_view(op._schema.name, op._schema.overload_name)
    for operation in _way.offered:
        schema, written = operation.op._schema, operation.written
        if isinstance(written, str):
            written = [argument.name for argument in schema.arguments].index(written)
        place = -1 if written is None else written
        module.install(schema.name, schema.overload_name, operation, place, operation.indices)
    verification.on_change(module.forget)
    _way.module = module
