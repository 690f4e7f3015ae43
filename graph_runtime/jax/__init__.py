"""jax functions on these devices: gr_jit lowers by jax's public API, and runs the StableHLO that it gives.

from graph_runtime.jax import gr_jit

step = gr_jit(train_step, devices=["tt:0", "cpu:0"], donate_argnums=0)

Read jit. docs/stablehlo.md is for users.
"""

from .jit import GrJit, gr_jit

__all__ = ["GrJit", "gr_jit"]
