""".tensorbin: ttnn's files of tensors, as tt-metal writes them. A file has the length of its header, the
header, which is a FlatBuffer with the tensor's type and place (ttnn/core/tensor/flatbuffer/*.fbs), and the
elements in the order of memory. Of a tensor on several chips each part has a place in the file; parts that
are copies of one another share it.

Elements of tiles are in the order of tiles and of their 16x16 faces; a block format has a tile's 64 exponents
first, then the signs and magnitudes of its 1024 elements.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ..devices.chips import MeshCoordinate, MeshShape, coordinates
from ..errors import Unsupported, check, fatal
from ..memory.configs import MemoryConfig, ShardSpec
from ..memory.cores import CoreCoord, CoreRange, CoreRangeSet
from ..memory.values import (
    DEFAULT_TILE,
    BufferType,
    DataType,
    Layout,
    ShardOrientation,
    TensorMemoryLayout,
    Tile,
)
from .flat_tables import Inline, Table, read_root, written
from .mesh_tensor import MeshTensor
from .placements import PlacementReplicate, PlacementShard, TensorTopology, replicated
from .tensor import Tensor

_LENGTH = struct.Struct("<Q")
_INLINE_STORAGE, _ROW_MAJOR_PAGES, _TILE_PAGES = 1, 1, 2  # members of the unions TensorBuffer and PageConfig
_NO_DIMENSION = -1  # that of a placement without one
_FACE, _ROW = 16, 16  # a face has 16 rows of 16 elements; in a block format each row has an exponent
_ELEMENTS = {
    DataType.BFLOAT16: "bfloat16",
    DataType.FLOAT32: "float32",
    DataType.UINT32: "uint32",
    DataType.UINT8: "uint8",
    DataType.UINT16: "uint16",
    DataType.INT32: "int32",
}
_MAGNITUDE_BITS = {DataType.BFLOAT8_B: 7, DataType.BFLOAT4_B: 3}


class TensorFile(NamedTuple):
    """Contents of a file. ``parts``: {coordinate: values in the logical shape, float32 for a float type};
    copies are one array."""

    parts: dict[MeshCoordinate, np.ndarray]
    mesh_shape: tuple[int, ...]
    topology: TensorTopology
    dtype: DataType
    layout: Layout
    config: MemoryConfig
    tile: Tile


# **************** elements in the order of memory ****************


def _faces(rows: int, cols: int) -> tuple[int, int]:
    return min(rows, _FACE), min(cols, _FACE)


def _tilized(values: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """The elements of a matrix of whole tiles as (tiles, elements of a tile)."""
    (rows, cols), (high, wide) = values.shape, tile
    tall, broad = _faces(high, wide)
    cut = values.reshape(rows // high, high // tall, tall, cols // wide, wide // broad, broad)
    return np.ascontiguousarray(cut.transpose(0, 3, 1, 4, 2, 5)).reshape(-1, high * wide)


def _untilized(elements: np.ndarray, rows: int, cols: int, tile: tuple[int, int]) -> np.ndarray:
    high, wide = tile
    tall, broad = _faces(high, wide)
    cut = elements.reshape(rows // high, cols // wide, high // tall, wide // broad, tall, broad)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(rows, cols)


def _packed(tiles: np.ndarray, bits: int) -> bytes:
    """The bytes of tiles in a block format; the format holds the values exactly."""
    lines = tiles.reshape(-1, _ROW)
    exponents = (lines.view(np.uint32) >> 23) & 0xFF
    shared = exponents.max(1)
    scale = np.ldexp(1.0, bits - 1 + 127 - shared.astype(np.int64))
    magnitudes = np.minimum(np.rint(np.abs(lines.astype(np.float64)) * scale[:, None]), (1 << bits) - 1)
    coded = magnitudes.astype(np.uint8) | (np.signbit(lines) & (magnitudes > 0)).astype(np.uint8) << bits
    coded = coded.reshape(len(tiles), -1)
    if bits == _MAGNITUDE_BITS[DataType.BFLOAT4_B]:
        coded = coded[:, ::2] | coded[:, 1::2] << 4
    heads = shared.astype(np.uint8).reshape(len(tiles), -1)
    return np.concatenate([heads, coded], 1).tobytes()


def _unpacked(data: bytes, count: int, elements: int, bits: int) -> np.ndarray:
    """The values of tiles in a block format, (count, elements) float32."""
    heads = elements // _ROW
    body = elements * (bits + 1) // 8
    raw = np.frombuffer(data, np.uint8).reshape(count, heads + body)
    coded = raw[:, heads:]
    if bits == _MAGNITUDE_BITS[DataType.BFLOAT4_B]:
        coded = np.stack([coded & 0xF, coded >> 4], 2)
    coded = coded.reshape(count, heads, _ROW)
    shared = raw[:, :heads].astype(np.int64)
    magnitudes = (coded & ((1 << bits) - 1)).astype(np.float64)
    values = np.ldexp(magnitudes, (shared - 127 - (bits - 1))[:, :, None])
    return np.where(coded >> bits, -values, values).astype(np.float32).reshape(count, elements)


def _matrix(shape: tuple[int, ...], layout: Layout, tile: Tile) -> tuple[int, int, int]:
    """(matrices, rows, columns) that a tensor of the shape has in memory, with padding."""
    rows, cols = (1, 1, *shape)[-2:]
    outer = int(np.prod(shape[:-2], dtype=np.int64))
    if layout is Layout.TILE:
        high, wide = tile.tile_shape
        rows, cols = -(-rows // high) * high, -(-cols // wide) * wide
    return outer, rows, cols


def _elements_of(tensor: Tensor, values: np.ndarray) -> bytes:
    dtype = tensor.dtype
    kind = dtypes.to_numpy(_ELEMENTS.get(dtype, "float32"))
    if tensor.layout is not Layout.TILE:
        return np.ascontiguousarray(values, kind).tobytes()
    outer, rows, cols = _matrix(values.shape, tensor.layout, tensor.tile)
    own = (1, 1, *values.shape)[-2:]
    whole = np.full((outer, rows, cols), tensor._padding, kind)
    whole[:, : own[0], : own[1]] = values.reshape(outer, *own)
    high, wide = tensor.tile.tile_shape
    tiles = _tilized(whole.reshape(outer * rows, cols), (high, wide))
    return _packed(tiles, _MAGNITUDE_BITS[dtype]) if dtype.is_block else tiles.tobytes()


def _values_of(name: str, data: bytes, shape: tuple[int, ...], dtype: DataType, how: Any) -> np.ndarray:
    layout, tile = how
    outer, rows, cols = _matrix(shape, layout, tile)
    high, wide = tile.tile_shape
    count, elements = outer * rows * cols // (high * wide), high * wide
    if dtype.is_block:
        nbytes = count * (elements // _ROW + elements * (_MAGNITUDE_BITS[dtype] + 1) // 8)
    else:
        kind = np.dtype(dtypes.to_numpy(_ELEMENTS[dtype]))
        nbytes = outer * rows * cols * kind.itemsize
    if len(data) != nbytes:
        text = f"{name}: a tensor {shape} of {len(data)} bytes instead of {nbytes}: its shards may end early"
        raise Unsupported(text, op="ttnn.load_tensor")
    tiles = _unpacked(data, count, elements, _MAGNITUDE_BITS[dtype]) if dtype.is_block else None
    values = np.frombuffer(data, kind) if tiles is None else tiles
    if layout is Layout.TILE:
        values = _untilized(values, outer * rows, cols, (high, wide))
    own = (1, 1, *shape)[-2:]
    values = values.reshape(outer, rows, cols)[:, : own[0], : own[1]].reshape(shape)
    return values.astype(np.float32) if dtype.is_float else values


# **************** the header ****************


class _Place(NamedTuple):
    """The place in a file of the part on a chip, in bytes after the header."""

    coordinate: MeshCoordinate
    offset: int
    nbytes: int


def _header(
    tensor: Tensor, places: list[_Place], mesh_shape: Sequence[int], topology: TensorTopology
) -> bytes:
    """The FlatBuffer of a tensor; it is written as interleaved over the banks of its memory."""
    high, wide = tensor.tile.tile_shape
    tiled = tensor.layout is Layout.TILE
    pages = Table({0: Table({0: ("I", high), 1: ("I", wide)})}) if tiled else Table({})
    memory = {0: ("H", 0), 1: ("H", tensor.memory_config().buffer_type.value)}
    layout = {
        0: ("B", tensor.dtype.value),
        1: ("B", _TILE_PAGES if tiled else _ROW_MAJOR_PAGES),
        2: pages,
        3: Table(memory),
        4: [high, wide] if tiled else [1],
    }
    shards = []
    for place in places:
        where = Inline(struct.pack("<QQ", place.offset, place.nbytes))
        shards.append(Table({0: ("B", _INLINE_STORAGE), 1: where, 2: Table({0: list(place.coordinate)})}))
    spec = Table({0: list(tensor.shape), 1: Table(layout)})
    whole = {0: spec, 1: Table({0: list(mesh_shape)}), 2: shards, 3: _topology_table(topology)}
    return written(Table(whole))


def _topology_table(topology: TensorTopology) -> Table:
    dims = [one.dim if isinstance(one, PlacementShard) else None for one in topology.placements()]
    placements = [
        Table({0: ("B", dim is not None), 1: ("i", _NO_DIMENSION if dim is None else dim)}) for dim in dims
    ]
    places = [Table({0: list(at)}) for at in topology.mesh_coords()]
    return Table({0: Table({0: list(topology.distribution_shape())}), 1: placements, 2: places})


def write_tensor(path: Path, tensor: Tensor) -> None:
    """Write a tensor to a file that tt-metal can read."""
    if isinstance(tensor, MeshTensor):
        parts, topology = dict(zip(tensor.coordinates, tensor.parts, strict=True)), tensor.tensor_topology()
        mesh_shape = tensor.mesh_shape
    else:
        topology, mesh_shape = replicated([(0, 0)]), MeshShape(1, 1)
        parts = {topology.mesh_coords()[0]: tensor}
    places, data = _placed(parts, topology)
    header = _header(tensor, places, mesh_shape, topology)
    with open(path, "wb") as file:
        file.write(_LENGTH.pack(len(header)) + header)
        file.writelines(data)


def _placed(
    parts: dict[MeshCoordinate, Tensor], topology: TensorTopology
) -> tuple[list[_Place], list[bytes]]:
    """(the place of each part, the elements). A part that differs from an earlier one only along axes of
    copies shares its place (tensor_flatbuffer.cpp), but only if it is equal."""
    op, coords, shape = "ttnn.dump_tensor", topology.mesh_coords(), topology.distribution_shape()
    text = f"Topology mesh coords size {len(coords)} should match distribution shape size {shape.mesh_size()}"
    check(len(coords) == shape.mesh_size(), op, text)
    for where in parts.keys() - coords:
        raise fatal(op, f"The part at {where} is not part of the tensor's topology")
    kept: dict[tuple[int, ...], tuple[np.ndarray, _Place]] = {}
    places, data, end = [], [], 0
    for own, where in zip(coordinates(tuple(shape)), coords, strict=True):
        if where not in parts:
            continue
        values = parts[where]._values()
        pairs = zip(own, topology.placements(), strict=True)
        key = tuple(at for at, placement in pairs if isinstance(placement, PlacementShard))
        first = kept.get(key)
        if first is not None and first[0].tobytes() == values.tobytes():
            places.append(first[1]._replace(coordinate=where))
            continue
        data.append(_elements_of(parts[where], values))
        if not data[-1]:
            raise fatal(op, "Unexpected empty buffer during tensor serialization")
        places.append(_Place(where, end, len(data[-1])))
        kept.setdefault(key, (values, places[-1]))
        end += len(data[-1])
    return places, data


def _shards(found: Any) -> ShardSpec | None:
    if found is None:
        return None
    ranges = []
    for one in found.child(0).children(0):
        start, end = (CoreCoord(one.child(at).scalar(0, "i"), one.child(at).scalar(1, "i")) for at in (0, 1))
        ranges.append(CoreRange(start, end))
    shape = [found.scalar(1, "I"), found.scalar(2, "I")]
    return ShardSpec(CoreRangeSet(ranges), shape, ShardOrientation(found.scalar(3, "B")))


def _config(name: str, found: Any) -> MemoryConfig:
    if found is None:
        return MemoryConfig()
    if found.child(3) is not None:
        raise Unsupported(f"{name}: ND shards in a file are not supported", op="ttnn.load_tensor")
    kind, memory = TensorMemoryLayout(found.scalar(0, "H")), BufferType(found.scalar(1, "H"))
    return MemoryConfig(kind, memory, _shards(found.child(2)))


def read_tensor(path: Path) -> TensorFile:
    """Contents of a ttnn file. Raises RuntimeError for a damaged file."""
    whole, name = path.read_bytes(), str(path)
    damaged = f'Tensor file "{name}" is truncated or corrupt: cannot validate tensor data'
    if len(whole) < _LENGTH.size or _LENGTH.size + _LENGTH.unpack_from(whole)[0] > len(whole):
        raise fatal("ttnn.load_tensor", damaged)
    begin = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
    try:
        return _read(name, whole[_LENGTH.size : begin], whole[begin:])
    except (IndexError, ValueError, KeyError, AttributeError, struct.error, OverflowError) as error:
        raise fatal("ttnn.load_tensor", damaged) from error


def _read(name: str, header: bytes, data: bytes) -> TensorFile:
    root = read_root(header)
    spec = root.child(0)
    layout = spec.child(1)
    dtype, tiled = DataType(layout.scalar(0, "B")), layout.scalar(1, "B") == _TILE_PAGES
    tile = DEFAULT_TILE
    if tiled:
        found = layout.child(2).child(0)
        tile = Tile((found.scalar(0, "I"), found.scalar(1, "I")))
        if found.scalar(2, "?"):
            raise Unsupported(f"{name}: transposed tiles are not supported", op="ttnn.load_tensor")
    how = Layout.TILE if tiled else Layout.ROW_MAJOR
    shape = tuple(spec.numbers(0))
    mesh_shape = tuple(root.child(1).numbers(0))
    parts: dict[MeshCoordinate, np.ndarray] = {}
    read: dict[Any, np.ndarray] = {}
    for shard in root.children(2):
        offset, size = place = struct.unpack("<QQ", shard.inline(1, 16))
        if offset + size > len(data):
            raise ValueError("the elements reach beyond the end of the file")
        if place not in read:
            read[place] = _values_of(name, data[offset : offset + size], shape, dtype, (how, tile))
        parts[_on_mesh(shard.child(2), mesh_shape)] = read[place]
    if not parts:
        raise ValueError("the tensor has no part")
    topology = _topology(root.child(3), mesh_shape)
    return TensorFile(parts, mesh_shape, topology, dtype, how, _config(name, layout.child(3)), tile)


def _on_mesh(found: Any, mesh_shape: tuple[int, ...]) -> MeshCoordinate:
    where = MeshCoordinate(found.numbers(0))
    if len(where) != len(mesh_shape) or any(at >= size for at, size in zip(where, mesh_shape, strict=True)):
        raise ValueError("a part outside of the mesh")
    return where


def _topology(found: Any, mesh_shape: tuple[int, ...]) -> TensorTopology:
    if found is None:  # of an older file
        copies = [PlacementReplicate() for _ in mesh_shape]
        return TensorTopology(mesh_shape, copies, coordinates(mesh_shape))
    placements: list[Any] = [
        PlacementShard(one.scalar(1, "i")) if one.scalar(0, "B") else PlacementReplicate()
        for one in found.children(1)
    ]
    places = [_on_mesh(one, mesh_shape) for one in found.children(2)]
    return TensorTopology(found.child(0).numbers(0), placements, places)
