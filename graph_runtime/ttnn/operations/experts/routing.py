"""The choice of experts for each token."""

from __future__ import annotations

import math
from typing import Any

from ....compositions.routing import grouped, shares
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import L1_MEMORY_CONFIG, MemoryConfig
from ...memory.values import DataType, Layout, MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import target

_SERVED = "sigmoid, add, topk, take_along_axis, sum, divide"
_ACTIVATIONS = {"sigmoid": ("sigmoid",), "sqrtsoftplus": ("softplus", "sqrt")}


def best(x: WideValue, count: int) -> tuple[WideValue, WideValue]:
    """The greatest ``count`` elements of each row, and their indices as int32."""
    attrs = {"k": count, "axis": len(x.shape) - 1, "largest": True, "dtype": "int32"}
    values, places = map(WideValue, kernels.outputs("topk", [x.handle], attrs))
    return values, places


def _rows(x: WideValue) -> WideValue:
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1])).wide()


def _activated(x: WideValue, name: str) -> WideValue:
    expect(name in _ACTIVATIONS, f"score_func must be one of {', '.join(_ACTIVATIONS)}, got {name}")
    for op in _ACTIVATIONS[name]:
        x = x.op(op)
    return x


def _pair(
    like: Tensor, scores: WideValue, places: WideValue, memory_config: Any, layout: Any = Layout.TILE
) -> tuple[Tensor, Tensor]:
    """(scores as bfloat16, places as uint16), each [.., k]."""
    shape = (*like.shape[:-1], places.shape[-1])
    goals = ((scores, DataType.BFLOAT16, layout), (places, DataType.UINT16, Layout.TILE))
    made = (
        target(like, memory_config, None, dtype, kind).wrap(one.reshape(shape)) for one, dtype, kind in goals
    )
    return tuple(made)  # type: ignore[return-value]


def _no_padding(padding_config: Any) -> None:
    if padding_config is not None:
        raise Unsupported(f"{called()} with padding_config is not supported")


@operation("experimental.deepseek_prefill.moe_grouped_topk", _SERVED)
def moe_grouped_topk(
    scores: TiledTensor,
    bias: TiledValue,
    *,
    n_groups: int = 8,
    summed_experts_per_group: int = 2,
    topk_groups: int = 4,
    n_activated_experts: int = 8,
    route_scale: float = 1.0,
    epsilon: float = 1e-20,
    stable_sort: bool = False,
    score_func: str = "sigmoid",
    memory_config: MemoryConfig | None = None,
    padding_config: Any = None,
    biased_scores: Any = None,
    weights_layout: Layout = Layout.TILE,
) -> tuple[Tensor, Tensor]:
    """(weights as bfloat16, experts as uint16) [.., k] of each token: activated scores plus bias choose the
    groups with the greatest sums of their best scores, then the best experts of those. The weights are the
    activated scores of the experts, divided by their sum and epsilon, times route_scale."""
    _no_padding(padding_config)
    active = _activated(_rows(scores._value), score_func)
    biased = active + _rows(bias)
    if biased_scores is not None:
        target(biased_scores, None, biased_scores).wrap(biased.reshape(tuple(scores.shape)))
    held = grouped(biased, best, n_groups, summed_experts_per_group, topk_groups)
    _, places = best(held, n_activated_experts)
    weights = shares(active, places, route_scale, epsilon)
    return _pair(scores, weights, places, memory_config, weights_layout)


@operation("experimental.deepseek_grouped_gate", _SERVED)
def deepseek_grouped_gate(
    scores: TiledTensor,
    bias: TiledValue,
    *,
    n_groups: int = 8,
    summed_experts_per_group: int = 2,
    topk_groups: int = 4,
    n_activated_experts: int = 8,
    route_scale: float = 1.0,
    epsilon: float = 1e-20,
    memory_config: MemoryConfig | None = None,
) -> tuple[Tensor, Tensor]:
    """experimental.deepseek_prefill.moe_grouped_topk of sigmoids, for 256 experts."""
    active = _rows(scores._value).sigmoid()
    held = grouped(active + _rows(bias), best, n_groups, summed_experts_per_group, topk_groups)
    _, places = best(held, n_activated_experts)
    return _pair(scores, shares(active, places, route_scale, epsilon), places, memory_config)


