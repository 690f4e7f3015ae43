"""Files of tensors: what tt-metal wrote is read, what is written is read back, damage is told."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.tensors.flat_tables import Inline, Table, read_root, written

pytestmark = pytest.mark.core
rng = np.random.default_rng(4)
# a header of tt-metal's, as its dump_tensor wrote it for 10x10 of float32 in tiles
HEADER = bytes.fromhex(
    "18000000000000000000000000000a001000040008000c000a00000070000000080000001800000062ffffff"
    "04000000020000000100000001000000010000001000000000000a001000070008000c000a00000000000001"
    "080000001400000000000000000000000010000000000000aaffffff04000000020000000000000000000000"
    "08000e000400080008000000640000001400000000000e0014000600070008000c0010000e00000000000102"
    "1c0000000c0000003000000004000600040000000000060008000400060000000c00000008000c0004000800"
    "080000002000000020000000020000002000000020000000020000000a0000000a000000"
)


def test_a_file_that_tt_metal_wrote_is_read(tmp_path):
    path = tmp_path / "threes.tensorbin"
    tile = np.full((32, 32), 3, np.float32)
    path.write_bytes(struct.pack("<Q", len(HEADER)) + HEADER + tile.tobytes())
    found = ttnn.load_tensor(path)
    assert found.shape == [10, 10]
    assert (found.dtype, found.layout) == (ttnn.float32, ttnn.TILE_LAYOUT)
    assert (found.to_numpy() == 3).all()


TYPES = [ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.bfloat4_b, ttnn.uint8, ttnn.uint16, ttnn.uint32]


@pytest.mark.parametrize("shape", [(3, 40, 50), (7,), (1, 1, 64, 64)])
@pytest.mark.parametrize("dtype", [*TYPES, ttnn.int32])
@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
def test_what_is_written_is_read_back(tmp_path, shape, dtype, layout):
    if dtype.is_block and layout is ttnn.ROW_MAJOR_LAYOUT:
        pytest.skip("a block format lies in tiles")
    values = rng.normal(size=shape) * 10
    values = values.astype(np.float32) if dtype.is_float else np.abs(values).astype(np.int32)
    x = ttnn.from_torch(values, dtype=dtype, layout=layout)
    ttnn.dump_tensor(tmp_path / "x.tensorbin", x)
    found = ttnn.load_tensor(tmp_path / "x.tensorbin")
    assert (found.shape, found.dtype, found.layout) == (x.shape, dtype, layout)
    assert (found.to_numpy() == x.to_numpy()).all()


def test_elements_of_tiles_lie_in_faces(tmp_path):
    x = np.arange(32 * 64, dtype=np.uint32).reshape(32, 64)
    ttnn.dump_tensor(tmp_path / "x.tensorbin", ttnn.from_torch(x, ttnn.uint32, layout=ttnn.TILE_LAYOUT))
    data = np.frombuffer((tmp_path / "x.tensorbin").read_bytes()[-4 * x.size :], np.uint32)
    faces = data.reshape(2, 4, 16, 16)
    assert (faces[0, 1] == x[:16, 16:32]).all()
    assert (faces[1, 2] == x[16:, 32:48]).all()


def test_a_block_format_has_exponents_first(tmp_path):
    x = np.zeros((32, 32), np.float32)
    x[0, :16] = 1.5
    ttnn.dump_tensor(tmp_path / "x.tensorbin", ttnn.from_torch(x, ttnn.bfloat8_b))
    tile = np.frombuffer((tmp_path / "x.tensorbin").read_bytes()[-1088:], np.uint8)
    assert (tile[0], tile[1], tile[64]) == (127, 0, 96)  # 1.5 = 96 / 64


def test_a_tensor_goes_to_the_memory_that_its_file_names(tmp_path, device):
    path = tmp_path / "x.tensorbin"
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.dump_tensor(path, x)
    assert ttnn.load_tensor(path, device=device).memory_config() == ttnn.L1_MEMORY_CONFIG


def test_damaged_files_are_told(tmp_path):
    path = tmp_path / "x.tensorbin"
    ttnn.dump_tensor(path, ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT))
    whole, told = path.read_bytes(), 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.integers(min(300, len(whole)))] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole)) if rng.random() < 0.3 else None])
        try:
            ttnn.load_tensor(path)
        except (RuntimeError, ttnn.Unsupported):
            told += 1
    assert told > 100
    path.write_bytes(b"PK\x03\x04 a file of another kind")
    with pytest.raises(RuntimeError, match="truncated or corrupt"):
        ttnn.load_tensor(path)


def test_tables_of_all_kinds_are_read_as_written():
    inner = Table({2: ("H", 7), 5: [1, 2, 3]})
    whole = written(Table({0: inner, 1: [inner, inner], 3: Inline(struct.pack("<QQ", 5, 6)), 4: ("?", True)}))
    assert len(whole) % 8 == 0
    root = read_root(whole)
    assert root.child(0).scalar(2, "H") == 7
    assert [one.numbers(5) for one in root.children(1)] == [[1, 2, 3]] * 2
    assert struct.unpack("<QQ", root.inline(3, 16)) == (5, 6)
    assert root.scalar(4, "?") is True
    assert (root.scalar(9, "I"), root.child(9), root.numbers(9)) == (0, None, [])
    with pytest.raises((IndexError, struct.error)):
        read_root(b"\xff" * 8)
