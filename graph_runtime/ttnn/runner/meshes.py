"""Fixtures of tt-metal's conftest for more than one chip and for the machine. A test of several chips is
skipped, as tt-metal skips it on a machine with one chip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .. import interface as ttnn


def _of_chips(name: str, count: int) -> Any:
    @pytest.fixture(name=name)
    def fixture() -> None:
        pytest.skip(f"{name} needs {count} devices, there is one")

    return fixture


n300_mesh_device = _of_chips("n300_mesh_device", 2)
pcie_mesh_device = _of_chips("pcie_mesh_device", 4)
t3k_mesh_device = _of_chips("t3k_mesh_device", 8)
t3k_single_board_mesh_device = _of_chips("t3k_single_board_mesh_device", 8)
ensure_devices_tg = _of_chips("ensure_devices_tg", 32)


@pytest.fixture
def silicon_arch_blackhole(silicon_arch_name: str) -> str:
    if silicon_arch_name != "blackhole":
        pytest.skip("needs blackhole")
    return silicon_arch_name


@pytest.fixture
def bh_1d_mesh_device(silicon_arch_blackhole: str, mesh_device: Any) -> Any:
    """A mesh that is a line: one Blackhole."""
    return mesh_device


@pytest.fixture
def bh_2d_mesh_device(silicon_arch_blackhole: str, mesh_device: Any) -> Any:
    """A mesh that is a grid: one Blackhole."""
    return mesh_device


@pytest.fixture
def galaxy_type() -> None:
    """None, for this machine is no Galaxy."""


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
