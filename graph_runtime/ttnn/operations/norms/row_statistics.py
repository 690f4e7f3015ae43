"""Norms in two steps, for rows on several devices: statistics of each part, then the norm by them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.configs import MemoryConfig, ShardSpec
from ...memory.cores import CoreRange, CoreRangeSet
from ...memory.placing import up
from ...memory.values import TILE_SIZE, BufferType, DataType, TensorMemoryLayout
from ...tensors.tensor import Tensor
from ..operation import Operation
from ..results import device_tensor, target, tiled_input
from ..wide import Wide
from .normalization import vector

__all__: list[str] = []


def _statistics_of_rows(name: str, subtracts: bool) -> None:
    full = f"ttnn.{name}_pre_all_gather"

    def function(
        input_tensor: Tensor,
        *,
        dtype: DataType = DataType.BFLOAT16,
        residual_input_tensor: Tensor | None = None,
        compute_kernel_config: Any = None,
        program_config: Any = None,
        memory_config: MemoryConfig | None = None,
        **_: Any,
    ) -> Tensor:
        x = tiled_input(full, input_tensor, "Only tilized inputs supported.")
        w, handle, last = Wide(x._handle.device), x._handle, len(x.shape) - 1
        if residual_input_tensor is not None:
            handle = w("add", handle, device_tensor(full, residual_input_tensor)._handle)
            if x.is_sharded():
                x = target(full, x, None, x).wrap(handle)
        sums = [w("sum_squares", handle, axes=(last,), keepdims=True)]
        if subtracts:
            sums.append(w("sum", handle, axes=(last,), keepdims=True))
        if x.is_sharded():
            sums = [w("divide", one, float(x.shape[-1])) for one in reversed(sums)]
        wide = [kernels.run("pad", [one], {"pads": (0,) * (2 * last + 1) + (TILE_SIZE - 1,)}) for one in sums]
        made = w("concatenate", *wide, axis=last) if subtracts else wide[0]
        if x.is_sharded() and memory_config is None:
            memory_config = _on_one_core(x, made.shape)
        return target(full, x, memory_config, None, dtype).wrap(made)

    what = "squares, and of elements, in the first column of a tile each" if subtracts else "squares"
    function.__doc__ = f"""Of each row the sum of {what}.
    Of shards the means, that of elements first; a residual is added to the input itself."""
    Operation(f"{name}_pre_all_gather", function, "sum_squares, sum, pad, concatenate")


def _on_one_core(x: Tensor, shape: Sequence[int]) -> MemoryConfig:
    """Where statistics of shards are: on the first core."""
    spec = x.memory_config().shard_spec
    assert spec is not None
    first = spec.grid.bounding_box().start
    cut = ShardSpec(CoreRangeSet([CoreRange(first, first)]), [up(shape[-2], TILE_SIZE), shape[-1]])
    return MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1, cut)


def _column(w: Wide, x: Handle, at: int) -> Handle:
    return w("slice", x, starts=(at,), ends=(at + 1,), axes=(len(x.shape) - 1,))


def _with_statistics(name: str, subtracts: bool) -> None:
    full = f"ttnn.{name}_post_all_gather"

    def function(
        input_tensor: Tensor,
        stats: Tensor,
        *,
        epsilon: float = 1e-12,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
        program_config: Any = None,
        dtype: DataType | None = None,
        **_: Any,
    ) -> Tensor:
        x, given = (
            tiled_input(full, input_tensor, "Only tilized inputs supported."),
            device_tensor(full, stats),
        )
        w, size, last = Wide(x._handle.device), x.shape[-1], len(x.shape) - 1
        each = TILE_SIZE * (2 if subtracts else 1)
        check(
            given.shape[-1] % each == 0, full, f"the statistics {given.shape} are no multiple of {each} wide"
        )
        parts = given.shape[-1] // each
        count = float(parts if x.is_sharded() else size * parts)  # shards' are means, elements' first
        sums = w.reshape(w.rows(given._handle), (*given.shape[:-1], given.shape[-1] // each, each))
        means = [
            w("divide", w("sum", _column(w, sums, at), axes=(last,), keepdims=False), count)
            for at in ((0, TILE_SIZE) if subtracts else (0,))
        ]
        means = means[::-1] if x.is_sharded() else means
        handle, spread = x._handle, means[0]
        if subtracts:
            handle = w("subtract", handle, means[1])
            spread = w("subtract", spread, w("multiply", means[1], means[1]))
        made = w("multiply", handle, w("rsqrt", w("add", spread, float(epsilon))))
        for op, operand in (("multiply", weight), ("add", bias)):
            each_of = vector(w, operand, size, full, "Beta" if op == "add" else "Gamma")
            made = made if each_of is None else w(op, made, each_of)
        return target(full, x, memory_config, None, dtype).wrap(made)

    function.__doc__ = f"{name} of rows by the statistics of all their parts."
    Operation(f"{name}_post_all_gather", function, "slice, sum, divide, rsqrt, multiply")


for _name, _subtracts in (("layer_norm", True), ("rms_norm", False)):
    _statistics_of_rows(_name, _subtracts)
    _with_statistics(_name, _subtracts)
