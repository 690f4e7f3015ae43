"""What TVM has and this package has not: each name leads to a text that names the way out."""

from __future__ import annotations

__all__ = ["why"]

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


def why(name: str) -> str:
    """The text of an error for ``tvm.<name>``."""
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
    return f"graph_runtime.compat.tvm has no {name!r}: docs/tvm.md says what there is"
