"""The exact tt kernels against the tile functions of graph_runtime/run/oracle.py, put together here: which
tile meets which, in what order, and what lies between Dst and the tensor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime.base import dtypes
from graph_runtime.base.machine.layout import Layout
from graph_runtime.ir.ops import registry
from graph_runtime.run import oracle
from graph_runtime.testing import operands as accuracy

MODES = [("", "fp32"), ("LoFi", "bf16"), ("HiFi2", "fp32"), ("HiFi3", "bf16"), ("HiFi4", "fp32")]
TILE = {
    "bf16": Layout("dram", "tile", "bf16"),
    "f32": Layout("dram", "tile", "f32"),
    "bfp8_b": Layout("dram", "tile", "bfp8_b"),
    "bfp4_b": Layout("dram", "tile", "bfp4_b"),
}
ROWS = {"bf16": Layout("dram", "row_major", "bf16"), "f32": Layout("dram", "row_major", "f32")}


def values(shape: tuple[int, ...], format: str, seed: int) -> np.ndarray:
    """Floats over some binades, of both signs, in the type that a tensor of the format has."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))
    return x.astype(dtypes.to_numpy("bfloat16") if format == "bf16" else np.float32)


def source(array: np.ndarray) -> np.ndarray:
    """What a held tensor's values are in a source register: tf32, or the bits themselves."""
    return np.ascontiguousarray(array.astype(np.float32)).view(np.uint32) & np.uint32(0xFFFFE000)


def tiles(array: np.ndarray) -> np.ndarray:
    """[R, C] filled up with zeros to whole tiles."""
    r, c = array.shape
    return np.pad(array, ((0, -r % 32), (0, -c % 32)))


def held(dst: np.ndarray, format: str, mode: str) -> np.ndarray:
    """Dst [32, 32] as the words that its packed tile holds."""
    if format == "f32" and mode == "fp32":
        return dst  # unpack would cut float32 to tf32
    return oracle.unpack(oracle.pack(dst, format, mode), format)


def sums(
    a: np.ndarray, b: np.ndarray, format: str, fidelity: str, mode: str, bias=None, u_kt: int = 0
) -> np.ndarray:
    """Dst of a [M, K] x b [K, N] of source words, [M, N] in whole tiles: blocks of K, spills, bias."""
    a, b = tiles(a), tiles(b)
    out = np.zeros((a.shape[0], b.shape[1]), np.uint32)
    between, step = "f32" if mode == "fp32" else format, 32 * u_kt or max(a.shape[1], 1)
    for r in range(0, a.shape[0], 32):
        for c in range(0, b.shape[1], 32):
            dst = np.zeros((32, 32), np.uint32)
            for k in range(0, a.shape[1], step):
                dst = held(dst, between, mode) if k else dst
                dst = oracle.matmul(
                    a[r : r + 32, k : k + step], b[k : k + step, c : c + 32], fidelity or "HiFi4", mode, dst
                )
            if bias is not None:
                add = np.broadcast_to(tiles(source(bias)[None])[0, c : c + 32], (32, 32))
                loaded = held(dst, between, mode) & np.uint32(0xFFFFE000)
                dst = oracle.elementwise("add", loaded, add, dst=mode)
            out[r : r + 32, c : c + 32] = dst
    return out


def stored(dst: np.ndarray, shape: tuple[int, int], format: str, mode: str) -> np.ndarray:
    """The float32 values of a plane of that shape, packed tile by tile; padding is zero."""
    rows, cols = shape
    dst = tiles(dst[:rows, :cols])
    out = np.empty(dst.shape, np.uint32)
    for r in range(0, dst.shape[0], 32):
        for c in range(0, dst.shape[1], 32):
            out[r : r + 32, c : c + 32] = held(dst[r : r + 32, c : c + 32], format, mode)
    return out[:rows, :cols].view(np.float32)


