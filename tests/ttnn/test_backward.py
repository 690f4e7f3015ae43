"""Gradients of compat.ttnn against those of torch's own functions."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.operations.gradients.backward import PAIRS
from graph_runtime.ttnn.operations.gradients.derivatives import DERIVATIVES

torch = pytest.importorskip("torch")

RANGES = {  # where a function is defined and smooth
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-0.9, 0.9)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "digamma", "pow"), (0.2, 5)),
    **dict.fromkeys(("logit", "logiteps"), (0.05, 0.95)),
    "acosh": (1.1, 5),
    "multigammaln": (1.7, 8),
    "polygamma": (0.5, 5),
}
ARGUMENTS = {
    "pow": (2.5,),
    "rpow": (3.0,),
    "threshold": (0.5, 1.0),
    "clamp": (-1.0, 2.0),
    "clip": (None, 2.0),
    "div_no_nan": (3.0,),
    "rdiv": (3.0,),
}
TURNED = {"polygamma": lambda grad, x: ttnn.polygamma_bw(grad, x, 2)}


def on(device, values):
    return ttnn.from_torch(values.detach(), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)


def drawn(shape, low=-4.0, high=4.0):
    made = torch.empty(shape).uniform_(low, high)
    return made.requires_grad_()


def near(made, wanted):
    return torch.allclose(ttnn.to_torch(made), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(DERIVATIVES.keys() - TURNED.keys()))
def test_a_gradient_of_one_tensor(device, name):
    torch.manual_seed(1)
    x, grad = drawn((3, 34), *RANGES.get(name, (-4.0, 4.0))), torch.randn(3, 34)
    function, args = getattr(ttnn, f"{name}_bw"), ARGUMENTS.get(name, ())
    (made,) = function(on(device, grad), on(device, x), *args)
    assert made.shape == [3, 34]
    assert near(made, ttnn.get_golden_function(function)(grad, x, *args)[0])


def test_the_gradient_of_polygamma(device):
    x, grad = drawn((3, 34), 0.5, 5.0), torch.randn(3, 34)
    torch.polygamma(2, x).backward(grad)
    assert near(ttnn.polygamma_bw(on(device, grad), on(device, x), 2)[0], x.grad)


@pytest.mark.parametrize("shape", [(2, 3, 34), (3, 1)])
@pytest.mark.parametrize("name", sorted(PAIRS.keys() - {"assign"}))
def test_gradients_of_two_tensors(device, name, shape):
    torch.manual_seed(2)
    a, b, grad = drawn((2, 3, 34), 0.2, 4.0), drawn(shape, 0.2, 4.0), torch.randn(2, 3, 34)
    function = getattr(ttnn, f"{name}_bw")
    args = (2.0,) if name in ("addalpha", "subalpha") else ()
    made = function(on(device, grad), on(device, a), on(device, b), *args)
    wanted = ttnn.get_golden_function(function)(grad, a, b, *args)
    assert [list(x.shape) for x in made] == [[2, 3, 34], list(shape)]
    assert all(near(x, y) for x, y in zip(made, wanted, strict=True))


def test_a_number_has_no_gradient(device):
    a, grad = drawn((2, 34)), torch.randn(2, 34)
    (made,) = ttnn.mul_bw(on(device, grad), on(device, a), 3.0)
    assert near(made, 3 * grad)
    assert (
        ttnn.mul_bw(on(device, grad), on(device, a), on(device, a), are_required_outputs=[False, True])[0]
        is None
    )


def test_gradients_of_movement_and_products(device):
    a, b, grad = drawn((2, 34)), drawn((3, 34)), torch.randn(5, 34)
    made = ttnn.concat_bw(on(device, grad), on(device, a), on(device, b), 0)
    assert near(made[0], grad[:2])
    assert near(made[1], grad[2:])
    grad = torch.randn(4, 102)
    a.repeat(2, 3).backward(grad)
    assert near(ttnn.repeat_bw(on(device, grad), on(device, a), (2, 3))[0], a.grad)
    x = torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 2.0], [2.0, 3.0, 4.0]], requires_grad=True)
    grad = torch.randn(3, 1)
    x.prod(1, keepdim=True).backward(grad)
    assert near(ttnn.prod_bw(on(device, grad), on(device, x), 1)[0], x.grad)


def test_gradients_of_three_tensors(device):
    a, b, c, grad = (drawn((2, 34), 0.2, 4.0) for _ in range(4))
    for function, of in (
        (ttnn.addcmul_bw, lambda: torch.addcmul(a, b, c, value=2.0)),
        (ttnn.addcdiv_bw, lambda: torch.addcdiv(a, b, c, value=2.0)),
        (ttnn.lerp_bw, lambda: torch.lerp(a, b, c)),
    ):
        for x in (a, b, c):
            x.grad = None
        of().backward(grad.detach())
        args = () if function is ttnn.lerp_bw else (2.0,)
        made = function(*(on(device, x) for x in (grad, a, b, c)), *args)
        assert all(near(x, y.grad) for x, y in zip(made, (a, b, c), strict=True)), function
    chosen = (a > b).float()
    made = ttnn.where_bw(*(on(device, x) for x in (grad, chosen, a, b)))
    assert near(made[0], grad * chosen)
    assert near(made[1], grad * (1 - chosen))


def test_the_gradient_of_a_table(device):
    table, grad = torch.randn(20, 32, requires_grad=True), torch.randn(1, 1, 64, 32).bfloat16()
    index = torch.randint(0, 20, (2, 32))
    torch.nn.functional.embedding(index, table).backward(grad.float().reshape(2, 32, 32))
    where = ttnn.from_torch(index, dtype=ttnn.uint32, device=device)
    given = ttnn.from_torch(grad, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    made = ttnn.to_torch(ttnn.embedding_bw(where, on(device, table), given)).float()
    assert torch.allclose(made, table.grad.reshape(1, 1, 20, 32), rtol=2**-8)  # rounded once, to bfloat16


def test_a_gradient_that_fits_no_input_is_refused(device):
    grad, a, b = (on(device, torch.randn(3, 34)) for _ in range(3))
    with pytest.raises(ttnn.Unsupported, match="34 elements"):
        ttnn.concat_bw(grad, a, b)  # of concat it is [6, 34]
