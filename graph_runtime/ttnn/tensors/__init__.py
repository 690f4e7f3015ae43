"""ttnn's tensors, which are handles over this package's tensors; their text and their files.

Read: specs, tensor, text; placements, mesh_tensor and distributed (several chips), drawn_meshes; flat_tables
and tensorbin (files).
"""
