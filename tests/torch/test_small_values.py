"""Values that are easily wrong: quotients rounded down, tails of activations, dtypes of reductions, what an
operation writes that its schema does not say."""

from __future__ import annotations

import gc
import itertools

import pytest
import torch
from torch.nn import functional as F

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 0.1, -0.1, 1.0, -1.0, 3.0, 7.5, -7.5, 1e30, -1e-30, 1e-42, INF, -INF, NAN]


@pytest.fixture(params=["eager", "compiled"])
def run(request, tt):
    """run(function, *tensors): on tt, with nothing done on the host."""

    def call(function, *tensors):
        compiled = request.param == "compiled"
        chosen = torch.compile(function, backend="tt", dynamic=False) if compiled else function
        with torch.no_grad(), tt.no_fallback():
            return chosen(*(x.to("tt") for x in tensors)).cpu()

    yield call
    torch._dynamo.reset()


def identical(made, wanted):
    """Equal bits, but that a NaN is a NaN."""
    assert made.dtype == wanted.dtype
    torch.testing.assert_close(made, wanted, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(made.signbit() & ~made.isnan(), wanted.signbit() & ~wanted.isnan())


# **************** division ****************


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_of_floats_are_torch_s(run, mode):
    pairs = torch.tensor(list(itertools.product(SPECIAL, SPECIAL)))
    tenths = torch.stack([torch.arange(-5000, 5000) / 10, torch.full((10000,), 0.1)], 1)
    a, b = torch.cat([pairs, tenths, torch.randn(1000, 2) * 10]).unbind(1)
    a, b = a.contiguous(), b.contiguous()
    made = run(lambda a, b: torch.div(a, b, rounding_mode=mode), a, b)
    identical(made, torch.div(a, b, rounding_mode=mode))


def test_one_over_a_tenth(run):
    x = torch.tensor([1.0, INF, -1.0])
    assert torch.div(x, 0.1, rounding_mode="floor").tolist()[0] == 9
    for function in (
        lambda x: torch.div(x, 0.1, rounding_mode="floor"),
        lambda x: x // 0.1,
        lambda x: torch.floor_divide(x, -0.1),
    ):
        identical(run(function, x), function(x))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_of_bfloat16(tt, mode):
    a, b = (torch.randn(2000).mul(20).bfloat16() for _ in range(2))
    with tt.no_fallback():
        made = torch.div(a.to("tt"), b.to("tt"), rounding_mode=mode).cpu()
    torch.testing.assert_close(made, torch.div(a, b, rounding_mode=mode), rtol=0, atol=0)  # -0 is 0 there


@pytest.mark.parametrize(
    "operation",
    [torch.remainder, torch.fmod, torch.floor_divide, lambda a, b: torch.div(a, b, rounding_mode="trunc")],
)
def test_integers_and_remainders_are_torch_s(tt, operation):
    a, b = (
        torch.tensor([7, -7, 7, -7, 0, -(2**31)], dtype=torch.int32),
        torch.tensor([2, 2, -2, -2, 5, 3], dtype=torch.int32),
    )
    identical(operation(a.to("tt"), b.to("tt")).cpu(), operation(a, b))
    # not contiguous: then torch makes NaN of what is left by a subnormal number
    a, b = torch.tensor(list(itertools.product(SPECIAL, SPECIAL))).unbind(1)
    identical(operation(a.to("tt"), b.to("tt")).cpu(), operation(a, b))
    with pytest.raises(RuntimeError, match=r"(?i)zero"):
        operation(b.new_ones(1).int().to("tt"), b.new_zeros(1).int().to("tt")).cpu()
    gc.collect()  # the error's frames hold a tensor that failed, of which blocks without fallbacks would tell


REMAINDERS = pytest.mark.parametrize("operation", [torch.remainder, torch.fmod])


@REMAINDERS
def test_remainders_of_floats_are_the_device_s(run, operation):
    a, b = torch.cat(
        [torch.tensor(list(itertools.product(SPECIAL, SPECIAL))), torch.randn(2000, 2) * 9]
    ).unbind(1)
    identical(run(operation, a.contiguous(), b.contiguous()), operation(a, b))
    identical(run(lambda x: operation(x, -2.5), a.contiguous()), operation(a, -2.5))


@REMAINDERS
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_remainders_of_integers_are_the_device_s(run, operation, dtype):
    """Every sign with every sign, the ends of the type, broadcast, and by a number."""
    info = torch.iinfo(dtype)
    values = torch.cat([torch.arange(-9, 10), torch.tensor([info.min, info.max])]).to(dtype)
    divisors = values[values != 0]
    identical(run(operation, values[:, None], divisors), operation(values[:, None], divisors))
    identical(run(lambda x: operation(x, 7), values), operation(values, 7))


@REMAINDERS
def test_remainders_of_bfloat16(run, operation):
    a, b = (torch.randn(2000).mul(20).bfloat16() for _ in range(2))
    torch.testing.assert_close(run(operation, a, b), operation(a, b), rtol=1e-2, atol=0)


# **************** activations ****************

ACTIVATIONS = {
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "tanh": torch.tanh,
    "hardsigmoid": F.hardsigmoid,
    "softsign": F.softsign,
    "expm1": torch.expm1,
    "log1p": torch.log1p,
    "gelu": lambda x: F.gelu(x) if x.dtype == torch.float32 else x * torch.erfc(-x / 2**0.5) / 2,
    "gelu_tanh": lambda x: (
        F.gelu(x, approximate="tanh")
        if x.dtype == torch.float32
        else (x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    ),
}
# relative error: gelu's tail takes the error of a rounded argument, as squares of it are large
LOOSE = {"gelu": 2e-5, "gelu_tanh": 2e-5, "hardsigmoid": 1e-6}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_tails_of_activations(tt, name):
    function = ACTIVATIONS[name]
    x = torch.cat(
        [
            torch.linspace(-110, 30, 5001),
            -torch.logspace(-30, 2, 999),
            torch.logspace(-30, 1.5, 999),
            torch.tensor([-90.5, -88.8, -91.0, 0.0]),
        ]
    ).float()
    if name == "log1p":
        x = x[x > -1]
    wanted = function(x.double())
    made = function(x.to("tt")).cpu().double()
    least = 2.0**-149  # of which rounding to denormals may lose some
    error = (made - wanted).abs() / (wanted.abs() * LOOSE.get(name, 1e-6) + 6 * least)
    worst = int(error.argmax())
    assert error[worst] <= 1, (name, x[worst].item(), made[worst].item(), wanted[worst].item())


def test_silu_where_its_sigmoid_has_no_normal_number(run):
    x = torch.tensor([-90.5, -95.0, -88.0])
    made = run(lambda x: F.silu(x) * 2, x).double()
    torch.testing.assert_close(made, 2 * F.silu(x.double()), rtol=1e-6, atol=3e-45)


# **************** reductions ****************

INTS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]
REDUCTIONS = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: x.amax(),
    "amin": lambda x: x.amin(1),
    "sum": lambda x: x.sum(),
    "sum_1": lambda x: x.sum(1),
    "prod": lambda x: x.prod(),
    "any": lambda x: x.any(),
    "all": lambda x: x.all(1),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(1),
    "max_1": lambda x: x.max(1),
    "min_0": lambda x: x.min(0),
    "median": lambda x: x.median(),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(2, 1),
    "aminmax": lambda x: x.aminmax(),
    "count": lambda x: x.count_nonzero(),
    "cummax": lambda x: x.cummax(0),
    "mode": lambda x: x.mode(1),
    "kthvalue": lambda x: x.kthvalue(2, 1),
}


