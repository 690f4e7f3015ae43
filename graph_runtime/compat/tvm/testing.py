"""tvm.testing: the comparison that deploy scripts use, and the marks of TVM's tests. A mark skips its test if
the test needs a device that is missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .missing import no_name
from .runtime.device import TvmDevice, device
from .runtime.module import enabled

__all__ = [
    "assert_allclose",
    "device_enabled",
    "enabled_targets",
    "main",
    "requires_llvm",
    "requires_package",
    "uses_gpu",
]

_ELSEWHERE = (
    "aarch64_linux aocl cublas cuda cudagraph cudnn gpu hexagon metal micro nvptx opencl rocm rpc "
    "tensorcore vulkan"
).split()


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError if the shapes differ, or if values differ by more than the tolerance."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def device_enabled(target: Any) -> bool:
    """Whether libraries for a target run here."""
    return enabled(str(target).split(" ", 1)[0])


def enabled_targets() -> list[tuple[str, TvmDevice]]:
    """The targets whose libraries run here, with a device for each."""
    return [("llvm", device("llvm"))]


def uses_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The test function, unchanged, because a test with this mark asks for devices itself."""
    return function


requires_llvm = uses_gpu  # no skip: libraries made by LLVM run here


def requires_package(*packages: str) -> Callable[..., Any]:
    """A mark that skips a test if one of these packages is not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name.partition(".")[0]) is None]
    return _skipped(f"needs {', '.join(missing)}") if missing else uses_gpu


def main() -> None:
    """Run the tests of the file that calls this function."""
    import runpy

    sys.argv[:1] = ["pytest", sys._getframe(1).f_globals["__file__"]]
    runpy.run_module("pytest", run_name="__main__")


def _skipped(reason: str) -> Callable[..., Any]:
    import unittest  # only scripts with tests need it

    return unittest.skip(reason)


def __getattr__(name: str) -> Any:
    """The mark ``requires_x`` for a feature x that is missing here: it skips the test."""
    if name.removeprefix("requires_") in _ELSEWHERE and name.startswith("requires_"):
        return _skipped(f"{name.removeprefix('requires_')} is not here")
    raise no_name(__name__, name, __all__)
