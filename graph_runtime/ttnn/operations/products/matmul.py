"""Matrix products: matmul, linear, addmm."""

from __future__ import annotations

import math
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout, MathFidelity, TensorMemoryLayout, Tile
from ...programs.configs import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig, check_program, numerics
from ...tensors.tensor import Tensor
from ..elementwise.unary import chain
from ..operation import operation
from ..results import Target, device_tensor, empty_result, target, tiled_input
from ..wide import Wide

__all__: list[str] = []


class Product:
    """The two operands of a product, checked; ``shape`` of the result."""

    def __init__(self, op: str, a: Any, b: Any, transpose_a: bool, transpose_b: bool):
        text = "Inputs to matmul must be tilized"
        self.op, self.a, self.b = op, tiled_input(op, a, text), tiled_input(op, b, text)
        for x in (self.a, self.b):
            check(x.dtype.is_float, op, f"Unsupported data format: {x.dtype}")
        ranks = len(self.a.shape), len(self.b.shape)
        got = f"{self.a.shape} and {self.b.shape}"
        text = f"Both arguments to matmul need to be at least 1D, but got shapes {got}"
        check(min(ranks) > 0, op, text)
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
        check(
            width == height,
            op,
            "The width of the first tensor must be equal to the height of the second tensor. "
            f"Mismatch: width={width} height={height}",
        )
        self.depth = width
        self.shape = (
            *self._batch(sizes_a[:-2], sizes_b[:-2]),
            *sizes_a[-2:-1],
            *(sizes_b[-1:] if ranks[1] > 1 else ()),
        )
        self.tile = self._tile()

    def _tile(self) -> Tile:
        """The result's tile: as high as those of the first operand, as wide as those of the second."""
        a, b = self.a.tile.tile_shape, self.b.tile.tile_shape
        a = a[::-1] if self.attrs["transpose_a"] else a
        b = b[::-1] if self.attrs["transpose_b"] else b
        text = "Input tile dims must have inner dim equal to 32 due to llk constraints"
        check(a[1] == b[0] == TILE_SIZE, self.op, text)
        return Tile((a[0], b[1]))

    def _batch(self, a: list[int], b: list[int]) -> tuple[int, ...]:
        rank = max(len(a), len(b))
        a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
        fits = all(x == y or 1 in (x, y) for x, y in zip(a, b, strict=True))
        check(
            fits,
            self.op,
            f"bmm expects batch dimensions that can be broadcast, got {self.a.shape} and {self.b.shape}",
        )
        return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def _fidelity(product: Product, placed: bool) -> MathFidelity:
    """The default: HiFi4 of two float32, LoFi on the caller's cores and of two block formats, else HiFi2."""
    kinds = product.a.dtype, product.b.dtype
    if kinds == (DataType.FLOAT32, DataType.FLOAT32):
        return MathFidelity.HiFi4
    return MathFidelity.LoFi if placed or all(kind.is_block for kind in kinds) else MathFidelity.HiFi2


def _multiplied(product: Product, bias: Handle | None, config: Any, placed: bool) -> Handle:
    words = numerics(config, _fidelity(product, placed))
    if config is None and product.a.dtype is DataType.FLOAT32 and product.b.dtype is DataType.FLOAT32:
        words = {}  # full products: what HiFi4 with a 32-bit Dst makes of float32
    w = Wide(product.a._handle.device)
    inputs = [product.a._handle, product.b._handle]
    shape = product.shape
    made = kernels.run("matmul", _matrices(w, inputs, product), product.attrs | words, kernels.WIDE)
    if tuple(made.shape) != shape:
        made = w.reshape(w.rows(made), shape)
    if bias is not None:
        made = w("add", made, bias)
        if tuple(made.shape) != shape:
            made = w.reshape(w.rows(made), shape)
    return made


def _matrices(w: Wide, inputs: list[Handle], product: Product) -> list[Handle]:
    """Vectors as matrices of one row or column."""
    a, b = inputs
    if len(a.shape) == 1:
        a = w.reshape(w.rows(a), (1, *a.shape))
    if len(b.shape) == 1:
        b = w.reshape(w.rows(b), (*b.shape, 1))
    return [a, b]


def _check_placement(product: Product, goal: Target, activation: Any, program: Any) -> None:
    """Raise RuntimeError for shards that no program of a product takes."""
    sharded = product.a.is_sharded() or product.b.is_sharded()
    text = "a sharded matmul has its activation in the program config's fused_activation field"
    check(activation is None or not sharded, product.op, text)
    spec, batched = goal.config.shard_spec, math.prod(tuple(product.b.shape)[:-2]) > 1
    if program is None and spec is not None and batched:
        box = spec.grid.bounding_box().grid_size()
        one_line = goal.config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and 1 in (box.x, box.y)
        text = (
            "BLOCK_SHARDED output on a 1D grid is not supported with a batched second tensor: use "
            "HEIGHT_SHARDED, WIDTH_SHARDED or a 2D grid"
        )
        check(not one_line, product.op, text)


def _output_tile(product: Product, given: Tile | None, goal: Target) -> Tile:
    """The tile that the caller wants, or the product's. Raises RuntimeError where no kernel could make it."""
    if given is None:
        return product.tile
    text = "Matmul cannot have both an output_tile and an optional_output_tensor"
    check(goal.into is None, product.op, text)
    (rows, cols), (own_rows, own_cols) = given.tile_shape, product.tile.tile_shape
    text = (
        f"the override output tile {given.tile_shape} does not fit the product's, {product.tile.tile_shape}"
    )
    wider = cols == own_cols or (rows <= 16 and cols % own_cols == 0 and goal.config.is_sharded())
    check(rows == own_rows and wider, product.op, text)
    return given


