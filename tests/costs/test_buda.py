"""Cycles of single cores by Buda's published weights: the published case, errors."""

from __future__ import annotations

import pytest

from graph_runtime import costs
from graph_runtime.base.errors import PlanError

FIRST_CONV = {"u_kt": 4, "m_k": 1, "formats": ("bf16", "bf16", "bf16"), "fidelity": "HiFi3"}


@pytest.mark.parametrize(
    ("t", "mblock", "ublock", "cycles"),
    [
        (1, (98, 1), (4, 2), 344176),  # grid 1x1
        (2, (7, 2), (7, 1), 86240),  # grid 4x1
        (7, (1, 2), (7, 1), 43120),  # grid 8x1
        (49, (1, 1), (1, 1), 23912),  # grid 8x2
    ],
)
def test_the_published_convolution(t, mblock, ublock, cycles):
    cost = costs.op_cycles("matmul", "grayskull", t=t, mblock=mblock, ublock=ublock, **FIRST_CONV)
    assert cost.cycles == cycles


@pytest.mark.parametrize(
    ("op", "arch", "extra", "text"),
    [
        ("matmull", "grayskull", {}, "matmul"),
        ("matmul", "grayskul", {}, "grayskull"),
        ("matmul", "grayskull", {"fidelity": "HiFi5"}, "HiFi"),
        ("matmul_sparse", "wormhole_b0", {}, "nonzero"),
    ],
)
def test_what_is_unknown_is_named(op, arch, extra, text):
    with pytest.raises(PlanError, match=text):
        costs.op_cycles(op, arch, **extra)
