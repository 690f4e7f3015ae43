"""Golden functions of gradients, by torch's own derivatives of the forward function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _of_torch(name: str) -> Callable[..., Any]:
    return lambda t, f, *args: getattr(t, name)(*args)


# operation -> the torch function that is differentiated in place of its golden function
_FORWARD: dict[str, Callable[..., Any]] = {
    "gelu": lambda t, f, a, approximate="none": f.gelu(a, approximate=approximate),
    "bias_gelu": lambda t, f, a, b, approximate="none": f.gelu(a + b, approximate=approximate),
    "add": lambda t, f, a, b, alpha=1: t.add(a, b, alpha=alpha),
    "sub": lambda t, f, a, b, alpha=1: t.sub(a, b, alpha=alpha),
    "concat": lambda t, f, a, b, dim=0: t.cat((a, b), dim),
    "prod": lambda t, f, a, dim=None: a.prod() if dim is None else a.prod(dim, keepdim=True),
    "hardtanh": lambda t, f, a, min=-1.0, max=1.0: f.hardtanh(a, min, max),
    "mish": lambda t, f, a: f.mish(a),
    "assign": lambda t, f, a, b=None: a.clone() if b is None else a + b,
    "logiteps": lambda t, f, a, eps=0.0: t.logit(a, eps=eps),
    "div_no_nan": lambda t, f, a, b: a * 0 if b == 0 else a / b,
    "fill_zero": lambda t, f, a: a * 0,
    "fill": lambda t, f, a: a * 0,
    "polar": lambda t, f, a: t.polar(a.real, a.imag),
    **{name: _of_torch(name) for name in "max min mul acos asin acosh atanh real imag angle conj".split()},
}
_IGNORED = ("memory_config", "device", "are_required_outputs", "queue_id", "input_grad")


def backward_of(name: str, forward: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A function of (grad, inputs ...) that returns the gradients of the inputs; None if torch has no such
    function."""
    own = _FORWARD.get(name)
    if own is None and forward is None:
        return None

    def golden(grad: Any, *args: Any, **given: Any) -> list[Any]:
        import torch

        said = {key: value for key, value in given.items() if key not in _IGNORED}
        inputs = [x for x in args if torch.is_tensor(x) and (x.is_floating_point() or x.is_complex())]
        for x in inputs:
            x.requires_grad_() if x.is_leaf else None
            x.retain_grad()
        if own is not None:
            made = own(torch, torch.nn.functional, *args, **said)
        else:
            assert forward is not None
            made = forward(*args, **said)
        made.backward(gradient=grad.reshape(made.shape))
        return [torch.cat((x.grad.real, x.grad.imag), -1) if x.is_complex() else x.grad for x in inputs]

    return golden
