"""The moreh functions layer_norm and group_norm, and their gradients."""

from __future__ import annotations

import math
from typing import Any

from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..bodies import FloatTensor
from ..operation import operation
from ..results import target
from .sums import fitted


class _Groups:
    """A tensor cut into groups of equal size: each row of ``x`` [groups, elements] is a group. ``weights``:
    the shape in which weights broadcast with the tensor."""

    def __init__(self, x: Tensor, rows: int, weights: tuple[int, ...]):
        self.tensor, self.rows, self.shape, self.weights = x, rows, tuple(x.shape), weights
        self.count = math.prod(self.shape) // rows
        self.x = self.cut(x._value)

    def cut(self, handle: WideValue) -> WideValue:
        return handle.reshape((self.rows, self.count))

    def back(self, handle: WideValue) -> WideValue:
        return handle.reshape(self.shape)

    def column(self, x: Tensor) -> WideValue:
        """A tensor of one number for each group, as a column."""
        return x._value.reshape((self.rows, 1))

    def weight(self, x: Tensor) -> WideValue:
        return x._value.reshape(self.weights)

    def statistics(self, eps: float) -> tuple[WideValue, WideValue]:
        """(mean, 1 / deviation) of each row."""
        mean = self.x.mean(axes=(1,))
        away = self.x - mean
        spread = away.op("sum_squares", axes=(1,), keepdims=True) * (1.0 / self.count)
        return mean, (spread + float(eps)).rsqrt()

    def normal(self, mean: WideValue, rstd: WideValue) -> WideValue:
        return (self.x - mean) * rstd

    def weighted(self, made: WideValue, gamma: Tensor | None, beta: Tensor | None) -> WideValue:
        made = self.back(made)
        if gamma is not None:
            made = made * self.weight(gamma)
        return made if beta is None else made + self.weight(beta)

    def slope(self, grad: WideValue, gamma: Tensor | None, normal: WideValue, rstd: WideValue) -> WideValue:
        """The gradient of the input, rstd (g - mean(g) - n mean(g n)), where g is ``grad`` times the weight
        and n is ``normal``."""
        g = self.cut(grad if gamma is None else grad * self.weight(gamma))
        made = g - g.mean(axes=(1,)) - normal * (g * normal).mean(axes=(1,))
        return self.back(made * rstd)

    def summed(self, made: WideValue) -> WideValue:
        """For each weight, the sum over the elements that the weight multiplies."""
        rank = len(self.shape)
        sizes = (1,) * (rank - len(self.weights)) + self.weights
        over = tuple(at for at in range(rank) if sizes[at] == 1)
        return made.sum(axes=over)


def _written(like: Tensor, made: WideValue, into: Tensor | None, shape: Any, to: Any) -> Tensor:
    goal = target(like, to, into, layout=Layout.TILE)
    return goal.wrap(fitted(made, shape if into is None else into.shape))


def _layers(x: Tensor, dims: int) -> _Groups:
    text = f"normalized_dims must be between 1 and the rank {len(x.shape)}, got {dims}"
    expect(0 < dims <= len(x.shape), text)
    return _Groups(x, math.prod(tuple(x.shape)[:-dims]), tuple(x.shape)[-dims:])


def _images(x: Tensor, groups: int) -> _Groups:
    expect(len(x.shape) == 4, f"the input must be [N, C, H, W], got {x.shape}")
    n, channels = x.shape[0], x.shape[1]
    expect(groups > 0 and channels % groups == 0, f"{channels} channels cannot be cut into {groups} groups")
    return _Groups(x, n * groups, (1, channels, 1, 1))


@operation(
    "moreh_layer_norm",
    "mean, subtract, sum_squares, rsqrt, multiply, add",
    takes="output, ..., memory_config",
    layout=Layout.TILE,
)
def moreh_layer_norm(
    input: FloatTensor,
    normalized_dims: int,
    eps: float = 1e-5,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
) -> list[WideValue | Tensor | None]:
    """(x - mean) / deviation over the last dimensions, times gamma, plus beta; mean and 1 / deviation are
    written into the tensors ``mean`` and ``rstd`` if these are given."""
    cut = _layers(input, normalized_dims)
    statistics = cut.statistics(eps)
    into = zip(statistics, (mean, rstd), strict=True)
    written = (None if to is None else _written(input, made, to, to.shape, None) for made, to in into)
    return [cut.weighted(cut.normal(*statistics), gamma, beta), *written]


