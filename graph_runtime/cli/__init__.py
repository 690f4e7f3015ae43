"""The command line: ``graph-runtime COMMAND``, one file per command. Commands call the package and have no
logic of their own.

Exit codes: 0 success; 1 a comparison or verification failed; 2 bad usage or bad input; 3 out of memory or
over a device's capacity; 4 a kernel failed; 130 Ctrl-C.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ..base.errors import CapacityError, CheckError, DeviceMemoryError, GraphRuntimeError, KernelError

__all__ = ["main"]

_CODES = ((DeviceMemoryError, 3), (CapacityError, 3), (MemoryError, 3), (KernelError, 4), (CheckError, 1))


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the ``graph-runtime`` command: errors become one line on stderr and an exit code.

    ``argv``: the arguments without the command's name; by default the arguments of the process. Typer is
    imported only here. Raises SystemExit.
    """
    args = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _command(args)
    except KeyboardInterrupt:  # Ctrl-C may come while modules are imported, too
        sys.exit(130)
    sys.exit(code if args else 2)


def _command(args: Sequence[str]) -> Any:
    """Run a command and return its exit code. Errors become SystemExit."""
    from .app import UsageError, typer_app

    given = list(args) or ["--help"]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _show_warning
        try:
            return typer_app(given)(args=given, prog_name="graph-runtime", standalone_mode=False)
        except UsageError as error:
            command = error.ctx.command_path if error.ctx else "graph-runtime"
            print(f"error: {_one_line(error.format_message())} (see {command} --help)", file=sys.stderr)
            sys.exit(2)
        except (GraphRuntimeError, MemoryError, OSError) as error:
            print(f"error: {_one_line(error)}", file=sys.stderr)
            sys.exit(next((code for kind, code in _CODES if isinstance(error, kind)), 2))


def _one_line(error: BaseException | str) -> str:
    if isinstance(error, OSError) and not isinstance(error, GraphRuntimeError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
