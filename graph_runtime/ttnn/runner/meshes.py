"""Fixtures of tt-metal's conftest for more than one chip and for the machine. A test is skipped if the
machine that --board or GR_TTNN_BOARD names has fewer chips, as tt-metal skips it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import interface as ttnn


def _of_chips(name: str, *shape: int) -> Any:
    @pytest.fixture(name=name)
    def fixture(device_params: Any) -> Iterator[Any]:
        from ..plugin import opened_mesh

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
