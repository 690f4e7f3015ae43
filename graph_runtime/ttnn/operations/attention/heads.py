"""Functions that cut rows into the heads of attention, and that put heads side by side.

A row has the query heads, then the key heads, then the value heads. If tt-metal's kernels read a row shard by
shard, each shard has its own queries, keys and values: [q, k, v, q, k, v, ..].
"""

from __future__ import annotations

from typing import Any

from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import L1_HEIGHT_SHARDED_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import CoreRangeSet, num_cores_to_corerangeset
from ...memory.placing import matrix, up
from ...memory.values import TILE_SIZE, Layout, ShardOrientation, TensorMemoryLayout
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import Target, target


class Cut:
    """A way to cut rows. ``heads``: number of query heads; ``groups``: number of key heads, and of value
    heads; ``shards``: number of equal shards of a row; ``kv_shards``: number of shards of a row of keys and
    values, if these have a tensor of their own; ``turned``: whether the keys of the result are transposed."""

    def __init__(self, heads: int, groups: int | None, turned: bool):
        self.heads, self.groups, self.turned = heads, heads if groups is None else groups, turned
        self.shards = self.kv_shards = 1

    def __call__(self, x: WideValue, kv: WideValue | None) -> list[WideValue]:
        """[queries, keys, values], each [b, heads, s, d], of ``x`` [b, s, width]; keys and values are cut
        from ``kv`` if that is given."""
        heads, groups = self.heads, self.groups
        size = self._size(x.shape[2], heads if kv is not None else heads + 2 * groups)
        if kv is None:
            sources = ((x, 0, heads), (x, heads, groups), (x, heads + groups, groups))
            shards = [self.shards] * 3
        else:
            expect(kv.shape[2] == 2 * groups * size, "Head dims must be the same for Q and K, V")
            sources = ((x, 0, heads), (kv, 0, groups), (kv, groups, groups))
            shards = [self.shards, self.kv_shards, self.kv_shards]
        perms = ((0, 2, 1, 3), (0, 2, 3, 1) if self.turned else (0, 2, 1, 3), (0, 2, 1, 3))
        return [
            self._part(source, at * size, count * size, size, parts, perm)
            for (source, at, count), parts, perm in zip(sources, shards, perms, strict=True)
        ]

    def _size(self, width: int, parts: int) -> int:
        expect(width % parts == 0, f"the width {width} cannot be cut into {parts} heads")
        size = width // parts
        text = f"Head size must be a multiple of 32, but was found to be {size}! Update the heads that fit"
        expect(size % TILE_SIZE == 0, text)
        return size

    def _part(
        self, x: WideValue, at: int, count: int, size: int, shards: int, perm: tuple[int, ...]
    ) -> WideValue:
        """``count`` columns of whole rows, from column ``at`` on; each shard has an equal part of these
        columns."""
        batch, length, width = x.shape
        whole = all(n % (shards * size) == 0 for n in (at, count))
        expect(whole, f"{self.heads} and {self.groups} heads cannot be cut into {shards} shards")
        if shards > 1:
            x = x.reshape((batch, length * shards, width // shards))
        starts, ends = (at // shards,), ((at + count) // shards,)
        part = x.run("slice", starts=starts, ends=ends, axes=(2,))
        return part.reshape((batch, length, count // size, size)).run("transpose", perm=perm)


def _shards(x: Tensor) -> int:
    """Number of shards side by side in a tensor. Raises RuntimeError unless each shard has all rows."""
    spec = x.memory_config().shard_spec
    expect(spec is not None, "the input must have a shard spec")
    assert spec is not None
    rows, columns = matrix(x.shape, x.layout, x.tile)
    text = f"Shard spec shape[0] ({spec.shape[0]}) must equal physical volume / padded shape[-1] ({rows})"
    expect(spec.shape[0] == rows, text)
    expect(columns % spec.shape[1] == 0, f"shards of {spec.shape[1]} do not divide the width {columns}")
    return columns // spec.shape[1]


def each_placed(x: Tensor, made: list[WideValue], memory_config: MemoryConfig | None) -> list[Tensor]:
    """Each result in the memory that the caller names, by default the input's."""
    goal = target(x, memory_config)
    return [Target(goal.dtype, goal.layout, goal.config, goal.device).wrap(heads) for heads in made]


def each_in_shards(
    x: Tensor, made: list[WideValue], memory_config: MemoryConfig, cores: CoreRangeSet | None = None
) -> list[Tensor]:
    """Each result in equal shards on ``cores``, whatever shards the configuration has. By default each head
    is a shard, and the cores are the first of the grid."""
    assert x._device is not None
    grid, spec, found = x._device.compute_with_storage_grid_size(), x.memory_config().shard_spec, []
    for heads in made:
        rows, columns = matrix(heads.shape, Layout.TILE)
        own = num_cores_to_corerangeset(heads.shape[1], grid, True) if cores is None else cores
        cut = [up(-(-rows // own.num_cores()), TILE_SIZE), columns]
        turned = ShardOrientation.ROW_MAJOR if spec is None else spec.orientation
        found += each_placed(x, [heads], memory_config.with_shard_spec(ShardSpec(own, cut, turned)))
    return found


def refuse_outputs(output_tensors: Any) -> None:
    if output_tensors is not None:
        raise Unsupported(f"{called()}: output_tensors is not supported")


def sequence(x: Tensor) -> WideValue:
    expect(len(x.shape) == 4 and x.shape[1] == 1, f"the input must be [b, 1, s, width], got {x.shape}")
    batch, _, length, width = x.shape
    return x._value.reshape((batch, length, width))


@operation("experimental.nlp_create_qkv_heads", "slice, reshape, transpose")
def nlp_create_qkv_heads(
    input: Tensor,
    input_kv: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Any = None,
) -> tuple[Tensor, ...]:
    """[b, 1, s, (h + 2 kv) d] cut into queries [b, h, s, d], keys [b, kv, d, s] ([b, kv, s, d] if
    transpose_k_heads is False) and values [b, kv, s, d]. If the input is sharded, each shard has its own
    queries, keys and values, and each head of the results is on a core of its own."""
    refuse_outputs(output_tensors)
    x, other = input, input_kv
    cut = Cut(num_heads, num_kv_heads, transpose_k_heads)
    config = memory_config or x.memory_config()
    if x.is_sharded():
        expect(not transpose_k_heads, "Transpose K heads must be false")
        fits = config.is_sharded() and config.memory_layout is not TensorMemoryLayout.WIDTH_SHARDED
        text = f"Output memory config must be sharded and not WIDTH_SHARDED but got {config.memory_layout}"
        expect(fits, text)
        expect(other is None or other.is_sharded(), "Input tensor KV must be sharded")
        cut.shards = _shards(x)
    if other is not None and other.is_sharded():
        expect(x.is_sharded(), "Input tensor must be sharded when KV tensor is sharded")
        cut.kv_shards = _shards(other)
    made = cut(sequence(x), None if other is None else sequence(other))
    return tuple(each_in_shards(x, made, config) if x.is_sharded() else each_placed(x, made, memory_config))


def cut_by_groups(
    x: Tensor, cut: Cut, rows: WideValue, config: MemoryConfig, kv: Tensor | None = None
) -> list[Tensor]:
    """Heads of a block-sharded tensor, in whose rows the queries, the key and the value of each group are
    side by side. With ``kv``, the keys and values are in the rows of that tensor."""
    blocks = x.memory_config()
    text = f"Input tensor memory layout must be BLOCK_SHARDED but got {blocks.memory_layout}"
    expect(blocks.memory_layout is TensorMemoryLayout.BLOCK_SHARDED, text)
    text = f"Output memory config layout must be HEIGHT_SHARDED but got {config.memory_layout}"
    expect(config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED, text)
    assert blocks.shard_spec is not None  # a sharded tensor that exists has a shard spec
    if kv is None:
        cut.shards = cut.groups
    else:
        cut.kv_shards = cut.groups
    made = cut(rows, None if kv is None else sequence(kv))
    return each_in_shards(x, made, config, blocks.shard_spec.grid)


@operation(
    "experimental.create_qkv_heads", "slice, reshape, transpose", tiled="Input tensor layout must be TILE"
)
def create_qkv_heads(
    input: TiledTensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Any = None,
) -> tuple[Tensor, ...]:
    """[b, 1, s, (h + 2 kv) d] in block shards, with the queries, the key and the value of each group side by
    side, cut into queries [b, h, s, d], keys [b, kv, d, s] ([b, kv, s, d] if transpose_k_heads is False) and
    values [b, kv, s, d]."""
    refuse_outputs(output_tensors)
    expect(input.is_sharded(), "Operands to TM must be sharded")
    cut = Cut(num_heads, num_kv_heads, transpose_k_heads)
    return tuple(cut_by_groups(input, cut, sequence(input), memory_config or input.memory_config()))


@operation(
    "transformer.split_query_key_value_and_split_heads",
    "slice, reshape, transpose",
    tiled="Invalid layout: expected TILE",
)
def split_heads(
    input_tensor: TiledTensor,
    kv_input_tensor: TiledValue | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    memory_config: MemoryConfig | None = None,
) -> tuple[Tensor, ...]:
    """[b, s, (h + 2 kv) d] cut into queries [b, h, s, d], keys [b, kv, d, s] ([b, kv, s, d] if transpose_key
    is False) and values [b, kv, s, d]. Block shards are cut as by experimental.create_qkv_heads."""
    x = input_tensor
    expect(len(x.shape) == 3, f"Input tensor must have 3 dimensions, got {len(x.shape)}")
    cut = Cut(num_heads, num_kv_heads, transpose_key)
    if x.is_sharded():
        expect(kv_input_tensor is None, "KV tensor should not be provided when the input tensor is sharded")
        return tuple(cut_by_groups(x, cut, x._value, memory_config or x.memory_config()))
    return tuple(each_placed(x, cut(x._value, kv_input_tensor), memory_config))


@operation("experimental.nlp_create_qkv_heads_decode", "reshape, slice")
def nlp_create_qkv_heads_decode(
    input_tensor: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    output_tensors: Any = None,
    overlap_qk_coregrid: bool = True,
    batch_offset: Any = None,
    slice_size: int | None = None,
    memory_config: MemoryConfig | None = None,
) -> tuple[Tensor, ...]:
    """[1, 1, b, (h + 2 kv) d] cut into queries [1, b, h, d], keys [1, b, kv, d] and values [1, b, kv, d], in
    height shards."""
    refuse_outputs(output_tensors)
    x, groups = input_tensor, num_kv_heads or num_heads
    if batch_offset is not None or slice_size is not None:
        raise Unsupported(f"{called()} with batch_offset is not supported")
    heads = num_heads + 2 * groups
    users, width = x.shape[2], x.shape[3]
    expect(width % heads == 0, f"the width {width} cannot be cut into {heads} heads")
    cut = x._value.reshape((1, users, heads, width // heads))
    config = memory_config or L1_HEIGHT_SHARDED_MEMORY_CONFIG
    ends = ((0, num_heads), (num_heads, num_heads + groups), (num_heads + groups, heads))
    return tuple(target(x, config, layout=Layout.TILE).wrap(cut.part(2, *end)) for end in ends)


# **************** heads side by side ****************


def _concatenated(name: str, rank: int) -> None:
    doc = "[b, h, s, d] with the heads side by side in the last dimension."

    @operation(name, "transpose, reshape", doc=doc, takes="memory_config", layout=Layout.TILE)
    def function(input_tensor: WideValue) -> WideValue:
        x = input_tensor
        expect(len(x.shape) == 4, f"Input tensor must have 4 dimensions, got {len(x.shape)}")
        batch, heads, length, size = x.shape
        turned = x.rows().run("transpose", perm=(0, 2, 1, 3))
        shape = (batch, length, heads * size) if rank == 3 else (batch, 1, length, heads * size)
        text = (
            f"Head size must be a multiple of 32, but was found to be {size}! Update matmul that uses the "
            "output of this operation to include the padding in the weights!"
        )
        expect(size % 32 == 0, text)
        return turned.reshape(shape)


_concatenated("transformer.concatenate_heads", 3)
_concatenated("experimental.nlp_concat_heads", 4)


@operation(
    "experimental.nlp_concat_heads_decode", "slice, reshape", takes="..., memory_config, output_tensor"
)
def nlp_concat_heads_decode(input_tensor: Tensor, *, num_heads: int, goal: Target) -> Tensor:
    """The first ``num_heads`` heads of [1, b, h or more, d], side by side: [1, 1, b, h d]."""
    x = input_tensor
    _, users, heads, size = x.shape
    expect(heads >= num_heads, f"{x.shape} has no {num_heads} heads")
    made = x._value
    if heads > num_heads:
        made = made.part(2, 0, num_heads)
    return goal.resharded().wrap(made.reshape((1, 1, users, num_heads * size)))
