"""Accuracy: what results should be, how far they are from it, and models that stay within an error.

Read interpreter (numpy alone), rearrange (the same graph in other ways), ulp and differences (how far),
compare (devices with the interpreter), bisection and against (outputs with another runtime's); precision
(ways to compute), sweeping (an op over all bf16 numbers), side_by_side (a model in several precisions),
thresholds, coarsening and searching (which nodes may be coarser), ways and bounding (where and in which
format nodes run within an error bound).
"""