@operation("moreh_layer_norm_backward", "mean, subtract, multiply, sum")
def moreh_layer_norm_backward(
    output_grad: FloatTensor,
    input: FloatTensor,
    mean: FloatTensor,
    rstd: FloatTensor,
    normalized_dims: int,
    *,
    gamma: Tensor | None = None,
    input_grad: Tensor | None = None,
    gamma_grad: Tensor | None = None,
    beta_grad: Tensor | None = None,
    memory_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of the input, gamma and beta; None for each gradient that has no tensor to be written
    into."""
    cut, into = _layers(input, normalized_dims), (input_grad, gamma_grad, beta_grad)
    asked = [to is not None for to in into]
    return _gradients(cut, output_grad, mean, rstd, gamma, into, asked, (memory_config,) * 3)


def _gradients(
    cut: _Groups, g: Tensor, mean: Tensor, rstd: Tensor, gamma: Tensor | None, into: Any, asked: Any, to: Any
) -> list[Tensor | None]:
    """The gradients of the input, gamma and beta; None for each gradient that is not in ``asked``."""
    x, scale = cut.tensor, cut.column(rstd)
    normal = cut.normal(cut.column(mean), scale)
    sizes = (1, 1, 1, math.prod(cut.weights)) if len(cut.weights) == 4 else cut.weights
    results: list[Tensor | None] = [None, None, None]
    if asked[0]:
        made = cut.slope(g._value.wide(), gamma, normal, scale)
        results[0] = _written(x, made, into[0], x.shape, to[0])
    if asked[1]:
        made = cut.summed(g._value * cut.back(normal))
        results[1] = _written(x, made, into[1], sizes, to[1])
    if asked[2]:
        results[2] = _written(x, cut.summed(g._value), into[2], sizes, to[2])
    return results


@operation(
    "moreh_group_norm",
    "mean, subtract, sum_squares, rsqrt, multiply, add",
    takes="..., output, mean, rstd, memory_config, mean_memory_config, rstd_memory_config",
    layout=Layout.TILE,
)
def moreh_group_norm(
    input: FloatTensor,
    num_groups: int,
    eps: float = 1e-5,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    are_required_outputs: Any = (True, False, False),
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    mean_memory_config: Any = None,
    rstd_memory_config: Any = None,
) -> list[WideValue | Tensor | None]:
    """(x - mean) / deviation of each group of channels of [N, C, H, W], times gamma, plus beta (both [1, 1,
    1, C]); then mean and 1 / deviation, [1, 1, N, groups], or None in place of a result that is not required.
    """
    cut, sizes = _images(input, num_groups), (1, 1, input.shape[0], num_groups)
    statistics, to = cut.statistics(eps), (mean_memory_config, rstd_memory_config)
    results: list[WideValue | Tensor | None] = [cut.weighted(cut.normal(*statistics), gamma, beta)]
    for made, into, needed, config in zip(
        statistics, (mean, rstd), are_required_outputs[1:], to, strict=True
    ):
        wanted = needed or into is not None
        results.append(_written(input, made, into, sizes, config) if wanted else None)
    return results


@operation("moreh_group_norm_backward", "mean, subtract, multiply, sum")
def moreh_group_norm_backward(
    output_grad: FloatTensor,
    input: FloatTensor,
    mean: FloatTensor,
    rstd: FloatTensor,
    num_groups: int,
    *,
    are_required_outputs: Any = (True, False, False),
    gamma: Tensor | None = None,
    input_grad: Tensor | None = None,
    gamma_grad: Tensor | None = None,
    beta_grad: Tensor | None = None,
    input_grad_memory_config: Any = None,
    gamma_grad_memory_config: Any = None,
    beta_grad_memory_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of group_norm: of the input, gamma and beta; None for each gradient that is not
    required."""
    cut, into = _images(input, num_groups), (input_grad, gamma_grad, beta_grad)
    to = (input_grad_memory_config, gamma_grad_memory_config, beta_grad_memory_config)
    return _gradients(cut, output_grad, mean, rstd, gamma, into, are_required_outputs, to)
