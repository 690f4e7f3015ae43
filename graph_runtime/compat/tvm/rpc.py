"""tvm.rpc: scripts import it at their top; a use of it is an error that names the way out."""

from __future__ import annotations

from typing import Any, NoReturn

from .missing import why

__all__ = ["connect", "connect_tracker"]


def connect(*_: Any, **__: Any) -> NoReturn:
    """Raises NotImplementedError: there are no remote devices."""
    raise NotImplementedError(why("rpc"))


connect_tracker = LocalSession = Server = connect
