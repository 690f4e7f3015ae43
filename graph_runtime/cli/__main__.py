"""python -m graph_runtime.cli: the command, for where its script is not on the path."""

from . import main

main()
