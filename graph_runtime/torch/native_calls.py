"""Repeated calls in C++ (native/torch/repeated_calls.cpp): compiled once, cached, and installed above
Python's kernels.

    register()     --load, offer-->  a module found in the cache is in use from the import on
    eager, writes  --tell-->         a call that Python has repeated is from now on done by C++
                                     (if C++ is not in use, the module is compiled after 10,000 such calls)

GR_TORCH_NATIVE says when the C++ module is compiled. "auto": after 10,000 repeated calls, in a child process
that ends with this process. "build": at the first repeated call, which waits. "off": never, and a cached
module is not used. Python does the calls until the module is compiled, and if there is no compiler.
``which`` says whether C++ or Python does the calls, and why.
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

_MODES = ("auto", "build", "off")
_ENOUGH = 10_000  # repeated calls after which a process compiles the module, which later processes then find
_FUNCTIONS = (
    "gr_submit_call gr_submit gr_handle_export gr_handle_address gr_handle_drop gr_handles_collect"
).split()


class _Way:
    """How calls are done. ``module``: the C++ module in use; ``opened``: a module that load() found; ``why``:
    the reason why no module is in use; ``left``: number of calls until the module is compiled, 0 for never.
    """

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
    """How repeated calls are done: "C++", or "Python: " and the reason."""
    return "C++" if _way.module is not None else f"Python: {_way.why}"


def load() -> None:
    """Load the cached module if it may be used. To be called before torch knows the device, because torch
    takes C++ hooks only until then. Raises InputError for an unknown GR_TORCH_NATIVE."""
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
    """Offer kernels of operations (repeats.Repeating), and overloads that make views only. They run in C++ as
    soon as the module is loaded."""
    _way.offered, _way.views = offered, views
    if _way.opened is not None:
        _use(_way.opened)


def tell(operation: Any, ready: Any, call: Any) -> None:
    """Report that Python repeated a call by ``ready`` (ready.py). If C++ is in use, it does the next call of
    the same signature."""
    if _way.module is not None:
        _way.module.keep(operation, ready, call.looked_at())
    elif _way.left:
        _count()


def program(*told: Any) -> Any:
    """A Program of native/torch/programs.h, made of the arguments; None if C++ is not in use."""
    return None if _way.module is None else _way.module.Program(*told)


def build() -> str:
    """Compile the module if it is not cached, which takes some 20 s, and use it from now on; return
    ``which()``. To be called while no other thread uses tt tensors. Raises CompileError if there is no C++
    compiler, if compiling fails, and for GR_TORCH_NATIVE=off; WriteError."""
    if setting("TORCH_NATIVE") == "off":
        raise CompileError("GR_TORCH_NATIVE=off: the C++ way of calls is not to be compiled", got="off")
    if _way.module is None:
        module = _opened()
        if module is None:
            _compile()
            module = _opened()
        _use(module)
    return which()


# **************** time of compilation ****************


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
            _way.left = _ENOUGH  # after so many further calls, look whether the module is compiled
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
    """Use the module that the child process compiled, unless another thread may be running one of the kernels
    that it replaces."""
    if beside.is_alive() or threading.active_count() > 1:
        _way.left = _ENOUGH
    else:  # if compiling failed there is no module, and ``why`` has the error
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
    """The cached module; None if there is none, or it cannot be loaded."""
    from ..codegen.torch_calls import NAME, find_calls, key_of_calls

    try:
        key = key_of_calls()
        data = find_calls(key)
        if data is None:
            return None
        # load the bytes that were hashed, not the cache's file, which may change
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
    """Install the module's kernels above Python's."""
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
