"""native/ttsim/tile.h against recorded bits, and against definitions written in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_runtime.base import dtypes
from graph_runtime.binding import core

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "numerics" / "pack_unpack.npz"
FORMATS = {
    name: (dtypes.FORMATS[fmt].code, dtypes.FORMATS[fmt].tile_bytes)
    for name, fmt in {"fp32": "f32", **{name: name for name in dtypes.CONVERTED}}.items()
}
BLOCKS = [name for name, f in dtypes.FORMATS.items() if f.shared_exponent]
SOURCE = """
#include "tile.h"
void unpack(int f, const void *t, float *o) { gr_tile_unpack((uint8_t)f, t, o); }
void pack_dst32(int f, const float *i, void *t) { gr_tile_pack((uint8_t)f, i, t); }
void pack_dst16(int f, const float *i, void *t) { gr_tile_pack_dst16((uint8_t)f, i, t); }
void unpack_i32(int f, const void *t, int32_t *o) { gr_tile_unpack_i32((uint8_t)f, t, o); }
void pack_i32(int f, const int32_t *i, void *t) { gr_tile_pack_i32((uint8_t)f, i, t); }
int32_t place(int32_t r, int32_t c) { return gr_tile_index(r, c); }
"""


@pytest.fixture(scope="module")
def tile(load_c):
    symbol = load_c(SOURCE)

    def call(name: str, code: int, source: np.ndarray, out: np.ndarray) -> np.ndarray:
        source = np.ascontiguousarray(source)
        symbol(name, "void (*)(int, const void *, void *)")(
            code, core.ffi.cast("void *", source.ctypes.data), core.ffi.cast("void *", out.ctypes.data)
        )
        return out

    call.symbol = symbol
    return call


def tilize(matrix: np.ndarray) -> np.ndarray:
    """[32, 32] -> [1024] in face order."""
    return np.ascontiguousarray(matrix.reshape(2, 16, 2, 16).transpose(0, 2, 1, 3)).reshape(-1)


def golden(operation: str, name: str) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Cases of an operation that have an array of that name: (case, {array name: array})."""
    cases: dict[str, dict[str, np.ndarray]] = {}
    with np.load(GOLDEN) as data:
        for key in data.files:
            op, case, kind, array = key.split("__")
            if op == operation:
                cases.setdefault(f"{case}_{kind}", {})[array] = data[key]
    found = [(case, arrays) for case, arrays in cases.items() if name in arrays]
    assert found
    return found


def test_index_is_face_order(tile):
    place = tile.symbol("place", "int32_t (*)(int32_t, int32_t)")
    order = tilize(np.arange(1024).reshape(32, 32))
    assert [order[place(r, c)] for r in range(32) for c in range(32)] == list(range(1024))


@pytest.mark.parametrize("name", ["bf16", "bfp8_b", "bfp4_b"])
def test_unpack_bits(tile, name):
    for case, arrays in golden(f"unpack_{name}", "srca_reg"):
        source = tilize(arrays["in_bf16"]) if name == "bf16" else arrays["in_tile"]
        got = tile("unpack", FORMATS[name][0], source, np.empty((32, 32), np.uint32))
        np.testing.assert_array_equal(got, arrays["srca_reg"], err_msg=case)


@pytest.mark.parametrize("name", ["bf16", "bfp8_b", "bfp4_b"])
@pytest.mark.parametrize(
    ("operation", "source", "via", "entry"),
    [
        ("pack_from_dst32_fp32", "dst_fp32", "fp32", "pack_dst32"),
        ("pack_from_dst16_bf16", "dst_bf16", "bf16", "pack_dst16"),
    ],
)
def test_pack_bits(tile, name, operation, source, via, entry):
    array = "out_bf16_via_bf16" if name == "bf16" else f"out_{name}_via_{via}_tile"
    for case, arrays in golden(operation, array):
        bits = arrays[source].astype(np.uint32) << (0 if source == "dst_fp32" else 16)
        wanted = tilize(arrays[array]).view(np.uint8) if name == "bf16" else arrays[array]
        got = tile(entry, FORMATS[name][0], bits, np.empty(FORMATS[name][1], np.uint8))
        np.testing.assert_array_equal(got, wanted, err_msg=case)


def block_data(values: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """What a packer makes of blocks [n, 16] of float32: (exponents [n], values [n, 16] that are read back).

    Written on values: cut to bf16, to 7 bits at the block's exponent, ties away from zero, no carry; then to
    fewer bits by cutting."""
    cut = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    exponent = np.frexp(np.abs(cut).max(axis=1))[1] - 1
    magnitude = np.minimum(np.floor(np.abs(cut) / np.exp2(exponent - 6.0)[:, None] + 0.5), 127)
    top = np.floor(magnitude / 2 ** (7 - bits))
    return exponent + 127, np.copysign(top * np.exp2(exponent - bits + 1.0)[:, None], cut)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_float_is_what_numpy_makes_of_it(tile, name):
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix = rng.standard_normal((32, 32)) * np.exp2(rng.integers(-4, 5, (32, 32)))
        matrix = matrix.astype(np.float32)
        exponents, wanted = block_data(tilize(matrix).reshape(64, 16), dtypes.FORMATS[name].digits)
        packed = tile("pack_dst32", FORMATS[name][0], matrix, np.empty(FORMATS[name][1], np.uint8))
        np.testing.assert_array_equal(packed[:64], exponents)
        got = tile("unpack", FORMATS[name][0], packed, np.empty((32, 32), np.float32))
        np.testing.assert_array_equal(tilize(got), wanted.reshape(-1))


@pytest.mark.parametrize(("entry", "wanted"), [("pack_dst32", 0x3F800001), ("pack_dst16", 0x3F800000)])
def test_float32_is_exact_from_a_32_bit_dst_only(tile, entry, wanted):
    bits = np.full((32, 32), 0x3F800001, np.uint32)
    assert (tile(entry, 0, bits, np.empty(1024, np.uint32)) == wanted).all()


@pytest.mark.parametrize(
    ("code", "dtype"), [(4, "i1"), (5, "<i2"), (6, "<i4"), (8, "u1"), (9, "<u2"), (10, "<u4"), (12, "u1")]
)
def test_integers_keep_their_values(tile, code, dtype):
    info = np.iinfo(dtype)
    matrix = np.random.default_rng(code).integers(info.min, info.max, (32, 32), dtype, endpoint=True)
    values = matrix.astype(np.int64).astype(np.uint32).view(np.int32)
    got = tile("unpack_i32", code, tilize(matrix), np.empty((32, 32), np.int32))
    np.testing.assert_array_equal(got, values)
    np.testing.assert_array_equal(tile("pack_i32", code, values, np.empty(1024, dtype)), tilize(matrix))
