"""ttnn's functions, a folder a family.

Read: operation (what wraps each call), neutral (arguments without effect), results and wide (what functions
are made with), then one family: elementwise, say. complex_tensors and model_kernels are made of other
operations; declined are by name what is not served; operators are Python's, on tensors; fallback is for
whatever tensors there are.
"""