def check(tt, name, arrays, layouts, reference, attrs=None, fidelity="", mode="fp32", u_kt=0) -> None:
    """The exact kernel writes what ``reference(inputs as held)`` says, bit for bit."""
    op = replace(registry.get(name), reference=lambda inputs, _: [reference(*inputs)])
    attrs = {**(attrs or {}), "fidelity": fidelity, "dst": mode, "numerics": "exact"}
    got, wanted = tt.run(op, attrs, arrays, layouts, u_kt=u_kt)
    np.testing.assert_array_equal(got.astype(np.float32).view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("format", TILE)
@pytest.mark.parametrize(("fidelity", "mode"), MODES)
def test_matmul(tt, fidelity, mode, format):
    def reference(a, b):
        return np.stack(
            [stored(sums(source(x), source(b), format, fidelity, mode), (37, 45), format, mode) for x in a]
        )

    check(
        tt,
        "matmul",
        [values((2, 37, 70), format, 1), values((70, 45), format, 2)],
        [TILE[format]] * 3,
        reference,
        fidelity=fidelity,
        mode=mode,
    )


@pytest.mark.parametrize("layouts", [TILE, ROWS])
def test_transposed_operands(tt, layouts):
    def reference(a, b):
        return stored(sums(source(a.T), source(b.T), "bf16", "HiFi2", "bf16"), (40, 33), "bf16", "bf16")

    check(
        tt,
        "matmul",
        [values((50, 40), "bf16", 3), values((33, 50), "bf16", 4)],
        [layouts["bf16"]] * 3,
        reference,
        {"transpose_a": True, "transpose_b": True},
        "HiFi2",
        "bf16",
    )


@pytest.mark.parametrize(("format", "mode"), [("bfp8_b", "bf16"), ("bf16", "bf16"), ("f32", "fp32")])
@pytest.mark.parametrize("u_kt", [1, 2])
def test_spills_between_blocks_of_k(tt, format, mode, u_kt):
    def reference(a, b):
        return stored(sums(source(a), source(b), format, "LoFi", mode, u_kt=u_kt), (32, 32), format, mode)

    check(
        tt,
        "matmul",
        [values((32, 128), format, 5), values((128, 32), format, 6)],
        [TILE[format]] * 3,
        reference,
        fidelity="LoFi",
        mode=mode,
        u_kt=u_kt,
    )


@pytest.mark.parametrize("mode", ["fp32", "bf16"])
def test_dense_adds_its_bias_from_source_registers(tt, mode):
    def reference(x, w, bias):
        dst = sums(source(x), source(w).T, "f32", "HiFi3", mode, bias)
        return stored(dst, (33, 40), "f32", mode)

    arrays = [values((33, 65), "f32", 7), values((40, 65), "f32", 8), values((40,), "f32", 9)]
    check(
        tt,
        "dense",
        arrays,
        [TILE["f32"], TILE["f32"], ROWS["f32"], TILE["f32"]],
        reference,
        fidelity="HiFi3",
        mode=mode,
    )


CONVOLUTIONS = [  # x, w, attrs
    ((2, 3, 9, 40), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    (
        (1, 4, 70, 11),
        (6, 2, 3, 2),
        {"strides": [2, 3], "pads": [0, 1, 2, 0], "dilations": [2, 1], "group": 2},
    ),
    ((1, 33, 5, 6), (34, 33, 1, 1), {}),
]


def im2col(x: np.ndarray, w_shape: tuple[int, ...], attrs: dict) -> np.ndarray:
    """[N, OH, OW, groups, K] of words, K over kernel row, kernel column, channel."""
    _, channels, kh, kw = w_shape
    top, left, bottom, right = attrs.get("pads", [0] * 4)
    (sh, sw), (dh, dw) = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows = (x.shape[2] - (kh - 1) * dh - 1) // sh + 1
    cols = (x.shape[3] - (kw - 1) * dw - 1) // sw + 1
    taps = [
        x[:, :, p * dh : p * dh + (rows - 1) * sh + 1 : sh, q * dw : q * dw + (cols - 1) * sw + 1 : sw]
        for p in range(kh)
        for q in range(kw)
    ]
    stacked = np.stack(taps, -1).reshape(x.shape[0], -1, channels, rows, cols, kh * kw)
    return stacked.transpose(0, 3, 4, 1, 5, 2).reshape(x.shape[0], rows, cols, -1, kh * kw * channels)


@pytest.mark.parametrize(("x_shape", "w_shape", "attrs"), CONVOLUTIONS)
@pytest.mark.parametrize(
    ("format", "mode", "u_kt"), [("bf16", "bf16", 0), ("f32", "fp32", 0), ("bfp8_b", "bf16", 1)]
)
def test_conv2d(tt, x_shape, w_shape, attrs, format, mode, u_kt):
    def reference(x, w, bias):
        columns = im2col(source(x), w_shape, attrs)
        images, rows, cols, groups, _ = columns.shape
        per = w_shape[0] // groups
        out = np.empty((images, w_shape[0], rows, cols), np.float32)
        for n in range(images):
            for g in range(groups):
                mine = slice(g * per, (g + 1) * per)
                weights = source(w[mine]).transpose(2, 3, 1, 0).reshape(-1, per)
                dst = np.stack(
                    [
                        sums(line, weights, format, "HiFi2", mode, bias[mine], u_kt)[:cols]
                        for line in columns[n, :, :, g]
                    ]
                )
                out[n, mine] = [stored(dst[:, :, o], (rows, cols), format, mode) for o in range(per)]
        return out

    rowed = ROWS["f32" if format != "bf16" else "bf16"]
    arrays = [values(x_shape, format, 1), values(w_shape, format, 2), values(w_shape[:1], format, 3)]
    check(
        tt,
        "conv2d",
        arrays,
        [TILE[format], rowed, rowed, TILE[format]],
        reference,
        attrs,
        "HiFi2",
        mode,
        u_kt,
    )


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@pytest.mark.parametrize("format", TILE)
@pytest.mark.parametrize(("fidelity", "mode"), MODES)
def test_elementwise(tt, name, format, fidelity, mode):
    def reference(a, b):
        b = np.broadcast_to(source(b), a.shape)
        dst = oracle.elementwise(name, source(a), b, fidelity or "HiFi4", mode)
        return np.stack([stored(plane, (33, 50), format, mode) for plane in dst])

    check(
        tt,
        name,
        [values((2, 33, 50), format, 1), values((33, 1), format, 2)],
        [TILE[format]] * 3,
        reference,
        fidelity=fidelity,
        mode=mode,
    )


@pytest.mark.slow
@pytest.mark.parametrize("op", ["matmul", "conv2d", "multiply"])
def test_compiled_kernels_are_the_same(tmp_path, op):
    arrays = accuracy.operands(op, "normal")
    words = {"numerics": "exact", "fidelity": "HiFi2", "dst": "bf16"}
    builder = gr.GraphBuilder(device="tt:0")
    inputs = [builder.input(f"x{i}", a.shape) for i, a in enumerate(arrays)]
    builder.output(builder.op(op, *inputs, **accuracy.CASES[op][1]))
    module = gr.load(
        build_bundle(
            builder, ["tt:0"], tmp_path / "op.bundle", formats={"tt": "bf16"}, numerics={"tt": words}
        )
    )
    module.set_input(**{f"x{i}": a for i, a in enumerate(arrays)})
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), accuracy.run(op, arrays, "bf16", words))


def test_integers_have_one_way(tt):
    a = np.arange(-40, 40, dtype=np.int32).reshape(8, 10)
    rowed = Layout("dram", "row_major", "int32")
    check(tt, "multiply", [a, a], [rowed] * 3, lambda x, y: (x * y).astype(np.float32))
