"""ttnn's tensors, which are handles over this package's tensors; their text and their files.

Read: specs, tensor, text; flat_tables and tensorbin (files); distributed (meshes of one device).
"""
