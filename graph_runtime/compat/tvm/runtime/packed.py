"""PackedModule: the interface that loaded libraries and executors share: functions by name, and
time_evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import InputError
from ....run.benchmark import BenchmarkResult, measure
from ...tvm_files.library import ENTRY
from ...tvm_files.packed_functions import flush_caches
from .device import opened
from .global_functions import get_global_func

__all__ = ["PackedModule"]


class PackedModule:
    """A module, as TVM calls it: ``module["name"]`` is a function. ``type_key`` names its kind."""

    type_key: str = ""
    entry_name = ENTRY
    format = ""
    is_runnable = True
    is_dso_exportable = False
    is_binary_serializable = False

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function called ``name``. Raises AttributeError if the module has no such function."""
        raise AttributeError(f"Module has no function {name!r}")

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if not isinstance(name, str):
            raise ValueError("Can only take string as function name")
        return self.get_function(name)

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a function called ``name``."""
        try:
            self.get_function(name, query_imports)
        except AttributeError:
            return False
        return True

    @property
    def entry_func(self) -> Callable[..., Any]:
        """The module's entry function. Raises AttributeError if the module has none."""
        return self.get_function(ENTRY)

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    @property
    def imported_modules(self) -> list[PackedModule]:
        return []

    def import_module(self, module: PackedModule) -> None:
        """Let operators of this library find functions of the library ``module``. Raises InputError for a
        module that is not a library."""
        raise InputError(f"{self!r} takes no imports: only libraries do", got=self.type_key)

    def get_source(self, fmt: str = "") -> str:
        """Raises InputError, because a library has no source."""
        raise InputError(f"Module[{self.type_key}] does not support GetSource", got=self.type_key)

    def export_library(self, file_name: Any, **_: Any) -> str:
        """Raises InputError, because a module that is not a library has no file."""
        text = f"Module[{self.type_key}] cannot be exported: compile the model with TVM elsewhere"
        raise InputError(text, got=self.type_key)

    def save(self, file_name: Any, fmt: str = "") -> None:
        """Raises InputError, because only TVM's compiler makes object files."""
        raise InputError(
            f"Module[{self.type_key}] does not support SaveToFile: object files come from TVM's compiler, "
            "export_library copies a library",
            got=self.type_key,
        )

    def time_evaluator(
        self,
        func_name: str,
        dev: Any,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that passes its arguments to the function ``func_name`` and measures the time of that
        call, as GraphModule.benchmark does.

        Before each repeat, ``f_preproc``, the name of a global function, is called with the arguments, and
        ``cache_flush_bytes`` bytes of other memory are written to empty the caches. Raises AttributeError for
        an unknown function, DeviceError for a missing device, ValueError for an unknown ``f_preproc``.
        """
        call = self.get_function(func_name, True)
        opened(dev)
        before = get_global_func(f_preproc) if f_preproc else None
        limits = (min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms / 1e3, repeats_to_cooldown)

        def evaluator(*args: Any) -> BenchmarkResult:
            def prepare() -> None:
                if before is not None:
                    before(*args)
                if cache_flush_bytes:
                    flush_caches(cache_flush_bytes)

            return measure(lambda: call(*args), repeat, number, *limits, before=prepare)

        return evaluator
