"""Handles on values on any device: memory, transfers, and access from the host.

Read: spec and device_layouts (where and how a tensor is stored), handle (where the values are, and until
when), copies (to other places), tensor (users' methods; the operators are from eager/), arrays (making of
tensors), transfers and batches (many tensors at once), traffic (counted movements), journal (ops that the
host did in a device's stead), lineage (how a failed result is made again), eviction (room in L1). dlpack
exchanges tensors with other frameworks; host_tensors makes tensors of a caller's memory, by tt-mlir's rules.
"""
