"""The copy engine against numpy: values, images on the device, padding, reinterpretation, bounds."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from graph_runtime.base.dtypes import FORMATS
from graph_runtime.base.errors import DeviceError, GraphRuntimeError
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import HOST, ROW_MAJOR, TILE, Layout
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle

SHAPES = [(), (1,), (33, 65), (2, 3, 40, 50), (0, 4), (3, 0), (32, 64), (70, 300)]
FLOATS = [
    (ROW_MAJOR, "f32"),
    (TILE, "f32"),
    (ROW_MAJOR, "bf16"),
    (TILE, "bf16"),
    *((TILE, name) for name, f in FORMATS.items() if f.shared_exponent),
]
MAGNITUDE_BITS = {name: f.digits for name, f in FORMATS.items() if f.shared_exponent}


def random_floats(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values over several binades, with zeros, ties of bf16 and both signs."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))
    bits = np.asarray(values, np.float32).view(np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    chosen = np.where(rng.random(shape) < 0.2, ties, bits).astype(np.uint32).view(np.float32)
    return np.where(rng.random(shape) < 0.05, np.float32(0), chosen).astype(np.float32)


# **************** what a copy should give ****************


def tiles_of(array: np.ndarray) -> np.ndarray:
    """[pages, 1024] in face order, zero padded, pages row by row of every plane."""
    planes = array.reshape(-1, *((1, 1, *array.shape)[-2:]))
    rows, cols = (-(-n // 32) * 32 for n in planes.shape[1:])
    padded = np.zeros((len(planes), rows, cols), array.dtype)
    padded[:, : planes.shape[1], : planes.shape[2]] = planes
    faces = padded.reshape(-1, rows // 32, 2, 16, cols // 32, 2, 16).transpose(0, 1, 4, 2, 5, 3, 6)
    return np.ascontiguousarray(faces).reshape(-1, 1024)


def blocks_of(tiles: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exponents [n, 64], magnitudes [n, 1024], negative [n, 1024] of tiles [n, 1024] of floats: exponent of
    the largest, then nearest even, saturating. Written on values, where the engine works on bits."""
    values = tiles.astype(np.float64).reshape(-1, 64, 16)
    _, exponent = np.frexp(np.abs(values).max(axis=2))  # |x| = f * 2^e, f in [0.5, 1): field = e + 126
    field = np.where(np.abs(values).max(axis=2) > 0, exponent + 126, 0)
    step = np.exp2(field - 127.0 - (bits - 1))
    magnitude = np.minimum(np.rint(np.abs(values) / step[:, :, None]), 2**bits - 1).astype(np.int64)
    negative = (values < 0) & (magnitude > 0)
    return field, magnitude.reshape(-1, 1024), negative.reshape(-1, 1024)


def bytes_of(data: np.ndarray, bits: int) -> np.ndarray:
    """Bytes [n, 1024 * bits / 8] of data [n, 1024] of so many bits, low ones first."""
    each = 8 // bits
    parts = data.astype(np.uint8).reshape(len(data), -1, each) << bits * np.arange(each, dtype=np.uint8)
    return np.bitwise_or.reduce(parts, axis=2)


def image_of(array: np.ndarray, layout: Layout) -> np.ndarray:
    """uint8 [pages, page bytes]: the device image of a host array."""
    if layout.format in MAGNITUDE_BITS:
        bits = MAGNITUDE_BITS[layout.format]
        field, magnitude, negative = blocks_of(tiles_of(array), bits)
        data = bytes_of(magnitude | negative.astype(np.int64) << bits, bits + 1)
        return np.concatenate([field.astype(np.uint8), data], axis=1)
    stored = array.astype(ml_dtypes.bfloat16) if layout.format == "bf16" else array
    if layout.layout == TILE:
        return tiles_of(stored).view(np.uint8)
    pages, page_bytes = math.prod(array.shape[:-1]), (array.shape[-1] if array.ndim else 1) * stored.itemsize
    return np.frombuffer(np.ascontiguousarray(stored).tobytes(), np.uint8).reshape(pages, page_bytes)


def stored_values(array: np.ndarray, fmt: str) -> np.ndarray:
    """A float array as it comes back from a device that stores it in a format."""
    if fmt == "bf16":
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)
    if fmt not in MAGNITUDE_BITS or not array.size:
        return array
    bits = MAGNITUDE_BITS[fmt]
    field, magnitude, negative = blocks_of(tiles_of(array), bits)
    values = (
        magnitude * np.exp2(np.repeat(field, 16, axis=1) - 127.0 - (bits - 1)) * np.where(negative, -1, 1)
    )
    return untile(values.astype(np.float32), array.shape)


