"""codegen: C text of wrappers, the compiler, and what a module library is."""

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graph_runtime.codegen import glue, shared_library, toolchain
from graph_runtime.codegen.cache import open_cache

from graph_runtime.artifacts.libraries.manifest import ABI_VERSION, read_manifest
from graph_runtime.base.config import config
from graph_runtime.base.errors import CompileError, UnsupportedOpError, WriteError
from graph_runtime.base.machine import isa


# ------------------------------------------------------------------------------------------------ render
def test_text_does_not_depend_on_the_order_of_kernels(toy):
    kernels = [
        toy.kernel(f"k{i}", shape=(i + 1,), dtype=("float32", "float64")[i % 2], kind=("cpu", "tt")[i == 4])
        for i in range(15)
    ]
    kernels[4] = toy.kernel("k4", kind="tt")
    assert toy.render(*kernels) == toy.render(*reversed(kernels))
    kinds = [name.split("_")[0] for name in toy.render(*kernels).units]
    assert kinds.count("tt") == 1
    assert 2 <= kinds.count("cpu") <= 5


def test_one_kernel_more_changes_two_units_at_most(toy):
    kernels = [toy.kernel(f"k{i}", shape=(i + 1,)) for i in range(80)]
    units = [set(toy.render(*kernels[:i], *kernels[i + 1 :]).units) for i in (0, 40, 79)]
    whole = set(toy.render(*kernels).units)
    assert len(whole) > 8
    assert all(len(whole - less) <= 2 for less in units)


def test_units_that_others_compiled_are_not_compiled_again(toy, tmp_path, monkeypatch):
    kernels, compiled = [toy.kernel(f"k{i}", shape=(i + 1,)) for i in range(30)], []
    first = toy.compile(tmp_path / "a.so", *kernels)
    whole = set(toy.render(*kernels).units)
    run = toolchain.Compiler.run
    monkeypatch.setattr(
        toolchain.Compiler,
        "run",
        lambda self, arguments, *rest: (
            compiled.extend(a for a in arguments if a.startswith("cpu_") and a.endswith(".c")),
            run(self, arguments, *rest),
        ),
    )
    toy.compile(tmp_path / "b.so", *kernels[1:])
    assert set(compiled) == set(toy.render(*kernels[1:]).units) - whole
    with config(CACHE_DIR=str(tmp_path / "empty")):
        assert toy.compile(tmp_path / "c" / "a.so", *kernels).read_bytes() == first.read_bytes()


def test_the_cache_keeps_to_its_size_and_forgets_what_was_not_used_for_longest(tmp_path):
    with config(CACHE_DIR=str(tmp_path), CACHE_MB=1):
        cache = open_cache()
        folder = tmp_path / "objects"
        for age in range(12):
            cache.keep("objects", str(age), bytes(100_000))
            os.utime(folder / f"{age}.o", (1e9 - age, 1e9 - age))
        (folder / ".half").write_bytes(b"")
        os.utime(folder / ".half", (1e9, 1e9))
        assert cache.find("objects", "11") == bytes(100_000)
        cache.prune()
        assert sorted(p.name for p in folder.glob("*.o")) == sorted(["11.o", *(f"{i}.o" for i in range(7))])
        assert len(list(folder.iterdir())) == 16  # each with its sha256, nothing else


@pytest.mark.parametrize("name", ["a-b", "1a", "", "a b", "a\n", "é", 'a"b', "a;int x"])
def test_func_name_must_be_a_c_identifier(toy, name):
    with pytest.raises(CompileError, match="no C identifier"):
        toy.render(toy.kernel(name))


def test_two_names_that_give_one_symbol_are_refused(toy):
    with pytest.raises(CompileError, match=r"'a' \(tt\).*'a__tt' \(cpu\).*a__tt__direct"):
        toy.render(toy.kernel("a", kind="tt"), toy.kernel("a__tt"))
    with pytest.raises(CompileError, match="symbol a__direct"):
        toy.render(toy.kernel("a"), toy.kernel("a__direct"))


