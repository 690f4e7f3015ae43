"""Sources of the core and of kernels: headers are data files that generated code is compiled against."""
