"""Steps of optimizers that torch fuses into one operation for other devices (``fused=True``), in terms of
smaller ones. What a number of steps makes of a rate is computed on the device: nothing is waited for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

__all__ = ["FUSED"]

Tensors = Sequence[torch.Tensor]


def _gradients(
    given: Tensors, maximize: bool, grad_scale: torch.Tensor | None, found_inf: torch.Tensor | None
) -> Iterator[tuple[int, torch.Tensor]]:
    """(number, gradient) of each parameter; none where GradScaler found what is not finite."""
    if found_inf is not None and found_inf.item():
        return
    for number, gradient in enumerate(given):
        if grad_scale is not None:
            gradient.div_(grad_scale)
        yield number, -gradient if maximize else gradient


def _left(beta: float, step: torch.Tensor) -> torch.Tensor:
    """1 - beta ** step, to the last digits also where beta is nearly 1."""
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
        for at, gradient in _gradients(gradients, maximize, grad_scale, found_inf):
            x, mean, square, step = parameters[at], means[at], squares[at], steps[at]
            if weight_decay and decoupled:
                x.mul_(1 - lr * weight_decay)
            elif weight_decay:
                gradient = gradient + x * weight_decay
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
    for at, gradient in _gradients(gradients, maximize, grad_scale, found_inf):
        x = parameters[at]
        if weight_decay:
            gradient = gradient + x * weight_decay
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
    for at, gradient in _gradients(gradients, maximize, grad_scale, found_inf):
        x = parameters[at]
        if weight_decay:
            gradient = gradient + x * weight_decay
        sums[at].addcmul_(gradient, gradient, value=1.0)
        rate = lr / ((steps[at] - 1) * lr_decay + 1)
        x.sub_(gradient / (sums[at].sqrt() + eps) * rate)


FUSED = {
    "_fused_adam_": _adam(decoupled=False),
    "_fused_adam_.tensor_lr": _adam(decoupled=False),
    "_fused_adamw_": _adam(decoupled=True),
    "_fused_adamw_.tensor_lr": _adam(decoupled=True),
    "_fused_sgd_": sgd,
    "_fused_sgd_.tensor_lr": sgd,
    "_fused_adagrad_": adagrad,
    "_fused_adagrad_.tensor_lr": adagrad,
}