def untile(tiles: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    rows, cols = (1, 1, *shape)[-2:]
    down, across = -(-rows // 32), -(-cols // 32)
    planes = tiles.reshape(-1, down, across, 2, 2, 16, 16).transpose(0, 1, 3, 5, 2, 4, 6)
    return planes.reshape(-1, down * 32, across * 32)[:, :rows, :cols].reshape(shape)


# **************** tests ****************


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "fmt"), FLOATS)
@pytest.mark.parametrize("memory", ["dram", "l1"])
def test_float32_to_a_device_and_back(tt, shape, kind, fmt, memory):
    layout = Layout(memory, kind, fmt)
    array = random_floats(shape, seed=len(shape))
    arg = tt.tensor("float32", shape, layout, fill=0xFF)
    tt.upload(arg, array)
    if array.size:
        np.testing.assert_array_equal(tt.read_raw(arg), image_of(array, layout))
    np.testing.assert_array_equal(tt.download(arg, shape, np.float32), stored_values(array, fmt))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "bool", "bfloat16"])
@pytest.mark.parametrize("kind", [ROW_MAJOR, TILE])
def test_every_dtype_keeps_its_bits(tt, dtype, kind):
    shape = (3, 37, 70)
    numpy_dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    array = np.random.default_rng(1).integers(
        0, 2 if dtype == "bool" else 256, (*shape, numpy_dtype.itemsize), np.uint8
    )
    array = array.view(numpy_dtype).reshape(shape)
    arg = tt.tensor(dtype, shape, Layout("dram", kind, {"bfloat16": "bf16"}.get(dtype, dtype)), fill=0xFF)
    tt.upload(arg, array)
    assert tt.download(arg, shape, numpy_dtype).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(FLOATS, FLOATS)), ids=lambda p: "/".join(p)
)
def test_between_device_layouts_padding_never_leaks(tt, first, second):
    shape = (2, 33, 50)
    array = random_floats(shape, seed=7)
    src = tt.tensor("float32", shape, Layout("dram", *first))
    dst = tt.tensor("float32", shape, Layout("l1", *second), fill=0xFF)
    tt.upload(src, array)
    poison_padding(tt, src, first, array)
    core.copy(tt.handle, src, tt.handle, dst)
    wanted = stored_values(stored_values(array, first[1]), second[1])
    np.testing.assert_array_equal(tt.download(dst, shape, np.float32), wanted)


RESHAPES = [
    ((2, 33, 50), (3300,)),
    ((3300,), (66, 50)),
    ((64, 64), (32, 128)),
    ((5, 7, 3), (105, 1)),
    ((1, 1), ()),
    ((0, 4), (4, 0)),
    ((2, 33, 50), (50, 33, 2)),
]


@pytest.mark.parametrize(("before", "after"), RESHAPES)
@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(FLOATS[1:5], FLOATS[1:5])), ids=lambda p: "/".join(p)
)
def test_a_reshape_keeps_the_elements_in_order(tt, first, second, before, after):
    array = random_floats(before, seed=3)
    src = tt.tensor("float32", before, Layout("dram", *first))
    dst = tt.tensor("float32", after, Layout("l1", *second), fill=0xFF)
    tt.upload(src, array)
    if array.size:
        poison_padding(tt, src, first, array)
    core.copy(tt.handle, src, tt.handle, dst)
    wanted = stored_values(stored_values(array, first[1]).reshape(after), second[1])
    np.testing.assert_array_equal(tt.download(dst, after, np.float32), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product([ROW_MAJOR, TILE], repeat=2)), ids=lambda p: "/".join(p)
)
def test_integers_reshape_bit_for_bit(tt, threads, dtype, first, second):
    core.pool_set_threads(2)
    array = np.random.default_rng(1).integers(0, 100, (700, 1023)).astype(dtype)
    src, dst = (
        tt.tensor(dtype, shape, Layout("dram", kind, dtype), fill=0xFF)
        for shape, kind in (((700, 1023), first), ((1023, 700), second))
    )
    tt.upload(src, array)
    core.copy(tt.handle, src, tt.handle, dst)
    np.testing.assert_array_equal(tt.download(dst, (1023, 700), array.dtype), array.reshape(1023, 700))


