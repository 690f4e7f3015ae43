"""Names that the release gives to arguments in some of a function's forms, beside the names of its
signature here."""

from __future__ import annotations

_IN_PLACE = (
    "bias_gelu_ eq_ ge_ gt_ ldexp_ le_ logaddexp2_ logaddexp_ logical_and_ logical_or_ logical_xor_ lt_ ne_ "
    "squared_difference_ div_ divide_ multiply_ rsub_ add_ subtract_"
)
_SECOND = (
    "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor logical_left_shift "
    "logical_right_shift maximum minimum rsub"
)
_BY_NUMBER = "add_bw sub_bw div_bw mul_bw fmod_bw remainder_bw fmod"
_BY_VALUE = "div divide div_no_nan floor_div"

# names of functions -> "the release's name=the name here ..."
_TABLE = {
    _IN_PLACE: "input_a=input_tensor_a input_b=input_tensor_b",
    _SECOND: "input_b=input_tensor_b",
    _BY_NUMBER: "scalar=input_tensor_b",
    _BY_VALUE: "value=input_tensor_b",
    "addcdiv addcmul": "input_a=input_tensor_a input_b=input_tensor_b input_c=input_tensor_c",
    "lerp": "input=input_tensor_a end=input_tensor_b weight=input_tensor_c",
    "lerp_bw": "scalar=input_tensor_c",
    "mac": "value=input_tensor_c",
    "pow": "input_tensor=input_tensor_a exponent=input_tensor_b",
    "rdiv": "input_tensor=input_tensor_a value=input_tensor_b",
    "polyval": "input_tensor_a=input_tensor",
    "assign": "input_a=input_tensor input_b=output",
    "assign_bw": "input_tensor=input_tensor_a",
    "bias_gelu_bw": "input_tensor=input_tensor_a bias=input_tensor_b",
    "chunk": "chunks=num_chunks",
    "cumprod": "input_tensor=input",
    "embedding_bw": "weight_tensor=weight output_gradient_tensor=output_gradient",
    "expand": "output_shape=shape",
    "fill_cache": "cache_tensor=cache input_tensor=input batch_idx=batch_index",
    "fill_implicit_tile_padding": "input_tensor=tensor",
    "move": "input_tensor=input",
    "reallocate": "tensor=input",
    "pad": "output_padded_shape=padding input_tensor_start=value",
    "reshape": "logical_shape=shape",
    "reshard": "output_memory_config=memory_config",
    "stack": "input_tensors=tensors",
    "transformer.attention_softmax transformer.attention_softmax_": "tensor=input_tensor",
    "update_cache": "update_idx=update_index",
}

# function -> {the release's name of an argument: its name here}
ARGUMENT_NAMES: dict[str, dict[str, str]] = {
    name: dict(pair.split("=") for pair in pairs.split())
    for names, pairs in _TABLE.items()
    for name in names.split()
}
