"""The moreh functions of compat.ttnn against torch's functions and their gradients."""

from __future__ import annotations

import math

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")
moreh = ttnn.operations.moreh


def drawn(*shape, low=-2.0, high=2.0):
    return torch.empty(shape).uniform_(low, high).requires_grad_()


def on(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(values.detach(), dtype=dtype, layout=layout, device=device)


def near(made, wanted, by=1e-4):
    """``by``: 1e-4 of float32 arithmetic; 1e-2 of products, whose operands HiFi4 cuts to tf32 (2^-10)."""
    found = ttnn.to_torch(made)
    return torch.allclose(found, wanted.detach().reshape(found.shape), rtol=by, atol=by)


@pytest.mark.parametrize("dim", [0, 1, 3, [1, 2], None])
@pytest.mark.parametrize("keepdim", [True, False])
def test_sums_and_means(device, dim, keepdim):
    torch.manual_seed(1)
    x = drawn(2, 3, 33, 5)
    for name in ("sum", "mean"):
        wanted = getattr(torch, name)(x, dim=dim, keepdim=keepdim)
        made = getattr(moreh, name)(on(device, x), dim=dim, keepdim=keepdim)
        reduced = range(4) if dim is None else [dim] if isinstance(dim, int) else dim
        kept = [at for at in range(4) if keepdim or at >= 2 or at not in reduced]
        assert list(made.shape) == [1 if at in reduced else x.shape[at] for at in kept]
        assert near(made, wanted)
        grad, x.grad = torch.randn(wanted.shape), None
        wanted.backward(grad)
        back = getattr(moreh, f"{name}_backward")
        here = on(device, grad.reshape(tuple(made.shape)))
        into = ttnn.zeros_like(on(device, x))
        assert near(back(here, dim=dim, keepdim=keepdim, input_grad=into), x.grad)
        assert near(into, x.grad)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, math.inf, -math.inf])
def test_norms(device, p):
    torch.manual_seed(1)
    x = drawn(3, 4, 35, low=0.5)
    wanted = torch.norm(x, p, dim=2, keepdim=True)
    made = moreh.norm(on(device, x), p, dim=2, keepdim=True)
    assert near(made, wanted)
    grad = torch.randn(wanted.shape)
    if p:  # torch has no gradient for 0 other than 0
        wanted.backward(grad)
    slope = moreh.norm_backward(on(device, x), made, on(device, grad), p, dim=2, keepdim=True)
    assert near(slope, x.grad if p else torch.zeros(3, 4, 35))


@pytest.mark.parametrize("dim", [0, 2])
def test_running_sums(device, dim):
    x, grad = drawn(3, 4, 35), torch.randn(3, 4, 35)
    wanted = torch.cumsum(x, dim)
    assert near(moreh.cumsum(on(device, x), dim), wanted)
    wanted.backward(grad)
    assert near(moreh.cumsum_backward(on(device, grad), dim), x.grad)


def test_numbers_in_a_row(device):
    made = moreh.arange(2.5, 20.0, 0.5, device, dtype=ttnn.float32)
    assert made.shape == [1, 35]
    assert near(made, torch.arange(2.5, 20.0, 0.5))
    whole = moreh.arange(10, -4, -3, device, dtype=ttnn.int32, untilize_out=True)
    assert ttnn.to_torch(whole).tolist() == [[10, 7, 4, 1, -2]]
    with pytest.raises(RuntimeError, match="does not lead"):
        moreh.arange(0, 5, -1, device)


@pytest.mark.parametrize("name", ["softmax", "softmin", "logsoftmax"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmaxes(device, name, dim):
    torch.manual_seed(1)
    x, grad = drawn(3, 40, 35), torch.randn(3, 40, 35)
    functions = torch.nn.functional
    wanted = getattr(functions, {"logsoftmax": "log_softmax"}.get(name, name))(x, dim)
    made = getattr(moreh, name)(on(device, x), dim)
    assert near(made, wanted)
    wanted.backward(grad)
    assert near(getattr(moreh, f"{name}_backward")(made, on(device, grad), dim), x.grad)


def test_a_way_of_cutting_that_does_not_fit(device):
    x = on(device, torch.ones(2, 32, 32))
    ways = moreh.SoftmaxOpParallelizationStrategy
    moreh.softmax(x, 2, strategy=ways.SMALL_W)
    with pytest.raises(RuntimeError, match="Invalid parallelization strategy"):
        moreh.softmax(x, 1, strategy=ways.SMALL_W)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3, 4)])
