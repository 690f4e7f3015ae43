"""Running: the compiled core, programs bound to memory, queues, tensors, single ops.

Read, for a graph: factory (create and load), programs/ (a plan as flat arrays), library (kernels), sessions/
(memory and runs), module (what users hold). core alone imports the compiled ``_core``. queues/ and tensors/
carry what is asynchronous; single/ runs one op outside of a graph.
"""
