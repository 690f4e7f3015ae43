"""The simulated chip as ttnn's device, and the one door to it.

Read: chips (plain values), open_sizes, kernels (the door: an op of the registry on tensors), several (ops of
several outputs), mesh_device, opening (and closing), memory_views; recorder and traces (what is captured and
played again).
"""
