"""Optimizer steps that torch fuses into one operation on other devices (``fused=True``), composed of smaller
operations. Rates that depend on the number of steps are computed on the device, so that the host waits for
nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]


def _gradients(
    parameters: Tensors,
    given: Tensors,
    weight_decay: float,
    maximize: bool,
    grad_scale: torch.Tensor | None,
    found_inf: torch.Tensor | None,
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(number, parameter, gradient plus weight decay) for each parameter; yields nothing if GradScaler found
    a value that is not finite."""
    if found_inf is not None and found_inf.item():
        return
    for number, (x, gradient) in enumerate(zip(parameters, given, strict=True)):
        if grad_scale is not None:
            gradient.div_(grad_scale)
        gradient = -gradient if maximize else gradient
        yield number, x, gradient + x * weight_decay if weight_decay else gradient


def _left(beta: float, step: torch.Tensor) -> torch.Tensor:
    """1 - beta ** step, accurate to the last digits even for a beta near 1."""
    if not 0 < beta < 1:
        return torch.full_like(step, 1.0 if beta == 0 else 1 - beta)
    return -torch.expm1(step * math.log(beta))


def _adam(decoupled: bool) -> Any:
    def step_of_all(
        parameters: Tensors,
        gradients: Tensors,
        means: Tensors,
        squares: Tensors,
        largest: Tensors,
        steps: Tensors,
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        lr = lr.item() if isinstance(lr, torch.Tensor) else lr
        decay = 0.0 if decoupled else weight_decay
        for at, x, gradient in _gradients(parameters, gradients, decay, maximize, grad_scale, found_inf):
            mean, square, step = means[at], squares[at], steps[at]
            if weight_decay and decoupled:
                x.mul_(1 - lr * weight_decay)
            mean.lerp_(gradient, 1 - beta1)
            square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            if amsgrad:
                square = largest[at].copy_(torch.maximum(largest[at], square))
            spread = square.sqrt() * torch.rsqrt(_left(beta2, step)) + eps
            x.sub_(mean / spread * (lr / _left(beta1, step)))

    return step_of_all


def sgd(
    parameters: Tensors,
    gradients: Tensors,
    momenta: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
) -> None:
    """aten::_fused_sgd_"""
    lr = lr.item() if isinstance(lr, torch.Tensor) else lr
    for at, x, gradient in _gradients(parameters, gradients, weight_decay, maximize, grad_scale, found_inf):
        if momentum:
            held = momenta[at]
            if is_first_step:
                held.copy_(gradient)
            else:
                held.mul_(momentum).add_(gradient, alpha=1 - dampening)
            gradient = gradient + held * momentum if nesterov else held
        x.sub_(gradient * lr)


def adagrad(
    parameters: Tensors,
    gradients: Tensors,
    sums: Tensors,
    steps: Tensors,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
) -> None:
    """aten::_fused_adagrad_"""
    lr = lr.item() if isinstance(lr, torch.Tensor) else lr
    for at, x, gradient in _gradients(parameters, gradients, weight_decay, maximize, grad_scale, found_inf):
        sums[at].addcmul_(gradient, gradient, value=1.0)
        rate = lr / ((steps[at] - 1) * lr_decay + 1)
        x.sub_(gradient / (sums[at].sqrt() + eps) * rate)


FUSED = {
    f"_fused_{name}_{overload}": step
    for name, step in (("adam", _adam(False)), ("adamw", _adam(True)), ("sgd", sgd), ("adagrad", adagrad))
    for overload in ("", ".tensor_lr")
}
