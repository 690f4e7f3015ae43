"""Ops that move elements and compute nothing: views, copies, parts of tensors, elements at indices.

Read shape (ops without kernels), movement, slicing and fill, then gather and scatter.
"""
