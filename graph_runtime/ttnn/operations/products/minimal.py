"""Products by the kernel that ttnn calls minimal: one matrix of weights, a bias, an activation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import check
from ...tensors.tensor import Tensor
from ..movement.parts import chunk
from ..operation import operation
from ..results import device_tensor, target
from ..wide import Wide
from .matmul import linear

__all__ = ["MinimalMatmulConfig"]


@dataclass
class MinimalMatmulConfig:
    """Blocks in tiles: they order silicon's work and change no result here."""

    M_block_size: int = 1
    K_block_size: int = 1
    N_block_size: int = 1
    subblock_h: int = 1
    subblock_w: int = 1
    compute_with_storage_grid_size: Any = (1, 1)


def _product(op: str, x: Tensor, weight: Tensor, bias: Tensor | None, config: Any, given: Any) -> Tensor:
    """linear, with this kernel's checks."""
    device_tensor(op, x), device_tensor(op, weight)
    text = f"{op} weight tensor must not be batched, got {weight.shape}"
    check(math.prod(tuple(weight.shape)[:-2]) == 1, op, text)
    if config is not None:
        check(isinstance(config, MinimalMatmulConfig), op, f"{type(config).__name__} is no config of it")
    activation = given.pop("fused_activation", None)
    made: Tensor = linear.function(x, weight, bias=bias, activation=activation, **given)
    return made


@operation("experimental.minimal_matmul", "matmul, add")
def minimal_matmul(
    input_tensor: Tensor,
    weight_tensor: Tensor,
    bias_tensor: Tensor | None = None,
    *args: Any,
    config: Any = None,
    **given: Any,
) -> Tensor:
    """The product with one matrix, a bias and an activation; HiFi2."""
    op = "ttnn.experimental.minimal_matmul"
    given |= dict(zip(("fused_activation",), args, strict=False))
    return _product(op, input_tensor, weight_tensor, bias_tensor, config, given)


@operation("experimental.minimal_matmul_split", "matmul, add, slice")
def minimal_matmul_split(
    input_tensor: Tensor,
    weight_tensor: Tensor,
    chunks: int = 3,
    dim: int = -1,
    bias_tensor: Tensor | None = None,
    *,
    config: Any = None,
    **given: Any,
) -> list[Tensor]:
    """minimal_matmul, its columns in so many parts."""
    op = "ttnn.experimental.minimal_matmul_split"
    check(dim == -1, op, f"it splits the last dimension only, got dim {dim}")
    width = weight_tensor.shape[-1]
    text = f"{width} columns cannot be cut into {chunks} parts of whole tiles"
    check(chunks > 0 and width % (32 * chunks) == 0, op, text)
    made = _product(op, input_tensor, weight_tensor, bias_tensor, config, given)
    parts: list[Tensor] = chunk.function(made, chunks, -1)
    return parts


@operation("experimental.dit_minimal_matmul_addcmul_fused", "matmul, multiply, add")
def dit_minimal_matmul_addcmul_fused(
    matmul_input_tensor: Tensor,
    matmul_weight_tensor: Tensor,
    scalar: float,
    addcmul_input_tensor1: Tensor,
    addcmul_input_tensor2: Tensor,
    bias_tensor: Tensor | None = None,
    *,
    config: Any = None,
    memory_config: Any = None,
    dtype: Any = None,
    **given: Any,
) -> Tensor:
    """a + scalar (x @ weight + bias) b, with b of one row or of all."""
    op = "ttnn.experimental.dit_minimal_matmul_addcmul_fused"
    base, gate = device_tensor(op, addcmul_input_tensor1), device_tensor(op, addcmul_input_tensor2)
    made = _product(op, matmul_input_tensor, matmul_weight_tensor, bias_tensor, config, given)
    w = Wide(made._handle.device)
    part = w("multiply", w("multiply", made._handle, gate._handle), float(scalar))
    check(base.shape == made.shape, op, f"{base.shape} is added to a product of {made.shape}")
    return target(op, matmul_input_tensor, memory_config, None, dtype).wrap(w("add", base._handle, part))
