"""tvm.rpc: a session with this machine itself. Other machines are not reached: an error names the way out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

from .contrib.utils import tempdir
from .missing import why
from .runtime.device import MAKERS, TvmDevice, device
from .runtime.global_functions import PackedFunc, get_global_func
from .runtime.module import LibraryModule, load_module, system_lib

__all__ = ["LocalSession", "connect", "connect_tracker"]


class LocalSession:
    """A session of TVM's with this process: files lie in a folder of its own, devices are this machine's."""

    def __init__(self) -> None:
        self._folder = tempdir()

    def _path(self, name: Any) -> Path:
        return Path(self._folder.relpath(name))  # an absolute name stays

    def upload(self, data: Any, target: str | None = None) -> None:
        """Copy a file, or bytes that ``target`` names, into the session's folder."""
        if isinstance(data, bytearray | bytes):
            if target is None:
                raise ValueError("target must present when file is a bytearray")
            self._path(target).write_bytes(data)
        else:
            shutil.copy(data, self._path(target or os.path.basename(data)))

    def download(self, path: str) -> bytearray:
        """The bytes of a file. Raises OSError."""
        return bytearray(self._path(path).read_bytes())

    def listdir(self, path: str = "") -> str:
        """Names in the folder, with commas between."""
        return ",".join(sorted(os.listdir(self._path(path))))

    def remove(self, path: str) -> None:
        """Take a file away."""
        self._path(path).unlink(missing_ok=True)

    def load_module(self, path: str) -> LibraryModule:
        """A library of the folder. Raises as tvm.runtime.load_module."""
        return load_module(self._path(path))

    def system_lib(self) -> LibraryModule:
        """As tvm.runtime.system_lib."""
        return system_lib()

    def get_function(self, name: str) -> PackedFunc | None:
        """As tvm.get_global_func."""
        return get_global_func(name)

    def device(self, dev_type: int | str, dev_id: int = 0) -> TvmDevice:
        """As tvm.device."""
        return device(dev_type, dev_id)

    def __getattr__(self, name: str) -> Any:
        """cpu, cuda and the other makers of devices."""
        if name in MAKERS:
            return MAKERS[name]
        raise AttributeError(f"a session has no {name!r}")


def connect(*_: Any, **__: Any) -> NoReturn:
    """Raises NotImplementedError: there are no remote devices."""
    raise NotImplementedError(why("rpc"))


connect_tracker = Server = connect
