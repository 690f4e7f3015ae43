"""The moreh functions that normalize, layer_norm and group_norm, and their gradients."""

from __future__ import annotations

import math
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...errors import check
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import float_tensor, target
from ..wide import Wide
from .sums import fitted

__all__: list[str] = []


class _Groups:
    """A tensor cut into groups of equal size, one a row: ``x`` [groups, elements]. ``channels``: the elements
    of a row that share a weight."""

    def __init__(self, w: Wide, x: Tensor, rows: int, weights: tuple[int, ...]):
        """``weights``: the shape in which weights broadcast with ``x``."""
        self.w, self.rows, self.shape, self.weights = w, rows, tuple(x.shape), weights
        self.count = math.prod(self.shape) // rows
        self.x = self.cut(x._handle)

    def cut(self, handle: Handle) -> Handle:
        return self.w.reshape(self.w.rows(handle), (self.rows, self.count))

    def back(self, handle: Handle) -> Handle:
        return self.w.reshape(self.w.rows(handle), self.shape)

    def column(self, x: Tensor) -> Handle:
        """One number a row."""
        return self.w.reshape(self.w.rows(x._handle), (self.rows, 1))

    def weight(self, x: Tensor) -> Handle:
        return self.w.reshape(self.w.rows(x._handle), self.weights)

    def statistics(self, eps: float) -> tuple[Handle, Handle]:
        """Mean and 1 / deviation of each row."""
        w = self.w
        mean = w("mean", self.x, axes=(1,), keepdims=True)
        away = w("subtract", self.x, mean)
        spread = w("multiply", w("sum_squares", away, axes=(1,), keepdims=True), 1.0 / self.count)
        return mean, w("rsqrt", w("add", spread, float(eps)))

    def normal(self, mean: Handle, rstd: Handle) -> Handle:
        return self.w("multiply", self.w("subtract", self.x, mean), rstd)

    def weighted(self, made: Handle, gamma: Tensor | None, beta: Tensor | None) -> Handle:
        made = self.back(made)
        if gamma is not None:
            made = self.w("multiply", made, self.weight(gamma))
        return made if beta is None else self.w("add", made, self.weight(beta))

    def slope(self, grad: Handle, gamma: Tensor | None, normal: Handle, rstd: Handle) -> Handle:
        """The gradient of the input: rstd (g - mean(g) - n mean(g n)), g with the weight in it."""
        w = self.w
        g = self.cut(grad if gamma is None else w("multiply", grad, self.weight(gamma)))
        plain = w("mean", g, axes=(1,), keepdims=True)
        along = w("multiply", normal, w("mean", w("multiply", g, normal), axes=(1,), keepdims=True))
        made = w("subtract", w("subtract", g, plain), along)
        return self.back(w("multiply", made, rstd))

    def summed(self, made: Handle) -> Handle:
        """Over all that share a weight."""
        rank = len(self.shape)
        sizes = (1,) * (rank - len(self.weights)) + self.weights
        over = tuple(at for at in range(rank) if sizes[at] == 1)
        return self.w("sum", made, axes=over, keepdims=True)


def _written(
    op: str, w: Wide, like: Tensor, made: Handle, into: Tensor | None, shape: Any, to: Any
) -> Tensor:
    sizes = tuple(shape) if into is None else tuple(into.shape)
    goal = target(op, like, to, into, layout=Layout.TILE if into is None else None)
    return goal.wrap(fitted(w, made, sizes))


def _layers(op: str, w: Wide, x: Tensor, dims: int) -> _Groups:
    text = f"normalized_dims must be between 1 and the rank {len(x.shape)}, got {dims}"
    check(0 < dims <= len(x.shape), op, text)
    return _Groups(w, x, math.prod(tuple(x.shape)[:-dims]), tuple(x.shape)[-dims:])


def _images(op: str, w: Wide, x: Tensor, groups: int) -> _Groups:
    check(len(x.shape) == 4, op, f"the input must be [N, C, H, W], got {x.shape}")
    n, channels = x.shape[0], x.shape[1]
    check(
        groups > 0 and channels % groups == 0, op, f"{channels} channels cannot be cut into {groups} groups"
    )
    return _Groups(w, x, n * groups, (1, channels, 1, 1))


