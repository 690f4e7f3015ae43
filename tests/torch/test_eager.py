"""Operations one at a time: on the device where there are kernels, else on the host, the same either way."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch.nn import functional  # noqa: E402

ON_DEVICE = {
    "add": lambda a, b: a + b,
    "scalars": lambda a, b: 2 * a - 1 + a / 4,
    "mul": lambda a, b: a * b,
    "broadcast": lambda a, b: a + b[0],
    "relu": lambda a, b: torch.relu(a),
    "exp": lambda a, b: a.exp(),
    "mm": lambda a, b: a @ b.t(),
    "linear": lambda a, b: functional.linear(a, b),
    "sum": lambda a, b: a.sum(1),
    "mean": lambda a, b: a.mean(),
    "amax": lambda a, b: a.amax(0),
    "softmax": lambda a, b: a.softmax(-1),
    "layer_norm": lambda a, b: functional.layer_norm(a, (6,)),
    "gelu": lambda a, b: functional.gelu(a),
    "views": lambda a, b: a[1:, ::2].t() + 1,
    "cat": lambda a, b: torch.cat([a, b], 1),
    "reshape": lambda a, b: a.reshape(3, 8).tanh(),
    "pow": lambda a, b: a.square() + a.abs().sqrt(),
    "in place": lambda a, b: a.clone().mul_(b).add_(1),
    "out": lambda a, b: torch.add(a, b, out=torch.empty_like(a)),
    "index put": lambda a, b: a.clone().index_put_((torch.tensor([0, 1], device=a.device),), b[:2], True),
}
ON_HOST = {
    "special": lambda a, b: torch.special.bessel_j0(a),
    "float64": lambda a, b: a.double() * b.double(),
    "int64": lambda a, b: (a * 10).long() // 3,
    "masks": lambda a, b: a[a > 0],
    "unique": lambda a, b: (a * 2).round().unique(),
    "inverse": lambda a, b: torch.linalg.inv(a @ a.t() + torch.eye(4, device=a.device)),
}


def inputs():
    return torch.randn(4, 6), torch.randn(4, 6)


@pytest.mark.parametrize("name", ON_DEVICE)
def test_on_the_device(tt, same, name):
    a, b = inputs()
    x, y = a.to("tt"), b.to("tt")
    with tt.no_fallback():
        made = [ON_DEVICE[name](x, y) for _ in range(2)][-1]  # the second time from memory
    assert made.device == torch.device("tt:0")
    same(made, ON_DEVICE[name](a, b), 1e-5)
    assert tt.stats().on_host == 0


@pytest.mark.parametrize("name", ON_HOST)
def test_on_the_host_with_a_reason(tt, same, name):
    a, b = inputs()
    made = ON_HOST[name](a.to("tt"), b.to("tt"))
    assert made.device == torch.device("tt:0")
    same(made, ON_HOST[name](a, b), 1e-4)
    assert tt.stats().on_host
    assert all(reason for _, reason in tt.stats().fallbacks)


def test_results_of_kept_signatures_follow_their_inputs(same):
    a, b = inputs()
    x, y = a.to("tt"), b.to("tt")
    for factor in (1.0, 2.0, 1.0, -0.5):
        same(x * factor + y, a * factor + b)
        x.mul_(1.5)
        a.mul_(1.5)
        same(x, a)


def test_kept_signatures_tell_a_tensor_given_twice_from_two(same):
    a, b = inputs()
    x, y = a.to("tt"), b.to("tt")
    for _ in range(2):
        same(y * y, b * b)
        same(x * x, a * a)
        same(x * y, a * b)
        same(y - x, b - a)
        same(y - y, b - b)
        same(torch.addcmul(x, y, y), torch.addcmul(a, b, b))
        same(torch.addcmul(x, x, y), torch.addcmul(a, a, b))


def test_kept_signatures_tell_zeros_of_both_signs(same):
    a = torch.ones(3)
    x = a.to("tt")
    for zero in (0.0, -0.0, 0.0):
        same(1 / (x * zero), 1 / (a * zero))
        same(x / torch.tensor(zero), a / torch.tensor(zero))