def _bias(op: str, bias: Tensor, product: Product, program: Any) -> Handle:
    """A bias as it is added: the program of weights in DRAM shards takes the first row of its tiles."""
    found = tiled_input(op, bias, "bias must be tilized")
    rows = found.shape[-2] if len(found.shape) > 1 else 1
    one_row = isinstance(program, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig)
    if one_row and rows > 1 and found.padded_shape[-2] == product.tile.tile_shape[0]:
        rank = len(found.shape)
        attrs = {"starts": (0,) * rank, "ends": (*found.shape[:-2], 1, found.shape[-1])}
        return kernels.run("slice", [found._handle], attrs)
    return found._handle


def _linear(
    op: str,
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
        raise Unsupported(f"{op}: global circular buffers and sub-devices are not supported", op=op)
    product = Product(op, a, b, transpose_a, transpose_b)
    text = "Cannot use both user core grid/coordinates and a program config"
    check(core_grid is None or program_config is None, op, text)
    goal = target(
        op, product.a, memory_config, optional_output_tensor, dtype, Layout.TILE, DRAM_MEMORY_CONFIG
    )
    goal.tile = _output_tile(product, output_tile, goal)
    _check_placement(product, goal, activation, program_config)
    fp32 = compute_kernel_config.fp32_dest_acc_en if compute_kernel_config else goal.dtype is DataType.FLOAT32
    device = product.a._device
    assert device is not None
    check_program(op, program_config, -(-product.depth // 32), fp32, device.core_grid, goal.tile)
    if not product.depth or not math.prod(product.shape):
        made = empty_result(goal, product.shape)
        return made if bias is None else _biased(goal, made, bias)
    addend = None if bias is None else _bias(op, bias, product, program_config)
    placed = core_grid is not None or program_config is not None
    values = _multiplied(product, addend, compute_kernel_config, placed)
    fused = getattr(program_config, "fused_activation", None)
    last = [x for x in (fused, activation) if x is not None]
    if not last:
        return goal.wrap(Wide(values.device).packed(values, goal.dtype))
    wide = Tensor.of(values, DataType.FLOAT32, Layout.TILE, DRAM_MEMORY_CONFIG, goal.device)
    return goal.wrap(chain(wide, last)._handle)


def _biased(goal: Target, made: Tensor, bias: Tensor) -> Tensor:
    w = Wide(made._handle.device)
    return goal.wrap(w("add", made._handle, bias._handle))


@operation("matmul", "matmul")
def matmul(input_tensor_a: Tensor, input_tensor_b: Tensor, *args: Any, **given: Any) -> Tensor:
    """The matrix product, with the batch dimensions broadcast; math fidelity and Dst by
    ``compute_kernel_config``, or as ttnn chooses them."""
    flags = dict(zip(("transpose_a", "transpose_b"), args, strict=False))
    return _linear("ttnn.matmul", input_tensor_a, input_tensor_b, None, **flags, **given)


@operation("linear", "matmul, add")
def linear(
    input_tensor_a: Tensor, input_tensor_b: Tensor, *, bias: Tensor | None = None, **given: Any
) -> Tensor:
    """The matrix product, a bias and an activation."""
    return _linear("ttnn.linear", input_tensor_a, input_tensor_b, bias, **given)


@operation("matmul_batched_weights", "matmul")
def matmul_batched_weights(input_tensor_a: Tensor, input_tensors_b: Any, **given: Any) -> list[Tensor]:
    """The products of one tensor with each of several."""
    return [_linear("ttnn.matmul_batched_weights", input_tensor_a, b, None, **given) for b in input_tensors_b]


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
    **_: Any,
) -> Tensor:
    """beta input + alpha mat1 @ mat2."""
    op = "ttnn.addmm"
    addend = device_tensor(op, input_tensor)
    kinds = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B)
    text = "only ttnn.bfloat16, ttnn.float32 and ttnn.bfloat8_b types are supported"
    used = (mat1_tensor, mat2_tensor, *([addend] if beta else []))
    check(all(x.dtype in kinds for x in used), op, text)
    product = Product(op, mat1_tensor, mat2_tensor, False, False)
    check(alpha != 0, op, "alpha parameter cannot be 0")
    check(len(product.a.shape) == len(product.b.shape) == 2, op, "mat1 and mat2 must be matrices")
    text = "input_tensor must have shape matching one of result of mat1_tensor @ mat2_tensor"
    check(not beta or tuple(addend.shape) == product.shape, op, text)
    check(output_tile is None, op, "output_tile must not be provided")
    goal = target(
        op, product.a, memory_config, optional_output_tensor, dtype, Layout.TILE, DRAM_MEMORY_CONFIG
    )
    made = _multiplied(product, None, compute_kernel_config, core_grid is not None)
    w = Wide(made.device)
    if alpha != 1:
        made = w("multiply", made, float(alpha))
    if beta:
        more = addend._handle if beta == 1 else w("multiply", addend._handle, float(beta))
        made = w("add", made, more)
    return goal.wrap(made)
