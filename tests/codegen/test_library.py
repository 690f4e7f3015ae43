"""library: what is refused before a library is opened, and which kernel a function gets."""

import gc
import hashlib
import os
import struct
import subprocess
import weakref
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_runtime.artifacts.libraries.elf import SharedObject, read_elf
from graph_runtime.artifacts.libraries.manifest import MAGIC, Manifest, find_manifest, read_manifest
from graph_runtime.base.config import config
from graph_runtime.base.errors import GraphRuntimeError, LibraryError, UnsupportedOpError
from graph_runtime.base.machine import isa
from graph_runtime.binding import core
from graph_runtime.binding.programs.program import generic_kernel
from graph_runtime.ir.graph import COPY, Func, TensorType
from graph_runtime.run.kernels import resolve
from graph_runtime.run.library import load_library

pytestmark = pytest.mark.core

T = TensorType("float32", (2, 3))


@pytest.fixture
def built(toy, tmp_path, tmp_path_factory):
    """kernels.so with ``f`` for cpu and tt and ``only_tt``; compiled once for all tests."""
    kernels = [
        toy.kernel("f", times=3),
        toy.kernel("f", kind="tt", times=3),
        toy.kernel("only_tt", kind="tt"),
    ]
    with config(CACHE_DIR=str(tmp_path_factory.getbasetemp() / "library")):
        return toy.compile(tmp_path / "kernels.so", *kernels)


@pytest.fixture
def library(built):
    return load_library(built)


def _func(name="f", op=None, num_inputs=2, attrs=None, flatten=False) -> Func:
    return Func(name, op, attrs or {}, num_inputs, 1, flatten)


def _span(data: bytes) -> tuple[int, int]:
    """Where the manifest's JSON lies in a library."""
    start = data.index(MAGIC) + len(MAGIC) + 8
    return start, start + int.from_bytes(data[start - 8 : start], "little")


def _patched(path: Path, **changes) -> Path:
    """A copy of a library whose manifest says other things: same size, JSON may end in spaces."""
    data = bytearray(path.read_bytes())
    start, end = _span(data)
    raw = orjson.loads(data[start:end]) | {"compiler": "", "flags": []} | changes
    data[start:end] = orjson.dumps(raw).ljust(end - start)
    copy = path.with_name("patched.so")
    copy.write_bytes(data)
    return copy


# ---------------------------------------------------------------- refused
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"abi": 2}, "built for kernel ABI 2, this runtime has ABI 1"),
        ({"arch": "s390x"}, f"built for s390x, this machine is {isa.host_arch()}"),
        ({"isa": "x86-64-v9"}, "'x86-64-v9'"),
        ({"isa": "native+avx2+teleport"}, "built for native, this CPU .* lacks teleport"),
    ],
)
def test_a_library_for_another_machine_is_refused_with_both_sides_named(built, changes, text):
    with pytest.raises(LibraryError, match=text):
        load_library(_patched(built, **changes))


@pytest.mark.skipif(isa.best_level() == "", reason="levels are of x86-64")
def test_an_isa_that_this_cpu_lacks_is_refused(built, monkeypatch):
    monkeypatch.setattr(isa, "host_features", lambda: frozenset(isa.LEVELS["x86-64-v2"]))
    with pytest.raises(
        LibraryError, match=r"for x86-64-v3, this CPU \(x86-64-v2\) lacks abm, avx.*--march x86-64-v2"
    ):
        load_library(_patched(built, isa="x86-64-v3"))


def _entry(built, **changes):
    (first, *_) = orjson.loads(built.read_bytes()[slice(*_span(built.read_bytes()))])["kernels"]
    return first | changes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"symbol": "gone__direct"},
            "lists kernel 'f' for cpu as gone__direct, the file does not export that",
        ),
        ({"symbol": "gr_manifest"}, "does not export"),  # is there, but no function
        ({"num_inputs": 9}, "9 inputs"),
        ({"inplace": [5]}, "inplace"),
        ({"scratch": -1}, r"kernels\[0\].scratch"),
        ({"args": [["float32", [-1]]]}, r"kernels\[0\].args\[0\]\[1\]\[0\]"),
        ({"args": [["float33z", [1]]]}, "float33z"),
        ({"name": "a b"}, r"kernels\[0\].name"),
        ({"extra": 1}, "extra"),
        ({"scratch": True}, "scratch"),
    ],
)
def test_a_manifest_that_lies_or_is_malformed_is_refused(built, changes, text):
    with pytest.raises(LibraryError, match=text):
        load_library(_patched(built, kernels=[_entry(built, **changes)]))


