"""C for a graph's kernels: render wrappers, compile them into a module library, build a bundle."""
