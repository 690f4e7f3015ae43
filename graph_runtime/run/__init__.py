"""Running: programs bound to memory, queues, tensors and single ops.

Read, for a graph: factory (create), kernels (the function that serves a node), device_handles (open devices),
sessions/ (memory and runs), module (the object that users hold). loading opens bundles; library opens files
of kernels. queues/ and tensors/ are for asynchronous work; single/ runs one op outside of a graph."""
