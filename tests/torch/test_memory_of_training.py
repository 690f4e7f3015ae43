"""What a training loop holds on the device: parameters, gradients, the optimizer's state, and what the plans
of its programs say; checkpoints lower it; a model that moves is there once."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from graph_runtime.base.machine.devices import parse  # noqa: E402
from graph_runtime.torch.compiled import compiled_graph  # noqa: E402

ROWS, WIDE, LAYERS = 512, 128, 4
PADDING = 1.25  # of pages over banks, and of tiles


def model() -> nn.Sequential:
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(WIDE, 2 * WIDE), nn.GELU(), nn.Linear(2 * WIDE, WIDE))
            for _ in range(LAYERS)
        )
    )


def bytes_of(parameters) -> int:
    return sum(p.numel() * p.element_size() for p in parameters)


def test_a_model_that_moves_is_there_once():
    gc.collect()
    before = torch.tt.memory_allocated()
    torch.tt.reset_peak_memory_stats()
    net = model().to("tt")
    held, wanted = torch.tt.memory_allocated() - before, bytes_of(net.parameters())
    assert wanted <= held <= PADDING * wanted
    assert torch.tt.max_memory_allocated() - before <= PADDING * wanted


def test_numbers_of_operations_are_no_leak():
    x = torch.ones(4, 4).to("tt")
    gc.collect()
    before = torch.tt.memory_allocated()
    for number in range(50):
        x * (number + 0.5)
    assert torch.tt.memory_allocated() == before
    assert torch.tt.memory_stats()["scalars"] > 0


def test_an_eager_loop_holds_what_it_needs():
    gc.collect()
    gc.disable()  # what only Python's search for cycles would give back counts
    try:
        before = torch.tt.memory_allocated()
        net, x = model().to("tt"), torch.rand(4 * ROWS, WIDE).to("tt")
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, foreach=False)
        for _ in range(3):
            torch.tt.reset_peak_memory_stats()
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del loss
        most = torch.tt.max_memory_allocated() - before
        after = torch.tt.memory_allocated() - before
    finally:
        gc.enable()
    states = 3 * bytes_of(net.parameters()) + x.numel() * 4  # parameters, gradients, momenta
    kept = (
        LAYERS * 5 * x.numel() * 4
    )  # what the backward pass needs of forward: two hidden images and a result
    assert after <= PADDING * states
    assert most <= PADDING * (states + 1.8 * kept)  # and gradients of a few layers


def peak_of_a_step(monkeypatch, *, checkpoints: bool) -> tuple[int, int, int]:
    """(most bytes of a step; of parameters, gradients, momenta, input and what forward keeps; of a plan)."""
    plans = []
    plain = compiled_graph.CompiledGraph.__init__

    def keep(self, *args, **more):
        plain(self, *args, **more)
        plans.append(self.plan)

    monkeypatch.setattr(compiled_graph.CompiledGraph, "__init__", keep)
    torch._dynamo.reset()
    gc.collect()
    before = torch.tt.memory_allocated()
    net, x = model().to("tt"), torch.rand(ROWS, WIDE).to("tt")
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, foreach=False)

    def forward(x):
        for layer in net:
            x = checkpoint(layer, x, use_reentrant=False) if checkpoints else layer(x)
        return x.square().mean()

    run = torch.compile(forward, backend="tt")
    for _ in range(3):
        torch.tt.reset_peak_memory_stats()
        loss = run(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    most = torch.tt.max_memory_allocated() - before
    banks = parse("tt:0").main_memory.banks
    held = 3 * bytes_of(net.parameters()) + x.numel() * 4
    graph = next(plan.graph for plan in plans if plan is not None)  # of the forward pass: its results stay
    held += sum(graph.entry_type(int(eid)).nbytes for eid in graph.outputs)
    planned = max(peak for plan in plans if plan is not None for peak in plan.peak.values()) * banks
    bound = max(peak for plan in plans if plan is not None for peak in plan.lower_bound.values()) * banks
    print(f"most {most:,}, held {held:,}, planned {planned:,}, the plan's bound {bound:,}")
    return most, held, planned


@pytest.mark.slow
def test_the_peak_of_a_loop_is_what_was_planned_and_checkpoints_lower_it(monkeypatch):
    most, held, planned = peak_of_a_step(monkeypatch, checkpoints=False)
    assert held < most <= PADDING * (held + planned)
    lower, _, _ = peak_of_a_step(monkeypatch, checkpoints=True)
    assert lower < most
