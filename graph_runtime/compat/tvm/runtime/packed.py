"""PackedModule: functions by name, and time_evaluator, which loaded libraries and executors share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import InputError
from ....run.benchmark import BenchmarkResult, measure
from .device import opened

__all__ = ["PackedModule"]

_ENTRY = "__tvm_main__"


class PackedModule:
    """What TVM calls Module: ``module["name"]`` is a function. ``type_key`` says its kind."""

    type_key: str = ""
    entry_name = _ENTRY
    format = ""
    is_runnable = True
    is_dso_exportable = False
    is_binary_serializable = False

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function called ``name``. Raises AttributeError."""
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
        """The function of a module that has one. Raises AttributeError."""
        return self.get_function(_ENTRY)

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    @property
    def imported_modules(self) -> list[PackedModule]:
        return []

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
        """A function that calls ``func_name`` with its arguments and measures, as GraphModule.benchmark.

        Raises AttributeError for a function that is not there, DeviceError for a device that is not here,
        InputError for ``cache_flush_bytes`` and ``f_preproc``: caches are not flushed here.
        """
        call = self.get_function(func_name, True)
        opened(dev)
        if cache_flush_bytes or f_preproc:
            raise InputError("caches are not flushed here: leave cache_flush_bytes and f_preproc away")
        limits = (min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms / 1e3, repeats_to_cooldown)

        def evaluator(*args: Any) -> BenchmarkResult:
            return measure(lambda: call(*args), repeat, number, *limits)

        return evaluator