@operation("experimental.deepseek_prefill.moe_hash_gate", "take, take_along_axis, sum, divide")
def moe_hash_gate(
    scores: TiledTensor,
    input_ids: WideValue,
    tid2eid: WideValue,
    *,
    n_activated_experts: int,
    route_scale: float = 1.0,
    epsilon: float = 1e-20,
    score_func: str = "sqrtsoftplus",
    memory_config: MemoryConfig | None = None,
    padding_config: Any = None,
) -> tuple[Tensor, Tensor]:
    """(weights, experts) as moe_grouped_topk makes them, for the experts that the row of ``tid2eid`` of each
    token's id lists."""
    _no_padding(padding_config)
    active = _activated(_rows(scores._value), score_func)
    ids = input_ids.int32().reshape((math.prod(input_ids.shape),))
    expect(ids.shape[0] >= active.shape[0], f"{ids.shape[0]} ids for {active.shape[0]} tokens")
    places = tid2eid.int32().rows().run("take", ids.part(0, 0, active.shape[0]), axis=0)
    places = places.part(1, 0, n_activated_experts)
    return _pair(scores, shares(active, places, route_scale, epsilon), places, memory_config)


@operation("experimental.topk_router_gpt", "matmul, add, topk, softmax")
def topk_router_gpt(
    input_tensor: TiledTensor,
    *,
    weight_tensor: TiledValue,
    bias_tensor: TiledValue,
    k: int = 4,
    num_experts: int = 128,
) -> tuple[Tensor, Tensor]:
    """(experts as uint16, weights as bfloat16) [b, k], in rows in L1: the best logits of x @ weight + bias,
    and their softmax."""
    words = numerics(None, MathFidelity.HiFi2)
    logits = input_tensor._value.run("matmul", weight_tensor, to=kernels.WIDE, **words) + bias_tensor
    values, places = best(logits, k)
    kinds = ((places, DataType.UINT16), (values.op("softmax", axis=1), DataType.BFLOAT16))
    made = (
        target(input_tensor, L1_MEMORY_CONFIG, None, dtype, Layout.ROW_MAJOR).wrap(one)
        for one, dtype in kinds
    )
    return tuple(made)  # type: ignore[return-value]


@operation("moe", "add, topk, softmax, equal, sum", takes="..., memory_config, output_tensor")
def moe(
    input_tensor: TiledValue, expert_mask_tensor: TiledValue, topk_mask_tensor: TiledValue, k: int = 32
) -> WideValue:
    """The weight of expert 0 [.., 1]: its share in the softmax of the k best of x + expert_mask, to which
    topk_mask is added, or 0 if it is not among these."""
    values, places = best((input_tensor + expert_mask_tensor).wide(), k)
    weights = (values + topk_mask_tensor).op("softmax", axis=len(values.shape) - 1)
    first = places.equal(places.scalar(0, "int32")).cast("float32")
    return (weights * first).sum([-1])


@operation("moe_routing_remap", "-", takes="..., memory_config, optional_output_tensor")
def moe_routing_remap(
    routing_weights_tensor: WideValue,
    non_zero_weight_size: int,
    expert_parallel_size: int,
    cluster_axis: int,
) -> WideValue:
    """This chip's part of the weights of chosen experts [1, experts]: all, as each chip has all experts."""
    text = f"expert parallel size ({expert_parallel_size}) should be the same as size of cluster axis"
    expect(expert_parallel_size == 1, f"{text} {cluster_axis} (1)")
    return routing_weights_tensor.copied()
