"""Fixtures for tests of the whole runtime: graphs written by hand, and a small library of C functions."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from graph_runtime.base.config import config

# functions of TVM's packed ABI; float32 unless said
_PACKED = r"""
#include <stdint.h>
#include <unistd.h>
typedef struct { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t byte_offset; } tensor;
typedef union { int64_t i; double f; void *p; } value;
#define FUNCTION(name) int32_t name(value *a, int *codes, int n, value *ret, int *ret_code, void *resource)
#define T(i) ((tensor *)a[i].p)
#define F(i) ((float *)T(i)->data)

static int64_t size(const tensor *t)
{
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++)
    n *= t->shape[i];
  return n;
}

FUNCTION(myadd) { for (int64_t i = 0; i < size(T(0)); i++) F(1)[i] = F(0)[i] + 1; return 0; }
FUNCTION(elemwise_add) { for (int64_t i = 0; i < size(T(0)); i++) F(2)[i] = F(0)[i] + F(1)[i]; return 0; }
/* the rank of the argument it is shown, its first dimension, whether all headers are as TVM makes them */
FUNCTION(probe) {
  F(1)[0] = (float)T(0)->ndim;
  F(1)[1] = (float)T(0)->shape[0];
  F(1)[2] = n == 2 && codes[0] == 7 && codes[1] == 7 && !T(0)->strides && !T(0)->byte_offset
            && T(0)->device_type == 1 && T(0)->code == 2 && T(0)->bits == 32 && T(0)->lanes == 1
            && ((uintptr_t)T(0)->data & 63) == 0;
  return 0;
}
FUNCTION(fail_if_negative) { if (F(0)[0] < 0) return -1; F(1)[0] = F(0)[0]; return 0; }
FUNCTION(slow) { usleep(10000); F(1)[0] = F(0)[0] + 1; return 0; }
"""


HERE = Path(__file__).parent
# folders whose tests need no compiled core, but for those that are marked "core"
UNIT = {"accuracy", "base", "codegen", "costs", "ir", "plan", "rewrite", "simulation", "testing", "views"}


def _has_core() -> bool:
    try:
        return importlib.util.find_spec("graph_runtime._core") is not None
    except ImportError:  # tests/tools/no_core
        return False


HAS_CORE = _has_core()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without the compiled core, what needs it would fail when it is imported."""
    if HAS_CORE or collection_path == HERE or not collection_path.is_relative_to(HERE):
        return None
    if collection_path.relative_to(HERE).parts[0] not in UNIT | {"conftest.py"}:
        return True
    marked = "\npytestmark = pytest.mark.core\n"
    return (collection_path.suffix == ".py" and marked in collection_path.read_text()) or None


def _drawn_from(item: pytest.Item) -> tuple[str, str] | None:
    """(What cases are drawn from, this one's name there) of a slow test that is marked ``sampled``; None of
    others. From the cases of a function, or a file's values of ``by``."""
    mark, cases = item.get_closest_marker("sampled"), getattr(item, "callspec", None)
    slow, skipped = item.get_closest_marker("slow"), item.get_closest_marker("skip")
    if mark is None or cases is None or slow is None or skipped:
        return None
    if "by" in mark.kwargs:
        return item.nodeid.partition("::")[0], str(cases.params[mark.kwargs["by"]])
    return item.nodeid.partition("[")[0], item.nodeid