def poison_padding(tt, arg, stored, array):
    """All ones, a NaN, in every padding element; a block's exponent stays, or its elements would not."""
    kind, fmt = stored
    if kind != TILE:
        return
    raw = tt.read_raw(arg)
    padding = tiles_of(np.ones(array.shape, np.uint8)) == 0
    if fmt in MAGNITUDE_BITS:
        bits = MAGNITUDE_BITS[fmt] + 1
        raw[:, 64:] |= bytes_of(padding * (2**bits - 1), bits)
    else:
        raw.reshape(len(raw), 1024, -1)[padding] = 255
    tt.write_raw(arg, raw)


def test_between_two_devices(tt, make_tt):
    other = make_tt(banks=5)
    array = random_floats((40, 70))
    src = tt.tensor("float32", array.shape, Layout("dram", TILE, "f32"))
    tt.upload(src, array)
    for kind, fmt in FLOATS:
        dst = other.tensor("float32", array.shape, Layout("dram", kind, fmt), fill=0xFF)
        core.copy(tt.handle, src, other.handle, dst)
        np.testing.assert_array_equal(other.download(dst, array.shape, np.float32), stored_values(array, fmt))


def test_long_pages_between_devices(tt):
    array = np.random.default_rng(0).integers(0, 99, (3, 5000), np.int32)  # a page is longer than the scratch
    src, dst = (tt.tensor("int32", array.shape, Layout(m, ROW_MAJOR, "int32")) for m in ("dram", "l1"))
    tt.upload(src, array)
    core.copy(tt.handle, src, tt.handle, dst)
    np.testing.assert_array_equal(tt.download(dst, array.shape, np.int32), array)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(("kind", "fmt"), FLOATS)
def test_large_copies_are_the_same_on_any_number_of_threads(tt, threads, count, kind, fmt):
    core.pool_set_threads(count)
    array = random_floats((1037, 531))
    arg = tt.tensor("float32", array.shape, Layout("dram", kind, fmt))
    tt.upload(arg, array)
    np.testing.assert_array_equal(tt.download(arg, array.shape, np.float32), stored_values(array, fmt))


@pytest.mark.parametrize("offset", [0, 4, 16])  # of the host's first element from a cache line, bytes
@pytest.mark.parametrize(("kind", "fmt"), FLOATS)
def test_copies_around_the_cache_from_any_host_address(tt, threads, offset, kind, fmt):
    core.pool_set_threads(2)
    shape, layout = (1056, 1029), Layout("dram", kind, fmt)
    array, out = (host_array(shape, offset) for _ in range(2))
    array[...] = random_floats(shape)
    arg = tt.tensor("float32", shape, layout, fill=0xFF)
    core.copy(None, core.host_arg(array), tt.handle, arg)
    core.copy(tt.handle, arg, None, core.host_arg(out))
    np.testing.assert_array_equal(tt.read_raw(arg), image_of(array, layout))
    np.testing.assert_array_equal(out, stored_values(array, fmt))


def host_array(shape: tuple[int, ...], offset: int) -> np.ndarray:
    """float32 zeros whose first element lies ``offset`` bytes behind a cache line's begin."""
    size = math.prod(shape) * 4
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + size].view(np.float32).reshape(shape)


def test_special_values_in_bf16(tt):
    bits = np.array(
        [
            0x7F800000,
            0xFF800000,
            0x7FC00000,
            0x7F800001,
            0xFFFFFFFF,
            0x7F7FFFFF,
            0x00000001,
            0x80000000,
            0x3F808000,
            0x3F818000,
        ],
        np.uint32,
    )
    arg = tt.tensor("float32", bits.shape, Layout("dram", ROW_MAJOR, "bf16"))
    tt.upload(arg, bits.view(np.float32))
    raw = tt.read_raw(arg).view(np.uint16)[0]
    # infinities and NaN stay (a signalling one becomes quiet), ties go to even, the largest rounds to Inf
    assert [hex(x) for x in raw] == [
        "0x7f80",
        "0xff80",
        "0x7fc0",
        "0x7fc0",
        "0xffff",
        "0x7f80",
        "0x0",
        "0x8000",
        "0x3f80",
        "0x3f82",
    ]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("size", [0, 5, 3_000_000])
def test_host_copies(threads, count, size):
    core.pool_set_threads(count)
    array = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    out = np.zeros_like(array)
    core.copy(None, core.host_arg(array), None, core.host_arg(out))
    np.testing.assert_array_equal(out, array)


