"""Glue that makes a module library importable by Python: cffi's API mode, with Python's symbols weak so that
C programs can open the library, too."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import cffi

_CALLS = re.compile(r"\b_?Py\w+\b")
_LABELS = re.compile(r"^(\w+):", re.MULTILINE)


def identifier(name: str) -> str:
    """The name with _ for characters that C and Python do not allow. A library's file name gives its Python
    module's name in this way."""
    return re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)


def python_include() -> Path | None:
    """The folder of Python.h, None if Python's headers are not installed."""
    folder = Path(sysconfig.get_path("include"))
    return folder if (folder / "Python.h").is_file() else None


def glue_source(module: str, symbols: Sequence[str], scratch: Path) -> str:
    """C of the cffi module ``module`` with one function ``int32_t SYMBOL(const void *call)`` per symbol;
    ``scratch`` is a folder for temporary files."""
    ffi = cffi.FFI()
    declarations = "".join(f"int32_t {symbol}(const void *call);\n" for symbol in symbols)
    ffi.cdef(declarations)
    ffi.set_source(module, "#include <stdint.h>\n" + declarations, py_limited_api=True, compiler_verbose=0)
    file = scratch / "module.c"
    ffi.emit_c_code(str(file))
    return file.read_text()


def weaken(assembly: str) -> str:
    """Assembly text in which every symbol of Python that the text uses and does not define is weak.

    A weak symbol may stay undefined, so a C program can open the library without Python. The assembly is
    changed, not the C, because Python's headers hide calls in macros and only the assembly shows every use.
    """
    wanted = set(_CALLS.findall(assembly)) - set(_LABELS.findall(assembly))
    return assembly + "".join(f"\t.weak {symbol}\n" for symbol in sorted(wanted))
