"""Simulated chips as ttnn's devices, and the only access to them.

Read: chips (plain values), kernels (the access: ops of the registry on tensors), mesh_device, clusters and
chip_mesh (several chips), opening (and closing), memory_views; recorder and traces (calls that are recorded
and replayed).
"""