def test_an_op_without_a_body_says_what_there_is(toy):
    with pytest.raises(UnsupportedOpError, match=r"mix has no kernel for gpu devices.*cpu, tt"):
        toy.render(toy.kernel("a", kind="gpu"))
    with pytest.raises(UnsupportedOpError, match="does not take int8; it takes float32, float64"):
        toy.render(toy.kernel("a", dtype="int8"))
    with pytest.raises(UnsupportedOpError, match="no body cpu/mux/f32"):
        toy.render(toy.kernel("a", op="mux"))


# ------------------------------------------------------------------------------------------------ the library
@pytest.fixture
def built(toy, tmp_path, tmp_path_factory):
    """kernels.so, compiled once for all tests, with kernels of awkward names, words and shapes."""
    kernels = [
        toy.kernel("mul_add", times=3),
        toy.kernel("exp", times=2),
        toy.kernel("int", dtype="float64", shape=()),
        toy.kernel("fails", fail=1),
        toy.kernel("empty", shape=(0, 4)),
        toy.kernel("lowest", times=-(2**63), dtype="float64"),
        toy.kernel("on_tt", kind="tt"),
        toy.kernel("mul_add", kind="tt"),
    ]
    with config(CACHE_DIR=str(tmp_path_factory.getbasetemp() / "built")):
        return toy.compile(tmp_path / "kernels.so", *kernels)


class Arg(ctypes.Structure):
    _fields_ = [
        ("addr", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("ndim", ctypes.c_int32),
        ("codes", ctypes.c_uint8 * 4),
        ("page_bytes", ctypes.c_uint32),
        ("num_pages", ctypes.c_uint32),
    ]


class Call(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("nargs", ctypes.c_int32),
        ("args", ctypes.POINTER(Arg)),
        ("attrs", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("env", ctypes.c_void_p),
    ]


def _call(*arrays):
    args = (Arg * len(arrays))(*(Arg(addr=a.ctypes.data) for a in arrays))
    scratch = np.zeros(64)
    call = Call(ABI_VERSION, len(arrays), args, None, scratch.ctypes.data, None)
    call.keep = args, scratch
    return call


def test_direct_entries_compute_with_shapes_and_words_of_their_own(built):
    library = ctypes.CDLL(str(built))
    a, b, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32), np.zeros(6, np.float32)
    assert library.mul_add__direct(ctypes.byref(_call(a, b, y))) == 0
    np.testing.assert_array_equal(y, a * 3 + 1)
    assert library.exp__direct(ctypes.byref(_call(a, b, y))) == 0
    np.testing.assert_array_equal(y, a * 2 + 1)
    assert library.empty__direct(ctypes.byref(_call(a, b, y))) == 0
    np.testing.assert_array_equal(y, a * 2 + 1)
    a, b, y = np.full((), 2.5), np.ones(()), np.zeros(())
    assert library.int__direct(ctypes.byref(_call(a, b, y))) == 0
    assert y == 3.5
    a, b, y = np.ones(6), np.zeros(6), np.zeros(6)
    assert library.lowest__direct(ctypes.byref(_call(a, b, y))) == 0
    assert (y == -(2.0**63)).all()


def test_tt_entries_take_pages_from_the_call(built):
    library, call = ctypes.CDLL(str(built)), _call(*[np.zeros(6, np.float32)] * 3)
    assert library.on_tt__tt__direct(ctypes.byref(call)) == 5
    call.args[0].num_pages = 7
    assert library.on_tt__tt__direct(ctypes.byref(call)) == 0


def test_manifest_says_what_is_in_the_library(built):
    manifest = read_manifest(built)
    assert (manifest.abi, manifest.arch, manifest.importable) == (ABI_VERSION, isa.host_arch(), True)
    assert isa.missing_features(manifest.isa) == ()
    by_key = {(k.name, k.kind): k for k in manifest.kernels}
    assert list(by_key) == sorted(by_key)
    entry = by_key["mul_add", "cpu"]
    assert entry.args == (("float32", (2, 3)),) * 3
    assert (
        entry.symbol,
        entry.op,
        entry.attrs,
        entry.num_inputs,
        entry.scratch,
        entry.inplace,
        entry.packed,
    ) == ("mul_add__direct", "mix", {"times": 3}, 2, 24, (0,), True)
    assert by_key["mul_add", "tt"].symbol == "mul_add__tt__direct"
    assert not by_key["exp", "cpu"].packed  # would take the place of the C library's exp
    assert not {"-ffast-math", "-g"} & set(manifest.flags)


def test_undefined_symbols_are_libc_libm_or_weak(built):
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", built], capture_output=True, text=True, check=True
    ).stdout
    strong = [line.split()[-1] for line in listing.splitlines() if line.split()[-2] == "U"]
    assert all("@GLIBC" in name for name in strong), strong
    assert re.search(r" w PyImport_ImportModule$", listing, re.MULTILINE)
    defined = subprocess.run(
        ["nm", "-D", "--defined-only", built], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in defined.splitlines()}
    assert names == {
        "PyInit_kernels",
        "__TVMAPISetLastError",
        "gr_manifest",
        "mul_add",
        "mul_add__direct",
        "exp__direct",
        "int",
        "int__direct",
        "fails",
        "fails__direct",
        "empty",
        "empty__direct",
        "lowest",
        "lowest__direct",
        "on_tt__tt__direct",
        "mul_add__tt__direct",
    }


