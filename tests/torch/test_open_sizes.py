"""Graphs whose sizes change: a program serves a range of them, whatever its padding holds, where that is
proven; where it is not, sizes have programs of their own, and a reason."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402

from graph_runtime.torch.compiled import fitting  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(fitting, "PADDING", float("nan"))


class Attention(nn.Module):
    """Self-attention whose keys and values are added to a cache."""

    def __init__(self):
        super().__init__()
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x, keys, values):
        q, k, v = self.project(x).view(1, -1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        made = nn.functional.scaled_dot_product_attention(q, keys, values)
        return self.out(made.transpose(1, 2).reshape(1, -1, 16)), keys, values


class Pooled(nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1).mean(1) + x.amax(1) + x.sum(1)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.places, self.head = nn.Embedding(11, 8), nn.Embedding(32, 8), nn.Linear(8, 4)

    def forward(self, ids):
        x = self.rows(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return torch.log_softmax(self.head(x), -1)


def mlp():
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))


def compiled_of(model, **options):
    twin = copy.deepcopy(model)
    return torch.compile(model.to("tt"), backend="tt", dynamic=True, options=options), twin


@pytest.mark.parametrize(
    ("model", "shape", "programs"),
    [(mlp(), (8,), 2), (Pooled(), (6, 10), 2), (Pooled(), (9, 5), 2)],
    ids=["mlp", "pooled", "pooled of other sizes"],
)
def test_batches_share_programs(tt, same, model, shape, programs):
    compiled, twin = compiled_of(model)
    with torch.no_grad():
        for batch in (3, 4, 7, 5, 8, 3):
            x = torch.randn(batch, *shape)
            same(compiled(x.to("tt")), twin(x))
    assert tt.stats()["compiles"] == programs
    assert tt.stats()["bucketed"] == 6
    assert not tt.stats().eager_graphs
    assert not tt.stats().exact_sizes


def test_tokens_of_any_length_and_number_share_programs(tt, same):
    compiled, twin = compiled_of(Tokens())
    with torch.no_grad():
        for batch, length in ((2, 5), (4, 7), (3, 8), (2, 6)):
            ids = torch.randint(0, 11, (batch, length))
            same(compiled(ids.to("tt")), twin(ids))
    assert tt.stats()["compiles"] <= 2
    assert not tt.stats().eager_graphs


def grow(tt, same, start, steps):
    """Steps of attention with a cache, on tt and on the CPU."""
    compiled, twin = compiled_of(Attention())
    caches = [torch.zeros(1, 2, start, 8)] * 2
    ours = [cache.to("tt") for cache in caches]
    with torch.no_grad():
        for step in range(steps):
            x = torch.randn(1, 1, 16)
            made, *ours = compiled(x.to("tt"), *ours)
            wanted, *caches = twin(x, *caches)
            if step % 5 == 0 or step == steps - 1:
                same(made, wanted, 1e-4)
                same(ours[0], caches[0], 1e-4)
    assert tt.stats()["bucketed"] >= steps - 2
    assert not tt.stats().eager_graphs
    assert not tt.stats().fallbacks


def test_a_cache_that_grows_takes_a_program_for_each_bucket(tt, same):
    grow(tt, same, 122, 12)
    assert tt.stats()["compiles"] <= 3


@pytest.mark.slow
def test_a_cache_that_grows_by_256_has_at_most_4_programs(tt, same):
    grow(tt, same, 3, 256)
    assert tt.stats()["compiles"] <= 4


def test_gradients_of_other_batches(tt, same):
    compiled, twin = compiled_of(mlp())
    for batch in (3, 4, 7, 6):
        x = torch.randn(batch, 8)
        compiled(x.to("tt")).square().sum().backward()
        twin(x).square().sum().backward()
    for made, wanted in zip(compiled.parameters(), twin.parameters(), strict=True):
        same(made.grad, wanted.grad, 1e-4)
    assert tt.stats()["compiles"] == 4
    assert not tt.stats().eager_graphs


def test_tensors_of_the_cpu_have_buckets_too(tt, same):
    model = mlp()
    compiled = torch.compile(model, backend="tt", dynamic=True)
    with torch.no_grad():
        for batch in (3, 4, 7, 5):
            x = torch.randn(batch, 8)
            same(compiled(x), model(x))
    assert tt.stats()["compiles"] == 2


class Flipped(nn.Module):
    def forward(self, x):
        return x.flip(0) * 2


def test_where_padding_would_be_seen_each_size_has_a_program_and_a_reason(tt, same):
    compiled, twin = compiled_of(Flipped(), max_programs=2)
    for batch in (3, 5, 6, 5):
        x = torch.randn(batch, 4)
        same(compiled(x.to("tt")), twin(x))
    assert tt.stats()["compiles"] == 3
    assert tt.stats()["bucketed"] == 0
    ((reason, times),) = tt.stats().exact_sizes.items()
    assert "reverse" in reason
    assert times == 3


class Masked(nn.Module):
    """Steps of a cache under a mask that is read by indices, as transformers read theirs, and a number that
    follows from sizes."""

    def forward(self, x, cache, mask):
        cache = torch.cat([cache, x], 1)
        places = torch.arange(cache.shape[1], device=x.device)
        rows = torch.arange(cache.shape[0], device=x.device)
        seen = mask[rows[:, None], places[None, :]] & (places <= cache.shape[1] - 1)
        scores = torch.where(seen, (cache * x).sum(-1), -1e9).softmax(-1)
        return (scores[..., None] * cache).sum(1) + x[:, 0] * cache.shape[1], cache


def test_a_mask_and_a_cache_grow_together(tt, same):
    model = Masked()
    compiled = torch.compile(model, backend="tt", dynamic=True)
    cache = torch.randn(2, 122, 4)
    ours = cache.to("tt")
    for step in range(10):
        x, mask = torch.randn(2, 1, 4), torch.ones(2, 123 + step, dtype=torch.bool)
        mask[0, :3] = False
        made, ours = compiled(x.to("tt"), ours, mask.to("tt"))
        wanted, cache = model(x, cache, mask)
        same(made, wanted, 1e-4)
    assert tt.stats()["compiles"] <= 3
    assert tt.stats()["bucketed"] >= 9
    assert not tt.stats().eager_graphs
    assert not tt.stats().split_graphs


class Appended(nn.Module):
    def forward(self, x, empty):
        return torch.cat([empty, x * 2]), empty


def test_a_tensor_without_elements_leaves_a_graph_whole(tt, same):
    x, empty = torch.randn(3, 4), torch.empty(0, 4)
    made, nothing = torch.compile(Appended(), backend="tt")(x.to("tt"), empty.to("tt"))
    same(made, x * 2)
    assert nothing.shape == (0, 4)
    assert tt.stats()["compiles"] == 1
    assert not tt.stats().split_graphs


def test_buckets_may_be_left_out(tt, same):
    compiled, twin = compiled_of(mlp(), buckets=False)
    with torch.no_grad():
        for batch in (3, 4, 3):
            x = torch.randn(batch, 8)
            same(compiled(x.to("tt")), twin(x))
    assert tt.stats()["compiles"] == 2
    assert tt.stats()["bucketed"] == 0
