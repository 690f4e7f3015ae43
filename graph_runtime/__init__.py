"""Load graph.json and a module library, and run the graph across CPUs and simulated Tenstorrent devices.

    import graph_runtime as gr
    mod = gr.create("graph.json", "kernels.so", ["cpu:0", "tt:0"])
    mod.set_input("x", x)
    mod.run()
    y = mod.get_output(0).numpy()

Names are imported when they are first used: `import graph_runtime` alone loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_HOME = {
    "BenchmarkResult": "benchmark",
    "CapacityError": "errors",
    "CheckError": "errors",
    "CompileError": "errors",
    "DType": "dtypes",
    "Device": "devices",
    "DeviceError": "errors",
    "DeviceMemoryError": "errors",
    "DocumentError": "errors",
    "Graph": "graph",
    "GraphBuilder": "builder",
    "GraphError": "errors",
    "GraphModule": "module",
    "GraphRuntimeError": "errors",
    "HandleError": "errors",
    "ImplicitTransferError": "errors",
    "InputError": "errors",
    "KernelError": "errors",
    "LibraryError": "errors",
    "MissingDataError": "errors",
    "Model": "model",
    "ParamsError": "errors",
    "Plan": "plan.types",
    "PlanError": "errors",
    "Run": "queues.run",
    "RunCancelledError": "errors",
    "Session": "sessions.session",
    "SessionBusyError": "errors",
    "Tensor": "tensors.tensor",
    "Timeline": "simulation.timeline",
    "UnsupportedOpError": "errors",
    "UntrustedLibraryError": "errors",
    "WaitTimeoutError": "errors",
    "WriteError": "errors",
    "aligned_empty": "tensors.host_values",
    "array": "tensors.arrays",
    "borrow": "tensors.arrays",
    "cpu": "devices",
    "create": "factory",
    "empty": "tensors.arrays",
    "gather": "tensors.transfers",
    "load": "factory",
    "load_graph": "documents.loader",
    "load_library": "library",
    "place": "plan.placement",
    "load_module": "tvm.library",
    "load_params": "documents.params",
    "no_fallback": "single.journal",
    "no_implicit_transfer": "tensors.traffic",
    "read_params": "documents.params",
    "scatter": "tensors.transfers",
    "simulate": "simulation.simulation",
    "stats": "tensors.traffic",
    "trust": "libraries.trust",
    "trusted": "libraries.trust",
    "tt": "devices",
    "unload_program": "stitching.executable",
    "untrust": "libraries.trust",
    "wait_all": "tensors.transfers",
}

_PACKAGES = ("eager", "runtime")

__all__ = sorted([*_HOME, *_PACKAGES])
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
