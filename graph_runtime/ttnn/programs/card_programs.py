"""The card programs that ttnn would run for a call, and the buffers that the card programs open in L1
(costs/factories).

``stages_of`` serves the operations of the table at the end; None means that no factory here covers the
operation or this form of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from ...base.machine.layout import DRAM, L1, ROW_MAJOR, TILE
from ...costs import factories
from ...costs.factories import CardOperand, CardProgram, CardStage, Convolution, HaloWindow, ProductBlocks
from ...costs.factories.products import Sums
from ..devices.mesh_device import MeshDevice
from ..memory.configs import MemoryConfig
from ..memory.cores import coord
from ..memory.placing import SCHEMES
from ..memory.values import BufferType, DataType, Layout, ShardOrientation, TensorMemoryLayout
from ..registry import OPERATIONS
from ..tensors.tensor import Tensor
from . import configs as kc
from .windows import Conv2dConfig, pair, sides


class Call:
    """A call of an operation: ``name`` without "ttnn.", ``values`` of its arguments by name, its ``inputs``
    (tensors, in order), its ``results`` and its device."""

    def __init__(self, name: str, values: Mapping[str, Any], results: list[Tensor], device: MeshDevice):
        self.name, self.values, self.results, self.device = name, values, results, device
        self.inputs = [x for x in flat(values.values()) if x._device is device]

    def get(self, name: str, default: Any = None) -> Any:
        found = self.values.get(name)
        return default if found is None else found

    def format(self, name: str) -> str:
        """The storage format of a tensor among the arguments, "" if it is absent."""
        found = self.values.get(name)
        return "" if found is None else str(found.dtype.stored[1])

    @property
    def first(self) -> CardOperand:
        return operand(self.inputs[0])

    @property
    def made(self) -> CardOperand:
        return operand(self.results[0])

    @property
    def grid(self) -> tuple[int, int]:
        """Numbers of the device's cores: (across, down)."""
        return self.device.core_grid.x, self.device.core_grid.y

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def l1(self) -> int:
        """Bytes of a core's L1, including the part that tensors and buffers cannot use."""
        return self.device.chip.descriptor.memory(L1).bank_bytes

    def wide(self, default: bool) -> bool:
        """Whether Dst holds 32 bits."""
        config = self.get("compute_kernel_config") or self.get("compute_config")
        return default if config is None else bool(config.fp32_dest_acc_en)


def flat(values: Any) -> list[Tensor]:
    """The tensors in nested lists and tuples, in order."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += flat(value)
    return found


def call_of(operation: Any, args: Any, kwargs: Any, made: Any, device: MeshDevice) -> Call:
    """A finished call; its arguments have the names of the operation's signature."""
    signature = _signatures.get(operation.name)
    if signature is None:
        signature = _signatures[operation.name] = inspect.signature(operation)
    values: dict[str, Any] = {}
    for name, value in signature.bind(*args, **operation.taken(kwargs)).arguments.items():
        kind = signature.parameters[name].kind
        values.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    values |= {key: value for key, value in kwargs.items() if key not in values}
    results = [x for x in flat([made]) if x._device is device]
    return Call(operation.name, values, results, device)


_signatures: dict[str, inspect.Signature] = {}


def operand(x: Tensor) -> CardOperand:
    """A tensor in the form in which the factories take operands."""
    config, format = x.memory_config(), x.dtype.stored[1]
    memory = DRAM if config.buffer_type is BufferType.DRAM else L1
    shape, layout = tuple(x.shape), TILE if x.layout is Layout.TILE else ROW_MAJOR
    if config.shard_spec is None:
        return CardOperand(shape, format, layout, memory)
    spec = config.shard_spec
    box = spec.grid.bounding_box().grid_size()
    cores = (box.y, box.x) if box.x * box.y == spec.grid.num_cores() else (1, spec.grid.num_cores())
    turned = spec.orientation is ShardOrientation.COL_MAJOR
    shard = (int(spec.shape[0]), int(spec.shape[1]))
    return CardOperand(shape, format, layout, memory, SCHEMES[config.memory_layout], shard, cores, turned)


def stages_of(call: Call) -> list[CardStage] | None:
    """The card programs of a call, in order; None if no factory here covers the call."""
    if not call.inputs or not call.results or any(_strange(x) for x in (*call.inputs, *call.results)):
        return None
    found = _TABLE.get(call.name) or _FAMILIES.get(
        OPERATIONS[call.name].function.__module__.rpartition(".")[2]
    )
    made = None if found is None else found(call)
    return [CardStage(made)] if isinstance(made, CardProgram) else made


def _strange(x: Tensor) -> bool:
    """Whether no factory here covers the tensor, because it has no elements, ND shards, block shards on cores
    that are no rectangle, or tiles other than 32x32."""
    config: MemoryConfig = x.memory_config()
    if config.nd_shard_spec is not None or not math.prod(x.shape) or tuple(x.tile.tile_shape) != (32, 32):
        return True
    spec = config.shard_spec
    return spec is not None and (
        config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and spec.grid.size() != 1
    )


# **************** elementwise, rows ****************


