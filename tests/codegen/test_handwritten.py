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
from graph_runtime.artifacts.libraries.manifest import find_manifest
from graph_runtime.base.errors import CheckError, CompileError, KernelError, LibraryError

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


def test_the_pages_kernel_of_a_simulated_device(build):
    library = build(re.search(r"^```c\n(/\* tt_addone.c.*?)^```$", PAGE, re.M | re.S)[1])
    x = np.arange(40 * 50, dtype=F32).reshape(40, 50)
    mod = gr.create(graph(("addone", x.shape), shape=x.shape), library, ["tt:0"])
    mod.run(x=x)
    np.testing.assert_array_equal(mod.get_output(0).numpy(), x + 1)
    mod = gr.create(graph(("addone", x.shape), shape=x.shape), library, ["tt:0"], formats={"tt:0": "bf16"})
    with pytest.raises(KernelError, match="addone takes float32 in one layout"):
        mod.run(x=x)


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
    assert (entry.scratch, entry.inplace, entry.args) == (100, (0,), ((F32, "..."), (F32, "...")))
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
        ("f32[...] -> f32[...]", [("addone", (5,))], (4,)),  # nor does it write past its output
        ("f32[...a] -> f32[...a]", [("addone", (2, 2))], (4,)),
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
        ("addone : f32[..., n] -> f32[n]", "no dimension.*alone"),
        ("gpu/addone : f32[n] -> f32[n]", "no device runs kernels of 'gpu'"),
        ("addtwo, addone : f32[n] -> f32[n]", r"no line announces the kernel 'addone'"),
        ("addone, tt/addtwo : f32[n] -> f32[n]", "one kind"),
        ("addtwo : f32[n] -> f32[n]", "no line announces the kernel 'addone'"),
        ("tt/addone : f32[n] -> f32[n]", "no line announces the kernel 'addone'"),
    ],
)
def test_a_wrong_line_says_what_is_missing(build, line, text):
    source = re.sub(r"gr-kernel: .*", lambda _: f"gr-kernel: {line}", block("c"))
    with pytest.raises(CompileError, match=text):
        build(source)


def test_sources_that_are_none(build, tmp_path):
    with pytest.raises(CompileError, match="no kernel is announced"):
        build("int f(void) { return 0; }")
    with pytest.raises(CompileError, match="no line announces the kernel 'addone'"):
        build(addone().replace("gr-kernel:", "gr_kernel:"))
    only = addone() + "// gr-kernel: tt/addtwo : f32[n] -> f32[n]\n"
    with pytest.raises(
        CompileError, match=r"no source defines addtwo__tt__direct.*GR_KERNEL_ON\(tt, addtwo\)"
    ):
        build(only)
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


def test_shapes_of_two_names_may_differ_and_integers_have_short_names(build):
    line = "f32[...a] i32[] u8[...b] -> f32[...a]"
    entry = find_manifest(build(addone(types=line))).kernels[0]
    assert [dtype for dtype, _ in entry.args] == [F32, "int32", "uint8", F32]
    assert entry.takes(3, [(F32, (2, 3)), ("int32", ()), ("uint8", (9,)), (F32, (2, 3))])
    assert not entry.takes(3, [(F32, (2, 3)), ("int32", ()), ("uint8", (9,)), (F32, (3, 2))])


def test_an_output_replaces_libraries_alone(build, tmp_path):
    source = tmp_path / "kernels.c"
    library = build(addone())
    build(addone())  # over the last one
    (tmp_path / "net.json").write_text("{}")
    for out in (source, tmp_path / "net.json"):
        before = out.read_text()
        with pytest.raises(CompileError, match="exists and is no library"):
            build_kernel_library([source], out)
        assert out.read_text() == before
    assert library.read_bytes()[:4] == b"\x7fELF"


def test_paths_in_flags_are_the_callers_and_warnings_are_heard(tmp_path, monkeypatch):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/mine.h").write_text("#define ONE 1\n")
    source = addone().replace("+ 1;", "+ ONE;").replace("return GR_OK;", "int unused; return GR_OK;")
    (tmp_path / "a.c").write_text('#include "mine.h"\n' + source)
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    build_kernel_library(["a.c"], "a.so", flags=["-Iinc"], say=said.append)
    assert "unused variable" in "".join(said)
    np.testing.assert_array_equal(ran(graph(("addone", (4,))), "a.so", np.zeros(4, F32)), np.ones(4))


def test_threads_of_a_kernel_may_outlive_the_last_session(build):
    """OpenMP's workers, say: the library stays mapped."""
    library = build(addone())
    mod = gr.create(graph(("addone", (4,))), library)
    mod.run(x=np.zeros(4, F32))
    del mod
    assert str(library) in Path("/proc/self/maps").read_text()


def test_kernels_built_by_hand_are_not_called_as_tvms(tmp_path):
    (tmp_path / "a.c").write_text(addone())
    include = Path(__file__).resolve().parents[2] / "native/include"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{include}", "a.c", "-o", "a.so"], cwd=tmp_path, check=True)
    with pytest.raises(LibraryError, match="graph-runtime kernel"):
        gr.create(graph(("addone__direct", (4,))), tmp_path / "a.so")