@pytest.mark.parametrize("dtype", [*INTS, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_dtypes_and_values_of_reductions_are_torch_s(tt, name, dtype):
    x = torch.randperm(24).reshape(4, 6).to(dtype)
    try:
        wanted = REDUCTIONS[name](x)
    except RuntimeError as error:
        pytest.skip(f"torch's CPU refuses: {error}")
    made = REDUCTIONS[name](x.to("tt"))
    for one, other in zip(*([v] if isinstance(v, torch.Tensor) else v for v in (made, wanted)), strict=True):
        assert one.dtype == other.dtype
        if dtype != torch.bool or not name.startswith(("max_", "min_", "sort", "topk", "mode", "kth", "arg")):
            torch.testing.assert_close(one.cpu(), other)  # of equal ones another index is right


# **************** axes ****************


def test_an_axis_that_is_named_twice_is_refused(tt):
    x = torch.randn(2, 3, 4).to("tt")
    for call in (
        lambda: x.flip([0, 0]),
        lambda: x.flip([0, -3]),
        lambda: x.sum((1, -2)),
        lambda: x.amax((0, 0)),
        lambda: x.permute(0, 1, -2),
        lambda: x.mean((2, -1)),
        lambda: x.squeeze((0, 0)),
    ):
        with pytest.raises(RuntimeError, match=r"multiple times|repeated|unique|duplicate"):
            call().cpu()


# **************** what is written ****************

WRITERS = {
    "native_batch_norm.out": lambda x, w, b, m, v, o: aten.native_batch_norm.out(
        x, w, b, m, v, True, 0.1, 1e-5, out=o[0], save_mean=o[1], save_invstd=o[2]
    ),
    "native_batch_norm": lambda x, w, b, m, v, o: aten.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5),
    "_native_batch_norm_legit.out": lambda x, w, b, m, v, o: aten._native_batch_norm_legit.out(
        x, w, b, m, v, True, 0.1, 1e-5, out=o[0], save_mean=o[1], save_invstd=o[2]
    ),
    "_native_batch_norm_legit": lambda x, w, b, m, v, o: aten._native_batch_norm_legit(
        x, w, b, m, v, True, 0.1, 1e-5
    ),
    "_batch_norm_with_update": lambda x, w, b, m, v, o: aten._batch_norm_with_update(
        x, w, b, m, v, 0.1, 1e-5
    ),
    "batch_norm_update_stats": lambda x, w, b, m, v, o: aten.batch_norm_update_stats(x, m, v, 0.1),
    "batch_norm_update_stats.out": lambda x, w, b, m, v, o: aten.batch_norm_update_stats.out(
        x, m, v, 0.1, out0=o[1], out1=o[2]
    ),
    "batch_norm": lambda x, w, b, m, v, o: F.batch_norm(x, m, v, w, b, True),
    "out is a statistic": lambda x, w, b, m, v, o: torch.add(m, w, out=m),
}


@pytest.mark.parametrize("name", WRITERS)
def test_statistics_are_written_once(tt, name):
    def written(device):
        torch.manual_seed(0)
        x = torch.randn(4, 3, 5, 5).to(device)
        w, b, m, v = (torch.full((3,), n).to(device) for n in (1.0, 0.0, 0.5, 2.0))
        out = [torch.zeros(shape).to(device) for shape in ((4, 3, 5, 5), (3,), (3,))]
        WRITERS[name](x, w, b, m, v, out)
        return m, v, *out

    for made, wanted in zip(written("tt"), written("cpu"), strict=True):
        torch.testing.assert_close(made.cpu(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [torch.special.i0, torch.special.modified_bessel_i0, torch.digamma])
def test_special_functions_are_torchs(run, function):
    """Special values with their signs, poles, and numbers on both sides of where formulas change. i0 is
    infinite where its input is, of which torch makes NaN."""
    near = torch.tensor([7.999, 8.0, 8.001, 9.999, 10.0, -0.5, -1.0, -2.0, -2.5, -8.001, 1.4616321, 90.0])
    special = [x for x in SPECIAL if abs(x) < INF or function is torch.digamma]
    x = torch.cat([torch.tensor(special), near, torch.linspace(-30, 30, 2001)])
    wanted = function(x.double()).float()
    assert torch.equal(function(x).isnan(), wanted.isnan())
    torch.testing.assert_close(run(function, x), wanted, rtol=2e-7, atol=1e-14, equal_nan=True)
    n = torch.arange(-3, 9, dtype=torch.int32)
    torch.testing.assert_close(run(function, n), function(n.float()), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("function", [F.relu6, F.hardtanh], ids=lambda f: f.__name__)
def test_bounds_of_integers_and_of_floats(run, function):
    for x in (torch.arange(-9, 10, dtype=torch.int32), torch.arange(-9, 10) / 1.5):
        identical(run(function, x), function(x))


def test_bounds_that_a_type_has_not_are_torch_s(tt):
    x = torch.arange(-9, 10, dtype=torch.int8)
    identical(F.hardtanh(x.to("tt"), -1.5, 2.5).cpu(), F.hardtanh(x, -1.5, 2.5))
    with pytest.raises(RuntimeError, match="unsigned"):
        F.hardtanh(x.abs().to(torch.uint8).to("tt"))
