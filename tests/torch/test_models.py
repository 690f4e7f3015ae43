"""Layers that users have, on the device as on the CPU: recurrent cells, masks made of ranges, counts."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


CELLS = {
    "lstm": lambda: nn.LSTM(6, 5, 2, batch_first=True),
    "lstm without bias": lambda: nn.LSTM(6, 5, bias=False),
    "gru": lambda: nn.GRU(6, 5, bidirectional=True),
    "gru without bias": lambda: nn.GRU(6, 5, bias=False),
}


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_layers_run_on_the_device(tt, same, name):
    layer = CELLS[name]()
    twin = copy.deepcopy(layer).to("tt")
    x = torch.randn(3, 4, 6, requires_grad=True)
    y = x.detach().to("tt").requires_grad_()
    (wanted, _), (made, _) = layer(x), twin(y)
    same(made, wanted)
    wanted.square().sum().backward()
    made.square().sum().backward()
    same(y.grad, x.grad, 1e-4)
    for p, q in zip(twin.parameters(), layer.parameters(), strict=True):
        same(p.grad, q.grad, 1e-4)
    assert not any("_thnn" in op for op, _ in tt.stats().fallbacks)


class Decoder(nn.Module):
    """A transformer with a causal mask that is made in forward()."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.words, self.place = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x):
        size = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(size, device=x.device)
        at = self.place(torch.arange(size, device=x.device))
        return self.layers(self.words(x) + at, mask=mask, is_causal=True)


class Mean(nn.Module):
    """The mean of the words that are not padding: counts are 64-bit integers."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(20, 8), nn.GroupNorm(2, 8)

    def forward(self, x):
        mask = (x != 0).unsqueeze(-1)
        return self.norm((self.words(x) * mask).sum(1) / mask.sum(1).clamp(min=1))


@pytest.mark.parametrize("module", [Decoder, Mean])
@pytest.mark.parametrize("trained", [True, False], ids=["trained", "inference"])
def test_compiled_models_with_constants_and_counts(tt, same, module, trained):
    model = module()
    twin = copy.deepcopy(model)
    run = torch.compile(model.to("tt"), backend="tt")
    x = torch.randint(0, 20, (3, 6))
    with torch.set_grad_enabled(trained):
        made, wanted = run(x.to("tt")), twin(x)
        same(made, wanted)
    if trained:
        made.square().sum().backward()
        wanted.square().sum().backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            same(p.grad, q.grad, 1e-3)
    assert not tt.stats().eager_graphs


def test_host_operations_with_numbers_and_outputs(same):
    x = torch.rand(3, 4)
    y = x.to("tt")
    same(torch.xlogy(y, 0.5), torch.xlogy(x, 0.5))
    same(torch.copysign(y, -2), torch.copysign(x, -2))
    out = torch.empty(0, dtype=torch.int64, device="tt")
    whole = torch.arange(6).reshape(2, 3)
    made = torch.add(whole.to("tt"), whole.to("tt"), out=out)
    assert made is out
    same(out, whole + whole)
    same(
        functional.smooth_l1_loss(y.t(), y.t()[:1].expand(4, 3), reduction="none"),
        functional.smooth_l1_loss(x.t(), x.t()[:1].expand(4, 3), reduction="none"),
    )
    assert torch.empty(1, 1, dtype=torch.float64).as_strided((1, 1), (3, 2)).to("tt").shape == (1, 1)


@pytest.mark.filterwarnings("ignore:var")
def test_dtypes_of_results_are_torchs(same):
    flags, one = torch.tensor([True, False]), torch.tensor(2.0)
    same(flags.to("tt") * 3, flags * 3)
    same(flags.to("tt") ** 2, flags**2)
    same(flags.to("tt") == 1, flags == 1)
    same(torch.var(one.to("tt")), torch.var(one))


def test_views_that_conjugate_or_negate(same):
    x = torch.randn(3, 4, dtype=torch.complex64)
    y = x.to("tt")
    same(y.conj(), x.conj().resolve_conj())
    same(y * y.conj(), x * x.conj())
    same(y.conj().imag + 1, x.conj().imag + 1)
    same((y.t().conj() @ y).abs(), (x.t().conj() @ x).abs())
    y.conj()[1] = 2j
    x.conj()[1] = 2j
    same(y, x)


def test_dimensions_out_of_range_are_errors():
    x = torch.rand(3, 4).to("tt")
    for function in (lambda: x.softmax(2), lambda: x.sum(-3), lambda: torch.cat([x, x], 2)):
        with pytest.raises(IndexError, match="Dimension out of range"):
            function()


class Branches(nn.Module):
    """Looks at a value, then writes into a part of its own result."""

    def forward(self, x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        y[:, 0] = y[:, 1]
        return y


def test_values_may_be_looked_at_and_parts_written(tt, same):
    run = torch.compile(Branches(), backend="tt")
    for x in (torch.ones(3, 4), -torch.ones(3, 4)):
        same(run(x.to("tt")), Branches()(x))
    assert not tt.stats().eager_graphs


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_layers_of_groups_are_exported(tt):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()).eval()
    made = tt.to_model(torch.export.export(model, (torch.rand(2, 1, 6, 6),)))
    assert "1.weight" in made.constants


def test_columns_are_picked_by_indices(same):
    x = torch.rand(3, 4)
    at = torch.tensor([2, 0])
    same(x.to("tt")[:, at.to("tt")], x[:, at])
    same(x.to("tt")[:, [1, 3]], x[:, [1, 3]])


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_jacobians_and_derivatives_forward(same):
    w, x = torch.randn(3, 4), torch.randn(4)
    at = w.to("tt")
    same(
        torch.func.jacfwd(lambda x: torch.tanh(at @ x))(x.to("tt")),
        torch.func.jacfwd(lambda x: torch.tanh(w @ x))(x),
    )


def test_a_dot_product_is_compiled(same):
    x, y = torch.randn(2, 5).unbind(0)
    run = torch.compile(torch.dot, backend="tt")
    same(run(x.to("tt"), y.to("tt")), x @ y)


def test_a_compiled_graph_whose_indices_of_maxima_are_used(tt, same):
    def pooled(x):
        return functional.max_pool2d(x, 2, return_indices=True)

    x = torch.rand(3, 2, 4, 4)
    for made, wanted in zip(torch.compile(pooled, backend="tt")(x.to("tt")), pooled(x), strict=True):
        same(made, wanted)
    assert not tt.stats().eager_graphs


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((2, 3, 9, 35), {"stride": 2, "padding": 1}),
        ((2, 3, 9, 35), {"stride": (2, 1), "dilation": (1, 2), "ceil_mode": True}),
        ((3, 8, 10), {}),
    ],
    ids=["padded", "dilated", "one image"],
)
def test_maxima_and_their_gradient_stay_on_the_device(tt, same, shape, how, compiled):
    def pooled(x):
        return functional.max_pool2d(x, 3, return_indices=True, **how)

    x = torch.rand(shape)
    far, near = x.to("tt").requires_grad_(), x.clone().requires_grad_()
    run = torch.compile(pooled, backend="tt") if compiled else pooled
    made, wanted = run(far), pooled(near)
    weight = torch.rand(wanted[0].shape)
    (made[0] * weight.to("tt")).sum().backward()
    (wanted[0] * weight).sum().backward()
    fallbacks = dict(tt.stats().fallbacks)
    same(made[0], wanted[0])
    same(made[1], wanted[1])
    same(far.grad, near.grad)
    assert not fallbacks
    assert not tt.stats().eager_graphs
