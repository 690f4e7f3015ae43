"""What tt-metal's tests import besides ttnn, written anew: comparisons, marks and random tensors. Where
tt-metal's own files lie on the path, those are imported."""
