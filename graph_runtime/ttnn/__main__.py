"""python -m graph_runtime.ttnn [--board BOARD] script.py [arguments], or --install, --uninstall, --accepts"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from ..base.errors import InputError
from .accepted.rules import ttnn_accepts
from .runner.install import install


def main() -> None:
    """Run a script in which ``import ttnn`` means graph_runtime.compat.ttnn, or let every process of this
    environment import it so."""
    parser = argparse.ArgumentParser(
        "python -m graph_runtime.ttnn", description="Run a script that imports ttnn, on a simulated board."
    )
    parser.add_argument("--board", default="", help="the board or machine: n150 (default), p150, t3000, ...")
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--install", action="store_true", help="let import ttnn find it in each process of this environment"
    )
    either.add_argument("--uninstall", action="store_true", help="undo --install")
    either.add_argument("--accepts", metavar="NAME", help="print what the function accepts, e.g. topk")
    parser.add_argument("script", nargs="?", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it finds in sys.argv")
    given = parser.parse_args()
    if given.accepts:
        try:
            sys.stdout.write(ttnn_accepts(given.accepts) + "\n")
        except InputError as error:
            parser.error(str(error).partition("; there are")[0])
    elif given.install or given.uninstall:
        if given.script or given.board:
            parser.error("--install and --uninstall stand alone; GR_TTNN_BOARD names the board of imports")
        _change_environment(given.install)
    elif not given.script:
        parser.error("a script, --install, --uninstall or --accepts is needed")
    else:
        if not Path(given.script).is_file():
            parser.error(f"no file {given.script}")
        try:
            install(given.board)
        except Exception as error:
            parser.error(str(error))
        if given.board:
            os.environ["GR_TTNN_BOARD"] = given.board  # for processes that the script starts
        sys.argv = [given.script, *given.arguments]
        sys.path.insert(0, str(Path(given.script).resolve().parent))
        runpy.run_path(given.script, run_name="__main__")


def _change_environment(wanted: bool) -> None:
    from .runner import environment

    try:
        change = environment.install_into if wanted else environment.uninstall_from
        sys.stdout.write(change(environment.packages()) + "\n")
    except (environment.EnvironmentFault, environment.WriteError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
