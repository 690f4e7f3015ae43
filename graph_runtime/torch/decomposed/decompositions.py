"""The aten operations that are decomposed before graphs are lowered: torch's core set without the operations
that have a rule, and max pooling's gradient, which then needs no indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table, get_decompositions

from .. import rules
from ..rules.recurrent import why_not
from .bags import BAGS_IN_GRAPHS
from .composites import COMPOSITES
from .recurrent import CELLS

aten = torch.ops.aten
# operations that have rules, which only eager calls use; graphs decompose these operations, because the
# smaller ops can be fused
_ALWAYS = frozenset({"native_dropout", "_native_batch_norm_legit", "native_batch_norm", "addcmul", "addcdiv"})

# operations that torch counts as core, so that its core set has no decompositions of them
_MORE = [
    aten.native_group_norm_backward,
    aten._native_batch_norm_legit.no_stats,
]

# operations without a rule whose decomposition is also used for eager calls
_EAGER = (
    "elu_backward glu glu_backward log_sigmoid_forward softplus_backward hardsigmoid_backward "
    "hardswish_backward _prelu_kernel _prelu_kernel_backward smooth_l1_loss smooth_l1_loss_backward "
    "huber_loss huber_loss_backward binary_cross_entropy binary_cross_entropy_backward "
    "native_group_norm_backward addmv trace grid_sampler_2d multi_margin_loss "
    "multilabel_margin_loss_forward"
).split()


def eager_kernels() -> dict[str, Callable[..., Any]]:
    """{operation: torch's decomposition}, for use as eager kernels."""
    return {name: decomposition_table[getattr(aten, name).default] for name in _EAGER}


@torch.library.custom_op("graph_runtime::max_pool2d_backward", mutates_args=())
def max_pool2d_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
) -> torch.Tensor:
    """The gradient of max_pool2d; if a window has several maxima, its gradient goes to the first."""
    _, indices = aten.max_pool2d_with_indices(x, kernel, stride, padding, [1, 1], ceil_mode)
    return aten.max_pool2d_with_indices_backward(grad, x, kernel, stride, padding, [1, 1], ceil_mode, indices)


@max_pool2d_backward.register_fake
def _(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _without_indices(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any
) -> Any:
    if list(dilation) not in ([1], [1, 1]) or x.dim() != 4:
        return NotImplemented
    kernel, padding = _two(kernel), _two(padding)
    return torch.ops.graph_runtime.max_pool2d_backward(
        grad, x, kernel, _two(stride) if stride else kernel, padding, ceil_mode
    )


def _unless_one_op(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition ``plain`` of a recurrent layer, except for layers that are one op of the registry."""

    def decomposed(x: Any, states: Any, params: Any, *more: Any) -> Any:
        if why_not(states, params, *more[:-1]) is None:
            return NotImplemented
        return plain(x, states, params, *more)

    return decomposed


def _two(given: Any) -> list[int]:
    given = list(given)
    return given * 2 if len(given) == 1 else given


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """{operation: its decomposition}, in the form that AOTAutograd takes."""
    known = set(rules.table()) - _ALWAYS
    everything = {**core_aten_decompositions(), **get_decompositions(_MORE)}
    found = {
        op: decomposition
        for op, decomposition in everything.items()
        if not isinstance(op, torch._ops.OpOverload) or op._schema.name.removeprefix("aten::") not in known
    }
    found[aten.max_pool2d_with_indices_backward.default] = _without_indices
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        layer = getattr(aten, name)
        found |= {layer.input: _unless_one_op(everything[layer.input]), layer.data: everything[layer.data]}
    composites = COMPOSITES | CELLS | BAGS_IN_GRAPHS
    found |= {getattr(aten, name).default: function for name, function in composites.items()}
    return found
