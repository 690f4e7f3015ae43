"""Descriptions of module libraries, read from their bytes before anything is opened.

Read: manifest (a library's kernels), elf (whether the file is whole, and its exports), judge (the whole
description; base/machine/isa decides whether this CPU runs a library). graph_runtime/run/library.py opens
libraries.
"""
