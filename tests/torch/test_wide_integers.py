"""Integers of compiled graphs that pass 32 bits: results are torch's, and what runs apart is told."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")

from graph_runtime.base.errors import UnsupportedOpError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*run one at a time")
DEVICES = pytest.mark.parametrize("device", ["cpu", "tt"])
MOST = 2**31 - 1

PASSING = {  # functions of arange(3000)
    "squares": lambda x: (x * x).sum(),
    "running squares": lambda x: (x * x).cumsum(0),
    "hash": lambda x: (x * 2654435761) % 1000003,
    "shift": lambda x: x << 25,
    "there and back": lambda x: x * 100000 * 100000 // 100000,
    "power": lambda x: x**4,
    "product": lambda x: x[1:20].prod(),
    "from floats": lambda x: (x.float() * 1e9).long(),
    "of int32": lambda x: (x.int() + 2**30).sum(),
    "one more": lambda x: x + (x * 0 + MOST),
    "compared": lambda x: (x * 2**30 > 2**31) & (x < 7),
    "as floats": lambda x: (x * 2**30).float(),
    "added up": lambda x: x.index_put((x % 2,), x * 2**20, accumulate=True),
    "least": lambda x: (x - MOST - 1 - 1).abs(),
    "places": lambda x: (x % 3).argmax() * 2**31 + (x > 5).count_nonzero() * 2**30,
}
FITTING = {  # of arange(3000), what a program computes whole
    "next": lambda x: x + 1,
    "counted": lambda x: (x > 5).sum() * 1000 + x.argmax(),
    "places": lambda x: torch.arange(3000, device=x.device) - x,
    "picked": lambda x: x.float()[x] * 2,
    "buckets": lambda x: torch.clamp(x * 2, 0, 31) % 7,
    "running count": lambda x: (x > 5).long().cumsum(0) - 1,
    "by low words": lambda x: x.float()[(x * 2 + 5 - 2 * x) + (x.float() * 0).long()],
    "rounded": lambda x: x.float().mul(0.5).floor().long() + 1,
}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, backend="tt", dynamic=False)


@DEVICES
@pytest.mark.parametrize("name", PASSING)
def test_results_that_pass_32_bits_are_torchs(tt, same, name, device):
    x = torch.arange(3000)
    run = compiled(PASSING[name])
    same(run(x.to(device)), PASSING[name](x), 0)
    assert tt.stats().split_graphs or tt.stats().eager_graphs
    with tt.no_fallback(), pytest.raises(UnsupportedOpError, match="32 bits"):
        run(x.to(device))


@DEVICES
@pytest.mark.parametrize("name", FITTING)
def test_what_is_proven_to_fit_is_one_program(tt, same, name, device):
    x = torch.arange(3000)
    with tt.no_fallback():
        made = compiled(FITTING[name])(x.to(device))
    same(made, FITTING[name](x), 0)
    assert tt.stats()["programs"] == 1


@DEVICES
def test_a_graph_serves_calls_that_fit_and_calls_that_do_not(tt, device):
    run = compiled(lambda x: x * 2 - 1)
    for number in (3, 2**40, -7, 2**30, 2**31 - 1, 5, -(2**61)):
        assert run(torch.tensor([3, number]).to(device)).tolist() == [5, 2 * number - 1]
    assert set(tt.stats().eager_graphs) == {"aten.mul.Tensor: its 64-bit integers may not fit 32 bits"}
    with tt.no_fallback():
        assert run(torch.tensor([3, 4]).to(device)).tolist() == [5, 7]
        with pytest.raises(UnsupportedOpError, match="may not fit 32 bits"):
            run(torch.tensor([3, 2**40]).to(device))


def test_what_a_program_made_is_known_to_be_small(tt):
    """A place that goes on by one in each step is not looked at on the host."""
    run = compiled(lambda x: x + 1)
    x = torch.tensor([5]).to("tt")
    with tt.no_fallback():
        for _ in range(5):
            x = run(x)
        x = x * 3
    assert x.tolist() == [30]
    assert not tt.stats().eager_graphs


def test_open_sizes_count(tt, same):
    run = torch.compile(lambda x: (x * 1000).sum(), backend="tt", dynamic=True)
    for size in (5, 9, 3000, 70000):
        x = torch.full((size,), 900)
        same(run(x.to("tt")), (x * 1000).sum(), 0)


def test_eager_places_and_sums_have_bounds_of_their_own(tt, same):
    """The bound of a place is no value's, nor that of what is added to an element."""
    x = torch.zeros(2000, dtype=torch.int64)
    x[-1] = 1
    calls = (
        lambda x: x.argmax() * 2**22,
        lambda x: x.max(0).indices * 2**22,
        lambda x: x.count_nonzero(0) * MOST * 2,
        lambda x: x.index_put((x * 0,), x + 2**21, accumulate=True) + 1,
        lambda x: x.sort(stable=True).indices * 2**22,
    )
    for call in calls:
        same(call(x.to("tt")), call(x), 0)


STEPS = {
    "sum": lambda x, y: x.cumsum(-1) + y,
    "product": lambda x, y: x * y,
    "scaled": lambda x, y: x * 65537 - y,
    "rest": lambda x, y: x % 97 + y,
    "divided": lambda x, y: x // 3,
    "chosen": lambda x, y: torch.where(x > y, x, -y),
    "clamped": lambda x, y: x.clamp(-1000, 1000) * 3,
    "shifted": lambda x, y: (x << 9) | (y & 255),
    "greatest": lambda x, y: torch.maximum(x, y) - x.amin(-1, keepdim=True),
    "placed": lambda x, y: x.argsort(-1) + y.flip(0),
    "picked": lambda x, y: x.gather(-1, y % 4),
    "floats": lambda x, y: (x % 1024).float().mul(0.5).floor().long() + y,
}


@pytest.mark.parametrize("seed", range(3))
@DEVICES
def test_chains_of_integer_operations(tt, same, device, seed):
    draw = random.Random(seed)
    steps = [STEPS[name] for name in draw.choices(list(STEPS), k=5)]

    def chain(x, y):
        for step in steps:
            x, y = step(x, y), x
        return x, y

    run = compiled(chain)
    for most in (2, 5000, 2**31 - 1, 2**40):
        x, y = torch.randint(-most, most, (3, 4)), torch.randint(-100, 100, (3, 4))
        for made, wanted in zip(run(x.to(device), y.to(device)), chain(x, y), strict=True):
            same(made, wanted, 0)
