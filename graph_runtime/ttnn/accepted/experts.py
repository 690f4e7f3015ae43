"""What operations of operations/experts accept."""

from __future__ import annotations

from collections.abc import Callable

from .rules import Given, Operand, Rule, accepts

_RELEASE = "the release 0.81.1, by its own refusals"
_PREFILL = "experimental.deepseek_prefill"


def _only(name: str, *values: int) -> Rule:
    """The argument has one of these values."""
    said = " or ".join(map(str, values))

    def fault(given: Given) -> str:
        value = getattr(given, name)
        return "" if value in values else f"{name} must be {said} at the moment. Got {value}"

    return Rule(f"{name} is {said}", fault)


def _holds(says: str, held: Callable[[Given], bool], text: Callable[[Given], str]) -> Rule:
    return Rule(says, lambda given: "" if held(given) else text(given))


def _experts(*counts: int) -> Rule:
    def fault(given: Given) -> str:
        count = given.scores.shape[-1]
        wanted = counts if given.n_groups == 8 else ()
        fits = count in wanted if wanted else count % 32 == 0
        return "" if fits else f"Experts must be {counts[0]}. Got {count}"

    return Rule("8 groups have 256 experts", fault)


accepts(
    f"{_PREFILL}.moe_grouped_topk",
    Operand("scores", dtypes="FLOAT32 BFLOAT16", text="Scores tensor must be FLOAT32 or BFLOAT16"),
    Operand("bias", dtypes="FLOAT32 BFLOAT16", text="Bias tensor must be FLOAT32 or BFLOAT16"),
    Operand("scores", layouts="TILE", text="Scores tensor must be tilized"),
    Operand("bias", layouts="TILE", text="Bias tensor must be tilized"),
    _only("n_groups", 1, 8),
    _experts(256),
    _holds(
        "topk_groups is 4 of 8 groups, 1 of 1",
        lambda c: c.topk_groups == (4 if c.n_groups == 8 else 1),
        lambda c: f"topk_groups must be 4 at the moment. Got {c.topk_groups}",
    ),
    source=_RELEASE,
)
accepts(
    "experimental.deepseek_grouped_gate",
    Operand("scores", dtypes="BFLOAT16", text="Scores tensor must be BFLOAT16"),
    Operand("bias", dtypes="BFLOAT16", text="Bias tensor must be BFLOAT16"),
    Operand("scores", layouts="TILE", text="Scores tensor must be tilized"),
    _only("n_groups", 8),
    _experts(256),
    _only("summed_experts_per_group", 2),
    _only("topk_groups", 4),
    _only("n_activated_experts", 8),
    source="ttnn/cpp/ttnn/operations/experimental/reduction/deepseek_grouped_gate/device/"
    "deepseek_grouped_gate_device_operation.cpp",
)
accepts(
    f"{_PREFILL}.moe_hash_gate",
    Operand("scores", dtypes="FLOAT32", text="Scores tensor must be FLOAT32"),
    Operand("scores", layouts="TILE", text="Scores tensor must be tilized"),
    source=_RELEASE,
)
accepts(
    f"{_PREFILL}.masked_bincount",
    Operand("input_tensor", dtypes="UINT16", text="Only UINT16 is supported for input!"),
    Operand("input_tensor", layouts="TILE", text="Only TILE layout is supported for input!"),
    _holds(
        "a multiple of 64 tokens",
        lambda c: c.input_tensor.shape[0] % 64 == 0,
        lambda c: (
            f"Token count ({c.input_tensor.shape[0]}) must be divisible by the 64-core grid used by "
            "masked_bincount"
        ),
    ),
    _holds(
        "0 < num_experts_per_token <= the columns",
        lambda c: 0 < c.num_experts_per_token <= c.input_tensor.shape[-1],
        lambda c: (
            f"num_experts_per_token must be in (0, {c.input_tensor.shape[-1]}], got {c.num_experts_per_token}"
        ),
    ),
    source="ttnn/cpp/ttnn/operations/experimental/deepseek_prefill/masked_bincount/device/"
    "masked_bincount_device_operation.cpp",
)
accepts(
    "experimental.topk_router_gpt",
    Operand("input_tensor", dtypes="BFLOAT16", text="Input tensor must have BFLOAT16 dtype, got {dtype}"),
    Operand("input_tensor", layouts="TILE", text="Input tensor must have TILE layout, got {layout}"),
    _holds(
        "num_experts is 128",
        lambda c: c.num_experts == 128,
        lambda c: (
            "topk_router_gpt only supports num_experts=128 (hardcoded 4-group architecture), got "
            f"{c.num_experts}"
        ),
    ),
    source="ttnn/cpp/ttnn/operations/experimental/topk_router_gpt/device/"
    "topk_router_gpt_device_operation.cpp",
)
accepts(
    "moe",
    Operand("input_tensor", layouts="TILE", text="The input must be in tiled format"),
    _holds(
        "k is 32",
        lambda c: c.k == 32,
        lambda c: f"K must be equal to 32, pad with -infinity if necessary to get 32, got {c.k}",
    ),
    _holds(
        "the last dimension is a power of two of at least 64",
        lambda c: (
            c.input_tensor.shape[-1] >= 64 and not c.input_tensor.shape[-1] & c.input_tensor.shape[-1] - 1
        ),
        lambda c: (
            f"Input shape inner dim {c.input_tensor.shape[-1]} must be a power of 2, pad with -infinity if "
            "necessary"
        ),
    ),
    source="ttnn/cpp/ttnn/operations/reduction/moe/device/moe_device_operation.cpp",
)
accepts(
    "moe_routing_remap",
    Operand("routing_weights_tensor", layouts="ROW_MAJOR", text="input tensor expected to be row major"),
    source="ttnn/cpp/ttnn/operations/data_movement/moe_routing_remap/device/"
    "moe_routing_remap_device_operation.cpp",
)
accepts(
    "moe_expert_token_remap",
    Operand("topk_tensor", layouts="ROW_MAJOR", text="topk tensor must be in row major layout"),
    source="ttnn/cpp/ttnn/operations/data_movement/moe_expert_token_remap/device/"
    "moe_expert_token_remap_device_operation.cpp",
)
accepts(
    f"{_PREFILL}.post_combine_reduce",
    Operand("indices", dtypes="UINT16", text="indices must be uint16, got {dtype}"),
    Operand("combine_output", layouts="ROW_MAJOR", text="combine_output must be ROW_MAJOR, got {layout}"),
    source=_RELEASE,
)
accepts(
    "experimental.fast_reduce_nc_split",
    _holds(
        "dim is 0 or 1 of a rank of 4",
        lambda c: c.dim in (0, 1) and len(c.input.shape) == 4,
        lambda c: "Split reduction supports rank-4 input reduced along dim 0 or 1",
    ),
    source=_RELEASE,
)
