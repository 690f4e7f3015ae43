"""The simulated chip as ttnn's device, and the only access to it.

Read: chips (plain values), kernels (the access: ops of the registry on tensors), mesh_device, opening (and
closing), memory_views; recorder and traces (calls that are recorded and replayed).
"""