def test_host_ranges_may_overlap(threads):
    core.pool_set_threads(2)
    whole = np.arange(3_000_000, dtype=np.int32)
    wanted = whole[:-1].copy()
    core.copy(None, core.host_arg(whole[:-1]), None, core.host_arg(whole[1:]))
    np.testing.assert_array_equal(whole[1:], wanted)


def test_host_tensors_of_equal_bytes_are_reinterpreted():
    array = np.arange(12, dtype=np.float32)
    out = np.zeros((4, 6), np.int16)
    core.copy(None, core.host_arg(array), None, core.host_arg(out))
    assert out.tobytes() == array.tobytes()
    with pytest.raises(GraphRuntimeError, match="source has 48 B, the destination 24 B"):
        core.copy(None, core.host_arg(array), None, core.host_arg(out[:2]))


def test_opaque_elements_are_copied_as_bytes():
    array, out = np.arange(24, dtype=np.uint8).reshape(6, 4), np.zeros((6, 4), np.uint8)
    layout = Layout(HOST, ROW_MAJOR, "int8x4")
    args = [core.tensor_arg(a.ctypes.data, "int8x4", (6,), layout, a) for a in (array, out)]
    core.copy(None, args[0], None, args[1])
    np.testing.assert_array_equal(out, array)


@pytest.mark.parametrize(
    ("dtype", "shape", "text"),
    [("int32", (4, 4), "differ in dtype"), ("float32", (4, 5), "16 elements|20 elements")],
)
def test_a_device_copy_reinterprets_nothing(tt, dtype, shape, text):
    arg = tt.tensor("float32", (4, 4), Layout("dram", TILE, "f32"))
    with pytest.raises(GraphRuntimeError, match=text):
        core.copy(None, core.host_arg(np.zeros(shape, dtype)), tt.handle, arg)


def test_no_conversion_between_integers(tt):
    arg = tt.tensor("int32", (4, 4), Layout("dram", TILE, "bf16"))
    with pytest.raises(GraphRuntimeError, match="cannot be converted"):
        core.copy(None, core.host_arg(np.zeros((4, 4), np.int32)), tt.handle, arg)


def test_a_device_tensor_must_lie_in_an_allocation(tt):
    arg = tt.tensor("float32", (64, 64), Layout("dram", TILE, "f32"))
    array = np.zeros((64, 64), np.float32)
    for bad, text in (
        (arg.pointer.addr + 4096, "not inside an allocation"),
        (0, "not inside"),
        (2**47, "not inside"),
        (2**63, "which its device does not know"),
    ):
        other = core.tensor_arg(bad, "float32", (64, 64), Layout("dram", TILE, "f32"))
        with pytest.raises(DeviceError, match=text):
            core.copy(None, core.host_arg(array), tt.handle, other)
    arg.pointer.num_pages = 5
    with pytest.raises(DeviceError, match="5 pages"):
        core.copy(None, core.host_arg(array), tt.handle, arg)


@pytest.mark.parametrize("shape", [(-1,), (2**40, 2**40), (0, -3), (2**62, 0, 2**62)])
def test_impossible_sizes_are_errors(shape):
    arg = core.tensor_arg(64, "float32", shape, Layout(HOST, ROW_MAJOR, "f32"))
    with pytest.raises(GraphRuntimeError, match="cannot be"):
        core.copy(None, arg, None, arg)


def test_strided_arrays_are_refused():
    with pytest.raises(GraphRuntimeError, match="C-contiguous"):
        core.host_arg(np.zeros((4, 4))[:, ::2])


def test_host_device_memory_is_aligned():
    with DeviceHandle(devices.cpu()) as handle:
        addresses = [handle.alloc(0, size, "x") for size in (1, 100, 5 << 20)]
        assert [a % 64 for a in addresses] == [0, 0, 0]
        assert handle.stats(0).allocations == 3
        for addr in addresses:
            handle.free(0, addr)
        assert handle.stats(0).allocated == 0


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 5)])
@pytest.mark.parametrize("kind", ["row_major", "tile"])
def test_tensors_of_no_elements_are_copied(tt, shape, kind):
    layout = Layout("dram", kind, "f32")
    array = np.zeros(shape, np.float32)
    arg = core.tensor_arg(0, "float32", shape, layout)
    core.copy(None, core.host_arg(array), tt.handle, arg)
    core.copy(tt.handle, arg, None, core.host_arg(array))
