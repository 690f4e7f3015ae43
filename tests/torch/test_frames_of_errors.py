"""An index out of range is told where the value is read; what torch does afterwards does not know of it."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.func import grad, vmap
from torch.nn.attention.flex_attention import flex_attention

BAD = torch.tensor([1, 99])


@pytest.fixture(autouse=True)
def _no_collector():
    """Python does not look for circles meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


READ = {
    "print": repr,
    "item": lambda y: y.sum().item(),
    "cpu": lambda y: (y + 1).cpu(),
    "grad": lambda y: grad(lambda a: (a * y).sum())(torch.ones_like(y)).cpu(),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("read", READ)
def test_torch_functions_are_right_after_a_failure_was_told(tt, read, compiled):
    def rows(x, at):
        return x[at] * 2

    f = torch.compile(rows, backend="tt") if compiled else rows
    x = torch.rand(4, 8).to("tt")
    with pytest.raises((IndexError, RuntimeError), match="index 99 is out of range"):
        READ[read](f(x, BAD.to("tt")))
    assert vmap(lambda a: a.sum())(torch.ones(3, 4)).tolist() == [4, 4, 4]
    assert grad(lambda a: (a * a).sum())(torch.ones(3)).tolist() == [2, 2, 2]
    assert torch.is_grad_enabled()


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_is_right_after_a_failure_was_printed(tt):
    x = torch.rand(4, 8).to("tt")
    with pytest.raises(IndexError):
        repr(x[BAD.to("tt")])
    q = torch.rand(1, 2, 8, 4)
    made = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))
    bias = (torch.arange(8)[:, None] - torch.arange(8)).float()
    wanted = torch.softmax(q @ q.transpose(-1, -2) / 2 + bias, -1) @ q
    torch.testing.assert_close(made, wanted)
