"""Calls that repeat are done again by what was remembered: on other values, after writes, by views."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

CALLS = {
    "several launches": lambda x, y, w: functional.layer_norm(x, (8,), w[0], y[0]),
    "several results": lambda x, y, w: torch.native_layer_norm(x, (8,), y[0].clone(), w[0].clone(), 1e-5)[1],
    "a view": lambda x, y, w: functional.linear(x, w, y[0]),
    "a list of numbers": lambda x, y, w: x.sum([0]),
    "another list": lambda x, y, w: x.sum([1]),
    "tensors": lambda x, y, w: torch.cat([x, y, x]),
    "the same tensors": lambda x, y, w: torch.cat([x, x, y]),
    "a keyword": lambda x, y, w: torch.addcmul(x, y, w, value=0.5),
    "another keyword": lambda x, y, w: torch.addcmul(x, y, w, value=0.25),
    "one twice": lambda x, y, w: torch.addmm(x, x, y),
    "each once": lambda x, y, w: torch.addmm(x, y, x),
    "a slope": lambda x, y, w: torch.ops.aten.threshold_backward(x, y - 0.5, 0.0),
    "written": lambda x, y, w: x.clone().addcdiv_(y, w + 1, value=0.1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_repeats_makes_what_its_own_arguments_say(tt, same, name):
    w = torch.rand(8, 8)
    held = w.to("tt")
    for _ in range(4):
        x, y = torch.rand(8, 8), torch.rand(8, 8)
        same(CALLS[name](x.to("tt"), y.to("tt"), held), CALLS[name](x, y, w))
        w.mul_(0.5)
        held.mul_(0.5)  # its views are made anew


def test_all_calls_after_each_other(tt, same):
    for _ in range(3):
        given = [torch.rand(8, 8) for _ in range(3)]
        on_device = [x.to("tt") for x in given]
        for call in CALLS.values():
            same(call(*on_device), call(*given))