@operation("moreh_layer_norm", "mean, subtract, sum_squares, rsqrt, multiply, add")
def moreh_layer_norm(
    input: Tensor,
    normalized_dims: int,
    eps: float = 1e-5,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    output: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """(x - mean) / deviation over the last dimensions, times gamma, plus beta; mean and 1 / deviation are
    written where tensors for them are given."""
    op = "ttnn.moreh_layer_norm"
    x = float_tensor(op, input)
    w = Wide(x._handle.device)
    cut = _layers(op, w, x, normalized_dims)
    middle, scale = cut.statistics(eps)
    made = cut.weighted(cut.normal(middle, scale), gamma, beta)
    results: list[Tensor | None] = [_written(op, w, x, made, output, x.shape, memory_config)]
    for handle, into in ((middle, mean), (scale, rstd)):
        results.append(None if into is None else _written(op, w, x, handle, into, into.shape, None))
    return results


@operation("moreh_layer_norm_backward", "mean, subtract, multiply, sum")
def moreh_layer_norm_backward(
    output_grad: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    normalized_dims: int,
    *,
    gamma: Tensor | None = None,
    input_grad: Tensor | None = None,
    gamma_grad: Tensor | None = None,
    beta_grad: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of layer_norm that tensors are given for: of the input, gamma and beta."""
    op = "ttnn.moreh_layer_norm_backward"
    g, x = float_tensor(op, output_grad), float_tensor(op, input)
    w = Wide(x._handle.device)
    cut = _layers(op, w, x, normalized_dims)
    asked = (input_grad is not None, gamma_grad is not None, beta_grad is not None)
    into = (input_grad, gamma_grad, beta_grad)
    return _gradients(op, cut, g, x, mean, rstd, gamma, into, asked, (memory_config,) * 3)


def _gradients(
    op: str,
    cut: _Groups,
    g: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    gamma: Tensor | None,
    into: Any,
    asked: Any,
    to: Any,
) -> list[Tensor | None]:
    """The gradients of the input, gamma and beta, those that are asked for."""
    w, scale = cut.w, cut.column(float_tensor(op, rstd))
    normal = cut.normal(cut.column(float_tensor(op, mean)), scale)
    sizes = (1, 1, 1, math.prod(cut.weights)) if len(cut.weights) == 4 else cut.weights
    results: list[Tensor | None] = [None, None, None]
    if asked[0]:
        made = cut.slope(w.wide(g._handle), gamma, normal, scale)
        results[0] = _written(op, w, x, made, into[0], x.shape, to[0])
    if asked[1]:
        made = cut.summed(w("multiply", g._handle, cut.back(normal)))
        results[1] = _written(op, w, x, made, into[1], sizes, to[1])
    if asked[2]:
        results[2] = _written(op, w, x, cut.summed(g._handle), into[2], sizes, to[2])
    return results


@operation("moreh_group_norm", "mean, subtract, sum_squares, rsqrt, multiply, add")
def moreh_group_norm(
    input: Tensor,
    num_groups: int,
    eps: float = 1e-5,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    are_required_outputs: Any = (True, False, False),
    output: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    memory_config: Any = None,
    mean_memory_config: Any = None,
    rstd_memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """Of [N, C, H, W]: (x - mean) / deviation of each group of channels, times gamma, plus beta ([1, 1, 1,
    C]); then mean and 1 / deviation, [1, 1, N, groups], where they are required."""
    op = "ttnn.moreh_group_norm"
    x = float_tensor(op, input)
    w = Wide(x._handle.device)
    cut = _images(op, w, x, num_groups)
    middle, scale = cut.statistics(eps)
    made = cut.weighted(cut.normal(middle, scale), gamma, beta)
    results: list[Tensor | None] = [_written(op, w, x, made, output, x.shape, memory_config)]
    sizes = (1, 1, x.shape[0], num_groups)
    asked = zip(
        (middle, scale),
        (mean, rstd),
        are_required_outputs[1:],
        (mean_memory_config, rstd_memory_config),
        strict=True,
    )
    for handle, into, needed, to in asked:
        wanted = needed or into is not None
        results.append(_written(op, w, x, handle, into, sizes, to) if wanted else None)
    return results


@operation("moreh_group_norm_backward", "mean, subtract, multiply, sum")
def moreh_group_norm_backward(
    output_grad: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
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
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of group_norm that are required: of the input, gamma and beta."""
    op = "ttnn.moreh_group_norm_backward"
    g, x = float_tensor(op, output_grad), float_tensor(op, input)
    cut = _images(op, Wide(x._handle.device), x, num_groups)
    into = (input_grad, gamma_grad, beta_grad)
    to = (input_grad_memory_config, gamma_grad_memory_config, beta_grad_memory_config)
    return _gradients(op, cut, g, x, mean, rstd, gamma, into, are_required_outputs, to)
