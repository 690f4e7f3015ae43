"""Accuracy: reference results, the error of computed ones, and models that keep within an error bound.

Read interpreter (the reference, numpy alone), rearrange (the same graph arranged differently), ulp and
differences (measures of error), compare (devices against the interpreter), bisection and against (comparison
with another runtime). Then read precision (formats and arithmetic as text), sweeping (an op over all bf16
numbers), side_by_side (a model in several precisions), thresholds (limits from a file), coarsening and
searching (nodes that may use coarser formats), ways and bounding (device and format of each node within an
error bound).
"""
