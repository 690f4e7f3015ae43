"""Packed functions that a library of TVM's will look up, found in its file: generated code contains the names
as texts, and passes them to TVMBackendGetFuncFromEnv when an operator first runs."""

from __future__ import annotations

import re
import string
from typing import Any

from .elf import BLOB, SharedObject

_ASK = "TVMBackendGetFuncFromEnv"
# prefixes of TVM's global functions, and the form of a name
_BEGINS = tuple(f"{word}.".encode() for word in "tvm runtime device_api vm relay topi ethos hexagon".split())
_NAME = re.compile(rb"[A-Za-z_]+(\.[A-Za-z_]\w*)+")
# characters; after one of these, a name is only the end of a longer text
_BEFORE = frozenset((string.ascii_letters + string.digits + "_.").encode())
_LONGEST = 256
# prefix of a function's name -> (the function's owner, the remedy)
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


def asked(shared: SharedObject, data: memoryview) -> list[str]:
    """The names that occur in the file as whole texts; [] for a library that looks up no function. ``data``:
    the file's bytes; the import blob in them is skipped."""
    if _ASK not in shared.undefined and f"__{_ASK}" not in shared.objects:
        return []
    found: set[str] = set()
    whole: Any = data.obj  # an mmap or bytes has find, a memoryview does not
    for first, last in shared.beside(BLOB, len(data)):
        part = data[first:last]
        source, shift = (whole, first) if len(whole) == len(data) else (bytes(part), 0)
        for begin in _BEGINS:
            at = source.find(begin, shift, shift + len(part))
            while at >= 0:
                name = _whole(source, at)
                if name:
                    found.add(name.decode())
                at = source.find(begin, at + 1, shift + len(part))
    return sorted(found - set(shared.functions))


def _whole(source: Any, at: int) -> bytes:
    """The name that begins at byte ``at`` of the file; b"" if a longer text contains that byte, or if the
    text is no name."""
    if at and source[at - 1] in _BEFORE:
        return b""
    text = bytes(source[at : at + _LONGEST])
    name, end, _ = text.partition(b"\0")
    return name if end and _NAME.fullmatch(name) else b""


def way_out(name: str) -> str:
    """A sentence that names the function and its owner, and gives the remedy."""
    own = f"give one of your own by register_func({name!r}, f)"
    for prefix, whose, advice in _OWNERS:
        if name.startswith(prefix):
            return f"{name}, a function of {whose}: {advice}, or {own}"
    return f"{name}, which was registered where the model was compiled: {own}"
