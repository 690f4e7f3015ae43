"""The submodules of ttnn that scripts import by name, made from the modules of this package; and
``install``."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from . import answers
from .devices import chips, memory_views, mesh_device, opening
from .errors import Unsupported
from .golden.functions import get_golden_function_for_activation, golden_of
from .graphs import pages
from .memory import configs, cores, values
from .operations.moreh import softmaxes
from .programs import configs as program_configs
from .programs import windows
from .registry import OPERATIONS
from .released.absent import Absent
from .released.names import filled, released_names
from .tensors import distributed, drawn_meshes, placements
from .tensors.tensor import Tensor

_BY_KIND = (
    "binary binary_backward comparison core creation data_movement embedding losses matmul normalization "
    "reduction ternary ternary_backward unary"
)


def _module(name: str, doc: str, **content: Any) -> ModuleType:
    made = ModuleType(f"ttnn.{name}", doc)
    vars(made).update(content)
    return made


class _Later(ModuleType):
    """A submodule that loads its content when one of its names is first asked for."""

    def __init__(self, name: str, doc: str, load: Callable[[], dict[str, Any]]):
        super().__init__(f"ttnn.{name}", doc)
        self._load: Callable[[], dict[str, Any]] | None = load

    def __getattr__(self, name: str) -> Any:
        load = vars(self).get("_load")
        if load is None or (name.startswith("__") and name != "__all__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._load = None
        vars(self).update(load() | vars(self))
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *(self._load() if self._load else ())})


def _declined(what: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"ttnn.{what} is not supported", op=f"ttnn.{what}")

    return refuse


def _public(*modules: ModuleType) -> dict[str, Any]:
    return {name: getattr(m, name) for m in modules for name in m.__all__}


def submodules(found: Callable[[str], Any]) -> dict[str, ModuleType]:
    """{name after "ttnn.": module}. ``found``: what ttnn itself has under a name, or None."""
    made: dict[str, ModuleType] = {}
    for name, function in OPERATIONS.items():
        group, _, last = name.rpartition(".")
        if group:
            setattr(_group(made, group), last, function)
    made["types"] = _module("types", "value classes", **_public(values, cores, configs, program_configs))
    memory_reports = {f"{what}MemoryReports": lambda *_: None for what in ("Enable", "Disable")}
    named = _public(mesh_device, opening, chips, memory_views) | memory_reports
    named |= {"DeallocateBuffers": _deallocate, "Device": mesh_device.MeshDevice}
    named["is_grayskull"] = lambda _: False  # a name of ttnn's before 2026, which packages still ask
    made["device"] = _module("device", "devices", **named)
    kinds = {"ClusterType": chips.ClusterType, "get_cluster_type": lambda: mesh_device.machine().kind}
    made["cluster"] = _module("cluster", "the kind of this machine", **kinds)
    made["distributed"] = _module("distributed", "meshes", **_public(drawn_meshes))
    registered = OPERATIONS.values()
    made["decorators"] = _module("decorators", "the operations", REGISTERED_OPERATIONS=registered)
    helpers = {"divup": lambda a, b: -(-a // b), "roundup": answers.roundup}
    made["core"] = _module("core", "helpers", **helpers, **_public(configs))
    made |= _tools(found) | _extension() | _operations()
    for module in filter(None, released_names()):
        here = _group(made, module)
        if not isinstance(here, _Later):
            vars(here).update(filled(module, vars(here), found))
    for name, module_of in made.items():
        outer, _, last = name.rpartition(".")
        if outer:
            setattr(made[outer], last, module_of)
    return made


def _group(made: dict[str, ModuleType], name: str) -> ModuleType:
    """The module of a group of operations, such as "experimental.quasar", made at its first use."""
    if name not in made:
        made[name] = _module(name, f"ttnn.{name}")
        outer, _, last = name.rpartition(".")
        if outer:
            setattr(_group(made, outer), last, made[name])
    return made[name]


def _deallocate(device: mesh_device.MeshDevice) -> None:
    """Free the memory of all tensors on a device."""
    for found in list(device.tensors.values()):
        found.deallocate(True)


def _database() -> dict[str, Any]:
    """The names of a report's files and tables (logged_calls.py)."""
    paths = {"SQLITE_DB_PATH": "db.sqlite", "CONFIG_PATH": "config.json", "TENSORS_PATH": "tensors"}
    rows = {kind: namedtuple(kind, fields) for kind, fields in _ROWS.items()}
    return {**paths, **rows, "SQLITE_CONNECTION": None}


# class of ttnn.database -> columns of its rows
_ROWS = {
    "Operation": "operation_id name duration",
    "Buffer": "operation_id device_id address max_size_per_bank buffer_type buffer_layout",
    "BufferPage": (
        "operation_id device_id address core_y core_x bank_id page_index page_address page_size buffer_type"
    ),
    "InputTensor": "operation_id input_index tensor_id",
    "OutputTensor": "operation_id output_index tensor_id",
    "OperationArgument": "operation_id name value",
    "TensorComparisonRecord": "tensor_id golden_tensor_id matches desired_pcc actual_pcc",
}


_PARTS = "core fabric operations"  # parts of ttnn's extension module that are absent here


