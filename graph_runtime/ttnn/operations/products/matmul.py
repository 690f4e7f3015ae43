"""Matrix products: matmul, linear, addmm, and ttnn's "minimal" products with one matrix of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.values import TILE_SIZE, DataType, Layout, MathFidelity, TensorMemoryLayout, Tile
from ...programs.configs import (
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    check_program_config,
    numerics,
)
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor
from ..elementwise.binary import broadcast_shape
from ..elementwise.unary import chain
from ..movement.parts import chunk
from ..operation import operation
from ..results import Target, device_tensor, empty_result, target, tiled_input

__all__ = ["MinimalMatmulConfig"]


class Product:
    """The two operands of a product, checked. ``shape``: the result's shape."""

    def __init__(self, a: Any, b: Any, transpose_a: bool, transpose_b: bool):
        text = "Inputs to matmul must be tilized"
        self.a, self.b = tiled_input(a, text), tiled_input(b, text)
        for x in (self.a, self.b):
            expect(x.dtype.is_float, f"Unsupported data format: {x.dtype}")
        ranks = len(self.a.shape), len(self.b.shape)
        got = f"{self.a.shape} and {self.b.shape}"
        expect(min(ranks) > 0, f"Both arguments to matmul need to be at least 1D, but got shapes {got}")
        self.attrs = {
            "transpose_a": transpose_a and ranks[0] > 1,
            "transpose_b": transpose_b and ranks[1] > 1,
        }
        sizes_a, sizes_b = list(self.a.shape), list(self.b.shape)
        if self.attrs["transpose_a"]:
            sizes_a[-2:] = sizes_a[:-3:-1]
        if self.attrs["transpose_b"]:
            sizes_b[-2:] = sizes_b[:-3:-1]
        width, height = sizes_a[-1], sizes_b[-2 if ranks[1] > 1 else -1]
        empty = not math.prod(sizes_a) or not math.prod(sizes_b)
        expect(width == height or empty, f"widths and heights differ: width={width} height={height}")
        self.depth = width
        self.shape = (
            *self._batch(sizes_a[:-2], sizes_b[:-2]),
            *sizes_a[-2:-1],
            *(sizes_b[-1:] if ranks[1] > 1 else ()),
        )
        self.tile = self._tile()

    def _tile(self) -> Tile:
        """The result's tile, which has the height of the first operand's tiles and the width of the
        second's."""
        a, b = self.a.tile.tile_shape, self.b.tile.tile_shape
        a = a[::-1] if self.attrs["transpose_a"] else a
        b = b[::-1] if self.attrs["transpose_b"] else b
        text = "Input tile dims must have inner dim equal to 32 due to llk constraints"
        expect(a[1] == b[0] == TILE_SIZE, text)
        return Tile((a[0], b[1]))

    def _batch(self, a: list[int], b: list[int]) -> tuple[int, ...]:
        rank = max(len(a), len(b))
        a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
        fits = all(x == y or 1 in (x, y) for x, y in zip(a, b, strict=True))
        text = f"bmm expects batch dimensions that can be broadcast, got {self.a.shape} and {self.b.shape}"
        expect(fits, text)
        return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def _fidelity(product: Product, placed: bool) -> MathFidelity:
    """The default fidelity: HiFi4 if both operands are float32, LoFi if the caller names cores (``placed``)
    or both operands are block formats, else HiFi2."""
    kinds = product.a.dtype, product.b.dtype
    if kinds == (DataType.FLOAT32, DataType.FLOAT32):
        return MathFidelity.HiFi4
    return MathFidelity.LoFi if placed or all(kind.is_block for kind in kinds) else MathFidelity.HiFi2


def _multiplied(product: Product, bias: WideValue | None, config: Any, placed: bool) -> WideValue:
    words = numerics(config, _fidelity(product, placed))
    if config is None and product.a.dtype is DataType.FLOAT32 and product.b.dtype is DataType.FLOAT32:
        words = {}  # no attributes: unrounded products, as HiFi4 with a 32-bit Dst makes them
    a, b = product.a._value, product.b._value
    if len(a.shape) == 1:  # a vector is a matrix of one row, or of one column
        a = a.reshape((1, *a.shape))
    if len(b.shape) == 1:
        b = b.reshape((*b.shape, 1))
    made = _shaped(a.run("matmul", b, to=kernels.WIDE, **product.attrs | words), product.shape)
    if bias is None:
        return made
    return _shaped(made + bias, broadcast_shape(product.shape, bias.shape))


def _shaped(made: WideValue, shape: tuple[int, ...]) -> WideValue:
    return made if made.shape == shape else made.reshape(shape)


