"""Card programs of convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.machine.layout import DRAM
from ....costs import factories
from ....costs.factories import CardProgram, CardStage, Convolution, HaloWindow
from ....costs.factories.products import Sums
from ...memory.placing import SCHEMES
from ...memory.values import Layout
from ..call import Call
from ..windows import Conv2dConfig, pair, sides


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


def _upsampled(call: Call) -> CardProgram | None:
    if call.first.sharded or call.made.sharded or call.get("mode", "nearest") != "nearest":
        return None
    return factories.upsampled(call.first, call.cores, call.device.chip.descriptor.memory(DRAM).alignment)


TABLE: dict[str, Callable[[Call], Any]] = {
    "conv2d": _convolution,
    "upsample": _upsampled,
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), _pool),
}
