"""Sharded tensors: every byte of every core against a model written on numpy arrays, chains of conversions
between all layouts, pages as kernels see them, and addresses that no shard can have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_runtime.base.dtypes import CONVERTED, FORMATS
from graph_runtime.base.errors import DeviceError, GraphRuntimeError
from graph_runtime.base.machine.layout import Layout, footprint, matrix, pages, shard_words
from graph_runtime.base.machine.shards import KINDS, Shard, ShardWish, fault, resolve
from graph_runtime.binding import core

SHAPES = [(), (7,), (33, 65), (2, 3, 40, 50), (64, 64), (70, 300), (5, 1, 1)]
# formats that keep the values of `exact`, and how many bits of an integer it keeps
KEEPS = {
    name: ([wide for wide in CONVERTED if FORMATS[wide].digits >= FORMATS[name].digits], FORMATS[name].digits)
    for name in CONVERTED
}


def random_layout(rng, shape, bench, formats) -> Layout:
    """Any memory, layout and sharding in one of the formats."""
    fmt = str(rng.choice(formats))
    layout = str(rng.choice(["row_major", "tile"])) if FORMATS[fmt].itemsize else "tile"
    kind = str(rng.choice(["dram", "l1", *KINDS]))
    if kind not in KINDS:
        return Layout(kind, layout, fmt)
    return random_shard(rng, shape, bench, kind, layout, fmt)


def random_shard(rng, shape, bench, kind: str, layout: str, fmt: str) -> Layout:
    grid = bench.handle.device.descriptor.grid
    top, left = int(rng.integers(grid[0])), int(rng.integers(grid[1]))
    extent = int(rng.integers(1, grid[0] - top + 1)), int(rng.integers(1, grid[1] - left + 1))
    wish = ShardWish(kind, extent, (top, left), None, str(rng.choice(["row", "col"])))
    size = matrix(Layout("l1", layout, fmt), shape)
    shard = resolve(wish, *size, layout == "tile", grid)
    assert fault(shard, *size, layout == "tile", grid) is None
    return Layout("l1", layout, fmt, shard)


# **************** conversions ****************


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from(SHAPES),
    board=st.sampled_from(["n150", "e150"]),
    exact=st.sampled_from(list(KEEPS)),
)
def test_values_survive_any_chain_of_conversions(make_tt, seed, shape, board, exact):
    rng, bench = np.random.default_rng(seed), make_tt(board)
    formats, bits = KEEPS[exact]
    array = np.asarray(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), shape) / 8, np.float32)
    held = None
    with bench.handle:
        for _ in range(4):
            layout = random_layout(rng, shape, bench, formats)
            arg = bench.tensor("float32", shape, layout)
            if held is None:
                bench.upload(arg, array)
            else:
                core.copy(bench.handle, held, bench.handle, arg)
            np.testing.assert_array_equal(bench.download(arg, shape, np.float32), array, str(layout))
            held = arg


# **************** where the bytes are ****************


def tiles(padded: np.ndarray) -> np.ndarray:
    """[rows / 32, cols / 32, 1024] of a padded matrix, in face order."""
    rows, cols = padded.shape
    faces = padded.reshape(rows // 32, 2, 16, cols // 32, 2, 16).transpose(0, 3, 1, 4, 2, 5)
    return np.ascontiguousarray(faces).reshape(rows // 32, cols // 32, 1024)


def cores_of(shard: Shard, across: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Shard (i, j) -> core (row, column), by the words of the definition."""
    (top, left), (bottom, right) = shard.grid
    rows, cols = range(top, bottom + 1), range(left, right + 1)
    if shard.kind == "block" and shard.orientation == "row":
        return {(i, j): (r, c) for i, r in enumerate(rows) for j, c in enumerate(cols)}
    if shard.kind == "block":
        return {(i, j): (r, c) for i, c in enumerate(cols) for j, r in enumerate(rows)}
    along = (
        [(r, c) for r in rows for c in cols]
        if shard.orientation == "row"
        else [(r, c) for c in cols for r in rows]
    )
    return {(k // across, k % across): at for k, at in enumerate(along)}


def expected_banks(array, layout: Layout, grid, memory) -> tuple[np.ndarray, np.ndarray]:
    """(bytes [banks, extent], which of them are said) of a tensor whose elements are ``array``'s bits."""
    shape, shard, tiled = array.shape, layout.shard, layout.layout == "tile"
    planes = array.reshape(-1, *(1, 1, *shape)[-2:])
    rows, cols = (-(-n // 32) * 32 if tiled else n for n in planes.shape[1:])
    padded = np.zeros((len(planes), rows, cols), array.dtype)
    padded[:, : planes.shape[1], : planes.shape[2]] = planes
    padded = padded.reshape(-1, cols)
    step = 32 if tiled else 1
    units = tiles(padded) if tiled else None
    high, wide = shard.shape[0] // step, shard.shape[1] // step
    header = memory.tile_header if tiled else 0
    nbytes = array.itemsize * (1024 if tiled else wide)
    stride = -(-(nbytes + header) // memory.alignment) * memory.alignment
    pieces = high * (wide if tiled else 1)
    banks = np.zeros((memory.banks, pieces * stride), np.uint8)
    said = np.zeros(banks.shape, bool)
    total = padded.shape[0] // step, padded.shape[1] // step
    for (i, j), (r, c) in cores_of(shard, -(-total[1] // wide)).items():
        columns = range(j * wide, min((j + 1) * wide, total[1]), 1 if tiled else wide)
        for y in range(i * high, min((i + 1) * high, total[0])):
            for x in columns:
                data = units[y, x] if tiled else padded[y, x : min(x + wide, total[1])]
                place = ((y - i * high) * wide + x - j * wide if tiled else y - i * high) * stride + header
                data = np.ascontiguousarray(data).view(np.uint8)
                banks[r * grid[1] + c, place : place + len(data)] = data
                said[r * grid[1] + c, place : place + len(data)] = True
    return banks, said


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from(SHAPES),
    board=st.sampled_from(["n150", "e150"]),
    dtype=st.sampled_from(["int32", "int8", "uint16"]),
    layout=st.sampled_from(["row_major", "tile"]),
    kind=st.sampled_from(KINDS),
)
def test_every_byte_lies_on_the_core_that_the_layout_says(make_tt, seed, shape, board, dtype, layout, kind):
    rng, bench = np.random.default_rng(seed), make_tt(board)
    info = np.iinfo(dtype)
    array = np.asarray(rng.integers(info.min, info.max, shape, dtype))
    with bench.handle:
        said = random_shard(rng, shape, bench, kind, layout, dtype)
        arg, grid = bench.tensor(dtype, shape, said), bench.handle.device.descriptor.grid
        bench.upload(arg, array)
        memory = bench.memories[1]
        extent, nbytes = footprint(said, shape, memory)
        banks, mask = expected_banks(array, said, grid, memory)
        shards = int(np.prod(said.shard.count(*matrix(said, shape))))
        assert (banks.shape[1], nbytes) == (extent, extent * shards)
        got = bench.read_banks(arg, extent)
        np.testing.assert_array_equal(got[mask], banks[mask], str(said))
        np.testing.assert_array_equal(bench.download(arg, shape, array.dtype), array)


def test_a_buda_tile_has_its_header_before_it(make_tt):
    bench = make_tt("e150")
    for index, name in enumerate(("dram", "l1")):
        arg = bench.tensor("float32", (32, 64), Layout(name, "tile", "bf16"))
        bench.upload(arg, np.ones((32, 64), np.float32))
        got = bench.read_banks(arg, 2080)[:2]  # Float16_b: 16 + 2048, padded to 2080
        assert (got[:, 16:2064].view(np.uint16) == 0x3F80).all()
        assert bench.handle.stats(index).allocated == 2080


# **************** kernels and bad arguments ****************

PAGES = """
#include "gr_abi.h"
int32_t roll(const gr_env *env, const gr_arg *from, const gr_arg *to) {
  gr_core core;
  int32_t status = env->core_open(env, 3, 262144, &core);
  for (int64_t p = 0; !status && p < from->num_pages; ++p) {
    status = env->page_read(env, &core, from, p, 1, core.l1);
    if (!status) status = env->page_write(env, &core, to, from->num_pages - 1 - p, 1, core.l1);
  }
  return status;
}
int32_t past_the_end(const gr_env *env, const gr_arg *from, const gr_arg *to) {
  gr_core core;
  (void)to;
  int32_t status = env->core_open(env, 3, 262144, &core);
  return status ? status : env->page_read(env, &core, from, from->num_pages - 1, 2, core.l1);
}
"""
MOVE = "int32_t (*)(const gr_env *, const gr_arg *, const gr_arg *)"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["row_major", "tile"])
def test_a_kernel_sees_the_pages_of_an_interleaved_tensor(tt, load_c, kind, layout):
    rng, shape = np.random.default_rng(5), (70, 300)
    array = rng.integers(-99, 99, shape, np.int32)
    plain = Layout("dram", layout, "int32")
    source = tt.tensor("int32", shape, random_shard(rng, shape, tt, kind, layout, "int32"))
    rolled = tt.tensor("int32", shape, plain)
    tt.upload(source, array)
    core.check(load_c(PAGES)("roll", MOVE)(tt.handle.env, source.pointer, rolled.pointer))
    straight = tt.tensor("int32", shape, plain)
    tt.upload(straight, array)
    np.testing.assert_array_equal(tt.read_raw(rolled), tt.read_raw(straight)[::-1])
    count = pages(plain, shape).count
    assert (tt.handle.stats(1).pages_read, tt.handle.stats(0).pages_written) == (count, count)
    moved = pages(plain, shape).nbytes * count
    assert tt.handle.traffic(1).sum(0).tolist() == [moved, moved]  # in by the upload, out by the kernel
    with pytest.raises(DeviceError, match="are not in a tensor"):
        core.check(load_c(PAGES)("past_the_end", MOVE)(tt.handle.env, source.pointer, rolled.pointer))


def test_addresses_that_no_shard_has_are_refused(tt):
    layout = Layout("l1", "tile", "f32", Shard("height", ((0, 0), (1, 0)), (32, 64)))
    arg, plain = tt.tensor("float32", (64, 64), layout), Layout("l1", "tile", "f32")
    bank = arg.pointer.addr & (1 << 48) - 1
    for change, says in ((99 << 48, "which its device does not know"), (1 << 30, "not inside an allocation")):
        bad = core.tensor_arg(bank + change, "float32", (64, 64), plain)
        with pytest.raises(DeviceError, match=says):
            tt.upload(bad, np.zeros((64, 64), np.float32))
    words = shard_words(layout, (64, 64), 8)
    out = core.ffi.new("uint64_t *")
    pointer = tt.handle._open()
    for at in range(len(words)):
        wrong = core.ffi.new("gr_shard *", [-1 if i == at else w for i, w in enumerate(words)])
        with pytest.raises(GraphRuntimeError, match="a shard's sizes are"):
            core.check(core.lib.gr_device_shard(pointer, wrong, out))
    far = core.ffi.new("gr_shard *", [words[i] if i != 5 else 1000 for i in range(len(words))])
    core.check(core.lib.gr_device_shard(pointer, far, out))
    lost = core.tensor_arg(bank | out[0], "float32", (64, 64), plain)
    with pytest.raises(DeviceError, match="are not in a tensor"):
        tt.upload(lost, np.zeros((64, 64), np.float32))


def test_equal_shards_have_one_number_and_many_fit(tt):
    def tag(rows):
        shard = Shard("height", ((0, 0), (7, 7)), (rows, 8))
        return tt.handle.shard_tag(Layout("l1", "row_major", "f32", shard), (64, 8))

    tags = [tag(rows) for rows in range(1, 600)]
    assert len(set(tags)) == 599
    tt.handle._tags.clear()
    assert [tag(rows) for rows in range(1, 600)] == tags


# **************** bytes of each bank ****************


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    fmt=st.sampled_from(["f32", "bf16"]),
    shape=st.sampled_from([(33, 65), (2, 3, 40, 50), (70, 300), (512, 640)]),
)
def test_traffic_is_counted_where_the_bytes_lie(make_tt, seed, shape, fmt):
    """Up, then down: every page of a bank in and out once, in whatever pieces the copy engine moves them."""
    rng, bench = np.random.default_rng(seed), make_tt()
    with bench.handle:
        layout = random_layout(rng, shape, bench, [fmt])
        arg, index = bench.tensor("float32", shape, layout), ["dram", "l1"].index(layout.memory)
        bench.upload(arg, np.zeros(shape, np.float32))
        bench.download(arg, shape, np.float32)
        page, got = pages(layout, shape), bench.handle.traffic(index)
        banks = len(got)
        if layout.shard is None:
            wanted = np.bincount(np.arange(page.count) % banks, minlength=banks) * page.nbytes
        else:
            bits = np.zeros(shape, {"f32": np.uint32, "bf16": np.uint16}[fmt])
            memory = bench.memories[index]
            wanted = expected_banks(bits, layout, bench.handle.device.descriptor.grid, memory)[1].sum(1)
        assert bench.handle.traffic(1 - index).sum() == 0
        np.testing.assert_array_equal(got, np.stack([wanted, wanted], 1), str(layout))
        stats = bench.handle.stats(index)
        assert (stats.bytes_in, stats.bytes_out) == (wanted.sum(), wanted.sum())
