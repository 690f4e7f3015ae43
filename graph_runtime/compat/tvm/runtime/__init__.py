"""tvm.runtime: modules, devices, arrays and parameter files."""

from ....run.benchmark import BenchmarkResult
from ....views.profile import Report
from . import device as _devices
from . import module, ndarray, params
from .data_type import DataType, DataTypeCode
from .device import TvmDevice, context, cpu, cuda, ext_dev, gpu, metal, opencl, rocm, vulkan
from .global_functions import PackedFunc, convert
from .module import (
    LibraryModule,
    PackedModule,
    enabled,
    load_module,
    load_static_library,
    num_threads,
    system_lib,
)
from .ndarray import NDArray, array, empty, from_dlpack
from .params import load_param_dict, load_param_dict_from_file, save_param_dict, save_param_dict_to_file

Device = TVMContext = TvmDevice
Module = PackedModule
device = _devices.device

__all__ = [
    "BenchmarkResult",
    "DataType",
    "DataTypeCode",
    "Device",
    "LibraryModule",
    "Module",
    "NDArray",
    "PackedFunc",
    "Report",
    "TVMContext",
    "array",
    "context",
    "convert",
    "cpu",
    "cuda",
    "device",
    "empty",
    "enabled",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "load_module",
    "load_param_dict",
    "load_param_dict_from_file",
    "load_static_library",
    "metal",
    "module",
    "ndarray",
    "num_threads",
    "opencl",
    "params",
    "rocm",
    "save_param_dict",
    "save_param_dict_to_file",
    "system_lib",
    "vulkan",
]
