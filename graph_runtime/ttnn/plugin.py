"""The pytest plugin: fixtures of tt-metal's conftest for devices and meshes, and reports. A test of a
declined function is reported as skipped, with the function's name; a wrong result fails."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from . import interface as ttnn
from .errors import Unsupported
from .runner.install import install
from .runner.meshes import closed, opened, opened_mesh

_MARKS = (
    "requires_fast_runtime_mode_off: needs ttnn's slow mode",
    "requires_grid_size(size): needs so many cores",
    "use_module_device(device_params): one device for the module",
    "slow: takes long",
    "post_commit: of tt-metal's pipelines",
    "timeout(seconds): the most that a test may take",
)


def pytest_configure(config: Any) -> None:
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


def pytest_make_parametrize_id(config: Any, val: Any, argname: str) -> str | None:
    """Names of operations and modules in the names of tests, as tt-metal writes them."""
    if isinstance(val, ModuleType):
        val = val.__name__
    elif hasattr(val, "python_fully_qualified_name"):
        val = val.python_fully_qualified_name
    return f"{argname}={val}"


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Skip the tests that tt-metal's own conftest skips."""
    grid = ttnn.open_device(device_id=0).core_grid
    for item in items:
        if "requires_fast_runtime_mode_off" in item.keywords and ttnn.CONFIG.enable_fast_runtime_mode:
            item.add_marker(pytest.mark.skip(reason="needs fast runtime mode off"))
        for mark in item.iter_markers("requires_grid_size"):
            wanted = mark.args[0] if len(mark.args) == 1 else mark.args
            x, y = wanted if isinstance(wanted, (tuple, list)) else (0, 0)
            cores = wanted if isinstance(wanted, int) else x * y
            if grid.x < x or grid.y < y or grid.num_cores < cores:
                item.add_marker(pytest.mark.skip(reason=f"needs a grid of {wanted}"))


def _declined(error: BaseException) -> Unsupported | None:
    """The Unsupported that ``error`` is, or that caused it; None if there is no Unsupported. Causes and
    contexts of errors may form a ring."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        if isinstance(at, Unsupported):
            return at
        seen.add(id(at))
        at = at.__context__ if at.__cause__ is None else at.__cause__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """A test of a declined function is reported as skipped, with the function's name, because the test
    neither passed nor failed."""
    report = yield
    error = None if call.excinfo is None else _declined(call.excinfo.value)
    if error is not None:
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (str(path), line or 0, f"Skipped: unsupported: {error}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: Any) -> Any:
    """A file whose import uses a declined function is reported as skipped, with the function's name."""
    report = yield
    call = getattr(report, "call", None)
    error = None if call is None or call.excinfo is None else _declined(call.excinfo.value)
    if error is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: unsupported: {error}")
    return report


@pytest.fixture
def device_params(request: Any) -> Any:
    """Arguments of open_device, given by indirect parametrisation."""
    return getattr(request, "param", {})


@pytest.fixture
def device(request: Any, device_params: Any) -> Any:
    """A device, opened for the test with the parameters of the mark use_module_device or of device_params."""
    mark = request.node.get_closest_marker("use_module_device")
    said = {} if mark is None else (mark.args[0] if mark.args else mark.kwargs.get("device_params", {}))
    chip = opened({**said, **dict(device_params or {})})
    yield chip
    closed(chip)


@pytest.fixture
def mesh_device(request: Any, device_params: Any) -> Any:
    """A mesh of the machine's chips, as the test asks for: a number of chips or (rows, columns), by default
    one chip. A test that asks for more chips than the machine has is skipped."""
    yield from opened_mesh(getattr(request, "param", 1), device_params)


@pytest.fixture
def reset_seeds() -> None:
    """Set the seeds with which tt-metal's tests begin."""
    import numpy as np
    import torch

    torch.manual_seed(213919)
    np.random.seed(213919)
    random.seed(213919)


@pytest.fixture
def function_level_defaults(reset_seeds: None) -> None:
    """An older name of reset_seeds."""


@pytest.fixture
def use_program_cache() -> None:
    """No effect: ttnn programs are always kept."""


@pytest.fixture
def is_ci_env() -> bool:
    return False


@pytest.fixture
def silicon_arch_name() -> str:
    return ttnn.get_arch_name()


@pytest.fixture
def silicon_arch_wormhole_b0(silicon_arch_name: str) -> str:
    if silicon_arch_name != "wormhole_b0":
        pytest.skip("needs wormhole_b0")
    return silicon_arch_name


pytest_plugins = ("graph_runtime.ttnn.runner.meshes",)
install()  # conftests and tests import ttnn before any fixture runs
