"""Graphs with operations that cannot be lowered: these run one at a time, the rest stays compiled."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402


@torch.library.custom_op("graph_runtime_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3 + 1


@tripled.register_fake
def _(x):
    return torch.empty_like(x)


PIECES = {  # how many programs there are, and what runs beside them
    "no rule": (2, lambda x: torch.special.bessel_j0(x * 2).relu() + x.sin(), "special_bessel_j0"),
    "custom op": (2, lambda x: tripled(x * 2).relu() + 1, "tripled"),
    "cond": (2, lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x * 2,)) + 1, "cond"),
    "several results": (2, lambda x: torch.linalg.qr(x * 2)[0].relu() + x[:4, :4], "linalg_qr"),
    "a refused dtype": (1, lambda x: torch.view_as_real(torch.polar(x, x)).sum(-1) + 1, "complex"),
}
WHOLE = {
    "as_strided, a box": lambda x: (x + 1).as_strided((3, 2), (2, 1), 1) * 2 + 1,
    "as_strided, windows": lambda x: (x * 2).as_strided((3, 3), (2, 1)) + 1,
    "as_strided, turned": lambda x: (x.t() * 2).contiguous().as_strided((2, 3), (1, 2)) + 1,
    "float64 inside": lambda x: (x.double() * 2).cumsum(1).float() + x.sin(),
    "float64 out": lambda x: x.double() * 2,
    "indices": lambda x: (x * 2).topk(2)[1] + 1,
    "running sum of integers": lambda x: (x > 0.5).long().cumsum(1) - 1,
    "isin": lambda x: torch.isin((x * 4).int(), torch.arange(2, device=x.device)),
    "index_copy": lambda x: x.index_copy(1, torch.arange(2, device=x.device), x[:, 2:4]) + 1,
}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def compiled(function, x, **how):
    """(result, warnings of split graphs)."""
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        made = torch.compile(function, backend="tt", **how)(x)
    return made, [str(w.message) for w in caught if "run one at a time" in str(w.message)]


@pytest.mark.parametrize("name", PIECES)
def test_what_cannot_be_lowered_leaves_the_rest_compiled(tt, same, name):
    programs, function, op = PIECES[name]
    x = torch.rand(4, 6)
    made, told = compiled(function, x.to("tt"))
    same(made, function(x))
    counts = tt.stats()
    assert counts["graphs_split"] == 1
    assert counts["programs"] == programs
    assert not counts.eager_graphs
    assert any(op in reason for reason in counts.split_graphs)
    (text,) = told
    assert op in text


@pytest.mark.parametrize("name", WHOLE)
def test_one_program(tt, same, name):
    x = torch.rand(4, 6)
    made, told = compiled(WHOLE[name], x.to("tt"))
    same(made, WHOLE[name](x))
    assert not told
    assert tt.stats()["programs"] == 1
    assert not tt.stats().eager_graphs


def test_pieces_have_gradients(tt, same):
    x, y = torch.rand(4, 6, requires_grad=True), torch.rand(4, 6).to("tt").requires_grad_()
    with torch.no_grad():
        y.copy_(x)
    function = lambda x: (torch.special.erfcx(x * 2).relu() * x.sin()).sum()  # noqa: E731
    with pytest.warns(UserWarning, match="run one at a time"):
        torch.compile(function, backend="tt")(y).backward()
    function(x).backward()
    same(y.grad, x.grad, 1e-4)
    assert tt.stats()["graphs_split"] >= 1


@pytest.mark.filterwarnings("ignore:. of . operations of graph")
def test_pieces_of_open_sizes(tt, same):
    function = torch.compile(lambda x: torch.special.bessel_j0(x * 2) + x, backend="tt", dynamic=True)
    for rows in (3, 5, 3):
        x = torch.rand(rows, 6)
        same(function(x.to("tt")), torch.special.bessel_j0(x * 2) + x)
    assert tt.stats()["graphs_split"] == 1
    assert not tt.stats().eager_graphs


def test_a_program_that_fails_when_it_runs_is_left_to_torch_and_counted(tt, same, monkeypatch):
    from graph_runtime.base.errors import KernelError
    from graph_runtime.torch.compiled.compiled_graph import CompiledGraph

    function = torch.compile(lambda x: x * 2 + 1, backend="tt")
    x = torch.rand(4)
    same(function(x.to("tt")), x * 2 + 1)

    def fails(self, args, fit):
        raise KernelError("broken")

    monkeypatch.setattr(CompiledGraph, "__call__", fails)
    same(function(x.to("tt")), x * 2 + 1)
    assert any("run error" in reason for reason in tt.stats().eager_graphs)


def causal(q):
    def score(s, b, h, i, j):
        return torch.where(i >= j, s * 0.5 + 1, -float("inf"))

    return flex_attention(q * 2, q, q, score_mod=score).relu() + 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, of flex_attention without a compiler
def test_flex_attention_leaves_the_rest_of_a_graph_compiled(tt, same):
    q = torch.randn(1, 2, 16, 8)
    ours, grad = q.to("tt").requires_grad_(), q.clone().requires_grad_()
    made = torch.compile(causal, backend="tt")(ours)
    scores = q @ q.transpose(-1, -2) * 2 / 8**0.5 * 0.5 + 1
    seen = torch.ones(16, 16, dtype=torch.bool).tril()
    same(made, (torch.softmax(scores.masked_fill(~seen, -float("inf")), -1) @ q).relu() + 1)
    made.sum().backward()
    scores = grad @ grad.transpose(-1, -2) * 2 / 8**0.5 * 0.5 + 1
    wanted = (torch.softmax(scores.masked_fill(~seen, -float("inf")), -1) @ grad).relu() + 1
    wanted.sum().backward()
    same(ours.grad, grad.grad, 1e-4)
    assert set(tt.stats().split_graphs) == {
        "flex_attention has no rule",
        "flex_attention_backward has no rule",
    }
    assert not tt.stats().eager_graphs