def test_python_imports_the_library(built):
    spec = importlib.util.spec_from_file_location("kernels", built)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, b, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32), np.zeros(6, np.float32)
    call = _call(a, b, y)
    assert module.lib.mul_add__direct(module.ffi.cast("void *", ctypes.addressof(call))) == 0
    np.testing.assert_array_equal(y, a * 3 + 1)


_DRIVER = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
typedef int packed(void *values, int *codes, int n, void *ret, int *ret_code, void *resource);
static char said[600];
static void set_last_error(const char *message) { strncpy(said, message, sizeof said - 1); }
int main(int argc, char **argv)
{
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (argc != 2 || library == NULL) return 1;
  if (dlsym(RTLD_DEFAULT, "PyImport_ImportModule") != NULL) return 2;
  packed *mul_add = (packed *)dlsym(library, "mul_add");
  void (**error)(const char *) = (void (**)(const char *))dlsym(library, "__TVMAPISetLastError");
  if (mul_add == NULL || error == NULL) return 3;
  *error = set_last_error;
  int64_t shape[] = {2, 3};
  float a[6] = {1, 2, 3, 4, 5, 6}, y[6];
  struct {
    void *data;
    int32_t device, id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
  } ta = {a, 1, 0, 2, 2, 32, 1, shape, 0, 0}, ty = {y, 1, 0, 2, 2, 32, 1, shape, 0, 0};
  void *values[] = {&ta, &ta, &ty};
  int codes[] = {7, 7, 7};
  if (mul_add(values, codes, 3, 0, 0, 0) != 0 || y[5] != 24.0f) return 4;
  if (mul_add(values, codes, 2, 0, 0, 0) != -1 || strstr(said, "num_args should be 3") == NULL) return 5;
  return 0;
}
"""


def test_a_c_program_opens_the_library_without_python(built, tmp_path):
    (tmp_path / "driver.c").write_text(_DRIVER)
    driver = tmp_path / "driver"
    subprocess.run(["gcc", "-Wall", str(tmp_path / "driver.c"), "-o", str(driver), "-ldl"], check=True)
    assert subprocess.run([driver, built], check=False).returncode == 0


# ---------------------------------------------------------------- packed convention
class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class Packed:
    """Calls a library's packed function on three float32[2, 3] tensors and keeps what it said."""

    def __init__(self, path: Path):
        self.library = ctypes.CDLL(str(path))
        self.said = []
        self._set = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda text: self.said.append(text.decode()))
        ctypes.c_void_p.in_dll(self.library, "__TVMAPISetLastError").value = ctypes.cast(
            self._set, ctypes.c_void_p
        ).value
        self.arrays = [np.arange(6, dtype=np.float32), np.ones(6, np.float32), np.zeros(8, np.float32)]
        self.tensors = [
            Tensor(a.ctypes.data, 1, 0, 2, 2, 32, 1, (ctypes.c_int64 * 2)(2, 3)) for a in self.arrays
        ]

    def __call__(self, name, codes=(7, 7, 7), count=3):
        values = (ctypes.c_void_p * 3)(*(ctypes.addressof(t) for t in self.tensors))
        return getattr(self.library, name)(values, (ctypes.c_int * 3)(*codes), count, None, None, None)


