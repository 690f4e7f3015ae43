"""Which aten operations are decomposed before graphs are lowered: torch's core set, but for those that have a
rule; and max pooling's gradient, which needs no indices here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table, get_decompositions

from .. import rules
from .bags import BAGS_IN_GRAPHS
from .composites import COMPOSITES
from .recurrent import CELLS

__all__ = ["eager_kernels", "table"]

aten = torch.ops.aten
# these have rules for eager operations; in graphs torch's decomposition leads to ops that fuse
_ALWAYS = frozenset({"native_dropout", "_native_batch_norm_legit", "native_batch_norm", "addcmul", "addcdiv"})

# which torch counts as core, and has decompositions for
_MORE = [
    aten.native_group_norm_backward,
    aten._native_batch_norm_legit.no_stats,
]

# operations without a rule that torch takes apart well, when they are done one at a time, too
_EAGER = (
    "elu_backward",
    "glu",
    "glu_backward",
    "log_sigmoid_forward",
    "softplus_backward",
    "hardsigmoid_backward",
    "hardswish_backward",
    "_prelu_kernel",
    "_prelu_kernel_backward",
    "smooth_l1_loss",
    "smooth_l1_loss_backward",
    "huber_loss",
    "huber_loss_backward",
    "binary_cross_entropy",
    "binary_cross_entropy_backward",
    "native_group_norm_backward",
    "addmv",
    "trace",
    "grid_sampler_2d",
    "multi_margin_loss",
    "multilabel_margin_loss_forward",
)


def eager_kernels() -> dict[str, Callable[..., Any]]:
    """{operation: torch's decomposition}, as kernels."""
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
    """The gradient of max_pool2d: that of a window goes to the first of its greatest elements."""
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
    """The decomposition of a recurrent layer, which stays one operation where the registry's ops do it."""

    def decomposed(x: Any, states: Any, params: Any, *more: Any) -> Any:
        if rules.recurrent.why_not(states, params, *more[:-1]) is None:
            return NotImplemented
        return plain(x, states, params, *more)

    return decomposed


def _two(given: Any) -> list[int]:
    given = list(given)
    return given * 2 if len(given) == 1 else given


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """{operation: its decomposition}, as AOTAutograd takes it."""
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
