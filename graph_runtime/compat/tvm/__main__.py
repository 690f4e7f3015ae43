"""Entry point that runs an unchanged TVM script: python -m graph_runtime.compat.tvm script.py arguments."""

import runpy
import sys
from pathlib import Path

from .alias import install


def main() -> None:
    """Run the script that the first argument names as ``__main__``; the further arguments are the
    script's."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m graph_runtime.compat.tvm SCRIPT [ARGUMENTS ...]")
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    install()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
