"""Images in the forms that convolutions and pools take and return: channels last, flat or not, on the host or
a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...devices.mesh_device import MeshDevice
from ...devices.opening import GetDefaultDevice
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import BufferType, DataType, Layout, TensorMemoryLayout
from ...programs.windows import Conv2dL1Full, Op2DSliceConfig
from ...tensors.tensor import Tensor
from ..movement.moves import to_device
from ..results import Target, device_tensor


def placed_on(tensor: Any, device: MeshDevice | None) -> Tensor:
    """The tensor on a device; a host tensor is moved to ``device``."""
    if isinstance(tensor, Tensor) and tensor._device is None:
        device = device or GetDefaultDevice()
        expect(device is not None, "a host tensor needs a device")
        moved: Tensor = to_device.function(tensor, device)
        return moved
    return device_tensor(tensor)


def planes(x: Tensor, size: Sequence[int], channels: int, *, exact: bool = False) -> WideValue:
    """An image [N, H, W, C] or [1, 1, N H W, C] as [N, C, H, W]. ``size``: (N, H, W). Channels beyond
    ``channels`` are padding and are dropped. ``exact``: whether such channels are refused."""
    expect(len(x.shape) > 0, "the input has no dimensions")
    wide = x.shape[-1]
    fits = wide == channels if exact else wide >= channels
    count = size[0] * size[1] * size[2]
    expect(
        fits and x.logical_volume() == count * wide,
        f"an input of shape {x.shape} is no image of {tuple(size)} (batch, height, width) and {channels} "
        "channels",
    )
    image = x._value.reshape((*size, wide))
    if wide > channels:
        image = image.part(3, 0, channels)
    return image.run("transpose", perm=(0, 3, 1, 2))


def flat(image: WideValue) -> WideValue:
    """An image [N, C, H, W] as [1, 1, N H W, C]."""
    n, channels, height, width = image.shape
    turned = image.run("transpose", perm=(0, 2, 3, 1))
    return turned.reshape((1, 1, n * height * width, channels))


def goal_of(
    x: Tensor,
    dtype: DataType,
    layout: Layout,
    memory_config: MemoryConfig | None,
    scheme: TensorMemoryLayout | None,
    slices: Op2DSliceConfig | None,
) -> Target:
    """The place of a result: ``memory_config``, if that is given. By default the place is shards in L1 if the
    input was in L1 or ``slices`` asks for L1; else it is DRAM, as for an image that is computed in slices."""
    config = x.memory_config()
    in_l1 = config.buffer_type is not BufferType.DRAM
    if slices is not None:
        in_l1 = slices.slice_type is Conv2dL1Full
    if memory_config is None:
        memory_config = DRAM_MEMORY_CONFIG
        if in_l1:
            own = config.memory_layout if config.is_sharded() else TensorMemoryLayout.HEIGHT_SHARDED
            memory_config = MemoryConfig(scheme or own, BufferType.L1)
    assert x._device is not None
    wanted = Layout.TILE if dtype.is_block else layout
    return Target(dtype, wanted, memory_config, x._device, like=config)
