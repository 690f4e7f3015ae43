"""Programs of bundles submitted to open devices, one after the other's outputs."""
