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

from .base import hooks, moved

# public name -> the module that defines it
_HOME = {
    "BenchmarkResult": "run.benchmark",
    "CapacityError": "base.errors",
    "CheckError": "base.errors",
    "CompileError": "base.errors",
    "DType": "base.dtypes",
    "Device": "base.machine.devices",
    "DeviceError": "base.errors",
    "DeviceMemoryError": "base.errors",
    "DocumentError": "base.errors",
    "Graph": "ir.graph",
    "GraphBuilder": "ir.builder",
    "GraphError": "base.errors",
    "GraphModule": "run.module",
    "GraphRuntimeError": "base.errors",
    "HandleError": "base.errors",
    "ImplicitTransferError": "base.errors",
    "InputError": "base.errors",
    "KernelError": "base.errors",
    "LibraryError": "base.errors",
    "MissingDataError": "base.errors",
    "Model": "ir.model",
    "ParamsError": "base.errors",
    "Plan": "plan.types",
    "PlanError": "base.errors",
    "Run": "run.queues.run",
    "RunCancelledError": "base.errors",
    "Session": "run.sessions.session",
    "SessionBusyError": "base.errors",
    "Tensor": "run.tensors.tensor",
    "Timeline": "simulation.timeline",
    "UnsupportedOpError": "base.errors",
    "UntrustedLibraryError": "base.errors",
    "WaitTimeoutError": "base.errors",
    "WriteError": "base.errors",
    "aligned_empty": "run.tensors.host_values",
    "array": "run.tensors.arrays",
    "borrow": "run.tensors.arrays",
    "build_bundle": "codegen.build",
    "build_library": "codegen.build",
    "cpu": "base.machine.devices",
    "create": "run.factory",
    "empty": "run.tensors.arrays",
    "gather": "run.tensors.transfers",
    "load": "run.factory",
    "load_graph": "ir.documents.loader",
    "load_library": "run.library",
    "place": "plan.placement",
    "load_module": "compat.artifacts.library",
    "load_params": "ir.documents.params",
    "no_fallback": "run.tensors.journal",
    "no_implicit_transfer": "run.tensors.traffic",
    "read_params": "ir.documents.params",
    "scatter": "run.tensors.transfers",
    "simulate": "simulation.simulation",
    "stats": "run.tensors.traffic",
    "trust": "build.trust",
    "trusted": "build.trust",
    "tt": "base.machine.devices",
    "unload_program": "runtime.stitching.executable",
    "untrust": "build.trust",
    "wait_all": "run.tensors.transfers",
}

# public name of a module -> the module
_MODULES = {"eager": "eager", "errors": "base.errors", "runtime": "runtime"}

__all__ = sorted([*_HOME, *_MODULES])
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{_MODULES[name]}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


moved.install(__name__)
hooks.provide(
    {
        "bundle parameters": lambda: import_module(".build.parameters", __name__).read_bundle_params,
        "transfers": lambda: import_module(".run.tensors.transfers", __name__),
        "operators": lambda: import_module(".eager.protocol", __name__).attach,
    }
)
