"""TvmDevice: a device as TVM's scripts see it: a type number and an id. The device itself may be missing
here.

``tvm.device("llvm", 0)`` --> TvmDevice(1, 0) --opened()--> graph_runtime's Device("cpu", 0), or a DeviceError
"""

from __future__ import annotations

from typing import Any

from ....base.errors import all_there_are
from ....base.machine.devices import DL_NAMES, Device, dl_kinds, dl_types, of_type

__all__ = ["MAKERS", "TvmDevice", "as_device", "context", "device", "opened"]

_NAMES = {number: name for name, number in DL_NAMES.items()} | {
    32: "aocl",
    33: "sdaccel",
    34: "opengl",
    35: "microdev",
}
_NUMBERS = {
    **{name: 1 for name in ("llvm", "stackvm", "cpu", "c", "test", "hybrid", "composite", "ext_cpu")},
    **{name: 2 for name in ("cuda", "gpu", "nvptx")},
    **{name: 4 for name in ("cl", "opencl", "sdaccel")},
    **{name: 32 for name in ("aocl", "aocl_sw_emu")},
    **{name: 8 for name in ("metal", "mtl")},
    "vulkan": 7,
    "vpi": 9,
    "rocm": 10,
    "ext_dev": 12,
    "webgpu": 15,
    "hexagon": 16,
    "opengl": 34,
    "micro_dev": 35,
}


class TvmDevice:
    """A device, called Device in TVM 0.8 and TVMContext in 0.6: ``device_type`` (a DLDeviceType) and
    ``device_id``.

    A TvmDevice can be made for any device: if the device is missing here, ``exist`` is False, and its use
    causes an error. Attributes of the hardware that TVM does not know for a cpu are None.
    """

    kDLCPU, kDLCUDA, kDLGPU, kDLCUDAHost, kDLOpenCL, kDLVulkan = 1, 2, 2, 3, 4, 7
    kDLMetal, kDLVPI, kDLROCM, kDLROCMHost, kDLExtDev, kDLOneAPI, kDLWebGPU, kDLHexagon = (
        8,
        9,
        10,
        11,
        12,
        14,
        15,
        16,
    )
    MASK2STR, STR2MASK = _NAMES, _NUMBERS

    device_type: int
    device_id: int

    def __init__(self, device_type: int, device_id: int = 0):
        self.device_type, self.device_id = int(device_type), int(device_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TvmDevice) and (self.device_type, self.device_id) == (
            other.device_type,
            other.device_id,
        )

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{_NAMES.get(self.device_type, self.device_type)}({self.device_id})"

    @property
    def exist(self) -> bool:
        """Whether the device exists here: True for cpu, and for ext_dev, which is the simulated tt."""
        return self.device_type in dl_kinds()

    def opened(self) -> Device:
        """The device of graph_runtime for this device. Raises DeviceError for a device that is missing here;
        the error's text names an alternative."""
        return of_type(_NAMES.get(self.device_type, self.device_type), self.device_id)

    def sync(self, stream: Any = None) -> None:
        """Do nothing: a run has ended on all its devices when it returns. Raises DeviceError for a missing
        device."""
        self.opened()

    def _unknown(self) -> None:
        """None, for an attribute that TVM does not know. Raises DeviceError for a missing device."""
        self.opened()

    max_threads_per_block = property(_unknown)
    warp_size = property(_unknown)
    max_shared_memory_per_block = property(_unknown)
    compute_version = property(_unknown)
    device_name = property(_unknown)
    max_clock_rate = property(_unknown)
    multi_processor_count = property(_unknown)
    max_thread_dimensions = property(_unknown)
    api_version = property(_unknown)
    driver_version = property(_unknown)
    l2_cache_size_bytes = property(_unknown)
    total_global_memory = property(_unknown)
    available_global_memory = property(_unknown)

    def texture_spatial_limit(self) -> None:
        """None, because there are no textures."""
        self.opened()

    def create_raw_stream(self) -> None:
        """None, as for TVM's cpu, which has no streams."""
        self.opened()

    def free_raw_stream(self, stream: Any) -> None:
        """Do nothing: see create_raw_stream."""

    def set_raw_stream(self, stream: Any) -> None:
        """Do nothing: see create_raw_stream."""


