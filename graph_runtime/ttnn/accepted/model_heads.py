"""What operations of operations/attention/model_heads and positions accept."""

from __future__ import annotations

from .rules import INTERLEAVED, Given, Operand, Rule, accepts

_FOLDER = "ttnn/cpp/ttnn/operations/experimental/transformer"
_FLOATS = "FLOAT32 BFLOAT16 BFLOAT8_B"


def _tiles(name: str, dtypes: str = _FLOATS) -> tuple[Operand, Operand]:
    return (
        Operand(name, dtypes=dtypes, text="Unsupported data format"),
        Operand(name, layouts="TILE", text="Input tensor layout must be TILE but got {layout}"),
    )


def _shape(name: str, *sizes: int) -> Rule:
    """The operand has these sizes; 0 stands for any size, and for a length in whole tiles before the last."""
    said = ", ".join("any" if not size else str(size) for size in sizes)

    def fault(given: Given) -> str:
        shape = getattr(given, name).shape
        held = len(shape) == len(sizes) and all(not b or a == b for a, b in zip(shape, sizes, strict=True))
        return "" if held and shape[-2] % 32 == 0 else "Unsupported input shape"

    return Rule(f"{name} is [{said}]", fault)


_BATCH = Rule(
    "a batch of 7 to 9, unless in shards",
    lambda c: (
        ""
        if c.input_tensor.is_sharded() or 7 <= c.input_tensor.shape[0] <= 9
        else "Input batch size must be between 7 to 9 for bert large TM ops!"
    ),
)

accepts(
    "experimental.concatenate_heads",
    Operand("input_tensor", dtypes="BFLOAT16 BFLOAT8_B", text="Unsupported data format"),
    _BATCH,
    _shape("input_tensor", 0, 16, 384, 64),
    source=f"{_FOLDER}/concatenate_heads/device/concatenate_heads_device_operation.cpp",
)
accepts(
    "experimental.split_query_key_value_and_split_heads",
    Operand("input_tensor", dtypes="BFLOAT16 BFLOAT8_B", text="Unsupported data format"),
    Operand("input_tensor", memories=f"{INTERLEAVED} BLOCK_SHARDED"),
    _BATCH,
    source=f"{_FOLDER}/split_query_key_value_and_split_heads/device/"
    "split_query_key_value_and_split_heads_device_operation.cpp",
)
accepts(
    "experimental.create_qkv_heads_from_separate_tensors",
    *_tiles("input"),
    Operand("input_kv", layouts="TILE"),
    Operand("input", memories="BLOCK_SHARDED", text="Q input tensor must be BLOCK_SHARDED but got {memory}"),
    Operand("input_kv", memories="BLOCK_SHARDED", text="KV input must be BLOCK_SHARDED but got {memory}"),
    source=f"{_FOLDER}/create_qkv_heads_from_separate_tensors/device/"
    "create_qkv_heads_from_separate_tensors_device_operation.cpp",
)
for _name, _width in (("vit", 2304), ("falcon7b", 4672), ("segformer", 0)):
    accepts(
        f"experimental.nlp_create_qkv_heads_{_name}",
        *_tiles("input"),
        _shape("input", 0, 1, 0, _width),
        source=f"{_FOLDER}/nlp_create_qkv_heads_{_name}/device/"
        f"nlp_create_qkv_heads_{_name}_device_operation.cpp",
    )
accepts(
    "experimental.nlp_create_qkv_heads_boltz",
    *_tiles("input"),
    source=f"{_FOLDER}/nlp_create_qkv_heads_boltz/device/nlp_create_qkv_heads_boltz_device_operation.cpp",
)
accepts(
    "experimental.nlp_concat_heads_boltz",
    *_tiles("input_tensor"),
    source=f"{_FOLDER}/nlp_concat_heads_boltz/device/nlp_concat_heads_boltz_device_operation.cpp",
)
