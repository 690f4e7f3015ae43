"""What makes a module library importable by Python: cffi's API-mode glue, with weak Python symbols so that C
can open it too."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import cffi

__all__ = ["glue_source", "module_name", "python_include", "weaken"]

_CALLS = re.compile(r"\b_?Py\w+\b")
_LABELS = re.compile(r"^(\w+):", re.MULTILINE)


def module_name(stem: str) -> str:
    """The name under which Python imports a library whose file is called ``stem``.so."""
    return re.sub(r"\W|^(?=\d)", "_", stem, flags=re.ASCII)


def python_include() -> Path | None:
    """The folder of Python.h, None where Python's headers are not installed."""
    folder = Path(sysconfig.get_path("include"))
    return folder if (folder / "Python.h").is_file() else None


def glue_source(module: str, symbols: Sequence[str], scratch: Path) -> str:
    """C of the cffi module ``module`` with one function ``int32_t SYMBOL(const void *call)`` a symbol;
    ``scratch`` is a folder to write in."""
    ffi = cffi.FFI()
    declarations = "".join(f"int32_t {symbol}(const void *call);\n" for symbol in symbols)
    ffi.cdef(declarations)
    ffi.set_source(module, "#include <stdint.h>\n" + declarations, py_limited_api=True, compiler_verbose=0)
    file = scratch / "module.c"
    ffi.emit_c_code(str(file))
    return file.read_text()


def weaken(assembly: str) -> str:
    """Assembly text in which every symbol of Python that it uses and does not define is weak.

    A weak symbol may stay undefined, so a C program opens the library with no Python around. Done on the
    assembly because only there every use is visible: Python's headers hide calls in macros.
    """
    wanted = set(_CALLS.findall(assembly)) - set(_LABELS.findall(assembly))
    return assembly + "".join(f"\t.weak {symbol}\n" for symbol in sorted(wanted))
