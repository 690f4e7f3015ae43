"""jax functions run on this package's devices: gr_jit lowers a function by jax's public API, and runs the
resulting StableHLO.

from graph_runtime.jax import gr_jit

step = gr_jit(train_step, devices=["tt:0", "cpu:0"], donate_argnums=0)

The code is in jit; docs/stablehlo.md is the users' page.
"""

from typing import TYPE_CHECKING, Never

from ..base.errors import no_attribute
from .jit import GrJit, gr_jit

__all__ = ["GrJit", "gr_jit"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
