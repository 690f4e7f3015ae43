"""Page geometry: the worked examples of tt-metal's and tt-mlir's documents, sizes in each bank against the
formula, shards, and the words that say them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.dtypes import FORMATS
from graph_runtime.base.errors import PlanError
from graph_runtime.base.machine.devices import boards, parse
from graph_runtime.base.machine.layout import Layout, footprint, matrix, pages, shard_words
from graph_runtime.base.machine.shards import KINDS, Shard, ShardWish, fault, read_wish, resolve

N150, E150 = parse("tt:0=n150").descriptor, parse("tt:0=e150").descriptor
DRAM, L1 = N150.memories
TILED = Layout("dram", "tile", "bf16")


# **************** worked examples ****************


@pytest.mark.parametrize(
    ("shape", "rows", "tiles"),
    [
        ((2, 3, 64, 128), (384, 128), (12, 4)),
        ((6, 15, 10), (192, 32), (6, 1)),
        ((53, 63), (64, 64), (2, 2)),
    ],
)
def test_a_tensor_is_padded_then_collapsed(shape, rows, tiles):
    assert matrix(TILED, shape) == rows
    assert (rows[0] // 32, rows[1] // 32) == tiles
    assert pages(TILED, shape).count == math.prod(tiles)


def test_shards_are_ceil_of_size_over_grid():
    wish = ShardWish("block")
    assert resolve(wish, 65, 65, False, (8, 8)).shape == (9, 9)
    assert resolve(wish, *matrix(TILED, (65, 65)), True, (8, 8)).shape == (32, 32)
    assert resolve(wish, 384, 128, True, (2, 2)).shape == (192, 64)


@pytest.mark.parametrize(
    ("shape", "layout", "elements"),
    [
        ((1, 1024), "tile", 1024),
        ((512, 512), "tile", 4 * 1024),
        ((32, 2049), "tile", 2 * 1024),
        ((5120, 1024), "row_major", 81920),
    ],
)
def test_l1_interleaved_takes_ceil_of_pages_over_cores(shape, layout, elements):
    extent, _ = footprint(Layout("l1", layout, "bf16"), shape, L1)
    assert extent == 2 * elements


@pytest.mark.parametrize(("nbytes", "bank"), [(5805965312, 483831808), (829423616, 69120000)])
def test_a_bank_takes_what_the_allocator_reported(nbytes, bank):
    """Out-of-memory texts of tt-metal: bytes over 12 banks in pages of 2048 B."""
    shape = (nbytes // 2048 * 32, 32)
    assert footprint(TILED, shape, DRAM) == (bank, nbytes)


@pytest.mark.parametrize(
    ("fmt", "ttnn", "buda"),
    [
        ("f32", 4096, 4128),
        ("bf16", 2048, 2080),
        ("bfp8_b", 1088, 1120),
        ("bfp4_b", 576, 608),
        ("bfp2_b", 320, 352),
        ("int8", 1024, 1056),
        ("int32", 4096, 4128),
        ("uint16", 2048, 2080),
        ("bool", 1024, 1056),
    ],
)
def test_bytes_of_a_tile(fmt, ttnn, buda):
    layout = Layout("dram", "tile", fmt)
    assert pages(layout, (32, 32)).nbytes == ttnn
    assert footprint(layout, (32, 32), DRAM) == (ttnn, ttnn)
    assert footprint(layout, (32, 32), E150.memories[0]) == (buda, buda)


def test_odd_row_major_widths_inflate():
    assert footprint(Layout("dram", "row_major", "bf16"), (1200, 3), DRAM) == (100 * 32, 1200 * 32)
    assert footprint(Layout("dram", "row_major", "bf16"), (1200, 16), DRAM) == (100 * 32, 1200 * 32)


# **************** the formula ****************

shapes = st.lists(st.integers(0, 70), max_size=4).map(tuple)


@given(
    shape=shapes,
    layout=st.sampled_from(["row_major", "tile"]),
    which=st.integers(0, 1),
    fmt=st.sampled_from(["f32", "bf16", "uint8"]),
    board=st.sampled_from(sorted(b for b, d in boards().items() if d.kind == "tt")),
)
def test_interleaved_sizes_are_the_formulas(shape, layout, fmt, board, which):
    memory = boards()[board].memories[which]
    page = pages(Layout(memory.name, layout, fmt), shape)
    header = boards()[board].tile_header_bytes if layout == "tile" else 0
    stride = math.ceil((page.nbytes + header) / memory.alignment) * memory.alignment
    assert footprint(Layout(memory.name, layout, fmt), shape, memory) == (
        math.ceil(page.count / memory.banks) * stride,
        page.count * stride,
    )


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 70), max_size=3).map(tuple),
    kind=st.sampled_from(KINDS),
    layout=st.sampled_from(["row_major", "tile"]),
    fmt=st.sampled_from(["f32", "bf16", "uint8"]),
    turned=st.sampled_from(["row", "col"]),
)
def test_a_resolved_shard_covers_its_tensor_once(data, shape, kind, layout, fmt, turned):
    """Every unit lies in one place, places of one core are all different and inside its extent."""
    plain, (lines, columns) = Layout("l1", layout, fmt), N150.grid
    top, left = data.draw(st.integers(0, lines - 1)), data.draw(st.integers(0, columns - 1))
    extent = data.draw(st.integers(1, lines - top)), data.draw(st.integers(1, columns - left))
    rows, cols = matrix(plain, shape)
    wish = ShardWish(kind, extent, (top, left), None, turned)
    shard = resolve(wish, rows, cols, layout == "tile", N150.grid)
    assert fault(shard, rows, cols, layout == "tile", N150.grid) is None
    said = Layout("l1", layout, fmt, shard)
    across, high, wide, nbytes, split, first, line, outer, inner = shard_words(said, shape, columns)
    down = rows // 32 if layout == "tile" else rows
    y, x = np.indices((down, across))
    k = y // high * split + x // wide
    bank, place = first + k // line * outer + k % line * inner, y % high * wide + x % wide
    for core, least, count in ((bank // columns, top, extent[0]), (bank % columns, left, extent[1])):
        assert least <= core.min() <= core.max() < least + count
    assert place.max() < high * wide
    assert len(np.unique(bank * high * wide + place)) == down * across
    taken, total = footprint(said, shape, L1)
    assert taken == high * wide * math.ceil(nbytes / 16) * 16
    assert total == taken * len(np.unique(bank))


# **************** words of users ****************


@pytest.mark.parametrize(
    "text", ["height", "block[4x8]", "width[1x8@2x0]", "height[8x1:64x32]", "block[4x8@1x0:64x96:col]"]
)
def test_wishes_are_read(text):
    wish = read_wish(text)
    shard = resolve(wish, 256, 256, True, (8, 8))
    assert shard.kind == wish.kind == text.split("[")[0]
    assert read_wish(str(shard)) == ShardWish(
        shard.kind, shard.extent, shard.grid[0], shard.shape, shard.orientation
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hight", "did you mean 'height'"),
        ("block[4]", "cannot read sharding"),
        ("block[4x8:64x64:cil]", "did you mean 'col'"),
        ("height[8x1", "cannot read"),
        ("", "cannot read"),
    ],
)
def test_wishes_that_are_none(text, says):
    with pytest.raises(PlanError, match=says):
        read_wish(text)


@pytest.mark.parametrize(
    ("shard", "says"),
    [
        (Shard("height", ((0, 0), (8, 0)), (32, 64)), "no rectangle of the 8x8 cores"),
        (Shard("height", ((1, 0), (0, 0)), (32, 64)), "no rectangle"),
        (Shard("height", ((0, 0), (7, 0)), (16, 64)), "multiple of 32"),
        (Shard("height", ((0, 0), (7, 0)), (32, 32)), "all 64 columns"),
        (Shard("width", ((0, 0), (7, 0)), (32, 32)), "all 96 rows"),
        (Shard("height", ((0, 0), (1, 0)), (32, 64)), "3 shards of 32x64 for 2 cores"),
        (Shard("block", ((0, 0), (1, 7)), (32, 32)), "makes 3x2 shards of 32x32, the rectangle takes 2x8"),
        (Shard("block", ((0, 0), (1, 2)), (32, 32), "row"), "the rectangle takes 2x3"),
        (Shard("block", ((0, 0), (7, 7)), (0, 32)), "one element"),
    ],
)
def test_shards_that_cannot_be(shard, says):
    assert says in fault(shard, 96, 64, True, (8, 8))


def test_a_turned_block_changes_rows_and_columns():
    turned = Shard("block", ((0, 0), (1, 2)), (32, 32), "col")
    assert fault(turned, 96, 64, True, (8, 8)) is None
    assert str(Layout("l1", "tile", "bf16", turned)) == "l1/tile/bf16/block[2x3:32x32:col]"
    assert str(Layout("l1", "tile", "bf16", Shard("height", ((0, 0), (7, 0)), (64, 32)))) == (
        "l1/tile/bf16/height[8x1:64x32]"
    )


def test_every_block_format_has_a_tile():
    assert {name: f.tile_bytes for name, f in FORMATS.items() if f.itemsize is None} == {
        "bfp8_b": 1088,
        "bfp4_b": 576,
        "bfp2_b": 320,
    }
