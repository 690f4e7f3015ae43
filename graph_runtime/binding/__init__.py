"""The compiled core, as planning and runs use it.

Read: core (alone imports the compiled ``_core``), gr_arg and shard_structs (its structs), built_in and
blas (its kernels), programs/ (a plan as flat arrays), packing, circular and tiles (what planning asks).
"""
