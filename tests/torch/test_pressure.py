"""Memory that torch has dropped is there for everybody at once."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
import graph_runtime as gr  # noqa: E402


def test_others_get_what_torch_dropped():
    gc.collect()
    torch.tt.empty_cache()
    free = torch.tt.mem_get_info()[0]
    size = int(free * 0.6) // 4096 // 4
    x = torch.empty(size, 4096, device="tt")
    del x  # noted by the deleter, and not collected yet
    made = gr.empty((size, 4096), "float32", "tt:0")
    assert made.is_allocated
    made.deallocate()
