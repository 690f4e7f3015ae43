"""Which packed functions a library of TVM's will ask for, read from its file: generated code has their names
as texts, and hands them to TVMBackendGetFuncFromEnv when an operator first runs."""

from __future__ import annotations

import re

from .elf import SharedObject

__all__ = ["asked", "way_out"]

_ASK = "TVMBackendGetFuncFromEnv"
# a whole text of a name with dots that begins as those of TVM's global functions do
_NAME = re.compile(
    rb"(?<![\w.])((?:tvm|runtime|device_api|vm|relay|topi|ethos|hexagon)\.[A-Za-z_][\w.]*)\x00"
)
# what a name begins with -> whose it is, and what to do
_RECOMPILE = "compile the model without it (target without -libs=...)"
_OWNERS = (
    ("tvm.contrib.cublas", "cuBLAS (-libs=cublas)", "compile for the cpu (target llvm)"),
    ("tvm.contrib.cudnn", "cuDNN (-libs=cudnn)", "compile for the cpu (target llvm)"),
    ("tvm.contrib.thrust", "Thrust (-libs=thrust)", "compile for the cpu (target llvm)"),
    ("tvm.contrib.rocblas", "rocBLAS", "compile for the cpu (target llvm)"),
    ("tvm.contrib.miopen", "MIOpen", "compile for the cpu (target llvm)"),
    ("tvm.contrib.dnnl", "oneDNN (-libs=dnnl)", _RECOMPILE),
    ("tvm.contrib.mkl", "MKL (-libs=mkl)", _RECOMPILE),
    ("tvm.contrib.cblas", "a BLAS (-libs=cblas)", _RECOMPILE),
    ("tvm.contrib.nnpack", "NNPACK (-libs=nnpack)", _RECOMPILE),
    ("tvm.contrib.mps", "Metal Performance Shaders", "compile for the cpu (target llvm)"),
    ("tvm.contrib.tflite", "TFLite", "convert the model with TVM's TFLite front-end"),
    ("tvm.contrib", "a contrib library of TVM's", _RECOMPILE),
    ("device_api", "a device that is not there", "compile for the cpu (target llvm)"),
    ("vm.", "TVM's virtual machine", "compile with relay.build for the graph executor"),
)


def asked(shared: SharedObject, data: memoryview | bytes) -> list[str]:
    """The names that the file has as whole texts; [] for a library that asks for no function. ``data``: its
    bytes."""
    if _ASK not in shared.undefined and f"__{_ASK}" not in shared.objects:
        return []
    return sorted({name.decode() for name in _NAME.findall(data)} - set(shared.functions))


def way_out(name: str) -> str:
    """A sentence: the function, whose it was, and what to do about it."""
    own = f"give one of your own by register_func({name!r}, f)"
    for prefix, whose, advice in _OWNERS:
        if name.startswith(prefix):
            return f"{name}, a function of {whose}: {advice}, or {own}"
    return f"{name}, which was registered where the model was compiled: {own}"
