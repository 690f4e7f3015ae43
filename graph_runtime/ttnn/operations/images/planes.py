"""Images as convolutions and pools take and return them: channels last, flat or not, on the host or on a
device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...devices.mesh_device import MeshDevice
from ...devices.opening import GetDefaultDevice
from ...errors import check
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import BufferType, DataType, Layout, TensorMemoryLayout
from ...programs.windows import Conv2dL1Full, Op2DSliceConfig
from ...tensors.tensor import Tensor
from ..movement.moves import to_device
from ..results import Target, device_tensor
from ..wide import Wide


def placed_on(op: str, tensor: Any, device: MeshDevice | None) -> Tensor:
    """A tensor on a device: a host tensor is moved to ``device``."""
    if isinstance(tensor, Tensor) and tensor._device is None:
        device = device or GetDefaultDevice()
        check(device is not None, op, "a host tensor needs a device")
        moved: Tensor = to_device.function(tensor, device)
        return moved
    return device_tensor(op, tensor)


def planes(op: str, w: Wide, x: Tensor, size: Sequence[int], channels: int, *, exact: bool = False) -> Handle:
    """The image of [N, H, W, C] or [1, 1, N H W, C] as [N, C, H, W]. ``size``: (N, H, W). Channels beyond
    ``channels`` are padding, unless ``exact``."""
    check(len(x.shape) > 0, op, "the input has no dimensions")
    wide = x.shape[-1]
    fits = wide == channels if exact else wide >= channels
    count = size[0] * size[1] * size[2]
    check(
        fits and x.logical_volume() == count * wide,
        op,
        f"an input of shape {x.shape} is no image of {tuple(size)} (batch, height, width) and {channels} "
        "channels",
    )
    image = w.reshape(w.rows(x._handle), (*size, wide))
    if wide > channels:
        image = w("slice", image, starts=(0,), ends=(channels,), axes=(3,))
    return kernels.run("transpose", [image], {"perm": (0, 3, 1, 2)})


def flat(w: Wide, image: Handle) -> Handle:
    """[N, C, H, W] as [1, 1, N H W, C]."""
    n, channels, height, width = image.shape
    turned = kernels.run("transpose", [image], {"perm": (0, 2, 3, 1)})
    return w.reshape(w.rows(turned), (1, 1, n * height * width, channels))


def goal_of(
    op: str,
    x: Tensor,
    dtype: DataType,
    layout: Layout,
    memory_config: MemoryConfig | None,
    scheme: TensorMemoryLayout | None,
    slices: Op2DSliceConfig | None,
) -> Target:
    """Where a result goes unless ``memory_config`` says so: into shards in L1 where the input was in L1, or
    ``slices`` asks for it; else into DRAM, as an image that is worked on in slices."""
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
    return Target(op, dtype, wanted, memory_config, x._device, like=config)
