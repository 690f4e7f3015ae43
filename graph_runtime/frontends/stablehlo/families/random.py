"""rng_bit_generator: counters through Threefry or Philox, as XLA counts them."""

from __future__ import annotations

from ..op_context import HloContext, Results, converter


@converter("rng_bit_generator")
def _rng_bit_generator(ctx: HloContext) -> Results:
    ctx.fail("not yet")
