"""Operations that were the host's each step: on the device, with values, gradients and draws of the CPU."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional


def both(tt, make):
    """What ``make`` gives on the CPU and on tt, there without the host."""
    found = []
    for device in ("cpu", "tt"):
        torch.manual_seed(0)
        with tt.no_fallback():
            found.append([x.detach().cpu() for x in make(device)])
    return found


def check(tt, make, tolerance=1e-5):
    wanted, made = both(tt, make)
    for theirs, ours in zip(wanted, made, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


# **************** optimizers ****************

FUSED = {
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.1, amsgrad=True, maximize=True, fused=True),
    "adam of a tensor": lambda p: torch.optim.Adam(p, torch.tensor(1e-2), betas=(0.0, 0.5), fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, dampening=0.1, weight_decay=0.1, fused=True),
    "nesterov": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2, lr_decay=0.1, weight_decay=0.1, fused=True),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_optimizers_step_on_the_device(tt, name):
    def train(device):
        x = torch.rand(5, 3)
        model = nn.Linear(3, 2).to(device)
        optimizer = FUSED[name](model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(x.to(device)).square().sum().backward()
            optimizer.step()
        return list(model.parameters())

    check(tt, train)


@pytest.mark.parametrize("factor", [1.0, math.inf])
def test_a_fused_step_is_left_out_where_a_gradient_is_not_finite(tt, factor):
    def train(device):
        x = torch.rand(5, 3)
        model = nn.Linear(3, 2).to(device)
        optimizer, scaler = torch.optim.AdamW(model.parameters(), fused=True), torch.amp.GradScaler(device)
        for scale in (1.0, factor):
            optimizer.zero_grad()
            scaler.scale(model(x.to(device)).sum() * scale).backward()
            scaler.step(optimizer)
            scaler.update()
        return list(model.parameters())

    check(tt, train)


# **************** layers ****************


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_embeddings(tt, mode, padding, last):
    def bags(device):
        table = torch.rand(7, 3).to(device).requires_grad_()
        indices = torch.tensor([1, 2, 2, 6, 0, 3, 2]).to(device)
        offsets = torch.tensor([0, 2, 2, 5] + [7] * last).to(device)  # the second bag is empty
        more = {"mode": mode, "padding_idx": padding, "include_last_offset": last}
        weights = torch.rand(7).to(device).requires_grad_() if mode == "sum" else None
        made = functional.embedding_bag(indices, table, offsets, per_sample_weights=weights, **more)
        (made * made).sum().backward()
        return [made, table.grad] + ([] if weights is None else [weights.grad])

    check(tt, bags)


def test_bags_of_rows(tt):
    def bags(device):
        layer = nn.EmbeddingBag(7, 3).to(device)
        made = layer(torch.tensor([[1, 2], [6, 0]]).to(device))
        made.sum().backward()
        return [made, layer.weight.grad]

    check(tt, bags)


@pytest.mark.parametrize("dim", [0, 1])
def test_weight_norm(tt, dim):
    def layer(device):
        made = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=dim).to(device)
        made(torch.rand(2, 4).to(device)).square().sum().backward()
        return [made.weight, *(p.grad for p in made.parameters())]

    check(tt, layer)


# **************** draws ****************


@pytest.mark.parametrize(("count", "replacement"), [(1, False), (1, True), (4, False)])
@pytest.mark.parametrize("shape", [(6,), (3, 6)])
def test_multinomial_draws_as_the_cpu(tt, count, replacement, shape):
    def draw(device):
        weights = torch.rand(shape).to(device)
        return [torch.multinomial(weights, count, replacement) for _ in range(3)]

    check(tt, draw)


DRAWS = {
    "dropout": lambda x: functional.dropout(x, 0.4),
    "alpha_dropout": lambda x: functional.alpha_dropout(x, 0.4, training=True),
    "dropout of all": lambda x: functional.dropout(x, 1.0),
    "dropout of infinities": lambda x: functional.dropout(x / 0, 0.4),
    "not training": lambda x: functional.dropout(x, 0.4, training=False),
    "bernoulli": lambda x: x * torch.empty_like(x).bernoulli_(0.3),
    "uniform": lambda x: x + torch.empty_like(x).uniform_(-1, 2),
    "normal": lambda x: x + torch.empty_like(x).normal_(1, 2),
    "exponential": lambda x: x + torch.empty_like(x).exponential_(2),
    "randint": lambda x: x * torch.randint(3, 9, x.shape, device=x.device),
    "randperm": lambda x: x[torch.randperm(x.shape[0], device=x.device)],
    "several": lambda x: functional.dropout(x, 0.5) + torch.rand_like(x) * functional.dropout(x, 0.2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_draws_are_those_of_the_cpu_in_one_program(tt, name):
    def draw(device):
        function = torch.compile(DRAWS[name], backend="tt") if device == "tt" else DRAWS[name]
        x = torch.rand(8, 5).to(device)
        return [function(x), function(x)]

    check(tt, draw)
    assert tt.stats()["programs"] == 2
    assert not tt.stats()["graphs_split"]


def test_compiled_training_with_dropout_is_two_programs_a_step(tt):
    def train(device):
        layers = nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 8), nn.Dropout(0.2)
        model = nn.Sequential(*layers).to(device)
        function = torch.compile(model, backend="tt") if device == "tt" else model
        x = torch.rand(4, 6).to(device)
        for _ in range(2):
            function(x).square().sum().backward()
        return [p.grad for p in model.parameters()]

    check(tt, train)
    assert tt.stats()["programs"] == 4


IN_GRAPHS = {
    "weight_norm": lambda x: torch._weight_norm(x, x[:, :1] + 1, 0),
    "bag": lambda x: functional.embedding_bag(torch.tensor([[1, 2], [0, 3]], device=x.device), x),
    "multinomial": lambda x: torch.multinomial(x, 2),
}


@pytest.mark.parametrize("name", IN_GRAPHS)
def test_they_are_nodes_of_compiled_graphs(tt, name):
    def made(device):
        function = torch.compile(IN_GRAPHS[name], backend="tt") if device == "tt" else IN_GRAPHS[name]
        return [function(torch.rand(8, 5).to(device))]

    check(tt, made)
    assert not tt.stats()["graphs_split"]


# **************** CTC ****************

CTC = {
    "padded": lambda t: (torch.randint(1, 5, (3, 4)), [6, 5, 6], [4, 2, 3], {}),
    "joined": lambda t: (torch.tensor([1, 1, 2, 3, 3, 4]), [6, 5, 6], [3, 1, 2], {}),
    "sums": lambda t: (torch.randint(0, 4, (3, 4)), [6, 6, 6], [2, 2, 2], {"reduction": "sum", "blank": 4}),
    "short": lambda t: (
        torch.ones(3, 4, dtype=torch.long),
        [6, 3, 6],
        [4, 4, 1],
        {"zero_infinity": True},
    ),
    "no labels": lambda t: (torch.randint(1, 5, (3, 2)), [6, 4, 1], [0, 2, 1], {"reduction": "none"}),
    "tensors": lambda t: (torch.randint(1, 4, (3, 4)), torch.tensor([6, 5, 4]), torch.tensor([3, 2, 1]), {}),
}


@pytest.mark.parametrize("name", CTC)
def test_ctc_loss(tt, name):
    def losses(device):
        scores = torch.randn(6, 3, 5).to(device).requires_grad_()
        targets, times, sizes, more = CTC[name](device)
        made = functional.ctc_loss(scores.log_softmax(-1), targets.to(device), times, sizes, **more)
        made.sum().backward()
        return [made, scores.grad]

    check(tt, losses)
