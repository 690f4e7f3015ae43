"""What operations of operations/attention accept."""

from __future__ import annotations

from ..memory.values import TILE_SIZE, Layout
from .rules import INTERLEAVED, Given, Operand, Rule, accepts

_TRANSFORMER = "ttnn/cpp/ttnn/operations/transformer/"
_QKV = ("input_tensor_q", "input_tensor_k", "input_tensor_v")
_SHORT = "BFLOAT16 BFLOAT8_B BFLOAT4_B"

# **************** attention ****************


def _of_attention(names: tuple[str, ...]) -> tuple[Operand, ...]:
    text = "Data type of input tensor must be BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is {dtype}"
    return (
        *(Operand(name, layouts="TILE", text="Inputs to SDPA must be tilized") for name in names),
        *(Operand(name, dtypes=_SHORT, text=text) for name in names),
        *(
            Operand(name, memories=INTERLEAVED, text="Operands to SDPA need to be DRAM/L1 interleaved")
            for name in names
        ),
    )


def _one_mask(given: Given) -> str:
    both = given.is_causal and given.attn_mask is not None
    return (
        "is_causal and attn_mask cannot both be present. Got is_causal: true, attn_mask: true" if both else ""
    )


def _one_length(given: Given) -> str:
    queries, keys = given.input_tensor_q.shape[2], given.input_tensor_k.shape[2]
    if not given.is_causal or queries == keys:
        return ""
    return f"Causal SDPA requires Q and K to have the same sequence length. Got Q: {queries}, K: {keys}"


def _one_width(given: Given) -> str:
    widths = [getattr(given, name).shape[3] for name in _QKV]
    if widths[0] % TILE_SIZE:
        return "Padding is not supported on the head_dim dimension"
    if len(set(widths)) == 1:
        return ""
    return f"K and V hidden dim must match. Got K: {widths[1]}, V: {widths[2]} for Q: {widths[0]}"


accepts(
    "transformer.scaled_dot_product_attention",
    *_of_attention(_QKV),
    Rule("q, k and v have one width in whole tiles", _one_width),
    Rule("is_causal: as many queries as keys", _one_length),
    Rule("is_causal or attn_mask", _one_mask),
    Operand("attn_mask", layouts="TILE", text="When mask is provided to SDPA, it must be tilized"),
    Operand(
        "attn_mask",
        dtypes=_SHORT,
        text="When mask is provided to SDPA, it must be in BF16, BFP8, or BFP4 dataformat",
    ),
    source=_TRANSFORMER + "sdpa/device/sdpa_device_operation.cpp",
)


def _one_group(given: Given) -> str:
    """The refusal of short queries beside several groups of heads."""
    q, k = given.input_tensor_q, given.input_tensor_k
    if k.shape[1] == 1 or q.dtype.name == "BFLOAT16":
        return ""
    return f"GQA expects BFLOAT16 input tensor, but got DataType::{q.dtype.name}"


def _rows_in_shards(given: Given) -> str:
    q = given.input_tensor_q
    if q.layout is Layout.TILE or q.is_sharded():
        return ""
    return "ROW_MAJOR Q is only supported when Q is HEIGHT_SHARDED in L1; interleaved Q is not supported"


accepts(
    "transformer.scaled_dot_product_attention_decode",
    *(Operand(name, dtypes=_SHORT, text="Unsupported data type {dtype}.") for name in _QKV),
    *(Operand(name, layouts="TILE", text="Inputs to SDPA must be tilized except for Q") for name in _QKV[1:]),
    Rule("queries in ROW_MAJOR are sharded", _rows_in_shards),
    Rule("queries are BFLOAT16 beside several key heads", _one_group),
    source=_TRANSFORMER + "sdpa_decode/device/sdpa_decode_device_operation.cpp",
)

# **************** heads ****************

_FLOATS = "FLOAT32 BFLOAT16 BFLOAT8_B"


def _whole_heads(given: Given) -> str:
    heads = given.num_heads + 2 * (given.num_kv_heads or given.num_heads)
    size = given.input_tensor.shape[-1] // heads
    if given.kv_input_tensor is not None or size % TILE_SIZE == 0:
        return ""
    return f"Invalid head size: {size}. The head size must be a multiple of the tile width ({TILE_SIZE})"


accepts(
    "transformer.split_query_key_value_and_split_heads",
    Operand(
        "input_tensor", ranks=(3,), text="Invalid input tensor: expected 3 dimensions, but found {rank}."
    ),
    Operand("input_tensor", layouts="TILE", text="Invalid layout: input tensor must use TILE_LAYOUT"),
    Rule("heads are whole tiles wide", _whole_heads),
    Operand("input_tensor", dtypes=_FLOATS, text="Unsupported data format"),
    Operand(
        "input_tensor",
        memories=f"{INTERLEAVED} BLOCK_SHARDED",
        text="Input tensor memory layout must be BLOCK_SHARDED but got {memory}",
    ),
    source=_TRANSFORMER + "split_query_key_value_and_split_heads/split_query_key_value_and_split_heads.cpp",
)


def _whole_width(given: Given) -> str:
    size = given.input_tensor.shape[-1]
    if size % TILE_SIZE == 0:
        return ""
    return (
        f"Head size must be a multiple of {TILE_SIZE} but was found to be {size}. Update the matmul that "
        "uses the output of this operation to include padding in the weights."
    )


accepts(
    "transformer.concatenate_heads",
    Operand("input_tensor", ranks=(4,), text="Input tensor must have rank 4, got {rank}"),
    Rule("heads are whole tiles wide", _whole_width),
    Operand("input_tensor", dtypes=_FLOATS, text="Unsupported data format"),
    Operand("input_tensor", layouts="TILE", text="Input tensor layout must be TILE but got {layout}"),
    source="ttnn/cpp/ttnn/operations/experimental/transformer/nlp_concat_heads/device/"
    "nlp_concat_heads_device_operation.cpp",
)
