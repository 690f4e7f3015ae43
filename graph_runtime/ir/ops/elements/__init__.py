"""Ops that compute each element by itself, with broadcasting.

Read pointwise (the makers of such ops), elementwise, arithmetic, float_functions and float_pairs; codes works
on the bits of elements.
"""
