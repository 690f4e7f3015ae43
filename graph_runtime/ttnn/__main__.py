"""python -m graph_runtime.ttnn [--board BOARD] script.py [arguments]"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from .runner.install import install


def main() -> None:
    """Run a script in which ``import ttnn`` means graph_runtime.compat.ttnn."""
    parser = argparse.ArgumentParser(
        "python -m graph_runtime.ttnn", description="Run a script that imports ttnn, on a simulated board."
    )
    parser.add_argument("--board", default="", help="the board: n150 (default), p150, ...")
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it finds in sys.argv")
    given = parser.parse_args()
    if not Path(given.script).is_file():
        parser.error(f"no file {given.script}")
    try:
        install(given.board)
    except Exception as error:
        parser.error(str(error))
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, str(Path(given.script).resolve().parent))
    runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    main()
