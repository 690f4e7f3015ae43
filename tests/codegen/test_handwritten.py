"""Libraries of kernels written by hand: the page about them, line by line, and refusals."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graph_runtime.codegen.handwritten import build_kernel_library

import graph_runtime as gr
from graph_runtime.base.errors import CheckError, CompileError, KernelError, LibraryError
from graph_runtime.build.libraries.manifest import find_manifest

pytestmark = pytest.mark.core

PAGE = (Path(__file__).resolve().parents[2] / "docs/kernels.md").read_text()
F32 = "float32"


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)[1]


def graph(
    *calls: tuple[str, tuple[int, ...]], shape: tuple[int, ...] = (4,), storage=None
) -> gr.GraphBuilder:
    b = gr.GraphBuilder()
    x = b.input("x", shape)
    for name, shape in calls:
        x = b.call(name, [x], [(F32, shape)], storage=storage)
    b.output(x)
    return b


def ran(b: gr.GraphBuilder, library, x: np.ndarray) -> np.ndarray:
    mod = gr.create(b, library)
    mod.run(x=x)
    return mod.get_output(0).numpy()


@pytest.fixture
def build(tmp_path):
    """build(text, ending) -> the library of one source."""

    def make(text: str, ending: str = "c") -> Path:
        source = tmp_path / f"kernels.{ending}"
        source.write_text(text)
        build_kernel_library([source], tmp_path / "kernels.so")
        return tmp_path / "kernels.so"

    return make


def addone(needs: str = "", types: str = "f32[n] -> f32[n]", name: str = "addone") -> str:
    return block("c").replace(
        "// gr-kernel: addone : f32[n] -> f32[n] : inplace 0", f"// gr-kernel: {name} : {types}{needs}"
    )


# ---------------------------------------------------------------- the page


def test_the_page_from_source_to_result(tmp_path):
    """Its C, its command, its Python."""
    (tmp_path / "addone.c").write_text(block("c"))
    words = re.search(r"^graph-runtime (kernel .*)$", PAGE, re.M)[1].split()
    for command in (
        (sys.executable, "-m", "graph_runtime.cli", *words),
        (sys.executable, "-c", block("python")),
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "[1. 2. 3. 4.]\n"


@pytest.mark.parametrize(("language", "compiler"), [("cpp", "g++"), ("rust", "rustc")])
def test_the_pages_other_languages(build, language, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    library = build(block(language), {"cpp": "cpp", "rust": "rs"}[language])
    x = np.arange(12, dtype=F32).reshape(4, 3)
    if language == "cpp":
        np.testing.assert_array_equal(ran(graph(("row_sums", (4,)), shape=(4, 3)), library, x), x.sum(1))
    else:
        np.testing.assert_array_equal(ran(graph(("twice", (4, 3)), shape=(4, 3)), library, x), 2 * x)


def test_the_pages_packed_function(tmp_path):
    (tmp_path / "packed.c").write_text(re.search(r"^```c\n(/\* packed.c.*?)^```$", PAGE, re.M | re.S)[1])
    command = re.search(r"packed.c: (cc .*?) \*/", PAGE)[1].split()
    subprocess.run(command, cwd=tmp_path, check=True)
    np.testing.assert_array_equal(
        ran(graph(("addtwo", (4,))), tmp_path / "packed.so", np.ones(4, F32)), np.full(4, 3)
    )


def test_the_headers_are_cpp_of_any_standard(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not here")
    (tmp_path / "a.cpp").write_text(block("cpp"))
    include = Path(__file__).resolve().parents[2] / "native/include"
    for standard in ("c++11", "c++20"):
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{include}", "-c"]
        subprocess.run(["g++", *flags, "a.cpp", "-o", "a.o"], cwd=tmp_path, check=True)


# ---------------------------------------------------------------- what a source announces


def test_names_of_one_line_share_a_body_and_differ_in_shapes(build):
    library = build(addone(name="addone, addone_wide"))
    b = gr.GraphBuilder()
    for name, size in (("addone", 4), ("addone_wide", 9)):
        b.output(b.call(name, [b.input(f"x{size}", (size,))], [(F32, (size,))]))
    mod = gr.create(b, library)
    mod.run(x4=np.zeros(4, F32), x9=np.zeros(9, F32))
    assert [mod.get_output(i).numpy().sum() for i in (0, 1)] == [4, 9]


def test_scratch_is_there_and_aligned(build):
    text = """
