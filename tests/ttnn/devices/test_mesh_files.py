"""Files of tensors on several chips: what tt-metal wrote is read, what is written is read back."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from graph_runtime.compat import ttnn

pytestmark = pytest.mark.core
# a header of tt-metal's, as its dump_tensor wrote it for the rows of 2x16 uint32 on the chips of an n300
HEADER = bytes.fromhex(
    "14000000000000000c001600040008000c0010000c000000480100009c000000ac0000001000000000000a0010000400"
    "08000c000a0000006c0000003c00000004000000020000001c0000000400000012ffffff040000000200000000000000"
    "0100000026ffffff0400000002000000000000000000000002000000200000000c000000000006000800070006000000"
    "00000001080008000000040008000000ffffffff66ffffff040000000200000001000000020000007affffff04000000"
    "020000000100000002000000020000004800000004000000caffffff0000000108000000140000004000000000000000"
    "4000000000000000baffffff0400000002000000000000000100000000000a001000070008000c000a00000000000001"
    "080000002000000000000000000000004000000000000000000000000000060008000400060000000400000002000000"
    "000000000000000008000e000400080008000000400000001400000000000e0014000600070008000c0010000e000000"
    "00000201140000000800000010000000fcffffff04000400040000000100000001000000020000000100000010000000"
    "0000000000000000"
)


def test_a_file_that_tt_metal_wrote_is_read(tmp_path):
    path, values = tmp_path / "rows.tensorbin", np.arange(32, dtype=np.uint32).reshape(2, 16)
    path.write_bytes(struct.pack("<Q", len(HEADER)) + HEADER + values.tobytes())
    found = ttnn.load_tensor(path)
    topology = found.tensor_topology()
    assert list(topology.distribution_shape()) == [1, 2]
    assert topology.placements() == [ttnn.PlacementReplicate(), ttnn.PlacementShard(0)]
    assert [list(place) for place in topology.mesh_coords()] == [[0, 0], [0, 1]]
    rows = [part.to_numpy() for part in ttnn.get_device_tensors(found)]
    assert (np.concatenate(rows) == values).all()


R, S = ttnn.PlacementReplicate(), ttnn.PlacementShard
# name -> placements, shape over which they distribute, parts that differ
PLACED = {
    "cut by rows of chips": ([S(0)], [8], 8),
    "copies": ([R], [8], 1),
    "cut twice": ([S(0), S(1)], [2, 4], 8),
    "copies of rows": ([R, S(0)], [2, 4], 4),
    "some of the chips": ([S(1), R], [2, 2], 2),
    "another shape": ([S(0), R], [4, 2], 4),
}


def mapped(mesh, what):
    placements, shape, _ = PLACED[what]
    return ttnn.create_mesh_mapper(mesh, ttnn.MeshMapperConfig(placements, ttnn.MeshShape(shape)))


def alike(parts, x, y):
    ours, others = parts(x), parts(y)
    assert x.tensor_topology() == y.tensor_topology()
    assert (x.shape, x.dtype, x.layout) == (y.shape, y.dtype, y.layout)
    assert list(ours) == list(others)
    assert all((ours[at] == others[at]).all() for at in ours)


@pytest.mark.parametrize("what", PLACED)
@pytest.mark.parametrize("dtype", [ttnn.float32, ttnn.bfloat8_b])
def test_what_is_written_is_read_back(tmp_path, mesh, put, parts, what, dtype):
    values = np.random.default_rng(5).normal(size=(256, 128)).astype(np.float32)
    x = put(values, mesh, mapped(mesh, what), dtype)
    path = tmp_path / "x.tensorbin"
    for given in (x, ttnn.from_device(x)):
        ttnn.dump_tensor(path, given)
        alike(parts, ttnn.load_tensor(path), x)
        found = ttnn.load_tensor(path, device=mesh)
        alike(parts, found, x)
        assert found.storage_type() is ttnn.StorageType.DEVICE
    part = 1088 if dtype is ttnn.bfloat8_b else 4096
    elements = PLACED[what][2] * part * x.shape[0] * x.shape[1] // 1024
    header = struct.unpack("<Q", path.read_bytes()[:8])[0]
    assert path.stat().st_size == 8 + header + elements  # a copy is not written again


def test_parts_that_are_no_copies_are_kept(tmp_path, mesh, put, parts):
    values = np.arange(8 * 32 * 32, dtype=np.float32).reshape(256, 32)
    x = put(values, mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    copies = put(values, mesh, ttnn.ReplicateTensorToMesh(mesh)).tensor_topology()
    x.update_tensor_topology(copies)  # as after an operation that computes another part on each chip
    ttnn.dump_tensor(tmp_path / "x.tensorbin", x)
    alike(parts, ttnn.load_tensor(tmp_path / "x.tensorbin"), x)


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (1, 2)])
def test_a_mesh_without_the_chips_of_a_file_is_told(tmp_path, on_board, put, shape):
    mesh, path = on_board("t3000"), tmp_path / "x.tensorbin"
    ttnn.dump_tensor(path, put(np.ones((8, 32), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0)))
    with pytest.raises(RuntimeError, match="not found in mesh"):
        ttnn.load_tensor(path, device=on_board("t3000", shape))


def test_a_tensor_of_one_chip_goes_to_each_chip(tmp_path, mesh, parts):
    x = ttnn.from_torch(np.arange(1024, dtype=np.float32).reshape(32, 32), layout=ttnn.TILE_LAYOUT)
    ttnn.dump_tensor(tmp_path / "x.tensorbin", x)
    found = parts(ttnn.load_tensor(tmp_path / "x.tensorbin", device=mesh))
    assert len(found) == 8
    assert all((part == x.to_numpy()).all() for part in found.values())


@pytest.mark.parametrize("what", PLACED)
def test_a_cached_tensor_is_distributed_as_at_first(tmp_path, mesh, parts, what):
    values = np.random.default_rng(6).normal(size=(256, 128)).astype(np.float32)
    seen = []
    how = {"layout": ttnn.TILE_LAYOUT, "device": mesh, "memory_config": ttnn.L1_MEMORY_CONFIG}
    how |= {"mesh_mapper": mapped(mesh, what), "preprocess": lambda x: seen.append(x.shape) or x * 2}
    plain = ttnn.as_tensor(values, **how)
    for _ in range(2):
        cached = ttnn.as_tensor(values, cache_file_name=tmp_path / "w", **how)
        alike(parts, cached, plain)
        assert cached.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert seen == [(256, 128)] * 2  # the whole tensor, and not for what the file has


def test_copies_are_cached_for_any_mesh(tmp_path, on_board):
    values = np.arange(1024, dtype=np.float32).reshape(32, 32)
    how = {
        "layout": ttnn.TILE_LAYOUT,
        "memory_config": ttnn.DRAM_MEMORY_CONFIG,
        "cache_file_name": tmp_path / "w",
    }
    mesh = on_board("t3000")
    ttnn.as_tensor(values, device=mesh, mesh_mapper=ttnn.ReplicateTensorToMesh(mesh), **how)
    one = on_board("n150")
    assert (ttnn.as_tensor(None, device=one, **how).to_numpy() == values).all()


def test_damaged_files_are_told(tmp_path, mesh, put):
    path, told, rng = tmp_path / "x.tensorbin", 0, np.random.default_rng(7)
    ttnn.dump_tensor(path, put(np.ones((8, 32), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0)))
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(header)] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole)) if rng.random() < 0.3 else None])
        try:
            ttnn.load_tensor(path)
        except (RuntimeError, ttnn.Unsupported):
            told += 1
    assert told > 100