def test_the_loss_of_classes(device, reduction, weighted, shape):
    torch.manual_seed(1)
    x, chosen = drawn(*shape), torch.randint(0, 7, (shape[0], *shape[2:]))
    chosen[0] = 2
    weight = torch.rand(7) + 0.5 if weighted else None
    wanted = torch.nn.functional.nll_loss(x, chosen, weight, ignore_index=2, reduction=reduction)
    places = on(device, chosen.int(), ttnn.int32)
    weights = None if weight is None else on(device, weight.reshape(1, 7))
    divisor = on(device, torch.zeros(1, 1)) if reduction == "mean" else None
    given = {"weight_tensor": weights, "ignore_index": 2}
    made = moreh.nll_loss(on(device, x), places, reduction, divisor_tensor=divisor, **given)
    assert near(made, wanted)
    grad, into = torch.randn(wanted.shape), on(device, torch.zeros(shape))
    wanted.backward(grad)
    here = on(device, grad.reshape(1, 1) if reduction != "none" else grad)
    if reduction == "none":
        moreh.nll_loss_unreduced_backward(places, here, input_grad_tensor=into, **given)
    else:
        mean = reduction == "mean"
        given |= {"divisor_tensor": divisor, "input_grad_tensor": into}
        moreh.nll_loss_backward(places, here, mean, **given)
    assert near(into, x.grad)


def test_products_and_their_gradients(device):
    torch.manual_seed(1)
    a, b = drawn(2, 3, 33, 5), drawn(3, 5, 40)
    wanted = a @ b
    made = moreh.matmul(on(device, a), on(device, b))
    assert near(made, wanted, 1e-2)
    turned = moreh.matmul(on(device, a.mT), on(device, b.mT), transpose_input=True, transpose_other=True)
    assert near(turned, wanted, 1e-2)
    grad = torch.randn(wanted.shape)
    wanted.backward(grad)
    into = [on(device, torch.zeros(x.shape)) for x in (a, b)]
    given = {"input_a_grad": into[0], "input_b_grad": into[1]}
    moreh.matmul_backward(on(device, grad), on(device, a), on(device, b), **given)
    assert near(into[0], a.grad, 1e-2)
    assert near(into[1], b.grad, 1e-2)
    with pytest.raises(RuntimeError, match="k must be the same"):
        moreh.matmul(on(device, a), on(device, a))


def test_batches_and_dots(device):
    torch.manual_seed(1)
    a, b = drawn(3, 33, 5), drawn(3, 5, 40)
    wanted, grad = torch.bmm(a, b), torch.randn(3, 33, 40)
    assert near(moreh.bmm(on(device, a), on(device, b)), wanted, 1e-2)
    wanted.backward(grad)
    first, second = moreh.bmm_backward(on(device, grad), on(device, a), on(device, b))
    assert near(first, a.grad, 1e-2)
    assert near(second, b.grad, 1e-2)
    x, y = drawn(1, 1, 1, 70), drawn(1, 1, 1, 70)
    assert near(moreh.dot(on(device, x), on(device, y)), (x * y).sum())
    into = [on(device, torch.zeros(1, 1, 1, 70)) for _ in range(2)]
    given = {"input_grad": into[0], "other_grad": into[1]}
    moreh.dot_backward(on(device, torch.full((1, 1, 1, 1), 2.0)), on(device, x), on(device, y), **given)
    assert near(into[0], 2 * y)
    assert near(into[1], 2 * x)


def test_linear(device):
    torch.manual_seed(1)
    x, weight, bias = drawn(2, 33, 40), drawn(20, 40), drawn(1, 20)
    wanted, grad = torch.nn.functional.linear(x, weight, bias), torch.randn(2, 33, 20)
    given = [on(device, t) for t in (x, weight)]
    assert near(moreh.linear(*given, bias=on(device, bias)), wanted, 1e-2)
    wanted.backward(grad)
    made = moreh.linear_backward(on(device, grad), *given, bias=on(device, bias))
    assert all(near(one, t.grad, 1e-2) for one, t in zip(made, (x, weight, bias), strict=True))


def test_layer_norm(device):
    torch.manual_seed(1)
    x, gamma, beta = drawn(3, 4, 33), drawn(4, 33), drawn(4, 33)
    wanted, grad = torch.nn.functional.layer_norm(x, (4, 33), gamma, beta), torch.randn(3, 4, 33)
    mean, rstd = (on(device, torch.zeros(1, 3)) for _ in range(2))
    given = {"gamma": on(device, gamma), "beta": on(device, beta), "mean": mean, "rstd": rstd}
    made = moreh.layer_norm(on(device, x), 2, **given)
    assert near(made[0], wanted)
    assert near(mean, x.mean((1, 2)))
    wanted.backward(grad)
    into = [on(device, torch.zeros(t.shape)) for t in (x, gamma, beta)]
    names = dict(zip(("input_grad", "gamma_grad", "beta_grad"), into, strict=True))
    moreh.layer_norm_backward(on(device, grad), on(device, x), mean, rstd, 2, gamma=given["gamma"], **names)
    assert all(near(one, t.grad) for one, t in zip(into, (x, gamma, beta), strict=True))