def _left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """The slow tests marked ``sampled`` that a run leaves out: it takes one of SAMPLE (default 1: all), which
    SEED draws."""
    seed, part = os.environ.get("SEED", "0"), int(os.environ.get("SAMPLE", "1"))
    drawn: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items if part > 1 else ():
        if where := _drawn_from(item):
            drawn.setdefault(where[0], {}).setdefault(where[1], []).append(item)
    left: set[pytest.Item] = set()
    for name, values in drawn.items():
        out = random.Random(f"{seed} {name}").sample(sorted(values), len(values) * (part - 1) // part)
        left.update(item for value in out for item in values[value])
    return left


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the unit tests, and give slow ones ten minutes: on a busy machine they compile for some. Draw of
    those that are sampled."""
    left = _left_out(items)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    unit, skipped = pytest.mark.unit, pytest.mark.skip(reason="needs the compiled core")
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
        if item.get_closest_marker("core"):
            if not HAS_CORE:
                item.add_marker(skipped)
        elif item.path.relative_to(HERE).parts[0] in UNIT:
            item.add_marker(unit)


def pytest_configure():
    """A run in the background (nohup) is started with Ctrl-C ignored, which the tests' children inherit."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def few_objects() -> None:
    """Each file begins without what others left in cycles, as a caught exception leaves the test that it came
    from; collections in it look at its own objects only, not at ten thousand reports."""
    gc.collect()
    gc.freeze()


@dataclass
class Document:
    """A graph.json under construction: ``input`` and ``call`` return entries as [nid, index]."""

    nodes: list[dict] = field(default_factory=list)
    types: list[list] = field(default_factory=list)  # one list of (dtype, shape) a node

    def input(self, name: str, shape=(4,), dtype="float32") -> list[int]:
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        self.types.append([(dtype, shape)])
        return [len(self.nodes) - 1, 0]

    def call(
        self,
        func: str,
        *inputs,
        name=None,
        op=None,
        shape=(4,),
        dtype="float32",
        flatten=False,
        outputs=None,
        **attrs,
    ) -> list[int]:
        """A node of one output, or of ``outputs`` [(dtype, shape)]; ``op`` is its gr.op, attrs its gr.*."""
        types = outputs or [(dtype, shape)]
        text = {
            "func_name": func,
            "num_inputs": str(len(inputs)),
            "num_outputs": str(len(types)),
            "flatten_data": str(int(flatten)),
        }
        if op:
            text |= {"gr.op": op} | {f"gr.{k}": json.dumps(v) for k, v in attrs.items()}
        self.nodes.append(
            {
                "op": "tvm_op",
                "name": name or f"{func}_{len(self.nodes)}",
                "attrs": text,
                "inputs": [[*entry, 0] for entry in inputs],
            }
        )
        self.types.append(types)
        return [len(self.nodes) - 1, 0]

    def json(self, *heads, **columns) -> str:
        """The text. ``columns``: storage_id=[...], device_index=[...], device_id=[...], each [entries]."""
        entries = [t for types in self.types for t in types]
        row_ptr = [0]
        for types in self.types:
            row_ptr.append(row_ptr[-1] + len(types))
        attrs = {
            "dltype": ["list_str", [d for d, _ in entries]],
            "shape": ["list_shape", [s for _, s in entries]],
        }
        attrs |= {name: ["list_int", values] for name, values in columns.items()}
        return json.dumps(
            {
                "nodes": self.nodes,
                "arg_nodes": [i for i, n in enumerate(self.nodes) if n["op"] == "null"],
                "heads": [[*head, 0] for head in heads],
                "node_row_ptr": row_ptr,
                "attrs": attrs,
            }
        )


@pytest.fixture
def document() -> Document:
    """An empty Document."""
    return Document()


@pytest.fixture(scope="session")
def new_document() -> type[Document]:
    """For tests that write several."""
    return Document


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory) -> str:
    """A GR_CACHE_DIR for tests that compile kernels without asking when: what one compiled others find."""
    return str(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def few_units(monkeypatch) -> None:
    """What is compiled is a unit or two: each one of products in panels compiles the inner loops of every
    machine, for half a minute."""
    from graph_runtime.codegen import render

    for kind in render._KERNELS_PER_UNIT:
        monkeypatch.setitem(render._KERNELS_PER_UNIT, kind, 400)


@pytest.fixture(scope="session")
def packed_library(tmp_path_factory) -> str:
    """Path of a library of packed functions: myadd, elemwise_add, probe, fail_if_negative, slow."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "packed.c").write_text(_PACKED)
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", folder / "packed.c", "-o", folder / "packed.so"], check=True
    )
    return str(folder / "packed.so")


# **************** kernels that fail ****************

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

int32_t gated(const gr_call *call)
{
  while (!gate)
    usleep(100);
  return 0;
}

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
    """Kernels that fail, that wait until ``gate`` is not 0 and leave what is there, and float32 on cpu: that
    write 7, that wait and then copy their first argument."""
    folder = tmp_path_factory.mktemp("faulty")
    from graph_runtime.codegen.shared_library import native_folder

    (folder / "faulty.c").write_text(_FAULTY)
    include = native_folder() / "include"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", folder / "faulty.c", "-o", folder / "faulty.so"],
        check=True,
    )
    return ctypes.CDLL(str(folder / "faulty.so"))


@pytest.fixture
def sabotage(monkeypatch, faulty_library):
    """sabotage("exp", "fails"): from now on that op's kernel is another one; None repairs it."""
    from graph_runtime import eager
    from graph_runtime.binding.programs import program
    from graph_runtime.run import kernels

    real, broken = kernels.resolve, {}

    def resolve(func, kind, inputs, outputs, libraries=()):
        symbol = broken.get(func.op)
        if symbol is None:
            return real(func, kind, inputs, outputs, libraries)
        return program.Kernel(func.name, ctypes.cast(getattr(faulty_library, symbol), ctypes.c_void_p).value)

    def change(op: str, symbol: str | None) -> None:
        broken[op] = symbol
        eager.forget()

    monkeypatch.setattr(kernels, "resolve", resolve)
    monkeypatch.setattr(program, "built_in_kernel", resolve)
    return change


@pytest.fixture
def settle() -> Callable[..., None]:
    """settle("tt:0"): what earlier tests queued on these devices is over, and the memory that they dropped
    is given back. A test that counts bytes begins with it, because a test may end before its work does."""
    from graph_runtime.base.machine.devices import parse
    from graph_runtime.run.device_handles import open_device
    from graph_runtime.run.queues.blocks import blocks, let_go
    from graph_runtime.run.queues.limbo import sweep

    def kept(handle):
        sweep()
        let_go(handle)
        kinds = {b.kind for m in range(len(handle.device.descriptor.memories)) for b in blocks(handle, m)}
        return kinds & {"queued", "idle"}

    def wait(*names: str) -> None:
        gc.collect()
        for handle in [open_device(parse(name)) for name in names]:
            deadline = time.monotonic() + 60
            while kept(handle):
                assert time.monotonic() < deadline, f"what is queued on {handle.device} does not end"
                time.sleep(0.002)

    return wait


@pytest.fixture(scope="session", autouse=True)
def trust_folder(tmp_path_factory) -> Iterator[None]:
    """What tests trust is not the user's: processes that they start have it in their environment."""
    folder = tmp_path_factory.mktemp("trust")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch, config(TRUST_DIR=str(folder), TRUST_KEY=""):
        patch.setenv("GR_TRUST_DIR", str(folder))
        patch.delenv("GR_TRUST_KEY", raising=False)
        yield


@pytest.fixture
def ctrl_c_after() -> Callable[[float], AbstractContextManager[None]]:
    """``with ctrl_c_after(seconds)``: SIGINT in the block, which it must end. A block that ends before is a
    failure of its own test: no signal comes later, to end pytest in the middle of others."""
    main = threading.main_thread().ident
    assert main is not None

    @contextmanager
    def within(seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, signal.pthread_kill, [main, signal.SIGINT])
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                yield
        finally:
            timer.cancel()
            timer.join()
            signal.signal(signal.SIGINT, before)

    return within
