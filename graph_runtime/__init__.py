"""Load graph.json and a module library, and run the graph across CPUs and simulated Tenstorrent devices.

    import graph_runtime as gr
    mod = gr.create("graph.json", "kernels.so", ["cpu:0", "tt:0"])
    mod.set_input("x", x)
    mod.run()
    y = mod.get_output(0).numpy()

Names are imported when they are first used, so `import graph_runtime` alone loads nothing else.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import providers
from .base.late_names import LateNames
from .base.showable import Showable, Viewable
from .base.version import VERSION

if TYPE_CHECKING:  # the public names: type checkers read these lines, and so does LateNames
    from . import cluster as cluster
    from . import eager as eager
    from . import runtime as runtime
    from .artifacts.prepare import Prepared as Prepared
    from .artifacts.prepare import load_params as load_params
    from .artifacts.prepare import prepare as prepare
    from .artifacts.prepare import read_params as read_params
    from .artifacts.trust import trust as trust
    from .artifacts.trust import trusted as trusted
    from .artifacts.trust import untrust as untrust
    from .base import errors as errors
    from .base.dtypes import DType as DType
    from .base.errors import CapacityError as CapacityError
    from .base.errors import CheckError as CheckError
    from .base.errors import ClusterError as ClusterError
    from .base.errors import CompileError as CompileError
    from .base.errors import DeviceError as DeviceError
    from .base.errors import DeviceMemoryError as DeviceMemoryError
    from .base.errors import DocumentError as DocumentError
    from .base.errors import GraphError as GraphError
    from .base.errors import GraphRuntimeError as GraphRuntimeError
    from .base.errors import HandleError as HandleError
    from .base.errors import ImplicitTransferError as ImplicitTransferError
    from .base.errors import InputError as InputError
    from .base.errors import KernelError as KernelError
    from .base.errors import LibraryError as LibraryError
    from .base.errors import MissingDataError as MissingDataError
    from .base.errors import ParamsError as ParamsError
    from .base.errors import PlanError as PlanError
    from .base.errors import RequestError as RequestError
    from .base.errors import RunCancelledError as RunCancelledError
    from .base.errors import SessionBusyError as SessionBusyError
    from .base.errors import UnsupportedOpError as UnsupportedOpError
    from .base.errors import UntrustedLibraryError as UntrustedLibraryError
    from .base.errors import WaitTimeoutError as WaitTimeoutError
    from .base.errors import WorkerLost as WorkerLost
    from .base.errors import WriteError as WriteError
    from .base.machine.devices import Device as Device
    from .base.machine.devices import cpu as cpu
    from .base.machine.devices import tt as tt
    from .base.options import Options as Options
    from .codegen.build import build_bundle as build_bundle
    from .codegen.build import build_library as build_library
    from .compat.tvm_files.library import load_module as load_module
    from .frontends.onnx import load_model as load_model
    from .ir.builder import GraphBuilder as GraphBuilder
    from .ir.documents.loader import load_graph as load_graph
    from .ir.documents.params import save_params as save_params
    from .ir.documents.write import graph_to_json as graph_to_json
    from .ir.graph import Graph as Graph
    from .ir.model import Constant as Constant
    from .ir.model import Model as Model
    from .ir.value import Value as Value
    from .ir.value import where as where
    from .plan.passes import place as place
    from .plan.record import record as record
    from .plan.types import Plan as Plan
    from .run.benchmark import BenchmarkResult as BenchmarkResult
    from .run.factory import create as create
    from .run.library import load_library as load_library
    from .run.loading import load as load
    from .run.module import GraphModule as GraphModule
    from .run.queues.run import Run as Run
    from .run.sessions.session import Session as Session
    from .run.tensors.arrays import array as array
    from .run.tensors.arrays import borrow as borrow
    from .run.tensors.arrays import empty as empty
    from .run.tensors.journal import no_fallback as no_fallback
    from .run.tensors.tensor import Tensor as Tensor
    from .run.tensors.tensor import aligned_empty as aligned_empty
    from .run.tensors.traffic import no_implicit_transfer as no_implicit_transfer
    from .run.tensors.traffic import stats as stats
    from .run.tensors.transfers import gather as gather
    from .run.tensors.transfers import scatter as scatter
    from .run.tensors.transfers import wait_all as wait_all
    from .runtime.stitching.executable import unload_program as unload_program
    from .simulation.simulation import simulate as simulate
    from .simulation.timeline import Timeline as Timeline
    from .views.report import plan_text as plan_text

__version__ = VERSION


_late = LateNames(__name__)


def __getattr__(name: str) -> Any:
    return _late.find(name)


def __dir__() -> list[str]:
    return [*_late.homes, "__version__"]


# users write `from graph_runtime.errors import InputError`, too
sys.modules[f"{__name__}.errors"] = import_module(".base.errors", __name__)


# **************** objects of high layers that low layers need ****************

# name -> (module, function that makes the object). docs/architecture.md lists the modules that ask for each
# name, and why.
_PROVIDERS = {
    "circular buffers": ("binding.circular", "of_node"),
    "cluster": ("cluster.graphs.connecting", "connected"),
    "error bound": ("accuracy.bounding", "bounded"),
    "operators": ("eager.protocol", "attach"),
}


def _provide(module: str, name: str) -> Any:
    return getattr(import_module(f".{module}", __name__), name)


providers.provide({name: partial(_provide, *where) for name, where in _PROVIDERS.items()})


def _repr_html_(value: Any) -> str:
    """The HTML that a notebook shows for a value."""
    text: str = _provide("views.notebook", "html_of")(value)
    return text


def _view(value: Any, path: Any = None) -> Any:
    """Write the page of `graph-runtime view` and return its path. The page shows a plan and its simulated
    run, or a timeline and its plan; a measured timeline is shown beside a simulated one. Without ``path`` the
    page is a temporary file that the browser opens. Raises WriteError, InputError."""
    return _provide("views.page.opened", "view_value")(value, path)


for _kind, _name, _method in ((Showable, "_repr_html_", _repr_html_), (Viewable, "view", _view)):
    setattr(_kind, _name, _method)
