"""Device descriptors, one a board: data files of the package."""
