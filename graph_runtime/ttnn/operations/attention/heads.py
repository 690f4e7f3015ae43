"""Rows cut into the heads of attention, and heads put side by side.

A row has the query heads, then those of the keys, then of the values. Where it is in shards that kernels of
tt-metal read one by one, each shard has these three of its own: [q, k, v, q, k, v, ..].
"""

from __future__ import annotations

from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import L1_HEIGHT_SHARDED_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import CoreRangeSet, num_cores_to_corerangeset
from ...memory.placing import matrix, up
from ...memory.values import TILE_SIZE, Layout, ShardOrientation, TensorMemoryLayout
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import Target, device_tensor, target, tiled_input
from ..wide import Wide

__all__: list[str] = []


class _Cut:
    """How rows are cut: ``heads`` of queries, ``groups`` of keys and of values, in as many equal ``shards``
    of rows, those of keys and values alone in ``kv_shards``. ``turned``: keys come transposed."""

    def __init__(self, op: str, heads: int, groups: int | None, turned: bool):
        self.op, self.heads, self.groups, self.turned = op, heads, groups or heads, turned
        self.shards = self.kv_shards = 1

    def __call__(self, w: Wide, x: Handle, kv: Handle | None) -> list[Handle]:
        """Queries, keys and values [b, heads, s, d] of [b, s, widths], the latter two of ``kv`` if given."""
        heads, groups, op = self.heads, self.groups, self.op
        size = self._size(x.shape[2], heads if kv is not None else heads + 2 * groups)
        if kv is None:
            sources = ((x, 0, heads), (x, heads, groups), (x, heads + groups, groups))
            shards = [self.shards] * 3
        else:
            check(kv.shape[2] == 2 * groups * size, op, "Head dims must be the same for Q and K, V")
            sources = ((x, 0, heads), (kv, 0, groups), (kv, groups, groups))
            shards = [self.shards, self.kv_shards, self.kv_shards]
        perms = ((0, 2, 1, 3), (0, 2, 3, 1) if self.turned else (0, 2, 1, 3), (0, 2, 1, 3))
        return [
            self._part(w, source, at * size, count * size, size, parts, perm)
            for (source, at, count), parts, perm in zip(sources, shards, perms, strict=True)
        ]

    def _size(self, width: int, parts: int) -> int:
        check(width % parts == 0, self.op, f"the width {width} cannot be cut into {parts} heads")
        size = width // parts
        text = f"Head size must be a multiple of 32, but was found to be {size}! Update the heads that fit"
        check(size % TILE_SIZE == 0, self.op, text)
        return size

    def _part(
        self, w: Wide, x: Handle, at: int, count: int, size: int, shards: int, perm: tuple[int, ...]
    ) -> Handle:
        """``count`` columns from column ``at`` of whole rows, cut evenly over the shards."""
        batch, length, width = x.shape
        whole = all(n % (shards * size) == 0 for n in (at, count))
        check(whole, self.op, f"{self.heads} and {self.groups} heads cannot be cut into {shards} shards")
        if shards > 1:
            x = w.reshape(w.rows(x), (batch, length * shards, width // shards))
        starts, ends = (at // shards,), ((at + count) // shards,)
        part = kernels.run("slice", [x], {"starts": starts, "ends": ends, "axes": (2,)})
        return kernels.run(
            "transpose", [w.reshape(w.rows(part), (batch, length, count // size, size))], {"perm": perm}
        )


def _shards(op: str, x: Tensor) -> int:
    """How many shards side by side a tensor has, each with all of its rows."""
    spec = x.memory_config().shard_spec
    check(spec is not None, op, "the input must have a shard spec")
    assert spec is not None
    rows, columns = matrix(x.shape, x.layout, x.tile)
    text = f"Shard spec shape[0] ({spec.shape[0]}) must equal physical volume / padded shape[-1] ({rows})"
    check(spec.shape[0] == rows, op, text)
    check(columns % spec.shape[1] == 0, op, f"shards of {spec.shape[1]} do not divide the width {columns}")
    return columns // spec.shape[1]


def _placed(op: str, x: Tensor, made: list[Handle], memory_config: MemoryConfig | None) -> list[Tensor]:
    """Each of several results where the caller, or the input, says."""
    goal = target(op, x, memory_config)
    return [Target(op, goal.dtype, goal.layout, goal.config, goal.device).wrap(heads) for heads in made]


def _in_shards(
    op: str, x: Tensor, made: list[Handle], memory_config: MemoryConfig, cores: CoreRangeSet | None = None
) -> list[Tensor]:
    """Each of several results cut evenly over ``cores``, whatever the shards of the configuration; None: a
    head on each of the first cores of the grid."""
    assert x._device is not None
    grid, spec, found = x._device.compute_with_storage_grid_size(), x.memory_config().shard_spec, []
    for heads in made:
        rows, columns = matrix(heads.shape, Layout.TILE)
        own = num_cores_to_corerangeset(heads.shape[1], grid, True) if cores is None else cores
        cut = [up(-(-rows // own.num_cores()), TILE_SIZE), columns]
        turned = ShardOrientation.ROW_MAJOR if spec is None else spec.orientation
        found += _placed(op, x, [heads], memory_config.with_shard_spec(ShardSpec(own, cut, turned)))
    return found


def _into_none(op: str, output_tensors: Any) -> None:
    if output_tensors is not None:
        raise Unsupported(f"{op}: output_tensors is not supported", op=op)


def _sequence(op: str, w: Wide, x: Tensor) -> Handle:
    check(len(x.shape) == 4 and x.shape[1] == 1, op, f"the input must be [b, 1, s, width], got {x.shape}")
    batch, _, length, width = x.shape
    return w.reshape(w.rows(x._handle), (batch, length, width))


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
    """[b, 1, s, (h + 2 kv) d] as queries [b, h, s, d], keys (turned, unless transpose_k_heads is False) and
    values [b, kv, s, d]. In shards each has queries, keys and values of its own, and results are a head a
    core."""
    op = "ttnn.experimental.nlp_create_qkv_heads"
    _into_none(op, output_tensors)
    x = device_tensor(op, input)
    other = None if input_kv is None else device_tensor(op, input_kv)
    w, cut = Wide(x._handle.device), _Cut(op, num_heads, num_kv_heads, transpose_k_heads)
    config = memory_config or x.memory_config()
    if x.is_sharded():
        check(not transpose_k_heads, op, "Transpose K heads must be false")
        fits = config.is_sharded() and config.memory_layout is not TensorMemoryLayout.WIDTH_SHARDED
        text = f"Output memory config must be sharded and not WIDTH_SHARDED but got {config.memory_layout}"
        check(fits, op, text)
        check(other is None or other.is_sharded(), op, "Input tensor KV must be sharded")
        cut.shards = _shards(op, x)
    if other is not None and other.is_sharded():
        check(x.is_sharded(), op, "Input tensor must be sharded when KV tensor is sharded")
        cut.kv_shards = _shards(op, other)
    made = cut(w, _sequence(op, w, x), None if other is None else _sequence(op, w, other))
    return tuple(_in_shards(op, x, made, config) if x.is_sharded() else _placed(op, x, made, memory_config))


def _by_groups(op: str, x: Tensor, cut: _Cut, rows: Handle, config: MemoryConfig) -> list[Tensor]:
    """Heads of a block-sharded tensor, whose rows have the queries, the key and the value of each group side
    by side."""
    blocks = x.memory_config()
    text = f"Input tensor memory layout must be BLOCK_SHARDED but got {blocks.memory_layout}"
    check(blocks.memory_layout is TensorMemoryLayout.BLOCK_SHARDED, op, text)
    text = f"Output memory config layout must be HEIGHT_SHARDED but got {config.memory_layout}"
    check(config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED, op, text)
    assert blocks.shard_spec is not None  # it is placed
    cut.shards = cut.groups
    return _in_shards(op, x, cut(Wide(rows.device), rows, None), config, blocks.shard_spec.grid)


@operation("experimental.create_qkv_heads", "slice, reshape, transpose")
def create_qkv_heads(
    input: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Any = None,
) -> tuple[Tensor, ...]:
    """[b, 1, s, (h + 2 kv) d] in blocks, the queries, the key and the value of a group side by side, as
    queries [b, h, s, d], keys (turned, unless transpose_k_heads is False) and values [b, kv, s, d]."""
    op = "ttnn.experimental.create_qkv_heads"
    _into_none(op, output_tensors)
    x = tiled_input(op, input, f"Input tensor layout must be TILE but got {input.layout}")
    check(x.is_sharded(), op, "Operands to TM must be sharded")
    rows = _sequence(op, Wide(x._handle.device), x)
    cut = _Cut(op, num_heads, num_kv_heads, transpose_k_heads)
    return tuple(_by_groups(op, x, cut, rows, memory_config or x.memory_config()))


@operation("transformer.split_query_key_value_and_split_heads", "slice, reshape, transpose")
def split_heads(
    input_tensor: Tensor,
    kv_input_tensor: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> tuple[Tensor, ...]:
    """[b, s, (h + 2 kv) d] as queries [b, h, s, d], keys [b, kv, d, s] (unless transpose_key is False) and
    values [b, kv, s, d]. In blocks it is as experimental.create_qkv_heads."""
    op = "ttnn.transformer.split_query_key_value_and_split_heads"
    x = tiled_input(op, input_tensor, f"Invalid layout: expected TILE, got {input_tensor.layout}")
    check(len(x.shape) == 3, op, f"Input tensor must have 3 dimensions, got {len(x.shape)}")
    cut = _Cut(op, num_heads, num_kv_heads, transpose_key)
    if x.is_sharded():
        check(
            kv_input_tensor is None, op, "KV tensor should not be provided when the input tensor is sharded"
        )
        return tuple(_by_groups(op, x, cut, x._handle, memory_config or x.memory_config()))
    other = None
    if kv_input_tensor is not None:
        other = tiled_input(op, kv_input_tensor, "Invalid layout: expected TILE")._handle
    return tuple(_placed(op, x, cut(Wide(x._handle.device), x._handle, other), memory_config))


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
    """[1, 1, b, (h + 2 kv) d] as queries [1, b, h, d], keys and values [1, b, kv, d], in height shards."""
    op = "ttnn.experimental.nlp_create_qkv_heads_decode"
    _into_none(op, output_tensors)
    x, groups = device_tensor(op, input_tensor), num_kv_heads or num_heads
    if batch_offset is not None or slice_size is not None:
        raise Unsupported(f"{op} with batch_offset is not supported", op=op)
    heads = num_heads + 2 * groups
    users, width = x.shape[2], x.shape[3]
    check(width % heads == 0, op, f"the width {width} cannot be cut into {heads} heads")
    w = Wide(x._handle.device)
    cut = w.reshape(w.rows(x._handle), (1, users, heads, width // heads))
    config = memory_config or L1_HEIGHT_SHARDED_MEMORY_CONFIG
    made = []
    for start, end in ((0, num_heads), (num_heads, num_heads + groups), (num_heads + groups, heads)):
        part = w("slice", cut, starts=(start,), ends=(end,), axes=(2,))
        made.append(target(op, x, config, None, None, Layout.TILE).wrap(part))
    return tuple(made)


# **************** heads side by side ****************


def _concatenated(name: str, rank: int) -> Operation:
    full = f"ttnn.{name}"

    def function(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, **_: Any) -> Tensor:
        x = device_tensor(full, input_tensor)
        check(len(x.shape) == 4, full, f"Input tensor must have 4 dimensions, got {len(x.shape)}")
        batch, heads, length, size = x.shape
        w = Wide(x._handle.device)
        turned = kernels.run("transpose", [w.rows(x._handle)], {"perm": (0, 2, 1, 3)})
        shape = (batch, length, heads * size) if rank == 3 else (batch, 1, length, heads * size)
        text = (
            f"Head size must be a multiple of 32, but was found to be {size}! Update matmul that uses the "
            "output of this operation to include the padding in the weights!"
        )
        check(size % 32 == 0, full, text)
        return target(full, x, memory_config, layout=Layout.TILE).wrap(w.reshape(w.rows(turned), shape))

    function.__doc__ = "[b, h, s, d] as the heads side by side in the last dimension."
    return Operation(name, function, "transpose, reshape")


_concatenated("transformer.concatenate_heads", 3)
_concatenated("experimental.nlp_concat_heads", 4)


@operation("experimental.nlp_concat_heads_decode", "slice, reshape")
def nlp_concat_heads_decode(
    input_tensor: Tensor,
    *,
    num_heads: int,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """[1, b, h or more, d] as [1, 1, b, h d]."""
    op = "ttnn.experimental.nlp_concat_heads_decode"
    x = device_tensor(op, input_tensor)
    _, users, heads, size = x.shape
    check(heads >= num_heads, op, f"{x.shape} has no {num_heads} heads")
    w, made = Wide(x._handle.device), x._handle
    if heads > num_heads:
        made = w("slice", made, starts=(0,), ends=(num_heads,), axes=(2,))
    made = w.reshape(w.rows(made), (1, 1, users, num_heads * size))
    goal = target(op, x, memory_config, output_tensor)
    if memory_config is None and output_tensor is None and goal.config.is_sharded():
        goal.config = goal.config.with_shard_spec(None)
    return goal.wrap(made)
