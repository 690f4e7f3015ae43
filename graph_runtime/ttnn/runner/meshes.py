"""Fixtures of tt-metal's conftest for more than one chip and for the machine. A test is skipped if the
machine that --board or GR_TTNN_BOARD names has fewer chips, as tt-metal skips it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from .. import interface as ttnn


def opened_mesh(wanted: Any, params: Any) -> Iterator[Any]:
    """Open a mesh, with the fabric that ``params`` name, and close it after the test."""
    shape = (1, wanted) if isinstance(wanted, int) else tuple(wanted)
    count, there = shape[0] * shape[1], ttnn.get_num_devices()
    if count > there:
        pytest.skip(f"needs {count} devices, the machine has {there}: choose it by --board or GR_TTNN_BOARD")
    fabric = dict(params or {}).get("fabric_config")
    if fabric is not None and not isinstance(fabric, bool):
        ttnn.set_fabric_config(fabric)
    mesh = opened(params, shape)
    yield mesh
    closed(mesh)
    ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)


_KNOWN = ("l1_small_size", "trace_region_size", "num_command_queues", "worker_l1_size")


def opened(params: Any, shape: tuple[int, ...] = (1, 1)) -> Any:
    known = {key: value for key, value in dict(params or {}).items() if key in _KNOWN}
    device: Any = ttnn.open_mesh_device(ttnn.MeshShape(shape), **known)
    device.cache_entries_counter = CacheEntriesCounter(device)
    ttnn.SetDefaultDevice(device)
    return device


def closed(device: Any) -> None:
    """Close a device or a mesh after a test, which may have ended inside of a graph capture."""
    while ttnn.graph.is_graph_capture_active():
        ttnn.graph.end_graph_capture()
    ttnn.close_device(device)


class CacheEntriesCounter:
    """The number of ttnn programs that calls added to the device's cache: measure() counts the ttnn programs
    of a with block, ``total`` is the sum over all blocks."""

    def __init__(self, device: Any):
        self.device, self.total = device, 0

    def reset(self) -> None:
        self.total = 0

    @contextmanager
    def measure(self) -> Iterator[None]:
        before = self.device.num_program_cache_entries()
        yield
        self.total += self.device.num_program_cache_entries() - before

    def decorator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.measure():
                return function(*args, **kwargs)

        return counted


def _of_chips(name: str, *shape: int) -> Any:
    @pytest.fixture(name=name)
    def fixture(device_params: Any) -> Iterator[Any]:
        yield from opened_mesh(shape, device_params)

    return fixture


n300_mesh_device = _of_chips("n300_mesh_device", 1, 2)
pcie_mesh_device = _of_chips("pcie_mesh_device", 2, 2)
t3k_mesh_device = _of_chips("t3k_mesh_device", 2, 4)
t3k_single_board_mesh_device = _of_chips("t3k_single_board_mesh_device", 1, 2)


@pytest.fixture
def ensure_devices_tg() -> None:
    """Skip the test unless the machine has the 32 chips of a Galaxy."""
    there = ttnn.get_num_devices()
    if there < 32:
        pytest.skip(f"needs 32 devices, the machine has {there}")


@pytest.fixture
def silicon_arch_blackhole(silicon_arch_name: str) -> str:
    if silicon_arch_name != "blackhole":
        pytest.skip("needs blackhole")
    return silicon_arch_name


@pytest.fixture
def bh_1d_mesh_device(silicon_arch_blackhole: str, mesh_device: Any) -> Any:
    """A mesh of Blackholes that is a line."""
    return mesh_device


@pytest.fixture
def bh_2d_mesh_device(silicon_arch_blackhole: str, mesh_device: Any) -> Any:
    """A mesh of Blackholes that is a grid."""
    return mesh_device


@pytest.fixture
def galaxy_type() -> None:
    """None, for no kind of Galaxy is told apart."""


@pytest.fixture
def is_ci_v2_env() -> bool:
    return False


@pytest.fixture
def is_single_card_n300() -> bool:
    return bool(ttnn.cluster.get_cluster_type() == ttnn.cluster.ClusterType.N300)


@pytest.fixture
def get_tt_cache_path(tmp_path: Path) -> Callable[..., Path]:
    """A function that makes a folder for a model's weights, deleted after the test."""

    def path(model_version: str, model_subdir: str = "", default_dir: str = "") -> Path:
        made = tmp_path / model_subdir / model_version
        made.mkdir(parents=True, exist_ok=True)
        return made

    return path


@pytest.fixture
def tracy_profile() -> None:
    """No effect: no profile is recorded."""
