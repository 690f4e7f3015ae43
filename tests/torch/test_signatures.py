"""Calls that repeat, in a random order with others that differ in one thing: shape, dtype, strides, a
keyword, which tensors are one, gradients, memory that was given back, indices out of range. Each does what
torch's CPU does.

`GR_TORCH_NATIVE=build` runs them by C++.
"""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from torch.nn import functional

CALLS = {
    "add": lambda a, b, at: a + b,
    "alpha": lambda a, b, at: torch.add(a, b, alpha=2),
    "other alpha": lambda a, b, at: torch.add(a, b, alpha=3),
    "product": lambda a, b, at: a @ b.transpose(0, 1),
    "layer_norm": lambda a, b, at: functional.layer_norm(a, a.shape[-1:], b[0].float(), None),
    "threshold": lambda a, b, at: torch.ops.aten.threshold_backward(a, b, 0.25),
    "cat": lambda a, b, at: torch.cat([a, b, a]),
    "cat along": lambda a, b, at: torch.cat([a, b], 1),
    "embedding": lambda a, b, at: functional.embedding(at, a),
    "embedding of a part": lambda a, b, at: functional.embedding(at[1:], a),
    "nll_loss": lambda a, b, at: functional.nll_loss(a[: len(at)], at),
    "ignored class": lambda a, b, at: functional.nll_loss(a[: len(at)], at, ignore_index=1),
    "clone": lambda a, b, at: a.clone(),
    "clone in order": lambda a, b, at: a.clone(memory_format=torch.contiguous_format),
    "zeros_like": lambda a, b, at: torch.zeros_like(a),
    "full": lambda a, b, at: torch.full(a.shape, 2, dtype=a.dtype, device=a.device),
    "other full": lambda a, b, at: torch.full(a.shape, 0.5, device=a.device),
    "in place": lambda a, b, at: a.clone().add_(b, alpha=0.5),
    "in place of itself": lambda a, b, at: itself(a.clone()),
    "a row in place": lambda a, b, at: changed(a.clone(), lambda x: x[1:2].mul_(2.0)),
    "a column in place": lambda a, b, at: changed(a.clone(), lambda x: x[:, 1].add_(b[0, 0])),
    "out": lambda a, b, at: torch.mul(a, b, out=torch.empty_like(a)),
    "other": lambda a, b, at: changed(torch.zeros_like(a), lambda x: x.copy_(b)),
    "of bf16": lambda a, b, at: a.to(torch.bfloat16).float(),
    "argmax": lambda a, b, at: a.float().argmax(1),
}


def itself(x):
    return x.add_(x, alpha=0.5)


def changed(x, change):
    change(x)
    return x


FORMS = {
    "plain": lambda t: t,
    "turned": lambda t: t.t().contiguous().t(),
    "cut": lambda t: torch.cat([t, t], 1)[:, : t.shape[1]],
    "in reverse order of columns": lambda t: t[:, [*range(t.shape[1])][::-1]],
    "spread": lambda t: t[:1].expand(t.shape),
}
STEP = st.tuples(
    st.sampled_from(sorted(CALLS)),
    st.sampled_from([(4, 6), (6, 4), (4, 4)]),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.sampled_from(sorted(FORMS)),
    st.booleans(),  # whether the two arguments are one tensor
    st.booleans(),  # whether they need gradients
)


def check(step, kept):
    """A call by the device and by the CPU. ``kept`` {its arguments: tensors}, of calls before."""
    name, shape, dtype, form, one, gradients = step
    if (shape, dtype, form) not in kept:
        values, at = [torch.randn(shape).to(dtype) for _ in range(2)], torch.randint(0, 4, (4,))
        made = [[FORMS[form](x.to(device)) for x in values] for device in ("cpu", "tt")]
        kept[shape, dtype, form] = *made, at
    on_host, there, at = kept[shape, dtype, form]
    results = []
    for tensors, indices in ((on_host, at), (there, at.to("tt"))):
        a, b = tensors[0], tensors[0] if one else tensors[1]
        if gradients:
            a = a.detach().requires_grad_()
        made = CALLS[name](a, b, indices)
        found = [made.detach().cpu()]
        if gradients and made.requires_grad:
            (slope,) = torch.autograd.grad(made.float().square().sum(), a)
            found.append(slope.cpu())
        results.append(found)
    wanted, found = results
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        tolerance = 3e-2 if dtype is torch.bfloat16 or "bf16" in name else 1e-4
        torch.testing.assert_close(x.float(), y.float(), rtol=tolerance, atol=tolerance)


@seed(0)
@settings(max_examples=6, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=8), st.integers(0, 2**31))
def test_calls_of_all_kinds_in_any_order(steps, number):
    import graph_runtime.torch  # noqa: F401

    torch.manual_seed(number)
    kept = {}
    for step in [*steps, *steps, *steps]:
        check(step, kept)
        if len(kept) > 2:  # memory goes back, and to others
            kept.pop(next(iter(kept)))
            gc.collect()