def _extension() -> dict[str, ModuleType]:
    kept = _module("_ttnn.reports", "places of tensors in memory", get_buffer_pages=pages.get_buffer_pages)
    operations = _module("_ttnn.deprecated.operations", "older functions: none are served")
    deprecated = _module("_ttnn.deprecated", "older names", operations=operations)
    parts: dict[str, Any] = {
        name: Absent(f"ttnn._ttnn.{name}", "it is ttnn's compiled code") for name in _PARTS.split()
    }
    of_tensors = _module("_ttnn.tensor", "tensors", Tensor=Tensor, **_public(values, configs))
    named = _public(chips, distributed, placements) | {
        kind.__name__: kind
        for kind in (mesh_device.MeshDevice, mesh_device.MeshDeviceView, mesh_device.SystemMeshDescriptor)
    }
    meshes = _module("_ttnn.multi_device", "meshes", **named)
    parts |= {"reports": kept, "deprecated": deprecated, "tensor": of_tensors, "multi_device": meshes}
    whole = _module("_ttnn", "the rest of the extension module", **parts)
    return {"_ttnn": whole, "_ttnn.deprecated": deprecated, "_ttnn.reports": kept}


def _operations() -> dict[str, ModuleType]:
    pool = _module("operations.pool", "golden functions of pools", **_golden_pools())
    moreh = {k.removeprefix("moreh_"): v for k, v in OPERATIONS.items() if k.startswith("moreh_")}
    moreh |= {name.removeprefix("Moreh"): getattr(softmaxes, name) for name in softmaxes.__all__}
    older = _module("operations.moreh", "older forms", **moreh)
    named = {k: v for k, v in OPERATIONS.items() if "." not in k}
    kinds = {
        f"operations.{kind}": _module(f"operations.{kind}", "operations", **named)
        for kind in _BY_KIND.split()
    }
    for function in (answers.find_closest_largest_divisor, answers.find_max_tile_span):
        setattr(kinds["operations.normalization"], function.__name__, function)
    named["__path__"] = []  # an attribute that makes the module a package
    return kinds | {
        "operations": _module("operations", "the operations", **named, pool=pool, moreh=older),
        "operations.pool": pool,
        "operations.moreh": older,
        "operations.transformer": _module(
            "operations.transformer", "attention", **named, **_public(program_configs)
        ),
        "operations.conv2d": _module("operations.conv2d", "convolutions", **_public(windows)),
        "operations.activations": _module(
            "operations.activations",
            "golden functions of activations",
            get_golden_function_for_activation=get_golden_function_for_activation,
        ),
    }


def _golden_pools() -> dict[str, Any]:
    names = "avg_pool2d global_avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d upsample rotate".split()
    made = {f"golden_{name}": golden_of(name) for name in names}
    declined = _declined("operations.pool.golden_grid_sample")
    return made | {"golden_maxpool2d": golden_of("max_pool2d"), "golden_grid_sample": declined}


def _tools(found: Callable[[str], Any]) -> dict[str, ModuleType]:
    """Tools that observe calls: the tracer (under two names), captured graphs, reports."""

    def whole(name: str, load: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        own = load()
        return own | filled(name, own, found)

    loads = {
        "tracer": ("what torch and ttnn compute", _tracer),
        "torch_tracer": ("what torch and ttnn compute", _tracer),
        "graph": ("what was called", _graph),
        "graph_tracer_utils": ("text of graphs", _graph_text),
        "database": ("reports of calls", _database),
        "model_preprocessing": ("parameters of torch modules", _preprocessing),
        "dot_access": ("dicts with attributes", _dot_access),
    }
    return {name: _Later(name, doc, partial(whole, name, load)) for name, (doc, load) in loads.items()}


def _tracer() -> dict[str, Any]:
    from .graphs import nodes, traced, tracer

    return _public(nodes, tracer, traced) | {"codegen": _declined("tracer.codegen")}


def _preprocessing() -> dict[str, Any]:
    from .parameters import cache, modules

    return _public(cache, modules)


def _dot_access() -> dict[str, Any]:
    from .parameters.cache import ParameterDict, make_dot_access_dict

    return {"DotAccessDict": ParameterDict, "make_dot_access_dict": make_dot_access_dict}


def _graph() -> dict[str, Any]:
    from .graphs import captures, views

    detailed = [False]
    flags = {
        "enable_detailed_buffer_tracing": lambda: detailed.__setitem__(0, True),
        "disable_detailed_buffer_tracing": lambda: detailed.__setitem__(0, False),
        "is_detailed_buffer_tracing_enabled": lambda: detailed[0],
    }
    return _public(captures, views) | flags


def _graph_text() -> dict[str, Any]:
    from .graphs import text

    methods = {"serialize_graph": staticmethod(text.serialize_graph)}
    return {"GraphTracerUtils": type("GraphTracerUtils", (), methods)}


def install(package: ModuleType) -> None:
    """Let ``import ttnn``, ``import ttnn.types`` and the other submodules find this package, unless a real
    ttnn was imported."""
    found = sys.modules.get("ttnn")
    if found is not None and found is not package:
        raise RuntimeError("another ttnn has been imported already")
    sys.modules["ttnn"] = package
    for name, module in package.SUBMODULES.items():
        sys.modules[f"ttnn.{name}"] = module
