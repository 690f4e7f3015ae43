"""Fixtures of the tests of graph_runtime.torch: torch with the device tt, and counters from zero."""

from __future__ import annotations

import os

import pytest

# no C++ is compiled beside tests; `GR_TORCH_NATIVE=build pytest tests/torch` runs them with it
os.environ.setdefault("GR_TORCH_NATIVE", "off")

try:
    import torch
except ImportError:  # the extra is not installed: nothing to collect here
    torch = None
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture
def tt():
    """graph_runtime.torch, its counters cleared."""
    import graph_runtime.torch as tt

    tt.stats(clear=True)
    return tt


@pytest.fixture
def same():
    """same(tt tensor, cpu tensor, tolerance): equal dtype, shape and values."""

    def check(made, wanted, tolerance=1e-5):
        made = made.detach().cpu()
        assert made.dtype == wanted.dtype
        torch.testing.assert_close(made, wanted.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)

    return check
