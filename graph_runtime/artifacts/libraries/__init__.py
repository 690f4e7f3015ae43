"""What module libraries say of themselves, read from their bytes before anything is opened.

Read: manifest (what a library has), elf (whether it is whole, what it exports), judge (all of it; whether
this CPU runs it says base/machine/isa). graph_runtime/run/library.py opens them.
"""
