"""Files of TVM's graph executor, except graph.json. Libraries that TVM exported are read (blob, inspect) and
loaded (library). Other modules are TVM's debugger (debugger) with its files (dump), and the export of a graph
for TVM (export).

graph_runtime/compat/tvm has TVM's own names for all these.
"""
