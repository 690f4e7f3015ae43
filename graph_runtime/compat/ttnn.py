"""ttnn's interface under its documented name: this module is graph_runtime.ttnn.interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..ttnn import interface

if TYPE_CHECKING:  # type checkers need it: operations are made at import

    def __getattr__(name: str) -> Any: ...


sys.modules[__name__] = interface
