"""Running: programs bound to memory, queues, tensors, single ops.

Read, for a graph: factory (create), kernels (the function that serves a node), device_handles (devices that
are open), sessions/ (memory and runs), module (what users hold). loading opens bundles, library opens files
of kernels. queues/ and tensors/ carry what is asynchronous; single/ runs one op outside of a graph.
"""
