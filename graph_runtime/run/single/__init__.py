"""One op outside of any graph: selected once for the places of its inputs, kept, then launched as a program
of one kernel.

    op + attributes + places --select--> Call (cached) --launch--> Tensor
    no kernel, or one that failed --on_host--> numpy's result, placed back, counted with its reason

Read: call (selection), operands, launch, apply; road.py and host.py (the two ways to a result); policy (what
the host may do). graph_runtime/eager/ gives this numpy's names.
"""
