"""Tensors of the tests of functions that models use."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")

TILE, ROWS = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT


def put(device, values, dtype=ttnn.float32, layout=TILE, memory_config=None):
    return ttnn.from_torch(
        torch.as_tensor(values), dtype=dtype, layout=layout, device=device, memory_config=memory_config
    )


def number(device, value):
    """A tensor of one uint32 in rows."""
    return put(device, torch.tensor([value], dtype=torch.int32), ttnn.uint32, ROWS)


def got(tensor):
    return ttnn.to_torch(tensor).float()


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def close(made, expected, tolerance):
    """Assert that the greatest error is at most ``tolerance`` of the greatest value."""
    made, expected = torch.as_tensor(made).float(), torch.as_tensor(expected).float()
    assert made.shape == expected.shape, (made.shape, expected.shape)
    error = (made - expected).abs().max() / expected.abs().max().clamp(min=1e-6)
    assert error <= tolerance, float(error)
