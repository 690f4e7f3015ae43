"""A device for tests of compat.ttnn."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn


@pytest.fixture
def device():
    opened = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
    yield opened
    ttnn.close_device(opened)