#include "gr_kernel.h"
/* gr-kernel: cpu/odd : f32[...] -> f32[...] : scratch 100, inplace 0 */
GR_KERNEL(odd) {
  if (((uintptr_t)call->scratch & 63) || !call->scratch) return gr_refuse(call, "no scratch");
  memset(call->scratch, 1, 100);
  ((float *)gr_ptr(&call->args[1]))[0] = (float)call->args[0].ndim;
  return GR_OK;
}
"""
    library = build(text)
    entry = find_manifest(library).kernels[0]
    assert (entry.scratch, entry.inplace, entry.args) == (100, (0,), ((F32, None), (F32, None)))
    assert ran(graph(("odd", (1, 1, 1)), shape=(1, 1, 1)), library, np.zeros((1, 1, 1), F32)) == 3


def test_a_kernel_that_refuses_names_its_node_and_the_session_goes_on(build):
    refusing = addone().replace(
        "  const float",
        '  if (*(float *)gr_ptr(&call->args[0]) < 0) return gr_refuse(call, "it is below 0");\n  const float',
        1,
    )
    mod = gr.create(graph(("addone", (4,))), build(refusing))
    with pytest.raises(KernelError, match=r"addone.*it is below 0"):
        mod.run(x=np.full(4, -1, F32))
    mod.run(x=np.ones(4, F32))
    assert mod.get_output(0).numpy().tolist() == [2] * 4


@pytest.mark.parametrize(
    ("types", "calls", "shape"),
    [
        ("f32[n] -> f32[n]", [("addone", (5,))], (4,)),  # a name is one size
        ("f32[n] -> f32[n]", [("addone", (4, 1))], (4, 1)),
        ("f32[5] -> f32[n]", [("addone", (4,))], (4,)),
        ("f64[n] -> f32[n]", [("addone", (4,))], (4,)),
        ("f32[n] f32[n] -> f32[n]", [("addone", (4,))], (4,)),
    ],
)
def test_nodes_are_held_against_it_before_a_run(build, types, calls, shape):
    with pytest.raises(LibraryError, match="what the source announces") as caught:
        gr.create(graph(*calls, shape=shape), build(addone(types=types)))
    assert caught.value.got != caught.value.wanted


def test_shared_bytes_need_inplace_and_the_error_says_so(build):
    shared = graph(("addone", (4,)), ("addone", (4,)), storage=1)
    with pytest.raises(CheckError, match=r"manifest .*'addone'.*`inplace 0`"):
        gr.create(shared, build(addone()))
    assert ran(shared, build(addone(" : inplace 0")), np.zeros(4, F32)).tolist() == [2] * 4


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("addone", "names, a colon"),
        ("addone : f32[n]", "an arrow"),
        ("addone : f32[n] ->", "an output at least"),
        ("addone : f33[n] -> f32[n]", "no dtype.*did you mean"),
        ("addone : f32[n -> f32[n]", "no type"),
        ("addone : f32[-1] -> f32[n]", "no dimension"),
        ("add one : f32[n] -> f32[n]", "no name"),
        ("addone : f32[n] -> f32[n] : inplace 1", "not there"),
        ("addone : f32[n] -> f32[n] : fast", "no need"),
        ("addone, tt/addtwo : f32[n] -> f32[n]", "one kind"),
        ("addtwo : f32[n] -> f32[n]", "no source defines addtwo__direct.*GR_KERNEL"),
        ("tt/addone : f32[n] -> f32[n]", r"GR_KERNEL_ON\(tt, addone\)"),
    ],
)
def test_a_wrong_line_says_what_is_missing(build, line, text):
    source = re.sub(r"gr-kernel: .*", lambda _: f"gr-kernel: {line}", block("c"))
    with pytest.raises(CompileError, match=text):
        build(source)


def test_sources_that_are_none(build, tmp_path):
    with pytest.raises(CompileError, match="announces no kernel"):
        build("int f(void) { return 0; }")
    with pytest.raises(CompileError, match="no source of a kernel"):
        build("", "py")
    with pytest.raises(CompileError, match="undeclared"):
        build(addone().replace("GR_OK", "GR_OKAY"))
    with pytest.raises(CompileError, match="cannot read"):
        build_kernel_library([tmp_path / "none.c"], tmp_path / "none.so")
    assert not (tmp_path / "none.so").exists()
    twice = addone() + "// gr-kernel: addone : f32[n] -> f32[n]\n"
    with pytest.raises(CompileError, match="announced before"):
        build(twice)
