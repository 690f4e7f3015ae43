"""Fixtures of eager mode: a device to compute on, and a clean journal."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from graph_runtime import eager
from graph_runtime.run.tensors.lineage import settle_all


@pytest.fixture(params=["cpu:0", "tt:0"])
def device(request) -> str:
    """Each kind of device that has kernels."""
    return request.param


@pytest.fixture(autouse=True)
def clean():
    """No fallbacks, selections or modes of another test."""
    settle_all()
    eager.fallbacks(clear=True)
    eager.forget()
    yield
    eager.verify("off")
    eager.forget()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def gate(faulty_library, sabotage):
    """gate(False) holds the queue of cpu:0 at the next exp, here a copy; gate(True) lets it go."""
    flag = ctypes.c_int32.in_dll(faulty_library, "gate")
    sabotage("exp", "gated_copy")

    def change(is_open: bool) -> None:
        flag.value = is_open

    yield change
    change(True)
    settle_all()
