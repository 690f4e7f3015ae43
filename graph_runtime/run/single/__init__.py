"""One op outside of any graph. A kernel is selected once for the specs of the inputs, then launched as a
program of one kernel.

    op + attributes + specs --select--> CachedCall --launch--> Tensor
    no kernel, or a failed kernel --on_host--> numpy's result on the device, and a count with the reason

Read: call (selection), operands, launch, apply; fallback and host (ops that the device refuses); verification
(first results against numpy). graph_runtime/eager/ offers these ops under numpy's names."""
