"""The submodules of ttnn that programs import by name, made of what is here; and ``install``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from . import (
    chips,
    conversion,
    cores,
    devices,
    golden,
    graph_text,
    graph_views,
    graphs,
    memory,
    memory_views,
    moreh_softmaxes,
    reports,
    values,
    windows,
)
from .declined import Absent
from .errors import Unsupported
from .names import OPERATIONS

__all__ = ["install", "submodules"]

_GROUPS = ("transformer", "experimental", "kv_cache", "global_semaphore")


def _module(name: str, doc: str, **content: Any) -> ModuleType:
    made = ModuleType(f"ttnn.{name}", doc)
    vars(made).update(content)
    return made


def _declined(what: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"ttnn.{what} is not supported", op=f"ttnn.{what}")

    return refuse


def _public(*modules: ModuleType) -> dict[str, Any]:
    return {name: getattr(m, name) for m in modules for name in m.__all__}


def submodules() -> dict[str, ModuleType]:
    """Name below "ttnn." -> module."""
    made = {group: _module(group, f"ttnn.{group}") for group in _GROUPS}
    for name, function in OPERATIONS.items():
        group, _, last = name.rpartition(".")
        if group in made:
            setattr(made[group], last, function)
    for name in ("deepseek", "deepseek_prefill"):  # modules of kernels of one model's
        setattr(made["experimental"], name, Absent(f"ttnn.experimental.{name}"))
    made["types"] = _module("types", "value classes", **_public(values, cores, memory))
    memory_reports = {f"{what}MemoryReports": lambda *_: None for what in ("Enable", "Disable")}
    made["device"] = _module(
        "device",
        "devices",
        **_public(devices, chips, memory_views),
        Device=devices.MeshDevice,
        **memory_reports,
    )
    made["cluster"] = _module(
        "cluster",
        "which machine this is",
        ClusterType=chips.ClusterType,
        get_cluster_type=lambda: chips.ClusterType.N150,
    )
    made["distributed"] = _module("distributed", "meshes", get_num_pcie_devices=devices.get_num_devices)
    made["database"] = _module(
        "database", "reports: none are kept", SQLITE_CONNECTION=None, DEVICE_IDS_IN_DATABASE=set()
    )
    made.update(_unserved())
    made.update(_graph())
    kept = _module("_ttnn.reports", "what lies where", get_buffer_pages=reports.get_buffer_pages)
    operations = _module("_ttnn.deprecated.operations", "older functions: none are served")
    deprecated = _module("_ttnn.deprecated", "older names", operations=operations)
    made["_ttnn"] = _module(
        "_ttnn", "what the extension module has besides", reports=kept, deprecated=deprecated
    )
    made["_ttnn.deprecated"], made["_ttnn.reports"] = deprecated, kept
    made["core"] = _module("core", "helpers", divup=lambda a, b: -(-a // b), **_public(memory))
    made["model_preprocessing"] = _preprocessing()
    pool = _module("operations.pool", "golden functions of pools", **_golden_pools())
    made["operations"] = _module(
        "operations", "the operations", pool=pool, **{k: v for k, v in OPERATIONS.items() if "." not in k}
    )
    made["operations.pool"] = pool
    moreh = {k.removeprefix("moreh_"): v for k, v in OPERATIONS.items() if k.startswith("moreh_")}
    moreh |= {name.removeprefix("Moreh"): getattr(moreh_softmaxes, name) for name in moreh_softmaxes.__all__}
    made["operations.moreh"] = _module("operations.moreh", "older forms", **moreh)
    vars(made["operations"])["moreh"] = made["operations.moreh"]
    made["operations.conv2d"] = _module("operations.conv2d", "convolutions", **_public(windows))
    made["operations.activations"] = _module(
        "operations.activations",
        "golden functions of activations",
        get_golden_function_for_activation=golden.get_golden_function_for_activation,
    )
    return made


def _golden_pools() -> dict[str, Any]:
    names = "avg_pool2d global_avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d upsample".split()
    made = {f"golden_{name}": golden.golden_of(name) for name in names}
    return made | {
        "golden_maxpool2d": golden.golden_of("max_pool2d"),
        "golden_grid_sample": _declined("operations.pool.golden_grid_sample"),
        "golden_rotate": _declined("operations.pool.golden_rotate"),
    }


def _unserved() -> dict[str, ModuleType]:
    """Modules that are there so that programs which import them load."""
    made = {}
    tracing = {
        name: _declined(f"tracer.{name}")
        for name in ("trace", "visualize", "get_graph", "codegen", "enable_tracing")
    }
    made["tracer"] = _module(
        "tracer", "declined", **tracing, disable_tracing=lambda: None, is_tracing_enabled=lambda: False
    )
    return made


def _graph() -> dict[str, ModuleType]:
    detailed = [False]
    flags = {
        "enable_detailed_buffer_tracing": lambda: detailed.__setitem__(0, True),
        "disable_detailed_buffer_tracing": lambda: detailed.__setitem__(0, False),
        "is_detailed_buffer_tracing_enabled": lambda: detailed[0],
    }
    read = type("GraphTracerUtils", (), {"serialize_graph": staticmethod(graph_text.serialize_graph)})
    return {
        "graph": _module("graph", "what was called", **_public(graphs, graph_views), **flags),
        "graph_tracer_utils": _module("graph_tracer_utils", "text of graphs", GraphTracerUtils=read),
    }


def _preprocessing() -> ModuleType:
    def weight(value: Any, *, dtype: Any, layout: Any = values.Layout.TILE, **_: Any) -> Any:
        return conversion.from_torch(value.T.contiguous(), dtype=dtype, layout=layout)

    def bias(value: Any, *, dtype: Any, layout: Any = values.Layout.TILE, **_: Any) -> Any:
        return conversion.from_torch(value.reshape((1, -1)), dtype=dtype, layout=layout)

    def table(value: Any, *, dtype: Any, layout: Any = values.Layout.ROW_MAJOR, **_: Any) -> Any:
        return conversion.from_torch(value, dtype=dtype, layout=layout)

    return _module(
        "model_preprocessing",
        "weights of torch's layers",
        preprocess_linear_weight=weight,
        preprocess_linear_bias=bias,
        preprocess_layernorm_parameter=bias,
        preprocess_embedding_weight=table,
        preprocess_model_parameters=_declined("model_preprocessing.preprocess_model_parameters"),
    )


def install(package: ModuleType) -> None:
    """Let ``import ttnn`` and ``import ttnn.types`` mean this package, unless a real ttnn was imported."""
    found = sys.modules.get("ttnn")
    if found is not None and found is not package:
        raise RuntimeError("another ttnn has been imported already")
    sys.modules["ttnn"] = package
    for name, module in package.SUBMODULES.items():
        sys.modules[f"ttnn.{name}"] = module