def test_an_index_out_of_range_is_refused_each_time(tt, same):
    table, wrong = torch.rand(4, 4), torch.tensor([0, 9, 1])
    there = table.to("tt")
    for at in (torch.tensor([0, 3, 1]), wrong, torch.tensor([2, 2, 2]), wrong, wrong):
        for _ in range(3):
            made = functional.embedding(at.to("tt"), there)
            if at is wrong:
                with pytest.raises(IndexError):
                    made.cpu()
            else:
                same(made, table[at])
        kept = at.to("tt")
        for _ in range(3):  # its low words are kept
            made = functional.embedding(kept, there)
            if at is wrong:
                with pytest.raises(IndexError):
                    (made + 1.0).cpu()
            else:
                same(made, table[at])


def test_what_one_of_several_launches_fails_to_make_the_host_makes(tt, sabotage, same):
    """Of each result, also where only one is read; the journal has the op that failed, once a run."""
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    a, b = x.to("tt"), y.to("tt")
    calls = {
        "less_equal": lambda a, b: torch.ops.aten.threshold_backward(a, b, 0.25),
        "sqrt": lambda a, b: torch.native_layer_norm(a, (6,), b[0], b[1], 1e-5),
    }
    for op, call in calls.items():
        for _ in range(3):
            call(a, b)
        sabotage(op, "fails")
        for _ in range(4):
            call(a, b)
        tt.stats(clear=True)
        made, wanted = call(a, b), call(x, y)
        for one, other in zip(
            *([m] if isinstance(m, torch.Tensor) else m for m in (made, wanted)), strict=True
        ):
            same(one, other, 1e-4)
        assert tt.stats().on_host == 1
        sabotage(op, None)
        tt.stats(clear=True)
        for _ in range(3):
            call(a, b)
        assert not tt.stats().on_host


def test_views_of_what_is_written_are_made_again_in_the_same_run(tt, same):
    w, x = torch.rand(6, 4), torch.rand(3, 4)
    held, given = w.to("tt"), x.to("tt")
    for _ in range(4):
        tt.stats(clear=True)
        same(functional.linear(given, held), functional.linear(x, w))
        assert tt.stats()["views"] == 1
        same(functional.linear(given, held), functional.linear(x, w))
        assert tt.stats()["views"] == 1
        w.mul_(0.5)
        held.mul_(0.5)


def test_views_of_new_tensors_are_told_apart_by_all_that_says_what_they_show(tt, same):
    views = {
        "corner": lambda x: x[:2, :2],
        "turned": lambda x: x.t()[:2, :2],
        "apart": lambda x: x[::2, :2],
        "below": lambda x: x[1:3, :2],
        "spread": lambda x: x[:1, :2].expand(2, 2),
    }
    for _ in range(3):
        for view in views.values():
            x = torch.rand(4, 4)
            same(view(x.to("tt")) * 2.0, view(x) * 2.0)
            same(view(x.to("tt")) * 3.0, view(x) * 3.0)


def test_bounds_of_copies_are_those_of_what_they_copy(tt, same):
    for largest in (5, 2**40, 7, 2**33):
        x = torch.tensor([1, largest])
        there = x.to("tt")
        for _ in range(3):
            made = there.clone()
            made.copy_(there)
            same(made + made, x + x)
            same(made.float(), x.float())


def test_results_that_give_a_tensor_another_size_are_in_it_each_time(tt):
    x, weight = torch.rand(3), torch.rand(4, 3)
    for _ in range(4):
        made = torch.zeros(4).to("tt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch says once that it was resized
            functional.linear(x.to("tt"), weight.to("tt"), out=made)
        torch.testing.assert_close(made.cpu(), functional.linear(x, weight))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            torch.mul(x.to("tt"), 2, out=made)
        torch.testing.assert_close(made.cpu(), x * 2)
        tripled = torch.mul(x.to("tt"), 3, out=torch.empty(0).to("tt"))
        torch.testing.assert_close(tripled.cpu(), x * 3)


def test_the_default_dtype_and_the_current_device_are_looked_at():
    import graph_runtime.torch  # noqa: F401

    default = torch.get_default_dtype()
    try:
        for _ in range(3):
            for dtype in (torch.float32, torch.bfloat16):
                torch.set_default_dtype(dtype)
                for index in (0, 1):
                    with torch.tt.device(index):
                        made = torch.zeros(3, device="tt"), torch.empty(3, device="tt")
                        made += (torch.full((2,), 0.5, device="tt"), torch.zeros_like(made[0], device="tt"))
                    assert {(one.dtype, one.device.index) for one in made} == {(dtype, index)}
    finally:
        torch.set_default_dtype(default)


def test_what_is_made_holds_no_more_memory_than_its_values(tt, settle):
    gc.collect()
    settle("tt:0")
    before = torch.tt.memory_allocated()
    one = torch.rand(64, 64).to("tt")
    settle("tt:0")
    each = torch.tt.memory_allocated() - before
    assert each
    del one
    kept = []
    for _ in range(3):
        kept.append((torch.zeros(64, 64, device="tt"), torch.full((64, 64), 3.0, device="tt")))
        kept[-1][0].clone()
    settle("tt:0")
    assert torch.tt.memory_allocated() - before == 6 * each
