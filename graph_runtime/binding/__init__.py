"""The compiled core, for planning and runs.

Read: core (the only module that imports the compiled ``_core``), blas (OpenBLAS, for some kernels), programs/
(a plan as flat arrays), packing, circular and tiles (questions that planning asks the core)."""
