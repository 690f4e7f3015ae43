"""Why a part that this package imports is not there: it is not installed, or it does not load."""

from __future__ import annotations

from pathlib import Path

__all__ = ["load_fault", "no_core"]

# what the loader and a library's own start say where a process gets no more memory
_MEMORY = ("cannot allocate", "failed to map", "out of memory")


def load_fault(error: ImportError) -> str:
    """What to append to "X needs the package Y": why Y does not load, "" where it is not installed."""
    if isinstance(error, ModuleNotFoundError):
        return ""
    text = f", which does not load ({error})"
    if any(word in str(error).lower() for word in _MEMORY):
        text += ": this process gets no more memory (`ulimit -v`, a container's limit)"
    return text


def no_core(package: Path, error: ImportError) -> ImportError:
    """The error of a compiled core that is not in the package, or does not load."""
    there = sorted(package.glob("_core*.so"))
    if there:
        text = (
            f"graph_runtime needs its compiled core {there[0]}{load_fault(error)}; one for another Python or "
            "machine, or a damaged one, is replaced by installing graph-runtime again"
        )
    else:
        text = (
            f"{package} has no compiled core (graph_runtime._core: {error}). In a checkout, "
            "build it by `pip install -e .`; if graph_runtime is installed and a checkout in the current "
            "directory hides it, run `pytest` or `python -P` instead of `python -m`, or change the directory"
        )
    return ImportError(text, name=error.name)
