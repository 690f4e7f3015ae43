"""What results should be: the numpy interpreter, and comparisons of a device, another arrangement or another
runtime with it."""
