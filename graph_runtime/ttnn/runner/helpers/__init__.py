"""Modules that tt-metal's tests import besides ttnn, written anew: comparisons, marks and random tensors. If
tt-metal's own files are on the path, these are imported instead."""
