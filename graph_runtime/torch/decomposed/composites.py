"""Operations that torch fuses for other devices, composed of smaller operations. The composed operations
serve as kernels of eager operations and as decompositions in graphs; those in ``EAGER`` serve as kernels
only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from ...base.errors import InputError
from ..host import on_host


def _attention(
    parts: torch.Tensor, heads: int, mask: torch.Tensor | None, mask_type: int | None
) -> torch.Tensor:
    """Attention of packed queries, keys and values [batch, length, 3 * width] -> [batch, length, width]."""
    batch, length, wide = parts.shape
    query, key, value = parts.reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if mask is not None:
        seen = mask[:, None, None, :] if mask_type == 1 else mask
        scores = scores.masked_fill(seen, float("-inf")) if mask.dtype == torch.bool else scores + seen
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, length, wide // 3)


def transformer_encoder_layer(src: torch.Tensor, embed_dim: int, num_heads: int, *rest: Any) -> torch.Tensor:
    """aten::_transformer_encoder_layer_fwd, which nn.TransformerEncoderLayer calls outside of training. The
    mask has the shape [length, length] for a mask_type of 0, [batch, length] for 1, [batch, heads, length,
    length] for 2; an element whose mask is True is left out."""
    qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps = rest[:7]
    first, second = rest[7:9], rest[9:11]
    ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2 = rest[11:15]
    mask, mask_type = (*rest[15:], None, None)[:2]

    def attend(x: torch.Tensor) -> torch.Tensor:
        parts = functional.linear(x, qkv_weight, qkv_bias)
        return functional.linear(_attention(parts, num_heads, mask, mask_type), proj_weight, proj_bias)

    def feed(x: torch.Tensor) -> torch.Tensor:
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = functional.gelu(hidden) if use_gelu else torch.relu(hidden)
        return functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attend(norm(src, *first))
        return x + feed(norm(x, *second))
    x = norm(src + attend(src), *first)
    return norm(x + feed(x), *second)


def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """aten::native_batch_norm: (result, mean of each channel, inverse deviation of each channel). The
    function also writes the running statistics itself: torch's schema does not declare that they are written,
    so no other code would.

    Raises InputError, which like torch's error is a ValueError, if only one of the running statistics is
    given."""
    aten = torch.ops.aten
    if (running_mean is None) is not (running_var is None):
        raise InputError(
            "running_mean and running_var must either both be None or neither be None", op="batch_norm"
        )
    if not training:
        return aten._native_batch_norm_legit_no_training(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
    if running_mean is None or running_var is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    made, mean, inverse, new_mean, new_var = aten._native_batch_norm_legit_functional(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    running_mean.copy_(new_mean)
    running_var.copy_(new_var)
    return made, mean, inverse


def batch_norm_with_update(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """aten::_batch_norm_with_update: native_batch_norm in training, and an empty reserve, which only CUDA's
    library uses."""
    made = batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)
    return *made, torch.empty(0, dtype=torch.uint8, device=x.device)


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """aten::equal, which fetches one value from the device."""
    return a.shape == b.shape and (not a.numel() or bool((a == b).all()))


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """aten::channel_shuffle of [batch, channels, ...]."""
    batch, channels, *rest = x.shape
    return x.reshape(batch, groups, channels // groups, *rest).transpose(1, 2).reshape(x.shape)


def complex_of(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    """aten::complex: real and imaginary parts are joined pairwise, and viewed as complex numbers."""
    return torch.view_as_complex(torch.stack(torch.broadcast_tensors(real, imaginary), -1))


def polar(size: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """aten::polar"""
    return complex_of(size * torch.cos(angle), size * torch.sin(angle))


def native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """aten::native_dropout: (result, mask) by the CPU's random numbers."""
    if train is False or not p:
        return x.clone(), torch.ones(x.shape, dtype=torch.bool, device=x.device)
    mask = torch.empty(x.shape, dtype=torch.bool, device=x.device).bernoulli_(1 - p)
    return x * mask * (1 / (1 - p) if p < 1 else 0.0), mask


def unscale(gradients: Sequence[torch.Tensor], found: torch.Tensor, factor: torch.Tensor) -> None:
    """aten::_amp_foreach_non_finite_check_and_unscale_, of GradScaler: multiplies gradients by ``factor``
    [1], and sets ``found`` [1] to 1 if an element of a gradient is not finite. The host waits for nothing."""
    for gradient in gradients:
        wrong = ~torch.isfinite(gradient).all()
        found.copy_(torch.maximum(found, wrong.to(found.dtype)))
        gradient.mul_(factor.reshape(()))


def update_scale(
    scale: torch.Tensor,
    steps: torch.Tensor,
    found: torch.Tensor,
    growth: float,
    backoff: float,
    interval: int,
) -> torch.Tensor:
    """aten::_amp_update_scale_: lowers the scale if ``found`` says that a value in this step was not finite,
    and raises it after ``interval`` successive finite ``steps``."""
    wrong, more = found > 0, steps + 1
    due, grown = more == interval, scale * growth
    steady = torch.where(due & torch.isfinite(grown), grown, scale)
    steps.copy_(torch.where(wrong | due, torch.zeros_like(more), more))
    return scale.copy_(torch.where(wrong, scale * backoff, steady))


def histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """aten::histc, on the host. Integers are accepted, as on torch's other devices (its CPU accepts none)."""
    op, reason = torch.ops.aten.histc.default, "no rule for aten::histc"
    if x.dtype.is_floating_point:
        return on_host(op, (x, bins, min, max), {}, reason)
    return on_host(op, (x.to(torch.float64), bins, min, max), {}, reason).to(x.dtype)


EAGER = {
    "_amp_foreach_non_finite_check_and_unscale_": unscale,
    "_amp_update_scale_": update_scale,
    "histc": histc,
    "native_dropout": native_dropout,
    "complex": complex_of,
    "polar": polar,
    "native_batch_norm": batch_norm,
    "_batch_norm_with_update": batch_norm_with_update,
    "equal": equal,
    "channel_shuffle": channel_shuffle,
}
COMPOSITES = {"_transformer_encoder_layer_fwd": transformer_encoder_layer}