def test_packed_entry_computes(built):
    packed = Packed(built)
    packed.tensors[0].strides = (ctypes.c_int64 * 2)(3, 1)
    assert packed("mul_add", codes=(3, 13, 7)) == 0
    np.testing.assert_array_equal(packed.arrays[2][:6], packed.arrays[0] * 3 + 1)
    assert packed.said == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ndim": 1}, "ndim is expected to equal 2"),
        ({"bits": 64}, "dtype"),
        ({"code": 0}, "dtype"),
        ({"lanes": 2}, "dtype"),
        ({"device_type": 2}, "1 == 2, Argument mul_add.p2.device_type"),
        ({"device_id": 1}, "device_id"),
        ({"offset": 4}, "byte_offset"),
        (
            {"shape": (ctypes.c_int64 * 2)(2, 4)},
            "3 == 4, Argument mul_add.p2.shape[1] has an unsatisfied constraint: 3 == 4",
        ),
        ({"strides": (ctypes.c_int64 * 2)(4, 1)}, "expected to be compact array"),
        ({"data": None}, "NULL"),
    ],
)
def test_packed_entry_refuses_what_does_not_fit(built, change, text):
    packed = Packed(built)
    for field, value in change.items():
        setattr(packed.tensors[2], field, value)
    assert packed("mul_add") == -1
    assert packed.said[0].startswith("Assert fail: ")
    assert text in packed.said[0]
    assert (packed.arrays[2] == 0).all()


def test_packed_entry_refuses_codes_counts_and_passes_kernel_errors(built):
    packed = Packed(built)
    assert packed("mul_add", codes=(7, 0, 7)) == -1
    assert packed("mul_add", count=2) == -1
    assert packed("fails") == -1
    assert [
        text in said
        for text, said in zip(
            ["arg[1] to be pointer", "num_args should be 3", "mix was told to fail"], packed.said, strict=True
        )
    ] == [True] * 3


# ------------------------------------------------------------------------------------------------ compile
def test_equal_inputs_give_equal_bytes_in_any_folder_with_any_jobs(toy, tmp_path, monkeypatch):
    kernels = [toy.kernel(f"k{i}", shape=(i + 1, 5)) for i in range(9)]
    first = toy.compile(tmp_path / "a" / "kernels.so", *kernels, jobs=1).read_bytes()
    moved = tmp_path / "another folder" / "deeper" / "native"
    moved.parent.mkdir(parents=True)
    toy.native.rename(moved)
    monkeypatch.setattr(shared_library, "native_folder", lambda: moved)
    with config(CACHE_DIR=str(tmp_path / "another cache")):
        second = type(toy)(moved).compile(tmp_path / "b" / "c" / "kernels.so", *reversed(kernels), jobs=4)
    assert second.read_bytes() == first
    assert str(tmp_path).encode() not in first


def test_the_second_compile_comes_from_the_cache_and_a_broken_file_is_made_anew(toy, tmp_path, monkeypatch):
    steps = []
    first = toy.compile(
        tmp_path / "kernels.so", toy.kernel("a"), tell=lambda *step: steps.append(step)
    ).read_bytes()
    assert steps == [(k, 4) for k in (1, 2, 3, 4)]
    (cached,) = open_cache().folder.glob("libraries/*.so")
    cached.write_bytes(b"cut off")
    assert toy.compile(tmp_path / "kernels.so", toy.kernel("a")).read_bytes() == first
    monkeypatch.setattr(shared_library, "_build", None)  # no compiler runs from here on
    assert toy.compile(tmp_path / "kernels.so", toy.kernel("a")).read_bytes() == first
    with pytest.raises(TypeError):
        toy.compile(tmp_path / "kernels.so", toy.kernel("a", times=2))


def test_a_changed_header_is_another_library(toy, tmp_path):
    toy.compile(tmp_path / "kernels.so", toy.kernel("a"))
    header = toy.native / "kernels" / "cpu" / "mix.h"
    header.write_text(header.read_text().replace("+ b[i]", "- b[i]"))
    shared_library._hash_of_headers.cache_clear()
    toy.compile(tmp_path / "kernels.so", toy.kernel("a"))
    assert len(list(open_cache().folder.glob("libraries/*.so"))) == 2


