"""Handles on values, wherever they are: device memory, transfers, and what the host may ask of them.

Read: spec and device_layouts (where and how), handle (where the values are, and until when), copies (values
elsewhere), tensor (what users do with them; its operators are eager's), arrays (how one comes to be),
host_values (what callers give), transfers and batches (many at once), traffic (what moved, counted), journal
(what the host did in a device's stead), lineage (what makes a result again that failed), eviction (room in
L1). dlpack is the border to other frameworks; host_tensors are the caller's memory, under tt-mlir's rules.
"""
