"""Handles on values, wherever they are: device memory, transfers, and what the host may ask of them.

Read: spec (where and how), tensor (the handle; shown, implicit and operators are its bases), arrays (how one
comes to be), host_values (what callers give), transfers and batches (from one spec to another), traffic (what
moved, counted), journal (what the host did in a device's stead), lineage (what makes a result again that
failed). dlpack is the border to other frameworks; host_tensors are the caller's memory,
under tt-mlir's rules.
"""