_RACER = """
import sys
from pathlib import Path
from graph_runtime.codegen import shared_library
from graph_runtime.codegen.render import Rendered
from graph_runtime.artifacts.libraries.manifest import KernelEntry
function = 'int32_t a__direct(const gr_call *c)'
text = f'#include "entry.h"\\nGR_DIRECT {function};\\n{function} {{ return c->nargs; }}\\n'
entry = KernelEntry("a", "cpu", "a__direct", "none", {}, 0, ())
sys.stdin.readline()
for _ in range(3):
    shared_library.compile_library(Rendered({"k.c": text}, (entry,)), sys.argv[1])
"""


def test_processes_that_compile_one_library_at_once(tmp_path):
    env = {**os.environ, "GR_CACHE_DIR": str(tmp_path / "cache")}
    out = tmp_path / "kernels.so"
    racers = [
        subprocess.Popen([sys.executable, "-c", _RACER, str(out)], env=env, stdin=subprocess.PIPE)
        for _ in range(4)
    ]
    for racer in racers:
        racer.stdin.write(b"\n")
        racer.stdin.flush()
    assert [racer.wait(timeout=60) for racer in racers] == [0] * 4
    for racer in racers:
        racer.stdin.close()
    assert ctypes.CDLL(str(out)).a__direct(ctypes.byref(Call(nargs=3))) == 3
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.parent.name != "locks"]
    left = [p.name for p in files if p.suffix not in (".so", ".o", ".sha256")]
    left += tmp_path.glob(".kernels*")
    assert left == []


@pytest.mark.parametrize(
    ("op", "text"), [("broken", "not_declared_anywhere"), ("undefined", "no_library_has_this")]
)
def test_a_body_that_does_not_compile_or_link_is_an_error_with_the_compilers_text(toy, tmp_path, op, text):
    with pytest.raises(CompileError, match=text):
        toy.compile(tmp_path / "kernels.so", toy.kernel("a", op=op))
    assert not (tmp_path / "kernels.so").exists()
    assert list((open_cache().folder / "libraries").iterdir()) == []


def test_without_a_compiler_the_error_says_what_to_do(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(
        CompileError, match=r"no C compiler.*tried gcc, cc.*apt install gcc.*Everything else works"
    ):
        toy.compile(tmp_path / "kernels.so", toy.kernel("a"))
    with config(CC="clang-99 -m64"), pytest.raises(CompileError, match="clang-99"):
        toolchain.find_compiler()


def test_cc_may_have_arguments(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "gcc -m64")
    assert toolchain.find_compiler().command[1:] == ("-m64",)
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    with config(CC=str(fake)), pytest.raises(CompileError, match="is it a C compiler"):
        toolchain.find_compiler()


def test_without_python_headers_the_library_is_plain_c(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(glue, "python_include", lambda: None)
    out = toy.compile(tmp_path / "kernels.so", toy.kernel("a"))
    assert not read_manifest(out).importable
    assert b"PyInit_" not in out.read_bytes()


def test_native_names_the_features_that_a_compiler_may_use(monkeypatch):
    monkeypatch.setattr(
        isa, "host_features", lambda: frozenset("fp asimd asimddp evtstrm cpuid sve2".split())
    )
    assert isa.native_name() == "native+asimd+asimddp+fp+sve2"
    assert isa.missing_features("native+asimd+sme") == ("sme",)


def test_march_is_checked_and_recorded(toy, tmp_path):
    with pytest.raises(CompileError, match=r"unknown march 'x86-64-v9' \(did you mean"):
        toy.compile(tmp_path / "kernels.so", toy.kernel("a"), march="x86-64-v9")
    out = toy.compile(tmp_path / "kernels.so", toy.kernel("a"), march="native")
    manifest = read_manifest(out)
    assert "-march=native" in manifest.flags
    assert manifest.isa.startswith("native+")
    assert isa.missing_features(manifest.isa) == ()
    assert isa.missing_features(manifest.isa + "+avx99") == ("avx99",)


def test_an_output_that_cannot_be_written_is_a_write_error(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot write"):
        toy.compile(tmp_path / "file" / "kernels.so", toy.kernel("a"))