def _check_placement(product: Product, goal: Target, program_config: Any) -> None:
    """Raise RuntimeError for shards that no ttnn program of a matrix product makes."""
    spec, batched = goal.config.shard_spec, math.prod(tuple(product.b.shape)[:-2]) > 1
    if program_config is None and spec is not None and batched:
        box = spec.grid.bounding_box().grid_size()
        one_line = goal.config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and 1 in (box.x, box.y)
        text = (
            "BLOCK_SHARDED output on a 1D grid is not supported with a batched second tensor: use "
            "HEIGHT_SHARDED, WIDTH_SHARDED or a 2D grid"
        )
        expect(not one_line, text)


def _output_tile(product: Product, given: Tile | None, goal: Target) -> Tile:
    """The tile that the caller wants, by default the product's. Raises RuntimeError for a tile that no kernel
    makes."""
    if given is None:
        return product.tile
    text = "Matmul cannot have both an output_tile and an optional_output_tensor"
    expect(goal.into is None, text)
    (rows, cols), (own_rows, own_cols) = given.tile_shape, product.tile.tile_shape
    text = (
        f"the override output tile {given.tile_shape} does not fit the product's, {product.tile.tile_shape}"
    )
    wider = cols == own_cols or (rows <= 16 and cols % own_cols == 0 and goal.config.is_sharded())
    expect(rows == own_rows and wider, text)
    return given


def _bias(bias: Tensor, product: Product, program_config: Any) -> WideValue:
    """The bias to add. The ttnn program for weights in DRAM shards adds the first row of the bias's tiles
    only."""
    found = device_tensor(bias, "bias")
    rows = found.shape[-2] if len(found.shape) > 1 else 1
    one_row = isinstance(program_config, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig)
    if one_row and rows > 1 and found.padded_shape[-2] == product.tile.tile_shape[0]:
        ends = (*found.shape[:-2], 1, found.shape[-1])
        return found._value.run("slice", starts=(0,) * len(ends), ends=ends)
    return found._value.cast("float32")


