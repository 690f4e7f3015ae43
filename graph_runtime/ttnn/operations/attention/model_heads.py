"""Heads as single models have them: BERT large, Falcon-7B, Segformer, ViT and Boltz. Some of these functions
take the one shape that their model has."""

from __future__ import annotations

from typing import Any

from ...devices.wide_value import WideValue
from ...errors import Unsupported, called
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE
from ...tensors.tensor import Tensor
from ..operation import operation
from .heads import Cut, cut_by_groups, each_in_shards, each_placed, refuse_outputs, sequence


@operation("experimental.concatenate_heads", "transpose, reshape", takes="memory_config, output_tensor")
def concatenate_heads(input_tensor: WideValue, compute_with_storage_grid_size: Any) -> WideValue:
    """The heads of BERT large [7 to 9, 16, 384, 64] side by side: [b, 1, 384, 1024]."""
    x = input_tensor
    batch, heads, length, size = x.shape
    return x.op("transpose", perm=(0, 2, 1, 3)).reshape((batch, 1, length, heads * size))


@operation("experimental.split_query_key_value_and_split_heads", "slice, reshape, transpose")
def split_fused_heads(
    input_tensor: Tensor,
    compute_with_storage_grid_size: Any,
    *,
    memory_config: MemoryConfig | None = None,
    num_heads: int = 16,
    output_tensors: Any = None,
) -> tuple[Tensor, ...]:
    """[b, 1, s, 3 h d] cut into queries [b, h, s, d], keys [b, h, d, s] and values [b, h, s, d]. Each block
    shard has the queries, keys and values of its own heads, and so have the height shards of the results."""
    refuse_outputs(output_tensors)
    x, cut = input_tensor, Cut(num_heads, num_heads, True)
    if not x.is_sharded():
        return tuple(each_placed(x, cut(sequence(x), None), memory_config))
    spec = x.memory_config().shard_spec
    assert spec is not None  # the row of what is accepted asks for BLOCK_SHARDED
    cut.shards = x.shape[-1] // spec.shape[1]
    config = memory_config or x.memory_config()
    return tuple(each_in_shards(x, cut(sequence(x), None), config, spec.grid))


@operation("experimental.create_qkv_heads_from_separate_tensors", "slice, reshape, transpose")
def create_qkv_heads_from_separate_tensors(
    input: Tensor,
    input_kv: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Any = None,
) -> tuple[Tensor, ...]:
    """Queries [b, 1, s, h d] and keys and values [b, 1, s, 2 kv d], in block shards, cut into queries
    [b, h, s, d], keys [b, kv, d, s] ([b, kv, s, d] if transpose_k_heads is False) and values [b, kv, s, d].
    Each shard of ``input_kv`` has the keys, then the values, of its own heads."""
    refuse_outputs(output_tensors)
    cut = Cut(num_heads, num_kv_heads, transpose_k_heads)
    return tuple(cut_by_groups(input, cut, sequence(input), memory_config or input.memory_config(), input_kv))


@operation("experimental.nlp_create_qkv_heads_vit", "slice, reshape, transpose")
def nlp_create_qkv_heads_vit(
    input: Tensor, *, memory_config: MemoryConfig | None = None, output_tensors: Any = None
) -> tuple[Tensor, ...]:
    """[b, 1, s, 2304] cut into queries, keys and values [b, 12, s, 64]."""
    refuse_outputs(output_tensors)
    return tuple(each_placed(input, Cut(12, 12, False)(sequence(input), None), memory_config))


@operation("experimental.nlp_create_qkv_heads_falcon7b", "slice, reshape, transpose")
def nlp_create_qkv_heads_falcon7b(
    input: Tensor, *, memory_config: MemoryConfig | None = None
) -> tuple[Tensor, ...]:
    """[b, 1, s, 4672] cut into queries [b, 71, s, 64], keys [b, 1, s, 64] and values [b, 1, s, 64]."""
    return tuple(each_placed(input, Cut(71, 1, False)(sequence(input), None), memory_config))


@operation("experimental.nlp_create_qkv_heads_segformer", "reshape, transpose")
def nlp_create_qkv_heads_segformer(
    input: Tensor, *, memory_config: MemoryConfig | None = None, output_tensors: Any = None
) -> tuple[Tensor, ...]:
    """Three tensors [b, width / 32, s, 32]: the heads of [b, 1, s, width], each time the same."""
    refuse_outputs(output_tensors)
    x = sequence(input)
    batch, length, width = x.shape
    heads = x.reshape((batch, length, width // TILE_SIZE, TILE_SIZE)).op("transpose", perm=(0, 2, 1, 3))
    return tuple(each_placed(input, [heads] * 3, memory_config))


@operation("experimental.nlp_create_qkv_heads_boltz", "slice, reshape, transpose")
def nlp_create_qkv_heads_boltz(
    input: Tensor,
    input_kv: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Any = None,
) -> tuple[Tensor, ...]:
    """Rows of pairs [1, s, s, (h + 2 kv) d] cut into queries [h, s, s, d], keys [kv, s, s, d] and values
    [kv, s, s, d]."""
    refuse_outputs(output_tensors)
    if transpose_k_heads or input.is_sharded():
        raise Unsupported(f"{called()} with transpose_k_heads or shards is not supported")
    x = input._value
    _, rows, columns, width = x.shape
    pairs = [x.reshape((1, rows * columns, width))]
    if input_kv is not None:
        pairs.append(input_kv._value.reshape((1, rows * columns, input_kv.shape[3])))
    found = Cut(num_heads, num_kv_heads, False)(pairs[0], pairs[1] if input_kv is not None else None)
    made = [one.reshape((one.shape[1], rows, columns, one.shape[3])) for one in found]
    return tuple(each_placed(input, made, memory_config))


@operation("experimental.nlp_concat_heads_boltz", "transpose, reshape", takes="memory_config, output_tensor")
def nlp_concat_heads_boltz(input_tensor: WideValue) -> WideValue:
    """[heads, s, s, d] with the heads side by side: [1, s, s, heads d]."""
    heads, rows, columns, size = input_tensor.shape
    turned = input_tensor.op("transpose", perm=(1, 2, 0, 3))
    return turned.reshape((1, rows, columns, heads * size))
