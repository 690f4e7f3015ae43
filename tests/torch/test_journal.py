"""One journal of what the host did for a device: eager operations, torch's, and compiled programs'."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import HandleError, KernelError, UnsupportedOpError, eager
from graph_runtime.run.tensors.lineage import settle_all


@pytest.fixture
def broken(tt, sabotage):
    """The kernel of exp fails on every device, until broken(None)."""
    settle_all()
    sabotage("exp", "fails")
    tt.stats(clear=True)
    yield lambda symbol: sabotage("exp", symbol)
    sabotage("exp", None)
    settle_all()


def test_a_run_error_that_the_host_mends_is_in_every_view_of_the_journal(tt, broken):
    x = torch.randn(4, 8)
    with gr.stats() as counted:
        for _ in range(3):  # the third by the launcher that was remembered
            torch.testing.assert_close(torch.exp(x.to("tt")).cpu(), torch.exp(x))
    ((key, times),) = tt.stats().fallbacks.items()
    assert (key[0], times) == ("exp", 3)
    assert "on purpose" in key[1]
    assert (counted.count("fallback", "tt:0"), counted.bytes("fallback", "tt:0")) == (3, 3 * x.numel() * 4)
    assert [(f.op, f.device, f.types, f.count) for f in counted.fallbacks] == [
        ("exp", "tt:0", ("float32[4, 8]",), 3)
    ]
    assert eager.fallbacks() == counted.fallbacks
    assert "on purpose" in str(counted)
    with gr.stats() as counted:
        assert eager.fallbacks(clear=True)
    assert (tt.stats().fallbacks, counted.fallbacks, eager.fallbacks()) == ({}, [], [])


@pytest.mark.parametrize("forbid", ["tt", "gr"])
def test_no_fallback_raises_before_the_host_does_it(tt, broken, forbid):
    x = torch.randn(4, 8).to("tt")
    block = {"tt": tt, "gr": gr}[forbid].no_fallback
    with block():
        with pytest.raises(UnsupportedOpError, match=r"exp\(float32\[4, 8\]\) on tt:0 .*on purpose"):
            torch.exp(x).cpu()
        with pytest.raises(UnsupportedOpError, match="exp"):
            (torch.exp(x) + 1).sum().item()
        with pytest.raises(UnsupportedOpError, match="exp"):
            eager.exp(eager.array(np.ones(3, np.float32), "tt:0")).numpy()
        assert not tt.stats().fallbacks
    settle_all()  # what the block refused and is still alive
    tt.stats(clear=True)
    torch.testing.assert_close(torch.exp(x).cpu(), torch.exp(x.cpu()))
    assert tt.stats().on_host == 1


def test_what_nobody_waited_for_is_told_when_the_block_ends(tt, broken):
    x = torch.randn(4, 8).to("tt")
    with pytest.raises(UnsupportedOpError, match="exp"), tt.no_fallback():
        y = torch.exp(x)
    assert not tt.stats().fallbacks
    torch.testing.assert_close(y.cpu(), torch.exp(x.cpu()))  # outside of it the host may
    many = []

    def more_than_are_kept_in_view():
        with tt.no_fallback():
            many.extend(torch.exp(x) for _ in range(100))
            torch.tanh(x).cpu()

    with pytest.raises(UnsupportedOpError, match="exp"):
        more_than_are_kept_in_view()
    assert all(torch.equal(one.cpu(), many[0].cpu()) for one in many)


def test_what_was_queued_before_the_block_is_none_of_it(tt, broken):
    x = torch.randn(4, 8).to("tt")
    y = torch.exp(x)
    with tt.no_fallback():
        y.cpu()
    assert tt.stats().on_host == 1


def test_strict_raises_what_made_the_device_fail(tt, broken):
    x = torch.randn(4, 8).to("tt")
    with eager.strict(), pytest.raises(KernelError, match="on purpose"):
        torch.exp(x).cpu()
    with (
        eager.strict(),
        pytest.raises(UnsupportedOpError, match=r"aten::special_bessel_j0\(float32\[4, 8\]\) on tt:0"),
    ):
        torch.special.bessel_j0(x)


def test_operations_without_a_rule_have_types_and_bytes(tt):
    x = torch.randn(4, 8).to("tt")
    with gr.stats() as counted:
        torch.special.bessel_j0(x)
    (found,) = counted.fallbacks
    assert (found.op, found.device, found.types, found.count) == (
        "aten::special_bessel_j0",
        "tt:0",
        ("float32[4, 8]",),
        1,
    )
    assert counted.bytes("fallback") == counted.bytes("d2h") > 0


@pytest.mark.parametrize("what", ["conj", "raw", "resize"])
def test_copies_that_go_through_the_host_are_told(tt, what):
    x = torch.randn(4, 6).to("tt")
    if what == "conj":
        z = torch.randn(3, dtype=torch.complex64).to("tt")
        copy = lambda: torch.empty_like(z).copy_(z.conj())  # noqa: E731
    elif what == "resize":
        copy = lambda: x.clone().resize_(5, 6)  # noqa: E731
    else:
        copy = lambda: torch.empty(4, 6, dtype=torch.float64, device="tt").copy_(x)  # noqa: E731
    tt.stats(clear=True)
    copy()
    assert tt.stats().on_host == 1
    with tt.no_fallback(), pytest.raises(UnsupportedOpError, match="aten::"):
        copy()
    assert tt.stats().on_host == 1


def test_views_of_wide_integers_stay_on_the_device(tt):
    table, at = torch.randn(10, 4), torch.tensor([[1, 7], [3, 9], [0, 2]])
    with tt.no_fallback():
        there = at.to("tt")
        for view in (lambda t: t[1], lambda t: t[:, 1], lambda t: t.t(), lambda t: t[2, 0]):
            made = torch.nn.functional.embedding(view(there), table.to("tt"))
            torch.testing.assert_close(made.cpu(), table[view(at)])
    assert not tt.stats().on_host


def test_nodes_of_a_compiled_program_that_stand_on_the_cpu_are_fallbacks(tt):
    def model(x):
        return torch.cumsum(x.double(), 0).float() + 1

    x = torch.randn(5, 4)
    compiled = torch.compile(model, backend="tt")
    there = x.to("tt")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(there).cpu(), model(x))
    found = tt.stats().fallbacks
    assert found
    assert all(times % 2 == 0 for times in found.values())
    assert any("float64" in reason for _, reason in found)
    with torch.no_grad(), tt.no_fallback(), pytest.raises(UnsupportedOpError, match="float64"):
        compiled(there)
    assert tt.stats().fallbacks == found


def test_a_tensor_that_ended_with_its_device_is_no_failure(tt):
    held = torch.ones(4, device="tt:1") * 3.0
    with rt.open_device("tt:1"):
        pass
    with tt.no_fallback():
        pass
    with pytest.raises(HandleError):
        held.cpu()