def _unary(call: Call) -> CardProgram:
    return factories.unary(call.first, call.made)


def _binary(call: Call) -> CardProgram:
    b = operand(call.inputs[1]) if len(call.inputs) > 1 else None
    return factories.binary(call.first, b, call.made)


def _mask(call: Call) -> str:
    return call.format("mask") or call.format("attention_mask")


def _softmax(call: Call) -> CardProgram | None:
    x, wide = call.first, call.wide(call.inputs[0].dtype is DataType.FLOAT32)
    in_place = call.name.endswith(("in_place", "_"))
    stable = bool(call.get("numeric_stable", "attention" not in call.name and not in_place))
    config = call.get("program_config")
    if isinstance(config, kc.SoftmaxShardedMultiCoreProgramConfig):
        grid = coord(config.compute_with_storage_grid_size)
        return factories.sharded_softmax(
            x, config.block_h, config.block_w, wide, stable, _mask(call), grid.x * grid.y
        )
    rank, dim = len(x.shape), call.get("dim", -1)
    if x.layout != TILE or (call.name == "softmax" and dim not in (-1, rank - 1)):
        return None
    return factories.softmax(x, call.made, call.l1, wide, stable, _mask(call))


def _norm(call: Call) -> CardProgram | None:
    x, rms = call.first, call.name == "rms_norm"
    wide = call.wide(not rms)
    weight, bias, added = map(call.format, ("weight", "bias", "residual_input_tensor"))
    config = call.get("program_config")
    if isinstance(config, kc.LayerNormShardedMultiCoreProgramConfig):
        at = coord(config.compute_with_storage_grid_size)
        grid, down, across = (at.x, at.y), config.block_h, config.block_w
    elif x.sharded:
        grid, down, across = (x.cores[1], x.cores[0]), x.shard[0] // 32, x.shard[1] // 32
    else:
        return factories.layer_norm(x, call.made, call.l1, wide, weight, bias, added, rms)
    return factories.sharded_layer_norm(x, down, across, grid, wide, weight, bias, added, rms)


# **************** products, images ****************

_KINDS = {
    kc.MatmulMultiCoreReuseProgramConfig: "reuse",
    kc.MatmulMultiCoreReuseMultiCastProgramConfig: "2d",
    kc.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig: "dram",
}


def _product(call: Call) -> CardProgram | None:
    if len(call.inputs) < 2 or len(call.inputs[0].shape) < 2 or len(call.inputs[1].shape) < 2:
        return None
    a, b, result = call.first, operand(call.inputs[1]), call.made
    if call.get("transpose_b"):
        b = CardOperand((*b.shape[:-2], *b.shape[:-3:-1]), b.format, b.layout, b.memory)
    bias = call.format("bias")
    config = call.get("compute_kernel_config")
    float32 = call.results[0].dtype is DataType.FLOAT32
    packed = not float32 if config is None else bool(config.packer_l1_acc)
    sums = Sums(call.wide(float32), packed)
    blocks = _blocks(call, a, b, result, bias, sums)
    turned, aligned = bool(call.get("transpose_a")), call.device.chip.descriptor.memory(DRAM).alignment
    return factories.product(a, b, result, blocks, bias, sums, turned, aligned)


def _blocks(
    call: Call, a: CardOperand, b: CardOperand, result: CardOperand, bias: str, sums: Sums
) -> ProductBlocks:
    config, chosen = call.get("program_config"), call.get("core_grid")
    if config is None:
        named = None if chosen is None else (chosen.x, chosen.y)
        free = call.device.chip.descriptor.memory(L1).usable
        return factories.simple_blocks(a, b, result, call.grid, free, sums, bias, named)
    if isinstance(config, kc.MatmulMultiCoreReuseMultiCast1DProgramConfig):
        kind = "1d a" if config.mcast_in0 else "1d b"
    else:
        kind = _KINDS[type(config)]
    block = getattr(config, "out_block_h", None) or 0, getattr(config, "out_block_w", None) or 0
    fused = bool(getattr(config, "fuse_batch", True))
    return ProductBlocks(kind, config.in0_block_w, config.per_core_M, config.per_core_N, *block, fused)


def _window(call: Call) -> HaloWindow:
    top, left, bottom, right = sides(f"ttnn.{call.name}", call.get("padding", (0, 0)))
    names = ("input_height", "input_width") if "input_height" in call.values else ("input_h", "input_w")
    size = call.values[names[0]], call.values[names[1]]
    kernel, stride = pair(call.values["kernel_size"]), pair(call.get("stride", (1, 1)))
    pads, dilation = (top, bottom, left, right), pair(call.get("dilation", (1, 1)))
    return HaloWindow(call.values["batch_size"], size, kernel, stride, pads, dilation)


