"""Kernels of torch's operations on tt tensors, and the repetition of calls with one signature.

Read: signatures (keys of calls), repeats (a kernel that remembers its calls), ready (a remembered call); then
the kernels: eager, writes and making.
"""
