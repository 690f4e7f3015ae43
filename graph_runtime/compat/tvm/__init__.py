"""TVM's names for deploying graph executor artifacts, so that a script only has to change its import line:

    import graph_runtime.compat.tvm as tvm
    from graph_runtime.compat.tvm.contrib import graph_executor

    lib = tvm.runtime.load_module("deploy.so")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    module.set_input("data", tvm.nd.array(x))
    module.run()
    y = module.get_output(0).numpy()

Arrays, devices and modules have TVM's interface over this package's own objects. Errors are those of
graph_runtime, whose base class is ``TVMError``.
"""

import sys as _sys

from . import _ffi, contrib, error, nd, rpc, runtime, support, testing
from .alias import name_missing as _name_missing
from .error import TVMError
from .missing import answer as _answer
from .runtime import DataType, DataTypeCode
from .runtime import device as device
from .runtime.device import (
    cl,
    context,
    cpu,
    cuda,
    ext_dev,
    gpu,
    hexagon,
    metal,
    micro_dev,
    mtl,
    opencl,
    opengl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from .runtime.global_functions import PackedFunc, get_global_func, register_func

ndarray = runtime.ndarray  # ndarray and the next two are names of TVM 0.6
module = runtime.module
TVMContext = runtime.Device

__version__ = "0.19.0"  # TVM's last release with a graph executor

_name_missing()

__all__ = [
    "DataType",
    "DataTypeCode",
    "PackedFunc",
    "TVMContext",
    "TVMError",
    "_ffi",
    "cl",
    "context",
    "contrib",
    "cpu",
    "cuda",
    "device",
    "error",
    "ext_dev",
    "get_global_func",
    "gpu",
    "hexagon",
    "metal",
    "micro_dev",
    "module",
    "mtl",
    "nd",
    "ndarray",
    "opencl",
    "opengl",
    "register_func",
    "rocm",
    "rpc",
    "runtime",
    "support",
    "testing",
    "vpi",
    "vulkan",
    "webgpu",
]

for _module in (_sys.modules[__name__], contrib, error, nd, runtime, support, testing):
    _answer(_module)
del _module
