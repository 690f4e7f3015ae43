"""Names of TVM that are missing here, each with an error text that gives the alternative."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import ModuleType

from ...base.errors import all_there_are

__all__ = ["answer", "no_name", "why"]

_COMPILER = (
    "IRModule arith auto_scheduler autotvm build create_schedule driver ir lower meta_schedule micro parser "
    "relax relay script target te tir topi transform"
).split()


_EXECUTORS = {
    "runtime.vm": "TVM's virtual machine",
    "runtime.executor": "TVM's AOT executor",
    "contrib.tflite_runtime": "TVM's TFLite runtime",
    "contrib.cuda_graph": "TVM's CUDA graph executor",
    "contrib.pipeline_executor": "TVM's pipeline executor",
}


def answer(module: ModuleType) -> None:
    """Make access to a missing name of this module raise an error with the text of why()."""
    vars(module).setdefault("__getattr__", partial(_absent, module))


def _absent(module: ModuleType, name: str) -> None:
    raise no_name(module.__name__, name, module.__all__)


def no_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error that a module's ``__getattr__`` raises for an unknown name, as errors.no_attribute."""
    prefix = module.removeprefix(__name__.rpartition(".")[0]).lstrip(".")
    return AttributeError(
        why(f"{prefix}.{name}".lstrip("."), () if name.startswith("_") else known), name=name
    )


def why(name: str, known: Iterable[str] = ()) -> str:
    """The error text for ``tvm.<name>``, which is missing here. ``known``: the names that the module of
    ``name`` has."""
    for other, what in _EXECUTORS.items():
        if name == other or name.startswith(f"{other}."):
            return (
                f"tvm.{name}: {what} is not here: build the model for the graph executor with TVM elsewhere"
            )
    if name.partition(".")[0] in _COMPILER:
        return (
            f"tvm.{name} is a part of TVM's compiler, which is not here: compile with TVM elsewhere "
            "(relay.build, export_library) and load the result with tvm.runtime.load_module"
        )
    if name == "rpc":
        return (
            "there is no RPC server or tracker of TVM's here: rpc.connect(NODE) is a node of a cluster of "
            "Ray's, which gr.cluster.connect() joins (docs/cluster.md)"
        )
    near = all_there_are(name.rpartition(".")[2], known) if known else ""
    return f"graph_runtime.compat.tvm has no {name!r}{near}; docs/tvm.md says more"
