"""Kernels of torch's operations on tt tensors, and how calls of one signature are done again.

Read: signatures (what a call is like), repeats (the kernel that remembers), ready (how a call is done again);
eager, writes and making (the kernels).
"""
