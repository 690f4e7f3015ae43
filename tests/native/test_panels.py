"""The packed kernels in the instruction sets that this machine would not choose: the same case table."""

import ctypes
import shutil
import subprocess
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from graph_runtime.codegen.shared_library import native_folder

from graph_runtime.base import dtypes
from graph_runtime.base.machine import devices, isa
from graph_runtime.binding import core
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops import rules
from graph_runtime.ir.ops.integers.quantized_products import BYTES, RESULTS
from graph_runtime.ir.ops.products import packed
from graph_runtime.ir.ops.products.byte_panels import bytes_type, depthwise_k
from graph_runtime.ir.ops.products.levels import level_type, unpack_levels
from graph_runtime.ir.ops.registry import Case
from graph_runtime.ir.ops.rules import select
from graph_runtime.run.device_handles import open_device

pytestmark = [pytest.mark.slow, pytest.mark.sampled(by="library")]  # a machine is a compilation
_NO_512 = "-D__builtin_cpu_supports(name)=(name[3] != '5')"
# what the compiler is told, on each machine; x86: what stands for __builtin_cpu_supports, no feature, all
# but AVX-512's, or all but AVX-512's products of bf16; and AVX-512 played by AVX2 (isa/played.h), AMX by C
# (isa/amx.h)
PRETEND = {
    "x86_64": {
        "any": ["-D__builtin_cpu_supports(name)=0"],
        "avx2": [_NO_512],
        "avx512f": ["-D__builtin_cpu_supports(name)=(name[3] != '5' || name[6] != 'b')"],
        "avx512_bf16": [],
        "played": [_NO_512, "-DGR_PLAY_AVX512=1"],
        "played_bf16": [_NO_512, "-DGR_PLAY_AVX512=2"],
        "amx": [],
        "played_amx": [_NO_512, "-DGR_PLAY_AVX512=2", "-DGR_PLAY_AMX"],
    },
    "aarch64": {"any": ["-DGR_NEON=0"], "neon": ["-DGR_NEON=1"]},
}.get(isa.host_arch(), {"any": ["-DGR_ANY"]})
NEEDED = {
    "avx2": "avx2",
    "avx512f": "avx512f",
    "avx512_bf16": "avx512_bf16",
    "played": "avx2",
    "played_bf16": "avx2",
    "amx": "amx_bf16",
    "played_amx": "avx2",
}
HEADERS = (
    *("conv_packed", "conv_winograd", "linear_packed", "pool_nhwc", "matmul_panels", "attention_panels"),
    *("quantized_linear", "quantized_conv", "fused", "quantized"),
)
KERNELS = (
    "conv2d_packed",
    "conv2d_winograd",
    "dense_packed",
    "dense_levels",
    "max_pool2d_nhwc",
    "avg_pool2d_nhwc",
    "global_max_pool2d_nhwc",
    "global_avg_pool2d_nhwc",
    "matmul_panels",
    "matmul_pairs",
    "attention_panels",
    "attention_pairs",
    "quantized_dense_packed",
    "quantized_conv2d_packed",
    "quantized_map",
    "quantize",
)
TILED = {  # header -> kernels of it that AMX serves: all others are compiled for the other machines
    "conv_packed": ("conv2d_packed",),
    "linear_packed": ("dense_packed", "dense_levels"),
    "matmul_panels": ("matmul_pairs",),
    "attention_panels": ("attention_pairs",),
    "quantized_linear": ("quantized_dense_packed",),
    "quantized_conv": ("quantized_conv2d_packed",),
}


def _machine(name: str):
    """A parameter of the library; skipped where this machine cannot play it."""
    compiler, needed = shutil.which("gcc"), NEEDED.get(name)
    there = compiler and (not needed or needed in (isa.host_features() or ()))
    return pytest.param(name, marks=[] if there else [pytest.mark.skip(reason=f"no gcc, or no {needed}")])


