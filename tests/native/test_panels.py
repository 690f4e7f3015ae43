"""The packed kernels in the instruction sets that this machine would not choose: the same case table."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from graph_runtime.codegen.shared_library import native_folder

from graph_runtime.base import dtypes
from graph_runtime.base.machine import devices
from graph_runtime.build.libraries import isa
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops.select import select
from graph_runtime.run import core

pytestmark = pytest.mark.slow
_NO_512 = "-D__builtin_cpu_supports(name)=(name[3] != '5')"
# what the compiler is told, on each machine; x86: what stands for __builtin_cpu_supports, no feature, all
# but AVX-512's, or all but AVX-512's products of bf16; and AVX-512 played by AVX2 (isa/played.h)
PRETEND = {
    "x86_64": {
        "any": ["-D__builtin_cpu_supports(name)=0"],
        "avx2": [_NO_512],
        "avx512f": ["-D__builtin_cpu_supports(name)=(name[3] != '5' || name[6] != 'b')"],
        "played": [_NO_512, "-DGR_PLAY_AVX512=1"],
        "played_bf16": [_NO_512, "-DGR_PLAY_AVX512=2"],
    },
    "aarch64": {"any": ["-DGR_NEON=0"], "neon": ["-DGR_NEON=1"]},
}.get(isa.host_arch(), {"any": ["-DGR_ANY"]})
NEEDED = {"avx2": "avx2", "avx512f": "avx512f", "played": "avx2", "played_bf16": "avx2"}
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
    "attention_panels",
    "quantized_dense_packed",
    "quantized_conv2d_packed",
    "quantized_map",
    "quantize",
)


@pytest.fixture(scope="module", params=PRETEND)
def library(request, tmp_path_factory):
    compiler = shutil.which("gcc")
    needed = NEEDED.get(request.param)
    if compiler is None or (needed and needed not in (isa.host_features() or ())):
        pytest.skip(f"no gcc, or no {needed}")
    folder = tmp_path_factory.mktemp("panels")
    lines = [f'#include "cpu/{name}.h"' for name in ("begin_f32", *HEADERS, "end")]
    functions = [f"int32_t k_{k}(const gr_call *call) {{ return gr_cpu_{k}__f32(call); }}" for k in KERNELS]
    (folder / "k.c").write_text("\n".join([*lines, *functions, ""]))
    native = native_folder()
    subprocess.run(
        [
            compiler,
            "-O1",
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
    return ctypes.CDLL(str(folder / "k.so"))


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
    env = core.open_device(devices.cpu()).env
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
            if body is None or body.name not in KERNELS or body.suffix != "f32":
                continue
            name = body.name
            arrays = draws.draw(case)
            (wanted,) = draws.expected(op, case, arrays)
            got = run(getattr(library, f"k_{name}"), op, attrs, arrays, types, outputs)
            assert draws.nmse(got, wanted) <= case.nmse["cpu"], f"{name}: {case.name}"
            seen.add(name)
    assert seen == set(KERNELS)
