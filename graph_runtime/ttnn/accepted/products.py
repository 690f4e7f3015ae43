"""What matrix products accept (operations/products)."""

from __future__ import annotations

import math

from ..memory.configs import DRAM_MEMORY_CONFIG
from ..memory.values import BufferType, Layout, TensorMemoryLayout
from ..tensors.tensor import Tensor
from .rules import FLOATS, Given, Operand, Rule, accepts

_MATMUL = "ttnn/cpp/ttnn/operations/matmul/"
_BOTH = "input_tensor_a input_tensor_b"
_BLOCK = 16  # tiles of a side of the largest block of a core: create_simple_matmul_program_config


def _activated(given: Given) -> str:
    sharded = given.input_tensor_a.is_sharded() or given.input_tensor_b.is_sharded()
    if given.activation is None or not sharded:
        return ""
    text = "Sharded matmul run with an activation: this should be placed in the program config's"
    return f"{text} fused_activation field"


def _front(given: Given) -> str:
    a, b = list(given.input_tensor_a.shape), list(given.input_tensor_b.shape)
    if all(size == 1 for size in b[: max(len(b) - len(a), 0)]) or len(b) < 3:
        return ""
    return "When in1 rank greater than in0 rank front dimensions need to be 1"


def _sides(given: Given) -> tuple[list[int], list[int]]:
    a, b = list(given.input_tensor_a.shape), list(given.input_tensor_b.shape)
    if given.transpose_a and len(a) > 1:
        a[-2:] = a[:-3:-1]
    if given.transpose_b and len(b) > 1:
        b[-2:] = b[:-3:-1]
    return a, b


def _filled(given: Given) -> bool:
    return bool(math.prod(given.input_tensor_a.shape) and math.prod(given.input_tensor_b.shape))


def _inner(given: Given) -> str:
    a, b = _sides(given)
    width, height = a[-1], b[-2 if len(b) > 1 else -1]
    if width == height or not _filled(given):
        return ""
    text = "The width of the first tensor must be equal to the height of the second tensor."
    return f"{text} Mismatch: width={width} height={height}"


def _batches(given: Given) -> str:
    a, b = (list(x.shape) for x in (given.input_tensor_a, given.input_tensor_b))
    if math.prod(b[:-2]) == 1 or not _filled(given):
        return ""
    if len(a) != len(b):
        text = "Batched (non-bcast) matmul requires inputs of the same rank"
        return f"{text}, got a_shape rank: {len(a)} vs b_shape rank: {len(b)}"
    if a[:-2] == b[:-2] or math.prod(a[:-2]) == 1:
        return ""
    return f"bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN, got {a} and {b}"


def _second_in_shards(given: Given) -> str:
    """Without a configuration by the caller, ttnn chooses one: for a sharded second operand in L1 one of
    MatmulMultiCoreProgramConfig, if one block holds the result, or of a grid of blocks."""
    a, b = given.input_tensor_a, given.input_tensor_b
    config = b.memory_config()
    if not b.is_sharded() or config.buffer_type is BufferType.DRAM:
        return ""
    if given.program_config is not None or given.core_grid is not None:
        return ""
    layout = f"TensorMemoryLayout::{config.memory_layout.name}"
    if a.is_sharded():
        return f"Input tensor B must have INTERLEAVED memory layout, got: {layout}"
    first, second = _sides(given)
    tiles = [-(-size // 32) for size in ((1, *first)[-2], second[-1])]
    if config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED and max(tiles) > _BLOCK:
        return ""
    return f"MatmulMultiCoreProgramConfig: Input B memory layout must be INTERLEAVED, got: {layout}"


def added_after(given: Given) -> bool:
    """Whether ttnn adds the bias after the product, as ttnn.add does, and not inside of it."""
    a, b, bias = given.input_tensor_a, given.input_tensor_b, given.bias
    if (1, *bias.padded_shape)[-2] != a.tile.tile_shape[bool(given.transpose_a)]:
        return True
    if given.program_config is not None or given.core_grid is not None:
        return False
    to = given.memory_config or DRAM_MEMORY_CONFIG
    if to.buffer_type is not BufferType.DRAM:
        return True
    places = (a.memory_config(), b.memory_config(), to)
    return not a.is_sharded() and any(
        one.is_sharded() or one.buffer_type is not BufferType.DRAM for one in places
    )


def _bias(given: Given) -> str:
    bias = given.bias
    if not isinstance(bias, Tensor):
        return ""
    kind = f"DataType::{bias.dtype.name}"
    if not added_after(given):
        return "" if bias.layout is Layout.TILE else "bias must be tilized"
    return "" if bias.dtype.is_float else f"Mixed dtype is not supported for ADD: the product and {kind}"


_PRODUCT = (
    Rule("in shards: no activation", _activated),
    Rule("a second tensor of a higher rank: its first dimensions are 1", _front),
    Operand(_BOTH, layouts="TILE", text="Inputs to matmul must be tilized", filled=True),
    Operand(_BOTH, FLOATS, text="Unsupported data format for {name}: {dtype}", filled=True),
    Rule("the width of the first is the height of the second", _inner),
    Rule("a second tensor with batches: of the first one's rank and batches", _batches),
    Rule("a second tensor in shards of L1: WIDTH_SHARDED, of an interleaved first", _second_in_shards),
)
_SOURCE = _MATMUL + "device/matmul_device_operation.cpp"
accepts("matmul", *_PRODUCT, source=_SOURCE)
accepts("linear", *_PRODUCT, Rule("bias: floats, or inside of the product in TILE", _bias), source=_SOURCE)

_ADDMM = "only ttnn.bfloat16, ttnn.float32 and ttnn.bfloat8_b types are supported, got {dtype}"


def _whole_form(given: Given) -> str:
    x, a, b = given.input_tensor, given.mat1_tensor, given.mat2_tensor
    if given.alpha == 0:
        return "alpha parameter cannot be 0"
    if given.output_tile is not None:
        return "output_tile must not be provided"
    if given.beta and tuple(x.shape) != (a.shape[0], b.shape[1]):
        return "input_tensor must have shape matching one of result of mat1_tensor @ mat2_tensor"
    return ""


accepts(
    "addmm",
    Operand("mat1_tensor mat2_tensor", "BFLOAT16 FLOAT32 BFLOAT8_B", text=_ADDMM),
    Operand("mat1_tensor mat2_tensor", layouts="TILE", text="Inputs to matmul must be tilized"),
    Operand("mat1_tensor mat2_tensor", ranks=(2,), text="mat1 and mat2 must be matrices, got rank {rank}"),
    Rule("alpha is not 0, no output_tile; input_tensor of the product's shape, or beta 0", _whole_form),
    source="ttnn/cpp/ttnn/operations/matmul/matmul.cpp",
)
