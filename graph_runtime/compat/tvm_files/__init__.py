"""What TVM's graph executor has beside graph.json: libraries that it exported, read (blob, inspect) and
loaded (library), its debugger (debugger) with its files (dump), and a graph's files for it to run (export).

TVM's own names for all this are in graph_runtime/compat/tvm.
"""
