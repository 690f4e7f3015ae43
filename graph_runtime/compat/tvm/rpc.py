"""tvm.rpc: sessions with this machine, and with a node of a cluster.

connect("node1") is a session with that node of the cluster that is connected (gr.cluster.connect),
connect("HOST", PORT) joins the Ray there first. Files stay here until an executor is made of them; what it
needs then goes to the node by its content. There is no server or tracker of TVM's here.
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


class NodeSession(LocalSession):
    """A session of TVM's with ``node`` of the cluster that is connected: its devices are that node's, and
    executors that are made on them run there."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node

    def device(self, dev_type: int | str, dev_id: int = 0) -> Device:  # type: ignore[override]
        """A device of the node, as tvm.device names it. Raises DeviceError for one that there is not."""
        return replace(device(dev_type, dev_id).opened(), node=self.node)

    def system_lib(self) -> NoReturn:
        """Raises NotImplementedError: functions of that process are not reached."""
        raise NotImplementedError(f"{self.node} runs graphs only: upload the library and load it")

    def get_function(self, name: str) -> NoReturn:
        """Raises NotImplementedError: functions of that process are not reached."""
        raise NotImplementedError(f"{self.node} runs graphs only: function {name!r} is not reached there")

    def __getattr__(self, name: str) -> Any:
        """cpu, ext_dev and the other makers of devices, of the node."""
        if name in MAKERS:
            return partial(self.device, name)
        raise AttributeError(f"a session has no {name!r}")


def connect(
    url: str, port: int | None = None, key: str = "", session_timeout: float = 0, **_: Any
) -> NodeSession:
    """A session with a node: ``url`` is its name in the cluster that is connected, or with a ``port`` the
    address of a Ray, which is joined: of its nodes that named ``key``, else the last. ``session_timeout``:
    seconds of each wait, 0: 60. Raises ClusterError, DeviceError for a node that there is not."""
    if port is None:
        joined, node = cluster.connected(), url
    else:
        joined = cluster.connect(f"{url}:{port}", deadline=session_timeout or 60.0)
        node = key or joined.nodes[-1]
    joined.fleet.member(node)
    return NodeSession(node)


def connect_tracker(*_: Any, **__: Any) -> NoReturn:
    """Raises NotImplementedError: Ray knows the nodes, there is no tracker of TVM's."""
    raise NotImplementedError(why("rpc"))


Server = connect_tracker
