"""Layers and draws that are one operation on torch's CPU, composed of smaller operations: embedding bags,
weight norm, samples of a distribution. They serve as kernels of eager operations and as decompositions in
graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..counters import Unsupported
from ..host import on_host
from ..refused_layouts import no_layout

_SUM, _MEAN, _MAX = 0, 1, 2
_MOST = 1 << 22  # maximum number of comparisons when all pairs are compared


def _eager(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an operation; cases that ``function`` refuses run on the host."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Unsupported as refused:
            return on_host(getattr(torch.ops.aten, name).default, args, kwargs, refused.args[0])

    return kernel


def _in_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition of an operation; in cases that ``function`` refuses, the operation is not
    decomposed."""

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Unsupported:
            return NotImplemented

    return decomposed


# **************** bags of embeddings ****************


def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """aten::_embedding_bag: (result, bag of each index, size of each bag, an empty tensor)."""
    bags, count = offsets.numel() - include_last_offset, indices.numel()
    if mode == _MAX or sparse or not count or not bags or bags * count > _MOST:
        raise Unsupported("bags by maximum, sparse gradients, no bags and very many bags run on the host")
    begins = offsets[:bags].reshape(1, bags)
    at = torch.arange(count, device=indices.device, dtype=indices.dtype).reshape(count, 1)
    bag = (at >= begins).to(torch.int32).sum(1, dtype=torch.int32) - 1
    counted = torch.ones(count, dtype=torch.int32, device=indices.device)
    rows = weight[indices]
    if padding_idx >= 0:
        real = indices != padding_idx
        counted, rows = real.to(torch.int32), torch.where(real[:, None], rows, torch.zeros_like(rows))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    size = torch.zeros(bags, dtype=torch.int32, device=indices.device).index_add(0, bag, counted)
    made = torch.zeros((bags, weight.shape[1]), dtype=weight.dtype, device=weight.device)
    made = made.index_add(0, bag, rows)
    if mode == _MEAN:
        made = made / size.to(made.dtype).clamp(min=1)[:, None]
    none = torch.empty(0, dtype=indices.dtype, device=indices.device)
    return made, bag.to(indices.dtype), size.to(indices.dtype), none


def embedding_bag_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    largest: torch.Tensor,
    count: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> torch.Tensor:
    """aten::_embedding_bag_backward"""
    if sparse:
        raise no_layout("sparse")
    more = (scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return dense_backward(grad, indices, bag, size, largest, count, *more)


def dense_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    largest: torch.Tensor,
    count: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> torch.Tensor:
    """aten::_embedding_bag_dense_backward: the gradient of the table of embeddings, which has ``count``
    rows."""
    if mode == _MAX or scale_grad_by_freq or not indices.numel() or not bag.numel():
        raise Unsupported("gradients of bags by maximum, or scaled by frequency, run on the host")
    if mode == _MEAN:
        counted = torch.ones_like(indices) if padding_idx < 0 else indices != padding_idx
        size = torch.zeros_like(grad[:, 0]).index_add(0, bag, counted.to(grad.dtype))
        grad = grad / size.clamp(min=1)[:, None]
    rows = grad[bag]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if padding_idx >= 0:
        rows = torch.where((indices != padding_idx)[:, None], rows, torch.zeros_like(rows))
    made = torch.zeros((count, grad.shape[1]), dtype=grad.dtype, device=grad.device)
    return made.index_add(0, indices, rows)


def per_sample_backward(
    grad: torch.Tensor,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bag: torch.Tensor,
    mode: int,
    padding_idx: int = -1,
) -> torch.Tensor:
    """aten::_embedding_bag_per_sample_weights_backward, which torch defines only for bags that are summed."""
    if not indices.numel() or not bag.numel():
        raise Unsupported("there are no indices")
    made = (grad[bag] * weight[indices]).sum(1)
    return made if padding_idx < 0 else torch.where(indices != padding_idx, made, torch.zeros_like(made))


# **************** weights of a norm ****************


def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """aten::_weight_norm_interface: (weight, norms), with one norm for each position along ``dim``."""
    norms = torch.sqrt((v * v).sum(_others(v, dim), keepdim=True))
    return v * (g / norms), norms


def weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten::_weight_norm_interface_backward"""
    along = (grad * v).sum(_others(v, dim), keepdim=True)
    return (g / norms) * (grad - v * (along / (norms * norms))), along / norms


def _others(v: torch.Tensor, dim: int) -> list[int]:
    return [axis for axis in range(v.dim()) if axis != dim % v.dim()]


# **************** samples ****************


def multinomial(
    weights: torch.Tensor, count: int, replacement: bool = False, *, generator: Any = None
) -> torch.Tensor:
    """aten::multinomial, which draws the same numbers as the CPU: the samples are the winners of a race in
    which weights are speeds. Negative weights and NaN are not refused, because that would mean fetching the
    weights."""
    if replacement and count != 1:
        raise Unsupported("samples with replacement are drawn one after the other")
    race = weights / torch.ops.aten.exponential.default(weights, 1.0, generator=generator)
    if count == 1:
        return race.argmax(-1, keepdim=True)
    return race.topk(count, -1).indices


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "_embedding_bag_backward": embedding_bag_backward,
    "_embedding_bag_dense_backward": dense_backward,
    "_embedding_bag_per_sample_weights_backward": per_sample_backward,
    "_weight_norm_interface": weight_norm,
    "_weight_norm_interface_backward": weight_norm_backward,
    "multinomial": multinomial,
}
BAGS = {name: _eager(name, function) for name, function in _FUNCTIONS.items()}
BAGS_IN_GRAPHS = {name: _in_graphs(function) for name, function in _FUNCTIONS.items()}