@pytest.fixture(scope="module", params=[_machine(name) for name in PRETEND])
def library(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("panels")
    tiled = request.param.endswith("amx")
    kernels = sum(TILED.values(), ()) if tiled else KERNELS
    lines = [f'#include "cpu/{name}.h"' for name in ("begin_f32", *(TILED if tiled else HEADERS), "end")]
    functions = [f"int32_t k_{k}(const gr_call *call) {{ return gr_cpu_{k}__f32(call); }}" for k in kernels]
    functions.append("int32_t k_tiles(void) { return gr_amx(); }")
    (folder / "k.c").write_text("\n".join([*lines, *functions, ""]))
    native = native_folder()
    subprocess.run(
        [
            "gcc",
            "-O0",  # an eighth of the time of -O1, and the same bits
            "-ffp-contract=off",
            "-fno-math-errno",
            "-fPIC",
            "-shared",
            "-w",
            *PRETEND[request.param],
            f"-I{native / 'kernels'}",
            f"-I{native / 'include'}",
            f"-I{native}",
            "k.c",
            "-o",
            "k.so",
            "-lm",
        ],
        cwd=folder,
        check=True,
    )
    made = ctypes.CDLL(str(folder / "k.so"))
    if request.param == "amx" and not made.k_tiles():
        pytest.skip("the system gives no AMX")
    assert bool(made.k_tiles()) == tiled
    made.kernels = kernels
    return made


def run(function, op, attrs, arrays, types, outputs):
    """Call a kernel on arrays; the output."""
    dtype = dtypes.to_numpy(outputs[0].dtype)
    fill = np.nan if dtype.kind == "f" else 99
    ffi, out = core.ffi, np.full(outputs[0].shape, fill, dtype)
    args, shapes = ffi.new("gr_arg[]", len(arrays) + 1), []
    for arg, array in zip(args, [*arrays, out], strict=True):
        shapes.append(ffi.new("int64_t[]", list(array.shape)))
        arg.addr, arg.shape, arg.ndim = array.ctypes.data, shapes[-1], array.ndim
        arg.dtype = arg.format = dtypes.format_of(dtypes.from_numpy(array.dtype)).code
    words = ffi.new("int64_t[]", op.words(types, outputs, attrs) if op.words else [])
    scratch = np.empty(select(op, attrs, "cpu", types, outputs).scratch + 64, np.uint8)
    env = open_device(devices.cpu()).env
    call = ffi.new(
        "gr_call *",
        {
            "abi": core.lib.gr_abi_version(),
            "nargs": len(args),
            "args": args,
            "attrs": words,
            "env": env,
            "scratch": ffi.cast("void *", -(-scratch.ctypes.data // 64) * 64),
        },
    )
    core.check(ffi.cast("gr_kernel_fn", ctypes.cast(function, ctypes.c_void_p).value)(call))
    return out


def test_every_case_of_every_packed_kernel(library):
    seen = set()
    for op in ops.all_ops().values():
        for case in draws.cases_on(op, "cpu"):
            types, attrs = [TensorType(*t) for t in case.inputs], op.decode(case.attrs)
            outputs = op.infer(types, attrs)
            body = select(op, attrs, "cpu", types, outputs) if not op.is_nop else None
            if body is None or body.name not in library.kernels or body.suffix != "f32":
                continue
            name = body.name
            arrays = draws.draw(case)
            (wanted,) = draws.expected(op, case, arrays)
            got = run(getattr(library, f"k_{name}"), op, attrs, arrays, types, outputs)
            assert draws.nmse(got, wanted) <= case.nmse["cpu"], f"{name}: {case.name}"
            seen.add(name)
    assert seen == set(library.kernels)


def _dense_of(rng) -> tuple[str, tuple, dict]:
    """A product in panels of bf16 of odd sizes: a row or some, k and n of less than a tile or some."""
    m, n = (int(rng.integers(1, most)) for most in (100, 110))
    k = int(rng.integers(1, rng.choice([40, 1200])))
    pairs = (packed.PAIRED, packed.paired_type(packed.panel_type(n, k)).shape)
    own = (("float32", (m, k)), pairs, ("float32", (n,)))
    steps = {
        0: ((), []),
        1: ((("float32", (m, n)),), [["add", [-1, 3], {}], ["relu", [-2], {}]]),
        2: ((("float32", (n,)),), [["multiply", [-1, 3], {}], ["gelu", [-2], {}]]),
    }
    more, program = steps[int(rng.integers(3))]
    return "dense", (*own, *more), {"packed": n, **({"epilogue": program} if program else {})}


def _conv_of(rng) -> tuple[str, tuple, dict]:
    """A convolution in panels of bf16: windows with padding, steps and dilations; some rows are long."""
    height, width, kh, kw = (int(rng.integers(low, low + 8)) for low in (8, rng.choice([8, 50]), 1, 1))
    kh, kw = (kh + 1) // 2, (kw + 1) // 2
    c, o = int(rng.choice([rng.integers(1, 70), 32, 64])), int(rng.integers(1, 70))
    panels = packed.panel_type(o, kh * kw * c)
    inputs = (("float32", (2, height, width, c)), (packed.PAIRED, packed.paired_type(panels).shape))
    attrs = {
        "layout": "NHWC",
        "packed": o,
        "kernel_shape": (kh, kw),
        "pads": tuple(int(p) for p in rng.integers(0, 3, 4)),
        "strides": tuple(int(p) for p in rng.integers(1, 3, 2)),
        "dilations": tuple(int(p) for p in rng.integers(1, 3, 2)),
    }
    return "conv2d", inputs, attrs


def _activations_of(rng) -> tuple[str, tuple, dict]:
    """A product of two activations of odd sizes, either of them turned or not, rounded to bf16."""
    m, n, k = (int(rng.integers(1, most)) for most in (60, 110, rng.choice([40, 900])))
    turned = [bool(t) for t in rng.integers(0, 2, 2)]
    a, b = (k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)
    attrs = {"transpose_a": turned[0], "transpose_b": turned[1], "kernel": "matmul_pairs"}
    return "matmul", (("float32", (2, *a)), ("float32", (int(rng.integers(1, 3)), *b))), attrs


def _attention_of(rng) -> tuple[str, tuple, dict]:
    """Attention of odd sizes, rounded to bf16."""
    s, t, d, e = (int(rng.integers(1, most)) for most in (150, 300, 70, 70))
    shapes = ((2, s, d), (2, t, d), (2, t, e), (s, t))[: int(rng.integers(3, 5))]
    attrs = {"causal": bool(rng.integers(2)) and s <= t, "kernel": "attention_pairs"}
    return "attention", tuple(("float32", shape) for shape in shapes), attrs


def _depthwise_of(rng) -> tuple[str, tuple, dict]:
    """A convolution of one channel a group, with a residual or without."""
    name, ((_, x), _), attrs = _conv_of(rng)
    c, (kh, kw) = x[3] + 1, attrs["kernel_shape"]
    attrs |= {"packed": c, "group": c}
    inputs = (("float32", (*x[:3], c)), ("float32", packed.panel_type(c, kh * kw).shape))
    return name, inputs, attrs


def _pool_of(rng) -> tuple[str, tuple, dict]:
    """Windows of an image, or all of it."""
    _, ((_, x), _), attrs = _conv_of(rng)
    op = str(rng.choice(["max_pool2d", "avg_pool2d", "global_max_pool2d", "global_avg_pool2d"]))
    if op.startswith("global"):
        return op, (("float32", x),), {"layout": "NHWC"}
    (kh, kw), (top, left, *_) = attrs["kernel_shape"], attrs["pads"]
    pads = min(top, kh - 1), min(left, kw - 1), 0, 0
    window = {"kernel_shape": (kh, kw), "strides": attrs["strides"], "pads": pads}
    return op, (("float32", x),), {"layout": "NHWC", **window}


def _in_halves(make):
    """The same of tensors in bfloat16; weights and biases are as they were."""

    def made(rng):
        name, inputs, attrs = make(rng)
        kept = (1, 2) if name == "dense" else (1,)
        types = tuple(t if i in kept else (packed.PAIRED, t[1]) for i, t in enumerate(inputs))
        return name, types, attrs

    return made


def _few_bits_of(rng, **how) -> tuple[str, tuple, dict, tuple]:
    """A product of few bits of odd sizes, one row, few or many, blocks with zeros or without."""
    most = (rng.choice([2, 5, 100]), 110, rng.choice([70, 1500, 9000]))
    m, n, k = (int(rng.integers(1, end)) for end in most)
    bits, block = int(rng.choice([4, 8])), int(rng.choice([8, 24, 32, 128, 200, k // 8 * 8 + 8]))
    levels = level_type(n, k, bits, block, bool(rng.integers(2)))
    inputs = (("float32", (m, k)), (levels.dtype, levels.shape), ("float32", (n,)))
    attrs = {"packed": n, "levels": [bits, block], **how}
    return "dense", inputs, attrs, ("normal", f"levels:{bits}:{block}")


def _result(rng, n: int) -> tuple[dict, tuple, tuple]:
    """Of quantized products: attributes, the inputs behind the zero point, and how these are drawn."""
    to = str(rng.choice(RESULTS))
    attrs = {"to": to, **({"zero": 7} if to in BYTES else {})}
    if to in BYTES and rng.integers(2):
        attrs["bounds"] = (7, int(rng.integers(7, 120)))
    if to == "int32":
        return attrs, (), ()
    bias = ("float32" if to == "float32" else "int32", (n,))
    return attrs, (("float32", (n,)), bias), ("thousandths", "normal")


def _bytes_of(rng) -> tuple[str, tuple, dict, tuple]:
    """A product of bytes in panels of odd sizes, weights shifted or not."""
    m, n, k = (int(rng.integers(1, most)) for most in (100, 110, rng.choice([70, 2500])))
    dtype = str(rng.choice(BYTES))
    attrs, tail, how = _result(rng, n)
    inputs = ((dtype, (m, k)), ("int8", bytes_type(n, k).shape), (dtype, ()), *tail)
    return "quantized_dense", inputs, {"packed": n, **attrs}, ("bytes", f"byte_panels:{k}", "bytes", *how)


def _byte_windows_of(rng) -> tuple[str, tuple, dict, tuple]:
    """A convolution of bytes in panels, its windows as those of _conv_of."""
    _, ((_, x), _), attrs = _conv_of(rng)
    n, (kh, kw) = attrs["packed"], attrs["kernel_shape"]
    k, dtype = kh * kw * x[3], str(rng.choice(BYTES))
    more, tail, how = _result(rng, n)
    inputs = ((dtype, x), ("int8", bytes_type(n, k).shape), (dtype, ()), *tail)
    return "quantized_conv2d", inputs, {**attrs, **more}, ("bytes", f"byte_panels:{k}", "bytes", *how)


def _byte_images_of(rng) -> tuple[str, tuple, dict, tuple]:
    """A depthwise convolution of bytes: channels that fill vectors, and those that do not."""
    kernel, c = tuple(int(k) for k in rng.integers(1, 7, 2)), int(rng.integers(2, 150))
    kernel = ((3, 3), (5, 5), kernel)[rng.integers(3)]
    dilations = tuple(int(d) for d in rng.integers(1, 3, 2))
    pads = tuple(int(p) for p in rng.integers(0, 4, 4))
    h, w = (int(rng.integers((kernel[d] - 1) * dilations[d] + 1, most)) for d, most in ((0, 14), (1, 80)))
    k, dtype = depthwise_k(kernel), str(rng.choice(BYTES))
    more, tail, how = _result(rng, c)
    inputs = (
        (dtype, (int(rng.integers(1, 3)), h, w, c)),
        ("int8", bytes_type(c, k).shape),
        (dtype, ()),
        *tail,
    )
    strides = tuple(int(s) for s in rng.integers(1, 4, 2))
    attrs = {"layout": "NHWC", "packed": c, "kernel_shape": kernel, "group": c, "dilations": dilations}
    panels = f"byte_panels:{k}:{kernel[0]}"
    return (
        "quantized_conv2d",
        inputs,
        {**attrs, "pads": pads, "strides": strides, **more},
        ("bytes", panels, "bytes", *how),
    )


def _odd_sizes(library, make, allowed: float) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        name, inputs, attrs, *how = make(rng)
        op = ops.get(name)
        case = Case(f"odd{seed}", inputs, attrs, *how)
        types, attrs = [TensorType(*t) for t in inputs], op.decode(attrs)
        outputs = op.infer(types, attrs)
        body = select(op, attrs, "cpu", types, outputs)
        arrays = draws.draw(case, seed)
        (wanted,) = draws.expected(op, case, arrays)
        got = run(getattr(library, f"k_{body.name}"), op, attrs, arrays, types, outputs)
        assert draws.nmse(got, wanted) <= allowed, f"{inputs} {attrs}"


@pytest.mark.parametrize("make", [_dense_of, _conv_of])
def test_products_of_bf16_of_odd_sizes(library, make):
    """Sums of k products of numbers that bf16 rounds the same: an error of some roundings of float32."""
    _odd_sizes(library, make, 1e-11)


@pytest.mark.parametrize("make", [_dense_of, _conv_of, _depthwise_of, _pool_of])
def test_tensors_in_bf16_of_odd_sizes(library, make):
    """Sums in float32, each rounded once to the 8 bits of bf16; with a program of steps, on the sums."""
    if make is _pool_of and "avg_pool2d_nhwc" not in library.kernels:
        pytest.skip("AMX makes products only")
    _odd_sizes(library, _in_halves(make), rules.SUMMED[packed.PAIRED]["cpu"])


@pytest.mark.parametrize(
    ("how", "allowed"),
    [({}, 1e-11), ({"rounded": True}, 1e-5), ({"narrow": True}, 1e-3), ({"rounded": 1, "narrow": 1}, 1e-3)],
)
def test_products_of_few_bits_of_odd_sizes(library, how, allowed):
    """In float32; both operands rounded to the 8 bits of bf16; rows to 1/127 of the greatest of a block."""
    _odd_sizes(library, partial(_few_bits_of, **how), allowed)


def _few_bits(library, x, panels, n, bits, block, **how):
    attrs = {"packed": n, "levels": [bits, block], **how}
    op, arrays = ops.get("dense"), [x, panels]
    attrs, types = op.decode(attrs), [TensorType(a.dtype.name, a.shape) for a in arrays]
    return run(library.k_dense_levels, op, attrs, arrays, types, op.infer(types, attrs))


@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("how", [{}, {"narrow": True}])
def test_rows_of_extreme_elements_times_few_bits(library, rows, how):
    """NaN and infinity stay in their rows; rows of tiny and of great floats keep their error, and a block
    of small numbers beside one of great ones keeps its own scale."""
    n, k, block = 40, 96, 32
    case = Case("levels", (("float32", (rows, k)), ("uint8", level_type(n, k, 4, block, True).shape)), {})
    x, panels = draws.draw(replace(case, make=("normal", f"levels:4:{block}")))
    for scale in (1e-34, 1e-25, 1e30, np.repeat([1e-33, 1e-3, 1e3], block)):
        scaled = (x * scale).astype(np.float32)
        got = _few_bits(library, scaled, panels, n, 4, block, **how)
        wanted = scaled.astype(np.float64) @ unpack_levels(panels, n, k, 4, block)
        assert draws.nmse(got.astype(np.float64), wanted) <= (1e-3 if how else 1e-11), scale
    odd = x.copy()
    odd[-1, 40], odd[0, 3] = np.nan, np.inf if rows > 1 else 1
    got = _few_bits(library, odd, panels, n, 4, block, **how)
    assert np.isnan(got[-1]).all()
    assert rows == 1 or not np.isfinite(got[0]).any()
    np.testing.assert_allclose(got[1:-1], odd[1:-1] @ unpack_levels(panels, n, k, 4, block), atol=0.5)
    np.testing.assert_array_equal(_few_bits(library, 0 * x, panels, n, 4, block, **how), 0)


@pytest.mark.parametrize("make", [_activations_of, _attention_of])
def test_products_of_activations_of_odd_sizes(library, make):
    """Operands of one product, or of two, are rounded to the 8 bits of bf16."""
    _odd_sizes(library, make, 5e-5)


@pytest.mark.parametrize("make", [_bytes_of, _byte_windows_of, _byte_images_of])
def test_products_of_bytes_of_odd_sizes(library, make):
    """All bits, rounding ties too."""
    _odd_sizes(library, make, 0.0)
