"""Infinities and NaN in values, gradients and bounds: what torch's CPU makes of them.

In bfloat16 a device's packer writes NaN as an infinity: what torch makes of NaN, or NaN of, is not compared.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

INF, NAN = float("inf"), float("nan")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, -1.0, 0.5, 3.0, -3.0, 6.0, 1e30, -1e30]

ELEMENTS = {
    "relu": torch.relu,
    "root of relu": lambda x: torch.sqrt(torch.relu(x)),
    "root of relu6": lambda x: torch.sqrt(F.relu6(x)),
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0),
    "root of hardtanh": lambda x: torch.sqrt(F.hardtanh(x, 0.0, 2.0)),
    "threshold": lambda x: F.threshold(x, 0.25, -2.0),
    "root of threshold": lambda x: torch.sqrt(F.threshold(x, 0.0, 0.0)),
    "sign": lambda x: torch.sign(x) + x * 0.5,
    "sgn": lambda x: torch.sgn(x) + x * 0.5,
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1.0, 2.0),
    "clamp, least NaN": lambda x: x.clamp(NAN, 2.0),
    "clamp, most NaN": lambda x: x.clamp(max=NAN),
    "clamp_min NaN": lambda x: torch.clamp_min(x, NAN),
    "clamp, infinite": lambda x: x.clamp(-INF, INF),
    "clamp, most -inf": lambda x: x.clamp(max=-INF),
    "clamp, tensors": lambda x: x.clamp(x.detach().flip(0), x.detach().roll(3)),
    "hardtanh NaN": lambda x: F.hardtanh(x, NAN, 1.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "hardsigmoid": F.hardsigmoid,
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 1.5),
    "prelu": lambda x: F.prelu(x, x.detach()[5:6]),
    "softplus": F.softplus,
    "steep softplus": lambda x: F.softplus(x, 3.0, 0.2),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "maximum": lambda x: torch.maximum(x, x.detach().flip(0)),
    "fmax": lambda x: torch.fmax(x, x.detach().flip(0)),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked": lambda x: x.masked_fill(x < 0, 0.0),
    "nan_to_num": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "threshold of a product": lambda x: torch.relu(x * 0.0 + 1.0),
    "l1": lambda x: F.l1_loss(x, x.detach().roll(1), reduction="none"),
    "atan2": lambda x: torch.atan2(x, x.detach().roll(1)),
    "ldexp": lambda x: torch.ldexp(x, x.detach().flip(0)),
}
IMAGES = {
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
    "adaptive average, parts": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (4, 3)),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average, over another": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "maximum": lambda x: F.max_pool2d(x, 3, 2, 1),
    "maximum and where": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[0],
    "nearest": lambda x: F.interpolate(x, size=(9, 4)),
    "bilinear": lambda x: F.interpolate(x, size=(9, 4), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"),
    "smoothed": lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
    "area": lambda x: F.interpolate(x, size=(4, 3), mode="area"),
    "reflect": lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "softmax": lambda x: x.softmax(-1),
    "log softmax": lambda x: x.log_softmax(-1),
    "sums": lambda x: x.sum((2, 3)) + x.amax((2, 3)),
    "first norm": lambda x: x.norm(1, dim=-1),
    "greatest norm": lambda x: x.norm(INF, dim=-1),
}


def images(dtype):
    x = torch.randn(1, 3, 6, 6)
    x[0, 0, 1, 2], x[0, 1, 4, 3], x[0, 1, 4, 4], x[0, 2, 0, 0], x[0, 2, 5, 5] = INF, NAN, NAN, -INF, 1e30
    return x.to(dtype)


def same(made, wanted, free):
    """``free``: which elements may be any."""
    made, wanted = made.detach().cpu(), wanted.detach()
    tolerance = 3e-2 if wanted.dtype == torch.bfloat16 else 1e-5
    right = torch.isclose(made.float(), wanted.float(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return made.dtype == wanted.dtype and bool((right | free).all())


@pytest.mark.filterwarnings("ignore:.*run one at a time")  # there is no rule for a gradient
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("how", ["eager", "compiled"])
@pytest.mark.parametrize("kind", ["elements", "images"])
def test_values_and_gradients_are_torchs(tt, kind, how, dtype):
    """All functions are one graph, each of its own argument; gradients have an infinity, NaN and 0."""
    left = {"softshrink", "bilinear"} if how == "compiled" else set()  # torch itself takes these apart
    left |= {"smoothed"} if dtype == torch.bfloat16 else set()  # torch's CPU has it of float32
    everything = ELEMENTS if kind == "elements" else IMAGES
    functions = {name: call for name, call in everything.items() if name not in left}
    values = torch.tensor(SPECIAL, dtype=dtype) if kind == "elements" else images(dtype)

    def every(*given):
        return tuple(call(x) for call, x in zip(functions.values(), given, strict=True))

    twins = [values.clone().requires_grad_() for _ in functions]
    inputs = [values.to("tt").requires_grad_() for _ in functions]
    wanted = every(*twins)
    torch._dynamo.reset()
    made = (torch.compile(every, backend="tt") if how == "compiled" else every)(*inputs)
    slopes = []
    for result in wanted:
        slope = torch.linspace(0.5, 2.0, result.numel()).reshape(result.shape)
        for at, number in ((-1, INF), (-2, NAN), (-3, 0.0)):
            slope.view(-1)[at] = number
        slopes.append(slope.to(dtype))
    found = torch.autograd.grad(made, inputs, [slope.to("tt") for slope in slopes])
    right = torch.autograd.grad(wanted, twins, slopes)
    wrong = []
    for name, x, *pairs in zip(functions, twins, made, wanted, found, right, strict=True):
        packed = dtype == torch.bfloat16
        lost = x.isnan() | (pairs[1].isnan() if pairs[1].shape == x.shape else False)
        if not same(*pairs[:2], pairs[1].isnan() & packed):
            wrong.append(name)
        if not same(*pairs[2:], (pairs[3].isnan() | lost) & packed):
            wrong.append(f"{name}, gradient")
    assert not wrong


def test_weights_stay_numbers_where_a_root_begins(tt):
    """The slope of a root is infinite at 0, where relu lets none of it through."""
    model = torch.nn.Linear(4, 4)
    twin = torch.nn.Linear(4, 4)
    twin.load_state_dict(model.state_dict())
    model.to("tt")
    for one, x in ((model, torch.ones(2, 4).to("tt")), (twin, torch.ones(2, 4))):
        optimizer = torch.optim.SGD(one.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            torch.sqrt(torch.relu(one(x))).sum().backward()
            optimizer.step()
    torch.testing.assert_close(model.weight.cpu(), twin.weight, rtol=1e-5, atol=1e-5)
    assert bool(twin.weight.isfinite().all())


def test_places_of_maxima_are_torchs_where_some_are_nan(tt):
    x = images(torch.float32)
    for call in (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        lambda x: F.adaptive_max_pool2d(x, (3, 3), return_indices=True),
        lambda x: F.max_pool3d(x[None], (1, 3, 3), 2, (0, 1, 1), return_indices=True),
    ):
        for made, wanted in zip(call(x.to("tt")), call(x), strict=True):
            torch.testing.assert_close(made.cpu(), wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0])
def test_distances_of_what_is_no_number(tt, p):
    a, b = torch.randn(4, 3), torch.randn(5, 3)
    a[1, 1], b[2, 0], b[3] = NAN, INF, a[0]
    torch.testing.assert_close(
        torch.cdist(a.to("tt"), b.to("tt"), p).cpu(), torch.cdist(a, b, p), equal_nan=True
    )
    torch.testing.assert_close(F.pdist(b.to("tt"), p).cpu(), F.pdist(b, p), equal_nan=True)
