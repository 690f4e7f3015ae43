"""Fixtures of eager mode: a device to compute on, and a clean journal."""
from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from codegen.compile import native_folder
from graph_runtime import eager, library
from graph_runtime.programs.program import Kernel
from graph_runtime.single.lineage import settle_all


@pytest.fixture(params=["cpu:0", "tt:0"])
def device(request) -> str:
    """Each kind of device that has kernels."""
    return request.param


@pytest.fixture(autouse=True)
def clean():
    """No fallbacks, selections or modes of another test."""
    settle_all()
    eager.fallbacks(clear=True)
    eager.forget()
    yield
    eager.verify("off")
    eager.forget()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


_FAULTY = r"""
#include <unistd.h>
#include "gr_abi.h"

static int64_t size(const gr_arg *a)
{
  int64_t n = 1;
  for (int32_t d = 0; d < a->ndim; d++)
    n *= a->shape[d];
  return n;
}

int32_t fails(const gr_call *call) 
{
  return call->env->set_error(call->env, "on purpose");
}

int32_t sevens(const gr_call *call)
{
  const gr_arg *out = &call->args[call->nargs - 1];
  for (int64_t i = 0; i < size(out); i++)
    ((float *)(uintptr_t)out->addr)[i] = 7;
  return 0;
}

_Atomic int32_t gate = 1;

int32_t gated_copy(const gr_call *call)
{
  const gr_arg *out = &call->args[call->nargs - 1];
  while (!gate)
    usleep(100);
  for (int64_t i = 0; i < size(out); i++)
    ((float *)(uintptr_t)out->addr)[i] = ((const float *)(uintptr_t)call->args[0].addr)[i];
  return 0;
}
"""


@pytest.fixture(scope="session")
def faulty_library(tmp_path_factory) -> ctypes.CDLL:
    """Kernels that fail, that write 7, that wait until ``gate`` is not 0 and then copy their first argument;
    float32 on cpu."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.c").write_text(_FAULTY)
    include = native_folder() / "include"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{include}", folder / "faulty.c", "-o",
                    folder / "faulty.so"], check=True)
    return ctypes.CDLL(str(folder / "faulty.so"))


@pytest.fixture
def sabotage(monkeypatch, faulty_library):
    """sabotage("exp", "fails"): from now on that op's kernel is another one; None repairs it."""
    real, broken = library.resolve, {}

    def resolve(func, kind, inputs, outputs, libraries=()):
        symbol = broken.get(func.op)
        if symbol is None:
            return real(func, kind, inputs, outputs, libraries)
        return Kernel(func.name, ctypes.cast(getattr(faulty_library, symbol), ctypes.c_void_p).value)

    def change(op: str, symbol: str | None) -> None:
        broken[op] = symbol
        eager.forget()

    monkeypatch.setattr(library, "resolve", resolve)
    return change


@pytest.fixture
def gate(faulty_library, sabotage):
    """gate(False) holds the queue of cpu:0 at the next exp, here a copy; gate(True) lets it go."""
    flag = ctypes.c_int32.in_dll(faulty_library, "gate")
    sabotage("exp", "gated_copy")

    def change(is_open: bool) -> None:
        flag.value = is_open

    yield change
    change(True)
    settle_all()
