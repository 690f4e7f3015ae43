"""TVM's names for deploying graph executor artifacts, so that a script moves by its import line:

    import graph_runtime.compat.tvm as tvm
    from graph_runtime.compat.tvm.contrib import graph_executor

    lib = tvm.runtime.load_module("deploy.so")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    module.set_input("data", tvm.nd.array(x))
    module.run()
    y = module.get_output(0).numpy()

Every name here is one of this package's objects. Arrays are graph_runtime Tensors, devices graph_runtime
Devices, errors graph_runtime exceptions, the root of which is ``TVMError``.
"""

from ...base.errors import GraphRuntimeError as TVMError
from ...base.machine.devices import cpu
from ..artifacts.packed_functions import get_global_func, register_func
from . import contrib, nd, runtime
from .runtime import device

__all__ = ["TVMError", "contrib", "cpu", "device", "get_global_func", "nd", "register_func", "runtime"]
