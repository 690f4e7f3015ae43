"""Operations that the release has under a second name."""

from __future__ import annotations

from ..registry import OPERATIONS

# experimental.quasar has the same operations for another chip, in a folder of their own
QUASAR = (
    "add add_ addalpha addmm atan2 avg_pool2d bias_gelu bias_gelu_ bitwise_and bitwise_left_shift "
    "bitwise_or bitwise_right_shift bitwise_xor conv2d div div_no_nan divide divide_ eq eq_ "
    "floor_div fmod fold gcd ge ge_ gt gt_ hypot interleaved_to_sharded isclose lcm ldexp ldexp_ "
    "le le_ linear logaddexp logaddexp2 logaddexp2_ logaddexp_ logical_and logical_and_ "
    "logical_left_shift logical_or logical_or_ logical_right_shift logical_xor logical_xor_ lt "
    "lt_ matmul matmul_batched_weights max_pool2d maximum minimum move multiply multiply_ ne ne_ "
    "nextafter outer pad padded_slice polyval pow prelu reallocate remainder reshape reshard rsub "
    "rsub_ sharded_to_interleaved slice slice_write sparse_matmul squared_difference "
    "squared_difference_ subalpha subtract subtract_ tilize tilize_with_val_padding "
    "tilize_with_zero_padding to_device to_layout to_memory_config "
    "transformer.chunked_flash_mla_prefill transformer.chunked_scaled_dot_product_attention "
    "transformer.flash_mla_prefill transformer.flash_multi_latent_attention_decode "
    "transformer.joint_scaled_dot_product_attention "
    "transformer.paged_flash_multi_latent_attention_decode "
    "transformer.paged_scaled_dot_product_attention_decode "
    "transformer.scaled_dot_product_attention transformer.scaled_dot_product_attention_decode "
    "transpose typecast untilize untilize_with_unpadding xlogy"
).split()
_QUASAR = "experimental.quasar."


def serve_under_other_names() -> None:
    """Make experimental.quasar.NAME the operation NAME, or experimental.NAME."""
    for name in QUASAR:
        base = OPERATIONS.get(name) or OPERATIONS[f"experimental.{name}"]
        base.also(_QUASAR + name)