def _linear(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    program_config: Any = None,
    activation: Any = None,
    compute_kernel_config: Any = None,
    core_grid: Any = None,
    output_tile: Any = None,
    optional_output_tensor: Tensor | None = None,
    global_cb: Any = None,
    sub_device_id: Any = None,
) -> Tensor:
    if global_cb is not None or sub_device_id is not None:
        raise Unsupported(f"{called()}: global circular buffers and sub-devices are not supported")
    product = Product(a, b, transpose_a, transpose_b)
    text = "Cannot use both user core grid/coordinates and a program config"
    expect(core_grid is None or program_config is None, text)
    goal = target(product.a, memory_config, optional_output_tensor, dtype, Layout.TILE, DRAM_MEMORY_CONFIG)
    goal.tile = _output_tile(product, output_tile, goal)
    _check_placement(product, goal, program_config)
    fp32 = compute_kernel_config.fp32_dest_acc_en if compute_kernel_config else goal.dtype is DataType.FLOAT32
    device = product.a._device
    assert device is not None
    check_program_config(called(), program_config, -(-product.depth // 32), fp32, device.core_grid, goal.tile)
    if not product.depth or not math.prod(product.shape):
        made = empty_result(goal, product.shape)
        return made if bias is None else goal.wrap(made._value + bias._value)
    addend = None if bias is None else _bias(bias, product, program_config)
    placed = core_grid is not None or program_config is not None
    values = _multiplied(product, addend, compute_kernel_config, placed)
    fused = getattr(program_config, "fused_activation", None)
    last = [x for x in (fused, activation) if x is not None]
    if not last:
        return goal.wrap(values.packed(goal.dtype))
    wide = Tensor.of(values.handle, DataType.FLOAT32, Layout.TILE, DRAM_MEMORY_CONFIG, goal.device)
    return goal.wrap(chain(wide, last)._value)


@operation("matmul", "matmul")
def matmul(input_tensor_a: Tensor, input_tensor_b: Tensor, *args: Any, **given: Any) -> Tensor:
    """The matrix product, with the batch dimensions broadcast. Math fidelity and Dst are those of
    ``compute_kernel_config``, by default ttnn's."""
    flags = dict(zip(("transpose_a", "transpose_b"), args, strict=False))
    return _linear(input_tensor_a, input_tensor_b, None, **flags, **given)


@operation("linear", "matmul, add")
def linear(
    input_tensor_a: Tensor, input_tensor_b: Tensor, *, bias: Tensor | None = None, **given: Any
) -> Tensor:
    """activation(a @ b + bias)."""
    return _linear(input_tensor_a, input_tensor_b, bias, **given)


@operation("matmul_batched_weights", "matmul")
def matmul_batched_weights(input_tensor_a: Tensor, input_tensors_b: Any, **given: Any) -> list[Tensor]:
    """The products of ``input_tensor_a`` with each tensor of ``input_tensors_b``."""
    return [_linear(input_tensor_a, b, None, **given) for b in input_tensors_b]


@operation("addmm", "matmul, multiply, add")
def addmm(
    input_tensor: Tensor,
    mat1_tensor: Tensor,
    mat2_tensor: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    optional_output_tensor: Tensor | None = None,
    compute_kernel_config: Any = None,
    core_grid: Any = None,
    program_config: Any = None,
    output_tile: Any = None,
) -> Tensor:
    """beta input + alpha mat1 @ mat2."""
    addend, product = input_tensor, Product(mat1_tensor, mat2_tensor, False, False)
    goal = target(product.a, memory_config, optional_output_tensor, dtype, Layout.TILE, DRAM_MEMORY_CONFIG)
    made = _multiplied(product, None, compute_kernel_config, core_grid is not None)
    if alpha != 1:
        made = made * float(alpha)
    if beta:
        made = made + (addend._value if beta == 1 else addend._value * float(beta))
    return goal.wrap(made)


# **************** ttnn's "minimal" kernel ****************


@dataclass
class MinimalMatmulConfig:
    """Sizes of blocks in tiles. The sizes order silicon's work and change no result here."""

    M_block_size: int = 1
    K_block_size: int = 1
    N_block_size: int = 1
    subblock_h: int = 1
    subblock_w: int = 1
    compute_with_storage_grid_size: Any = (1, 1)


def _minimal(x: Tensor, weight: Tensor, bias: Tensor | None, config: Any, given: Any) -> Tensor:
    """The result of linear, after the checks of the "minimal" kernel."""
    text = f"{called()} weight tensor must not be batched, got {weight.shape}"
    expect(math.prod(tuple(weight.shape)[:-2]) == 1, text)
    if config is not None:
        expect(
            isinstance(config, MinimalMatmulConfig),
            f"config must be a ttnn.MinimalMatmulConfig, got a {type(config).__name__}",
        )
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
    """activation(x @ weight + bias) in HiFi2; the weight is one matrix, without batches."""
    given |= dict(zip(("fused_activation",), args, strict=False))
    return _minimal(input_tensor, weight_tensor, bias_tensor, config, given)


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
    """The result of minimal_matmul with its columns cut into ``chunks`` parts."""
    expect(dim == -1, f"it splits the last dimension only, got dim {dim}")
    width = weight_tensor.shape[-1]
    text = f"{width} columns cannot be cut into {chunks} parts of whole tiles"
    expect(chunks > 0 and width % (32 * chunks) == 0, text)
    made = _minimal(input_tensor, weight_tensor, bias_tensor, config, given)
    parts: list[Tensor] = chunk.function(made, chunks, -1)
    return parts


@operation(
    "experimental.dit_minimal_matmul_addcmul_fused",
    "matmul, multiply, add",
    takes="..., memory_config, dtype",
)
def dit_minimal_matmul_addcmul_fused(
    matmul_input_tensor: Tensor,
    matmul_weight_tensor: Tensor,
    scalar: float,
    addcmul_input_tensor1: Tensor,
    addcmul_input_tensor2: WideValue,
    bias_tensor: Tensor | None = None,
    *,
    config: Any = None,
    **given: Any,
) -> WideValue:
    """a + scalar (x @ weight + bias) b, where b has one row, or as many rows as the product."""
    base = addcmul_input_tensor1
    made = _minimal(matmul_input_tensor, matmul_weight_tensor, bias_tensor, config, given)
    expect(base.shape == made.shape, f"{base.shape} cannot be added to a product of {made.shape}")
    return base._value + made._value * addcmul_input_tensor2 * float(scalar)


@operation("experimental.matmul_decode", "matmul")
def matmul_decode(
    input_tensor_a: TiledTensor,
    input_tensor_b: TiledTensor,
    *,
    partial_width_sharded: bool = False,
    dtype: DataType | None = None,
    output_mem_config: Any = None,
) -> Tensor:
    """The product of [m, k] and [k, n], both in width shards; by default the result has a shard on each core
    of the second operand."""
    a, b = input_tensor_a, input_tensor_b
    if partial_width_sharded or len(a.shape) > 2:
        raise Unsupported(f"{called()} of batches, or with partial_width_sharded, is not supported")
    spec = b.memory_config().shard_spec
    wide = all(x.memory_config().memory_layout is TensorMemoryLayout.WIDTH_SHARDED for x in (a, b))
    expect(wide and spec is not None, "both operands must be WIDTH_SHARDED")
    assert spec is not None
    own = ShardSpec(spec.grid, [a.padded_shape[-2], spec.shape[1]], spec.orientation)
    product = Product(a, b, False, False)
    config = output_mem_config or b.memory_config().with_shard_spec(own)
    return target(a, config, None, dtype).wrap(_multiplied(product, None, None, False))
