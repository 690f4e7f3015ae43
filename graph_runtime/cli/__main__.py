"""python -m graph_runtime.cli: runs the command when its script is not on the PATH."""

from . import main

main()
