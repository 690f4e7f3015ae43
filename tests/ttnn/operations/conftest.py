"""A Blackhole device, for functions that the release runs on Blackhole only."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices.mesh_device import use_board


@pytest.fixture
def blackhole():
    use_board("p150")
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)
    use_board("")
