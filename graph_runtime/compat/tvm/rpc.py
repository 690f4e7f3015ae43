"""tvm.rpc: sessions with this machine, and with a node of a cluster.

connect("node1") is a session with that node of the connected cluster (gr.cluster.connect); connect("HOST",
PORT) first joins the Ray cluster at that address. Files stay here until an executor is made of them; then the
node gets the files that it needs and does not have yet. There is no server or tracker of TVM's here.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ... import cluster
from ...base.machine.devices import Device
from .contrib.utils import tempdir
from .missing import why
from .runtime.device import MAKERS, TvmDevice, device
from .runtime.global_functions import PackedFunc, get_global_func
from .runtime.module import LibraryModule, load_module, system_lib

__all__ = ["LocalSession", "NodeSession", "connect", "connect_tracker"]


class LocalSession:
    """A TVM session with this process: files are in the session's own folder, devices are those of this
    machine."""

    def __init__(self) -> None:
        self._folder = tempdir()

    def _path(self, name: Any) -> Path:
        return Path(self._folder.relpath(name))  # an absolute path stays as it is

    def upload(self, data: Any, target: str | None = None) -> None:
        """Copy a file, or bytes named by ``target``, into the session's folder."""
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
        """Names of the files in the folder, separated by commas."""
        return ",".join(sorted(os.listdir(self._path(path))))

    def remove(self, path: str) -> None:
        """Delete a file."""
        self._path(path).unlink(missing_ok=True)

    def load_module(self, path: str) -> LibraryModule:
        """A library in the folder. Errors as for tvm.runtime.load_module."""
        return load_module(self._path(path))

    def system_lib(self) -> LibraryModule:
        """The result of tvm.runtime.system_lib."""
        return system_lib()

    def get_function(self, name: str) -> PackedFunc | None:
        """The result of tvm.get_global_func."""
        return get_global_func(name)

    def device(self, dev_type: int | str, dev_id: int = 0) -> TvmDevice:
        """The result of tvm.device."""
        return device(dev_type, dev_id)

    def __getattr__(self, name: str) -> Any:
        """The functions that make devices: cpu, cuda and the others."""
        if name in MAKERS:
            return MAKERS[name]
        raise AttributeError(f"a session has no {name!r}")


class NodeSession(LocalSession):
    """A TVM session with ``node`` of the connected cluster: its devices are those of the node, and executors
    made on them run there."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node

    def device(self, dev_type: int | str, dev_id: int = 0) -> Device:  # type: ignore[override]
        """A device of the node. ``dev_type``, ``dev_id``: as in tvm.device. Raises DeviceError for a device
        that the node lacks."""
        return replace(device(dev_type, dev_id).opened(), node=self.node)

    def system_lib(self) -> NoReturn:
        """Raises NotImplementedError, because functions of the node's process cannot be reached."""
        raise NotImplementedError(f"{self.node} runs graphs only: upload the library and load it")

    def get_function(self, name: str) -> NoReturn:
        """Raises NotImplementedError, because functions of the node's process cannot be reached."""
        raise NotImplementedError(f"{self.node} runs graphs only: function {name!r} is not reached there")

    def __getattr__(self, name: str) -> Any:
        """The functions that make the node's devices: cpu, ext_dev and the others."""
        if name in MAKERS:
            return partial(self.device, name)
        raise AttributeError(f"a session has no {name!r}")


def connect(
    url: str, port: int | None = None, key: str = "", session_timeout: float = 0, **_: Any
) -> NodeSession:
    """A session with a node. Without a ``port``, ``url`` is the node's name in the connected cluster. With a
    ``port``, ``url`` is the address of a Ray cluster, which is joined, and ``key`` is the name of a node in
    it, by default the last node. ``session_timeout``: seconds for each wait; 0 means 60 s. Raises
    ClusterError, DeviceError for an unknown node."""
    if port is None:
        joined, node = cluster.connected(), url
    else:
        joined = cluster.connect(f"{url}:{port}", deadline=session_timeout or 60.0)
        node = key or joined.nodes[-1]
    joined.fleet.member(node)
    return NodeSession(node)


def connect_tracker(*_: Any, **__: Any) -> NoReturn:
    """Raises NotImplementedError: there is no tracker of TVM's, because Ray knows the nodes."""
    raise NotImplementedError(why("rpc"))


Server = connect_tracker
