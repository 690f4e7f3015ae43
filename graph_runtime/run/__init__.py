"""Running: the compiled core, programs bound to memory, queues, tensors, single ops.

Read, for a graph: factory (create), programs/ (a plan as flat arrays), kernels (the function that serves a
node), sessions/ (memory and runs), module (what users hold). loading opens bundles, library opens files of
kernels. core alone imports the compiled ``_core``. queues/ and tensors/ carry what is asynchronous; single/
runs one op outside of a graph.
"""
