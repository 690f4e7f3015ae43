"""Names of modules for tt-metal's tests: compat.ttnn becomes ttnn, helpers get the names that the tests
import."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from .. import interface as ttnn
from ..devices.mesh_device import use_board
from ..released.absent import Absent

# names of modules of tt-metal and of others that scripts import -> modules here; "" is a package that only
# contains others
_HELPERS = {
    "loguru": "plain_logger",
    "models": "",
    "models.common": "",
    "models.common.utility_functions": "utility_functions",
    "tests": "",
    "tests.ttnn": "",
    "tests.ttnn.utils_for_testing": "utils_for_testing",
    "tt_lib": "",
    "tt_lib.utils": "tt_lib_utils",
    "utils": "emitted_utils",
    "tracy": "tracy_marks",
}
# those that ttnn's wheel, or what the wheel requires, brings along
_OF_WHEEL = ("loguru", "tracy", "tt_lib", "tt_lib.utils")
_RECORDS = "tracy."  # prefix of modules that read a card's profiles: all their names are absent


class _Helpers:
    """The last finder of imports. It provides a helper of ``names`` if no other finder has a module of that
    name."""

    def __init__(self, names: Collection[str]):
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.names and not fullname.startswith(_RECORDS):
            return None
        is_package = not _HELPERS.get(fullname, "") or fullname == "tracy"
        return ModuleSpec(fullname, self, is_package=is_package)  # type: ignore[arg-type]  # it has what is used

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        name = _HELPERS.get(spec.name, "")
        return import_module(f"{__package__}.helpers.{name}") if name else None

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing for a helper, which is loaded already; in a module of _RECORDS make each name absent."""
        name = module.__name__
        if name.startswith(_RECORDS):
            vars(module)["__getattr__"] = lambda one: _absent(name, one)


def _absent(module: str, name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"{module}.{name}", "it is made while tt-metal is built")


def install(board: str = "", like_wheel: bool = False) -> None:
    """Let ``import ttnn`` import this package from now on, on ``board`` ("": that of GR_TTNN_BOARD, else
    n150). ``like_wheel``: only with the modules that ttnn's wheel brings along, none of tt-metal's tests.
    Raises RuntimeError if another ttnn was imported, DeviceError for an unknown board."""
    if board:
        use_board(board)
    ttnn.install()
    names = _OF_WHEEL if like_wheel else _HELPERS
    if not any(isinstance(finder, _Helpers) and finder.names == names for finder in sys.meta_path):
        sys.meta_path.append(_Helpers(names))  # type: ignore[arg-type]  # it has what is used