def test_group_norm(device):
    torch.manual_seed(1)
    x, gamma, beta = drawn(2, 6, 5, 7), drawn(6), drawn(6)
    wanted, grad = torch.nn.functional.group_norm(x, 3, gamma, beta), torch.randn(2, 6, 5, 7)
    scale = on(device, gamma.reshape(1, 1, 1, 6))
    every = (True, True, True)
    given = {"beta": on(device, beta.reshape(1, 1, 1, 6)), "are_required_outputs": every}
    made, mean, rstd = moreh.group_norm(on(device, x), 3, gamma=scale, **given)
    assert near(made, wanted)
    assert mean.shape == [1, 1, 2, 3]
    wanted.backward(grad)
    given = {"gamma": scale, "are_required_outputs": every}
    slopes = moreh.group_norm_backward(on(device, grad), on(device, x), mean, rstd, 3, **given)
    assert all(near(one, t.grad) for one, t in zip(slopes, (x, gamma, beta), strict=True))
    with pytest.raises(RuntimeError, match="cannot be cut into 4 groups"):
        moreh.group_norm(on(device, x), 4)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("amsgrad", [True, False])
def test_steps_of_adam(device, name, amsgrad):
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(5, 33))
    before, given = weight.detach().clone(), {"lr": 0.1, "eps": 1e-3, "weight_decay": 0.2, "amsgrad": amsgrad}
    optimizer = getattr(torch.optim, name)([weight], **given)
    weight.grad = torch.randn(5, 33)
    optimizer.step()
    zeros = [on(device, torch.zeros(5, 33)) for _ in range(3)]
    given |= {"step": 1, "max_exp_avg_sq_in": zeros[2]}
    made = getattr(moreh, name.lower())(on(device, before), on(device, weight.grad), *zeros[:2], **given)
    state = optimizer.state[weight]
    assert near(made[0], weight)
    assert near(made[1], state["exp_avg"])
    assert near(made[2], state["exp_avg_sq"])
    assert near(made[3], state["max_exp_avg_sq"]) if amsgrad else made[3] is None


@pytest.mark.parametrize("nesterov", [True, False])
def test_steps_of_gradient_descent(device, nesterov):
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(5, 33))
    given = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.2, "nesterov": nesterov}
    optimizer = torch.optim.SGD([weight], **given)
    here, moving = on(device, weight), None
    for turn in range(2):
        weight.grad = torch.randn(5, 33)
        grad = on(device, weight.grad)
        optimizer.step()
        here, moving = moreh.sgd(here, grad, moving, momentum_initialized=turn > 0, **given)
    assert near(here, weight)


@pytest.mark.parametrize("kind", [2.0, 1.5, math.inf])
def test_gradients_are_clipped(device, kind):
    torch.manual_seed(1)
    parameters = [torch.nn.Parameter(torch.zeros(n, 33)) for n in (3, 5)]
    for one in parameters:
        one.grad = torch.randn(one.shape)
    here = [on(device, one.grad) for one in parameters]
    total = torch.nn.utils.clip_grad_norm_(parameters, 1.5, kind)
    assert near(moreh.clip_grad_norm(here, 1.5, kind), total)
    assert all(near(one, wanted.grad) for one, wanted in zip(here, parameters, strict=True))
    nothing = [on(device, torch.full((2, 3), math.inf))]
    with pytest.raises(RuntimeError, match="is non-finite"):
        moreh.clip_grad_norm(nothing, 1.0, 2.0, True)


def test_items_at_indices(device):
    x = torch.randn(4, 5, 6, 33)
    i, j = torch.tensor([0, -1, 2]), torch.tensor([1, 5, -6])
    rows = {"dtype": ttnn.int32, "layout": ttnn.ROW_MAJOR_LAYOUT}
    places = [on(device, t.int(), **rows) for t in (i, j)]
    made = moreh.getitem(on(device, x, layout=ttnn.ROW_MAJOR_LAYOUT), places, [1, 2])
    assert made.shape == [4, 3, 33]
    assert near(made, x[:, i, j])
    made = moreh.getitem(on(device, x), places, [1, 2])
    assert made.shape == [4, 1, 3, 33]
    assert near(made, x[:, i, j])
    with pytest.raises(RuntimeError, match="neighbours"):
        moreh.getitem(on(device, x), places, [0, 2])
