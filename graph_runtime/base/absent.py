"""Why an imported part is missing: it is not installed, or it does not load."""

from __future__ import annotations

import re
from pathlib import Path

# words in the error texts of the loader and of libraries when a process gets no more memory
_MEMORY = ("cannot allocate", "failed to map", "out of memory")


def load_fault(error: ImportError) -> str:
    """Text to append to "X needs the package Y": why Y does not load, or "" if Y is not installed."""
    if isinstance(error, ModuleNotFoundError):
        return ""
    text = f", which does not load ({error})"
    if any(word in str(error).lower() for word in _MEMORY):
        text += ": this process gets no more memory (`ulimit -v`, a container's limit)"
    return text


def requirements() -> list[tuple[str, str]]:
    """(requirement, extra that asks for it, or "" if none does), from this installation's metadata. Raises
    PackageNotFoundError for a checkout that is not installed."""
    from importlib import metadata  # the import takes 10 ms

    found = []
    for line in metadata.requires("graph-runtime") or ():
        requirement, _, condition = line.partition(";")
        extra = re.search(r"extra *== *['\"]([^'\"]+)", condition)
        found.append((requirement.strip(), extra[1] if extra else ""))
    return found


def installing(extra: str) -> str:
    """Command that installs the packages of an extra, at the versions for which this installation's metadata
    asks. The command is right for a checkout and for any wheel."""
    try:
        packages = [requirement for requirement, asked in requirements() if asked == extra]
    except ModuleNotFoundError:  # PackageNotFoundError is one: a checkout on the path has no metadata
        return f"pip install -e '.[{extra}]' in the checkout"
    return f"pip install {' '.join(map(repr, packages))}"


def no_core(package: Path, error: ImportError) -> ImportError:
    """The error for a compiled core that is missing in the package, or does not load."""
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
