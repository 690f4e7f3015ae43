"""Complex tensors of compat.ttnn against torch's complex numbers."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def drawn(seed):
    torch.manual_seed(seed)
    made = torch.complex(torch.empty(3, 34).uniform_(-4, 4), torch.empty(3, 34).uniform_(-4, 4))
    return made.requires_grad_()


def on(device, values):
    """Of complex numbers a ComplexTensor, of others a Tensor."""
    if values.is_complex():
        return ttnn.complex_tensor(on(device, values.real), on(device, values.imag))
    return ttnn.from_torch(values.detach(), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)


def near(made, wanted):
    if isinstance(made, ttnn.ComplexTensor):
        return near(made.real, wanted.real) and near(made.imag, wanted.imag)
    return torch.allclose(ttnn.to_torch(made), wanted.detach().to(torch.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["real", "imag", "angle", "conj", "abs", "reciprocal"])
def test_a_function_and_its_gradient(device, name):
    x = drawn(1)
    made = getattr(ttnn, name)(on(device, x))
    wanted = getattr(torch, name)(x)
    assert near(made, wanted.resolve_conj())
    torch.manual_seed(2)
    grad = torch.randn(3, 34, dtype=wanted.dtype)
    wanted.backward(grad)
    (slope,) = getattr(ttnn, f"{name}_bw")(on(device, grad), on(device, x))
    assert near(slope, x.grad)


def test_polar_and_its_gradient(device):
    x, grad = drawn(1), drawn(2).detach()
    wanted = torch.polar(x.real, x.imag)
    assert near(ttnn.polar(on(device, x)), wanted)
    wanted.backward(grad)
    size, angle = x.grad.real, x.grad.imag
    (made,) = ttnn.polar_bw(on(device, grad), on(device, x))
    assert near(made.real, size)
    assert near(made.imag, angle)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_gradients_of_two(device, name):
    a, b, grad = drawn(1), drawn(2), drawn(3).detach()
    given = (1.5,) if name in ("add", "sub") else ()
    wanted = getattr(torch, name)(a, b, **({"alpha": 1.5} if given else {}))
    wanted.backward(grad)
    made = getattr(ttnn, f"{name}_bw")(on(device, grad), on(device, a), on(device, b), *given)
    assert near(made[0], a.grad)
    assert near(made[1], b.grad)
    golden = ttnn.get_golden_function(getattr(ttnn, f"{name}_bw"))
    fresh = drawn(1), drawn(2)
    parts = golden(grad, *fresh, **({"alpha": 1.5} if given else {}))
    assert torch.allclose(parts[0], torch.cat((a.grad.real, a.grad.imag), -1))


def test_where_numbers_are_real_or_imaginary(device):
    x = torch.complex(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[2.0, 0.0, 0.0]]))
    assert ttnn.to_torch(ttnn.is_real(on(device, x))).tolist() == [[0, 1, 1]]
    assert ttnn.to_torch(ttnn.is_imag(on(device, x))).tolist() == [[1, 0, 1]]
    (made,) = ttnn.abs_bw(on(device, torch.ones(1, 3)), on(device, x))  # 0 where there is no direction
    assert ttnn.to_torch(made.real)[0, 2] == ttnn.to_torch(made.imag)[0, 2] == 0


def test_what_is_refused(device):
    x = on(device, torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="the parts have the shapes"):
        ttnn.complex_tensor(x, on(device, torch.ones(3, 3)))
    with pytest.raises(TypeError, match=r"wanted a ttnn\.ComplexTensor"):
        ttnn.conj(x)
