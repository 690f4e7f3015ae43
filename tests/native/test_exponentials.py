"""The functions of floats in the form of each instruction set: within their errors, with the same bits
wherever multiply-adds are fused."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from graph_runtime.codegen.shared_library import native_folder

from graph_runtime.base.machine import isa
from graph_runtime.ir import ops
from graph_runtime.ir.ops import steps

pytestmark = pytest.mark.slow
FORMS = ["any"] + ["avx2", "avx512"] * (isa.host_arch() == "x86_64")
FEATURES = {"any": (), "avx2": ("avx2", "fma"), "avx512": ("avx512f", "avx512dq")}
ULPS = {"exp": 2, "tanh": 2, "sigmoid": 4, "silu": 4, "erf": 3, "gelu": 8, "elu": 4, "softplus": 4}
ARGS = "(const int64_t *w, const float *x, float *d, int64_t n)"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if (compiler := shutil.which("gcc")) is None:
        pytest.skip("no gcc")
    folder, native = tmp_path_factory.mktemp("exponentials"), native_folder()
    lines = ['#include "cpu/steps_lanes.h"']
    for form in FORMS:
        lines.append(f"void k_{form}{ARGS} {{ gr_steps_lanesf_{form}(w, x, 16, x, 16, d, n); }}")
    (folder / "k.c").write_text("\n".join([*lines, ""]))
    flags = ["-O2", "-ftree-vectorize", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-w"]
    folders = [f"-I{native / 'kernels'}", f"-I{native / 'include'}"]
    subprocess.run([compiler, *flags, *folders, "k.c", "-o", "k.so", "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "k.so"))


def made(library, form, name, x):
    parameters = ops.require(name).words
    words = np.zeros(6, np.int64)
    words[0] = steps.code_of(name)
    if name == "elu":
        words[4:5] = np.float64([1]).view(np.int64)
    assert parameters is None or name in ("elu", "gelu")
    out = np.empty_like(x)
    getattr(library, f"k_{form}")(
        ctypes.c_void_p(words.ctypes.data),
        ctypes.c_void_p(x.ctypes.data),
        ctypes.c_void_p(out.ctypes.data),
        ctypes.c_int64(x.size),
    )
    return out


@pytest.mark.parametrize("name", ULPS)
def test_every_form_is_within_its_error(library, name):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**32, 1 << 18, np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.linspace(-110, 95, 1 << 18, dtype=np.float32)])
    x = x[: x.size // 16 * 16]
    op = ops.require(name)
    with np.errstate(all="ignore"):
        (wanted,) = op.reference([x.astype(np.float64)], op.decode({}))
        near = wanted.astype(np.float32)
    ulp = np.maximum(np.spacing(np.abs(near)), np.float32(1e-45)).astype(np.float64)
    known = np.isfinite(near)
    results = {}
    for form in FORMS:
        if not set(FEATURES[form]) <= set(isa.host_features() or ()):
            continue
        results[form] = made(library, form, name, x)
        with np.errstate(all="ignore"):
            error = np.abs(results[form].astype(np.float64) - wanted)[known] / ulp[known]
        assert error.max() <= ULPS[name], (form, x[known][error.argmax()])
        np.testing.assert_array_equal(np.isinf(results[form]), np.isinf(near))
    if {"avx2", "avx512"} <= set(results):
        np.testing.assert_array_equal(results["avx2"], results["avx512"])


@pytest.mark.parametrize("name", ULPS)
def test_a_nan_stays_one(library, name):
    x = np.full(16, np.nan, np.float32)
    for form in FORMS:
        if set(FEATURES[form]) <= set(isa.host_features() or ()):
            assert np.isnan(made(library, form, name, x)).all()
