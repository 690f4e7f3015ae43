"""A small native/ folder with one hand-written body, so that codegen is tested apart from the real
kernels."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from graph_runtime.codegen import bodies, render, shared_library

from graph_runtime.base.config import config
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops.registry import Body, Op

_MIX = """
/* gr-kernel: cpu/mix : f32 f64 */
/* y = a * attrs[0] + b, through scratch; attrs[1] != 0 fails */
static inline int32_t GR_BODY(mix)(const gr_call *call)
{
  const GR_T *a = (const GR_T *)call->args[0].addr, *b = (const GR_T *)call->args[1].addr;
  GR_T *y = (GR_T *)call->args[2].addr, *part = call->scratch;
  int64_t n = 1;
  for (int32_t i = 0; i < call->args[2].ndim; i++)
    n *= call->args[2].shape[i];
  if (call->attrs[1] != 0)
    return call->env->set_error(call->env, "mix was told to fail");
  for (int64_t i = 0; i < n; i++)
    part[i] = a[i] * (GR_T)call->attrs[0];
  for (int64_t i = 0; i < n; i++)
    y[i] = part[i] + b[i];
  return GR_OK;
}
"""
_TT = """
/* gr-kernel: tt/mix */
static inline int32_t gr_tt_mix(const gr_call *call)
{
  return call->args[0].num_pages == 7 && call->args[0].shape[0] == 2 ? GR_OK : GR_ERR_BOUNDS;
}
"""
_BROKEN = """
/* gr-kernel: cpu/broken : f32 */
static inline int32_t GR_BODY(broken)(const gr_call *call) { return not_declared_anywhere(call); }
"""
_UNDEFINED = """
/* gr-kernel: cpu/undefined : f32 */
extern int32_t no_library_has_this(const gr_call *call);
static inline int32_t GR_BODY(undefined)(const gr_call *call) { return no_library_has_this(call); }
"""
_BEGIN = "#define GR_T {0}\n#define GR_BODY(op) gr_cpu_##op##__{1}\n"


def _op(name: str, **kinds: Body) -> Op:
    return Op(
        name,
        "",
        (2, 2),
        None,
        None,
        None,
        words=lambda i, o, a: [a.get("times", 1), a.get("fail", 0)],
        bodies=kinds,
        inplace=(0,),
    )


def _suffix(inputs, outputs):
    return {"float32": "f32", "float64": "f64"}[inputs[0].dtype]


@dataclass(frozen=True)
class Toy:
    """``native``: the folder; ``op``: what ``kernel`` takes ("mix", or one whose C does not compile)."""

    native: Path

    def kernel(self, name, shape=(2, 3), dtype="float32", kind="cpu", op="mix", **attrs) -> render.KernelSpec:
        t = TensorType(dtype, shape)
        bodies_of = {
            "cpu": Body(op, ("float32", "float64"), _suffix, scratch=lambda i, o, a: i[0].nbytes),
            "tt": Body(op, ("float32",)),
        }
        return render.KernelSpec(name, kind, _OPS.setdefault(op, _op(op, **bodies_of)), attrs, (t, t), (t,))

    def render(self, *kernels) -> render.Rendered:
        return render.render(kernels, bodies.find_bodies(self.native / "kernels"))

    def compile(self, out: Path, *kernels, **options) -> Path:
        return shared_library.compile_library(self.render(*kernels), out, **options)


_OPS: dict[str, Op] = {}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A Toy, with a cache folder of this test's own."""
    native = tmp_path / "native"
    real = shared_library.native_folder()
    shutil.copytree(real / "include", native / "include")
    for name, text in {
        "cpu/begin_f32.h": _BEGIN.format("float", "f32"),
        "cpu/begin_f64.h": _BEGIN.format("double", "f64"),
        "cpu/end.h": "#undef GR_T\n#undef GR_BODY\n",
        "cpu/mix.h": _MIX,
        "tt/mix.h": _TT,
        "cpu/broken.h": _BROKEN,
        "cpu/undefined.h": _UNDEFINED,
    }.items():
        file = native / "kernels" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(shared_library, "native_folder", lambda: native)
    shared_library._hash_of_headers.cache_clear()
    with config(CACHE_DIR=str(tmp_path / "cache")):
        yield Toy(native)
    shared_library._hash_of_headers.cache_clear()