def _convolution(call: Call) -> list[CardStage] | None:
    config: Any = call.get("conv_config") or Conv2dConfig()
    image = call.first
    layout = config.shard_layout or call.inputs[0].memory_config().memory_layout
    if layout not in SCHEMES or call.get("groups", 1) == call.get("in_channels"):
        return None  # ttnn would choose a scheme, or run its kernels for depthwise convolutions
    if image.memory == DRAM and call.get("slice_config") is None and not image.sharded:
        return None  # ttnn would compute the image in slices
    weight = call.values["weight_tensor"]
    compute = call.get("compute_config")
    conv = Convolution(
        _window(call),
        call.values["in_channels"],
        call.values["out_channels"],
        image.scheme or SCHEMES[layout],
        call.grid,
        weights=(config.weights_dtype or weight.dtype).stored[1],
        result=call.results[0].dtype.stored[1],
        biased=call.get("bias_tensor") is not None,
        sums=Sums(call.wide(False), compute is not None and bool(compute.packer_l1_acc)),
        act_rows=config.act_block_h_override or 0,
        depth_parts=config.act_block_w_div or 1,
        twice_act=bool(config.enable_act_double_buffer),
        twice_weights=bool(config.enable_weights_double_buffer),
        full_depth=bool(config.full_inner_dim),
        reuse=bool(config.enable_activation_reuse),
        frees=bool(config.deallocate_activation) and image.on_l1,
        in_rows=config.output_layout is Layout.ROW_MAJOR,
        config_in_dram=bool(config.config_tensors_in_dram),
        reshard=bool(config.reshard_if_not_optimal),
        turned=bool(config.transpose_shards),
    )
    return factories.convolution(conv, image)


def _pool(call: Call) -> list[CardStage] | None:
    if not call.first.sharded or call.get("return_indices") or call.get("ceil_mode"):
        return None
    average = call.name == "avg_pool2d"
    padded = any(_window(call).pads) and not call.get("count_include_pad", True)
    return factories.pool(call.first, call.made, _window(call), call.values["channels"], average, not padded)


# **************** moves ****************


def _moved(call: Call) -> CardProgram | None:
    x, made = call.first, call.made
    if x.sharded or made.sharded:
        return factories.resharded(x, made, call.device.chip.descriptor.memory(DRAM).alignment)
    return factories.copied(x, made)


def _laid_out(call: Call) -> CardProgram | None:
    x, made = call.first, call.made
    if x.layout == made.layout:
        return factories.unary(x, made) if x.format != made.format and x.layout == TILE else None
    if not x.shape:
        return None
    return factories.tilized(x, made) if made.layout == TILE else factories.untilized(x, made, call.cores)


def _transposed(call: Call) -> CardProgram:
    x, made = call.first, call.made
    swaps = call.name == "transpose" and x.shape[:-2] == made.shape[:-2]
    return factories.transposed(x, made) if swaps and not x.sharded else factories.copied(x, made)


def _attention(call: Call) -> CardProgram | None:
    q, k, v = (operand(x) for x in call.inputs[:3])
    config, cores = call.get("program_config"), call.cores
    chunks = (getattr(config, "q_chunk_size", 0) or 32, getattr(config, "k_chunk_size", 0) or 32)
    if config is not None and config.compute_with_storage_grid_size is not None:
        grid = coord(config.compute_with_storage_grid_size)
        cores = grid.x * grid.y
    if call.get("sliding_window_size") or call.get("attention_sink") is not None:
        return None
    return factories.attention(
        q, k, v, call.made, chunks, cores, call.get("is_causal", True), call.format("attn_mask")
    )


_FAMILIES: dict[str, Callable[[Call], Any]] = {  # module of operations/elementwise -> card program of a call
    "unary": _unary,
    "binary": _binary,
    "ternary": lambda call: factories.ternary([operand(x) for x in call.inputs[:3]], call.made),
}
_TABLE: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(
        ("sum", "mean", "max", "min"),
        lambda call: factories.reduced(call.first, call.made, call.wide(True), call.name == "min"),
    ),
    **dict.fromkeys(("softmax", "softmax_in_place", "scale_mask_softmax"), _softmax),
    **dict.fromkeys(("scale_mask_softmax_in_place", "transformer.attention_softmax"), _softmax),
    "transformer.attention_softmax_": _softmax,
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    **dict.fromkeys(("matmul", "linear"), _product),
    "conv2d": _convolution,
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), _pool),
    **dict.fromkeys(("to_memory_config", "interleaved_to_sharded", "sharded_to_interleaved"), _moved),
    **dict.fromkeys(("reshard", "clone", "copy", "slice", "pad"), _moved),
    **dict.fromkeys(("to_layout", "tilize", "tilize_with_val_padding", "untilize"), _laid_out),
    **dict.fromkeys(("tilize_with_zero_padding", "untilize_with_unpadding"), _laid_out),
    **dict.fromkeys(("transpose", "permute"), _transposed),
    "typecast": _unary,
    "concat": lambda call: factories.concatenated(call.made),
    "embedding": lambda call: factories.embedded(
        operand(call.inputs[1]), call.made, math.prod(call.first.shape) > call.cores
    ),
    "transformer.scaled_dot_product_attention": _attention,
    "experimental.nlp_concat_heads": lambda call: factories.concatenated_heads(call.first),
    "experimental.split_query_key_value_and_split_heads": lambda call: factories.split_heads(
        call.first, call.first.sharded
    ),
}
