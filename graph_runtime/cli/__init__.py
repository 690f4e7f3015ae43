"""The command line: ``graph-runtime COMMAND``, one command a file, no logic of its own."""
