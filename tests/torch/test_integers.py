"""64-bit integers on the device: computed with where they are known to fit 32 bits, moved in any case."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")

COMPUTED = {
    "add": lambda x: x + 1,
    "scaled": lambda x: torch.add(x, x, alpha=3),
    "product": lambda x: x * x,
    "negative": lambda x: -x,
    "sum": lambda x: x.sum(),
    "sums": lambda x: x.sum(1),
    "running sum": lambda x: x.cumsum(1),
    "rest": lambda x: x % 5,
    "quotient": lambda x: x / 3,
    "compared": lambda x: (x > 3) & (x != 5),
    "count": lambda x: (x > 3).sum(),
    "greatest": lambda x: x.amax(1) + x.argmax(1),
    "chosen": lambda x: torch.where(x > 3, x, 0),
    "masked": lambda x: x.masked_fill(x > 3, 7),
    "joined": lambda x: torch.cat([x, x + 1]),
    "turned": lambda x: x.flip(0),
    "as floats": lambda x: x.float() * 2,
    "from bools": lambda x: (x > 3).long(),
    "picked": lambda x: x.gather(1, x % 4),
    "copied": lambda x: x.t().contiguous() + 1,
    "in": lambda x: torch.isin(x, torch.tensor([3, 5], device=x.device)),
    "put": lambda x: x.index_copy(0, torch.tensor([1], device=x.device), x[:1] + 40),
    "shifted": lambda x: (x << 2) | 1,
    "made": lambda x: torch.zeros(3, dtype=torch.int64, device=x.device) + torch.arange(3, device=x.device),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_those_that_fit_run_on_the_device(tt, same, name):
    x = torch.arange(12).reshape(3, 4) - 2
    with tt.no_fallback():
        made = COMPUTED[name](x.to("tt"))
    same(made, COMPUTED[name](x), 0)


def test_those_that_do_not_fit_are_the_hosts(tt, same):
    x = torch.tensor([2**40, 3, -(2**50)])
    there = x.to("tt")
    same(there + 1, x + 1, 0)
    same(there * 2, x * 2, 0)
    assert tt.stats().on_host == 2
    half = torch.tensor([2**30, -(2**30)])  # fits, its double does not
    same(half.to("tt") + half.to("tt"), half + half, 0)
    assert tt.stats().on_host == 3


def test_writes_keep_what_is_known(tt, same):
    x, y = torch.arange(24).reshape(4, 6), torch.arange(24).reshape(4, 6).to("tt")
    for write in (
        lambda t: t.__setitem__((slice(1, 3)), 7),
        lambda t: t.__setitem__((slice(None), 1), t[:, 2]),
        lambda t: t.add_(3),
        lambda t: t.zero_().fill_(9),
    ):
        with tt.no_fallback():
            write(y)
            made = y + 1
        write(x)
        same(made, x + 1, 0)
    y[0, 0] = 2**45
    x[0, 0] = 2**45
    same(y + 1, x + 1, 0)


def test_floats_become_whole_numbers_exactly(tt, same):
    edges = [0.5, -0.5, -1.5, 2147483520.0, 2.0**31, -(2.0**31), 3e9, -3e9, 1e18, -1e18, 2.0**63, -(2.0**63)]
    x = torch.tensor([*edges, 4294967296.0, -4294967296.0, float("nan"), float("inf"), -float("inf")])
    with tt.no_fallback():
        made = x.to("tt").long()
    same(made, x.long(), 0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.float16, torch.complex64])
def test_views_of_words_move_on_the_device(tt, same, dtype):
    x = torch.arange(24).reshape(4, 6).to(dtype)
    y = x.to("tt")
    with tt.no_fallback():
        made = [y[1:3, ::2].clone(), y.t().contiguous()]
        y[1] = y[2]
    same(made[0], x[1:3, ::2])
    same(made[1], x.t().contiguous())
    x[1] = x[2]
    same(y, x)


def test_views_without_a_box_are_picked_and_written_by_their_places(tt, same):
    x = torch.arange(40.0)
    y = x.to("tt")
    with tt.no_fallback():
        windows = y.unfold(0, 5, 3) + 1
        y.as_strided((3, 3), (5, 4), 1).mul_(-1)
        matrix = torch.diag_embed(y[:4])
    same(windows, x.unfold(0, 5, 3) + 1)
    for i in range(3):
        for j in range(3):
            x[1 + 5 * i + 4 * j] *= -1
    same(y, x)
    same(matrix, torch.diag_embed(x[:4]))


def test_places_are_known_to_be_small(tt):
    x = torch.rand(2, 96)
    tokens, ours = x.argmax(-1), x.to("tt").argmax(-1)
    assert torch.equal((tokens * 3 + 95).cumsum(0), (ours * 3 + 95).cumsum(0).cpu())
    assert torch.equal(x.sort().indices + 1, (x.to("tt").sort().indices + 1).cpu())
    assert not tt.stats().fallbacks
