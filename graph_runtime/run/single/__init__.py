"""One op outside of any graph: selected once for the specs of its inputs, kept, then launched as a program
of one kernel.

    op + attributes + specs --select--> CachedCall --launch--> Tensor
    no kernel, or one that failed --on_host--> numpy's result, placed back, counted with its reason

Read: call (selection), operands, launch, apply; fallback and host (what is done where the device refuses);
verification (first results against numpy). graph_runtime/eager/ gives this numpy's names.
"""