def device(dev_type: int | str, dev_id: int = 0) -> TvmDevice:
    """A device by number, name or target: ``device("cuda", 1)``, ``device("cpu:0")``, ``device("llvm")``.

    Raises ValueError for a name that TVM does not know, and for an id that is not a number.
    """
    if not isinstance(dev_id, int):
        raise ValueError(f"Invalid device id: {dev_id}")
    if not isinstance(dev_type, str):
        return TvmDevice(dev_type, dev_id)
    name, *ids = dev_type.split()[0].split(":")
    if len(ids) > 1:
        raise ValueError(f"Invalid device string: {dev_type}")
    if ids and not ids[0].isdigit():
        raise ValueError(f"Invalid device id: {ids[0]}")
    number = _NUMBERS.get(name) or dl_types().get(name)
    if number is None:
        raise ValueError(f"Unknown device type: {name}{all_there_are(name, [*_NUMBERS, *dl_types()])}")
    return TvmDevice(number, int(ids[0]) if ids else dev_id)


context = device  # the name of ``device`` up to TVM 0.7


def as_device(given: Device) -> TvmDevice:
    """The TvmDevice for a device of graph_runtime."""
    return TvmDevice(given.dl_type, given.ordinal)


def opened(given: Any) -> Any:
    """The device of graph_runtime for a TvmDevice; for a list of TvmDevices, the list of their devices; any
    other value is returned unchanged. Raises DeviceError for a missing device."""
    if isinstance(given, TvmDevice):
        return given.opened()
    return [opened(one) for one in given] if isinstance(given, (list, tuple)) else given


def cpu(dev_id: int = 0) -> TvmDevice:
    """The host."""
    return TvmDevice(1, dev_id)


def cuda(dev_id: int = 0) -> TvmDevice:
    """An NVIDIA GPU, which is not here."""
    return TvmDevice(2, dev_id)


def opencl(dev_id: int = 0) -> TvmDevice:
    """An OpenCL device, which is not here."""
    return TvmDevice(4, dev_id)


def vulkan(dev_id: int = 0) -> TvmDevice:
    """A Vulkan device, which is not here."""
    return TvmDevice(7, dev_id)


def metal(dev_id: int = 0) -> TvmDevice:
    """A Metal device, which is not here."""
    return TvmDevice(8, dev_id)


def vpi(dev_id: int = 0) -> TvmDevice:
    """A simulated Verilog device, which is not here."""
    return TvmDevice(9, dev_id)


def rocm(dev_id: int = 0) -> TvmDevice:
    """An AMD GPU, which is not here."""
    return TvmDevice(10, dev_id)


def ext_dev(dev_id: int = 0) -> TvmDevice:
    """The device of type 12: here the simulated tt."""
    return TvmDevice(12, dev_id)


def webgpu(dev_id: int = 0) -> TvmDevice:
    """A WebGPU device, which is not here."""
    return TvmDevice(15, dev_id)


def hexagon(dev_id: int = 0) -> TvmDevice:
    """A Hexagon DSP, which is not here."""
    return TvmDevice(16, dev_id)


def opengl(dev_id: int = 0) -> TvmDevice:
    """An OpenGL device of TVM 0.5, which is not here."""
    return TvmDevice(34, dev_id)


def micro_dev(dev_id: int = 0) -> TvmDevice:
    """A microcontroller of TVM 0.6, which is not here."""
    return TvmDevice(35, dev_id)


gpu, cl, mtl = cuda, opencl, metal
MAKERS = {
    one.__name__: one
    for one in (cpu, cuda, opencl, vulkan, metal, vpi, rocm, ext_dev, webgpu, hexagon, opengl, micro_dev)
} | {"gpu": gpu, "cl": cl, "mtl": mtl}