def test_a_kernel_listed_twice_is_refused(built):
    with pytest.raises(LibraryError, match="lists kernel 'f' for cpu twice"):
        load_library(_patched(built, kernels=[_entry(built)] * 2))


def test_another_hash_than_the_bundles_is_refused(built):
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    assert load_library(built, sha256=digest).flavour == "module"
    with pytest.raises(LibraryError, match=f"its sha256 is {digest}, not 00"):
        load_library(built, sha256="00")


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"{}", MAGIC, MAGIC + b"\xff" * 8, MAGIC + bytes(8), b"\x7fELF" + bytes(100)]
)
def test_files_that_are_no_library(tmp_path, content):
    (tmp_path / "x.so").write_bytes(content)
    with pytest.raises(LibraryError, match=r"x\.so"):
        load_library(tmp_path / "x.so")


def test_paths_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", ".", "absent"):
        with pytest.raises(LibraryError, match="cannot read"):
            load_library(tmp_path / name)
    with pytest.raises(LibraryError, match="no graph_runtime manifest"):
        read_manifest(Path(core._core.__file__))


def test_a_file_that_is_cut_off_is_refused(built):
    data = built.read_bytes()
    for size in range(0, len(data), 997):
        built.with_name("cut.so").write_bytes(data[:size])
        with pytest.raises(LibraryError):
            load_library(built.with_name("cut.so"))


def test_other_elf_files_are_refused(built):
    data = bytearray(built.read_bytes())
    machine, name = (62, "x86_64") if isa.host_arch() == "aarch64" else (183, "aarch64")
    for at, value, text in [
        (18, machine, f"is for {name}, this machine"),
        (4, 1, "32-bit"),
        (16, 2, "no shared object"),
    ]:
        changed = data.copy()
        changed[at] = value
        with pytest.raises(LibraryError, match=text):
            read_elf(built, bytes(changed))


def _said(function, *args):
    """What it returns, or the text of its LibraryError; any other exception passes."""
    try:
        return function(*args)
    except LibraryError as error:
        return str(error)


_QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_QUIET
@given(edits=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_bytes_as_manifest_give_a_manifest_or_a_library_error(built, edits):
    data = bytearray(built.read_bytes())
    start, end = _span(data)
    start -= len(MAGIC) + 8
    for at, value in edits:
        data[start + at % (end - start)] = value
    copy = built.with_name("mutated.so")
    copy.write_bytes(data)
    found = _said(find_manifest, copy)
    assert found is None or isinstance(found, Manifest) or "mutated.so" in found


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@_QUIET
@given(
    field=st.sampled_from(["abi", "arch", "isa", "flags", "sources", "importable", "kernels", "new"]),
    value=_JSON,
    inner=st.none()
    | st.sampled_from(["name", "kind", "symbol", "op", "attrs", "num_inputs", "args", "scratch", "inplace"]),
)
def test_any_json_as_manifest_gives_a_manifest_or_a_library_error(built, field, value, inner):
    changes = {field: value} if inner is None else {"kernels": [_entry(built, **{inner: value})]}
    found = _said(find_manifest, _patched(built, **changes))
    assert isinstance(found, Manifest) or "patched.so" in found


@_QUIET
@given(at=st.integers(0, 1 << 20), value=st.integers(0, 255), wide=st.booleans())
def test_any_bytes_as_elf_give_tables_or_a_library_error(built, at, value, wide):
    data = bytearray(built.read_bytes())
    table = struct.unpack_from("<Q", data, 40)[0]
    places = [*range(64), *range(table, len(data))]  # the header and the section table
    place = places[at % len(places)]
    data[place : place + 1 + wide] = bytes([value] * (1 + wide))
    found = _said(read_elf, built, bytes(data))
    assert isinstance(found, SharedObject) or "kernels.so" in found


# ---------------------------------------------------------------- resolution
def test_a_function_is_found_by_name_and_kind(library):
    kernel = resolve(_func(), "cpu", [T, T], [T], [library])
    assert (kernel.name, kernel.packed, kernel.scratch, kernel.words) == ("f", False, 24, ())
    assert kernel.origin == str(library.path)
    other = resolve(_func(), "tt", [T, T], [T], [library])
    assert 0 != kernel.fn != other.fn != 0
    assert library.names("tt") == ["f", "only_tt"]


@pytest.mark.parametrize(
    ("func", "types", "text"),
    [
        (
            _func(),
            [TensorType("float32", (2, 4))] * 2,
            r"as mix\(float32\[2, 3\], .* calls it as mix\(float32\[2, 4\]",
        ),
        (_func(), [TensorType("float64", (2, 3))] * 2, r"float64\[2, 3\]"),
        (_func(), [T], r"has 'f' as mix\(float32\[2, 3\], float32\[2, 3\]\) .* as mix\(float32\[2, 3\]\)"),
        (_func(op="add"), [T, T], r"as mix\(.* as add\("),
        (_func(op="mix", attrs={"times": 4}), [T, T], "other attributes .times: library 3, graph 4"),
        (_func(op="mix"), [T, T], "times: library 3, graph None"),
        (_func(flatten=True), [T, T], r"calls it as mix\(float32\[6\]"),
    ],
)
def test_another_signature_is_refused_with_both_sides_named(library, func, types, text):
    with pytest.raises(LibraryError, match=text):
        resolve(func, "cpu", types, [T], [library])


def test_the_same_signature_with_op_and_attributes_is_taken(library):
    assert resolve(_func(op="mix", attrs={"times": 3}), "cpu", [T, T], [T], [library]).owner is library


def test_two_libraries_with_one_function_are_ambiguous(library, built):
    other = built.with_name("other.so")
    other.write_bytes(built.read_bytes())
    with pytest.raises(LibraryError, match=r"'f' for cpu is in both .*kernels\.so and .*other\.so"):
        resolve(_func(), "cpu", [T, T], [T], [library, load_library(other)])


def test_a_function_that_is_nowhere(library):
    with pytest.raises(LibraryError, match="only_tt' is built for tt devices only, the graph calls it"):
        resolve(_func("only_tt"), "cpu", [T, T], [T], [library])
    with pytest.raises(LibraryError, match=r"function 'only_tu' on tt \(did you mean 'only_tt'\?\)"):
        resolve(_func("only_tu"), "tt", [T, T], [T], [library])
    with pytest.raises(LibraryError, match="no library was given"):
        resolve(_func(), "cpu", [T, T], [T])
    with pytest.raises(LibraryError, match=r"has no 'g' for cpu \(there are: f\)"):
        library.kernel("g", "cpu")


def test_copies_and_null_devices_need_no_library():
    assert resolve(_func(COPY, num_inputs=1), "tt", [T], [T]).fn == core.copy_kernel()
    assert resolve(_func(), "null", [T, T], [T]).fn == core.null_kernel()


def test_an_op_that_no_library_has_takes_the_built_in_kernel(library, monkeypatch):
    monkeypatch.setattr(core, "generic_kernels", lambda: {"cpu/add/f32": 4711})
    func = _func("my_add", op="add")
    kernel = resolve(func, "cpu", [T, T], [T], [library])
    assert (kernel.name, kernel.fn, kernel.origin) == ("my_add", 4711, "built in: cpu/add/f32")
    assert kernel == generic_kernel(func, "cpu", [T, T], [T]) or kernel.owner is None
    monkeypatch.setattr(core, "generic_kernels", dict)
    with pytest.raises(UnsupportedOpError, match="cpu/add/f32 is not built into"):
        resolve(func, "cpu", [T, T], [T], [library])
    with pytest.raises(UnsupportedOpError, match="unknown op"):
        resolve(_func("g", op="ad"), "cpu", [T, T], [T])


_THEIRS = """
#include <math.h>
int their_add(void *a) { return a != 0; }
static int hidden(void) { return 1; }
double use(double x) { return exp(x) + hidden(); }
int their_data = 3;
"""


def test_a_library_without_manifest_has_packed_functions(tmp_path):
    (tmp_path / "theirs.c").write_text(_THEIRS)
    path = tmp_path / "theirs.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O0", str(tmp_path / "theirs.c"), "-o", str(path), "-lm"], check=True
    )
    library = load_library(path)
    assert (library.flavour, library.manifest) == ("packed", None)
    kernel = resolve(_func("their_add"), "cpu", [T], [T], [library])
    assert kernel.packed
    assert kernel.fn != 0
    for name in ("exp", "hidden", "their_data"):  # another library's, not exported, no function
        assert not library.has(name, "cpu")
    assert not library.has("their_add", "tt")


def test_a_library_stays_open_as_long_as_a_kernel_of_it_is_held(built):
    library = load_library(built)
    held, kernel = weakref.ref(library), library.kernel("f", "cpu")
    del library
    gc.collect()
    assert held() is not None
    del kernel
    gc.collect()
    assert held() is None


def test_errors_are_ours(tmp_path):
    with pytest.raises(GraphRuntimeError):
        load_library("no/such/file.so")
