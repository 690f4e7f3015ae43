"""An environment in which every process finds ttnn: what --install writes into it, and --uninstall deletes.

A file NAME.pth in an environment's folder of packages is read at each start of its interpreter. This one
loads the finder beside it (finder.py), which serves ``import ttnn`` where nothing else does. No file and no
metadata is named ttnn.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from ...base.errors import GraphRuntimeError, WriteError
from . import finder

_MODULE = "_graph_runtime_ttnn"
_TRY = "import ttnn; print(ttnn.__name__)"
_WITHOUT = "or run scripts by python -m graph_runtime.ttnn SCRIPT, which needs no installation"


class EnvironmentFault(GraphRuntimeError):
    """An environment in which ttnn cannot be provided; the text says why."""


def packages() -> Path:
    """The folder of packages of this interpreter's environment."""
    return Path(sysconfig.get_path("purelib"))


def install_into(folder: Path) -> str:
    """Write the finder into an environment's folder of packages, so that its interpreters import this ttnn
    from then on; again, where it is written already, for a newer release of this package. Returns what was
    done. Raises EnvironmentFault if a real ttnn is there, or if a new process still finds none; WriteError
    for a folder that cannot be written to."""
    _refuse_real()
    there = _paths(folder)[0].exists()
    try:
        (folder / f"{_MODULE}.py").write_text(Path(finder.__file__).read_text())
        (folder / f"{_MODULE}.pth").write_text(f"import {_MODULE}; {_MODULE}.begin()\n")
    except OSError as error:
        _delete(folder)
        text = f"cannot write to {folder} ({error.strerror}): make an environment of your own by"
        text = f"{text} python -m venv FOLDER, {_WITHOUT}"
        raise WriteError(text, errno=error.errno, got=str(folder)) from None
    command = [sys.executable, "-P", "-c", _TRY]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.stdout.strip() != "graph_runtime.ttnn.interface":
        _delete(folder)
        last = (tried.stderr.strip() or f"it was {tried.stdout.strip()}").splitlines()[-1]
        text = f"a new process of {sys.executable} does not import ttnn ({last})"
        raise EnvironmentFault(f"{text}: install graph-runtime there (pip install), {_WITHOUT}")
    said = "finds, as before," if there else "finds"
    return (
        f"import ttnn {said} simulated boards in {sys.prefix} ({folder / _MODULE}.pth); --uninstall undoes it"
    )


def uninstall_from(folder: Path) -> str:
    """Delete what install_into wrote. Returns what was done. Raises WriteError if a file cannot be
    deleted."""
    if not any(path.exists() for path in _paths(folder)):
        return f"nothing to undo in {folder}"
    try:
        _delete(folder)
    except OSError as error:
        text = f"cannot delete {error.filename} ({error.strerror})"
        raise WriteError(text, errno=error.errno, got=str(error.filename)) from None
    return f"import ttnn finds no simulated boards in {sys.prefix} any more"


def _paths(folder: Path) -> list[Path]:
    """All files that an installation leaves, in the order of their deletion: a .pth without its module would
    make each start of Python complain."""
    compiled = sorted((folder / "__pycache__").glob(f"{_MODULE}.*"))
    return [folder / f"{_MODULE}.pth", folder / f"{_MODULE}.py", *compiled]


def _delete(folder: Path) -> None:
    for path in _paths(folder):
        path.unlink(missing_ok=True)


def _refuse_real() -> None:
    """Raise EnvironmentFault if this environment has a ttnn that is not this package's."""
    found = finder.other("ttnn")
    try:
        version = f" {metadata.version('ttnn')}"
    except metadata.PackageNotFoundError:
        version = ""
    if found is not None or version:
        where = f" in {found.origin}" if found is not None else ""
        text = f"a ttnn{version} is installed{where}, which import ttnn finds: pip uninstall ttnn first,"
        raise EnvironmentFault(f"{text} {_WITHOUT}")
