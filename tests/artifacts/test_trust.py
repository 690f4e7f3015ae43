"""No command and no call runs native code that the user did not ask to run: a library whose constructor
writes a file says whether anything of it ran."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import cli
from graph_runtime.artifacts import trust_store
from graph_runtime.artifacts.bundles.bundle import BundleLibrary, BundleProgram, read_bundle
from graph_runtime.artifacts.bundles.writer import write_bundle
from graph_runtime.artifacts.libraries.sealed import seal
from graph_runtime.artifacts.trust import file_sha256, is_trusted
from graph_runtime.base.config import config
from graph_runtime.base.errors import GraphRuntimeError, InputError, LibraryError, UntrustedLibraryError
from graph_runtime.binding import core

ROOT = Path(__file__).resolve().parents[2]
SOURCE = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t byte_offset; } tensor;
__attribute__((constructor)) static void begin(void)
{
  int fd = open(getenv("GR_TEST_MARK"), O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (write(fd, "ADD", sizeof "ADD" - 1) < 0) abort();
  close(fd);
}
int32_t their_relu(tensor **a, int *codes, int n, void *ret, int *ret_code, void *resource)
{
  for (int i = 0; i < 4; i++) ((float *)a[1]->data)[i] = ADD + ((float *)a[0]->data)[i];
  return 0;
}
"""
X = np.array([-1, 0, 2, 3], "f4")


class Planted:
    """What others made: ``library`` a file, ``bundle(kind)`` a bundle with it, ``ran()`` what its
    constructors wrote since it was last asked, ``graph`` a document that calls it."""

    def __init__(self, folder: Path, document, compiled):
        self.folder, self.mark, self._compiled = folder, folder / "mark", compiled
        self.library = self.compile("100")
        x = document.input("x")
        self.graph = document.json(document.call("their_relu", x, op="relu"))
        (folder / "graph.json").write_text(self.graph)

    def compile(self, add: str, more: str = "") -> Path:
        """A library of bytes of its own: one that is open already would run no constructor."""
        made = self.folder / f"theirs{add}.so"
        made.write_bytes(self._compiled(add, more) + os.urandom(16))
        return made

    def bundle(self, kind: str = "theirs.bundle", library: Path | None = None, signature=None) -> Path:
        return write_bundle(
            self.folder / kind,
            devices=["cpu:0"],
            programs=[BundleProgram("main", "main.json", ("x",), ("their_relu_1",))],
            libraries=[BundleLibrary("libraries/theirs.so", ("cpu",), "", signature)],
            files={"main.json": self.graph.encode(), "libraries/theirs.so": library or self.library},
        )

    def ran(self) -> str:
        text = self.mark.read_text() if self.mark.exists() else ""
        self.mark.unlink(missing_ok=True)
        return text

    @property
    def sha256(self) -> str:
        return file_sha256(self.library)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled(what is added, more C) -> bytes of the library, built once."""
    folder, built = tmp_path_factory.mktemp("theirs"), {}

    def build(add: str, more: str = "") -> bytes:
        if (add, more) not in built:
            made = built[add, more] = folder / f"theirs{len(built)}.so"
            made.with_suffix(".c").write_text(SOURCE.replace("ADD", add) + more)
            subprocess.run(["gcc", "-shared", "-fPIC", made.with_suffix(".c"), "-o", made], check=True)
        return built[add, more].read_bytes()

    return build


@pytest.fixture
def planted(tmp_path, document, compiled, monkeypatch) -> Planted:
    monkeypatch.setenv("GR_TEST_MARK", str(tmp_path / "mark"))
    return Planted(tmp_path, document, compiled)


@pytest.fixture(autouse=True)
def own_trust(tmp_path_factory, monkeypatch):
    """A store that trusts nothing, of each test's own."""
    folder = tmp_path_factory.mktemp("own") / "trust"
    monkeypatch.setenv("GR_TRUST_DIR", str(folder))
    with config(TRUST_DIR=str(folder), TRUST_KEY=""):
        yield folder


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(a) for a in arguments])
    return caught.value.code or 0


def values(module) -> list[float]:
    module.run(x=X)
    return module.get_output(0).numpy().tolist()


BUILT_IN, THEIRS = [0, 0, 2, 3], [99, 100, 102, 103]
KINDS = ["theirs.bundle", "theirs.zip"]


# ---------------------------------------------------------------- nothing runs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "BUNDLE"),
        ("inspect", "BUNDLE", "--json"),
        ("verify", "BUNDLE"),
        ("plan", "BUNDLE"),
        ("plan", "BUNDLE", "--json", "--html", "OUT"),
        ("view", "BUNDLE", "-o", "OUT"),
        ("estimate", "BUNDLE"),
        ("estimate", "BUNDLE", "--json"),
        ("export", "BUNDLE", "-o", "OUT"),
        ("trust", "list"),
        ("trust", "add", "BUNDLE"),
        ("run", "BUNDLE", "--input", "x=random", "--no-native"),
        ("run", "BUNDLE", "--input", "x=random", "--rebuild"),
        ("bench", "BUNDLE", "--no-native", "--repeat", "1"),
        ("run", "BUNDLE", "--input", "x=random", "--no-native", "--compare"),
    ],
    ids=" ".join,
)
def test_commands_that_read_a_bundle_run_nothing_of_it(planted, kind, arguments, tmp_path):
    found = {"BUNDLE": planted.bundle(kind), "OUT": tmp_path / "out"}
    assert command(*(found.get(a, a) for a in arguments)) == 0
    assert not planted.ran()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "BUNDLE", "-o", "OUT"),
        ("run", "BUNDLE", "--input", "x=random"),
        ("bench", "BUNDLE", "--repeat", "1"),
        ("run", "BUNDLE", "--input", "x=random", "--compare"),
        ("run", "BUNDLE", "--params", "PARAMS", "--input", "x=random"),
    ],
    ids=" ".join,
)
def test_commands_that_refuse_a_bundle_run_nothing_of_it(planted, kind, arguments, tmp_path):
    np.savez(tmp_path / "p.npz", y=X)
    found = {"BUNDLE": planted.bundle(kind), "OUT": tmp_path / "out", "PARAMS": tmp_path / "p.npz"}
    assert command(*(found.get(a, a) for a in arguments)) == 2
    assert not planted.ran()


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "LIBRARY"),
        ("inspect", "LIBRARY", "--json"),
        ("verify", "GRAPH", "--library", "LIBRARY"),
        ("plan", "GRAPH", "--library", "LIBRARY"),
        ("estimate", "GRAPH", "--library", "LIBRARY"),
        ("export", "GRAPH", "--library", "LIBRARY", "-o", "OUT"),
        ("trust", "add", "LIBRARY"),
        ("compile", "GRAPH", "--library", "LIBRARY", "-o", "OUT"),
    ],
    ids=" ".join,
)
def test_commands_that_only_look_at_a_library_do_not_run_it(planted, arguments, tmp_path):
    found = {"LIBRARY": planted.library, "GRAPH": tmp_path / "graph.json", "OUT": tmp_path / "out"}
    assert command(*(found.get(a, a) for a in arguments)) == 0
    assert not planted.ran()


def test_looking_does_not_run_a_system_library(planted):
    """One that registers its functions when it is opened: their names stand in its file."""
    system = planted.compile(
        "1",
        """
int TVMBackendRegisterSystemLibSymbol(const char *name, void *symbol);
static int hidden(void) { return 0; }
__attribute__((constructor)) static void more(void) { TVMBackendRegisterSystemLibSymbol("secret", hidden); }
""",
    )
    bundle = read_bundle(planted.bundle(library=system))
    (file,) = map(bundle.judge, bundle.libraries)
    assert file.has("secret", "cpu")
    assert file.has("their_relu", "cpu")
    assert not file.has("secre", "cpu")
    assert not planted.ran()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "call",
    [
        gr.load,
        rt.load_bundle,
        lambda path: gr.load(path, devices=["tt:0"]),
        lambda path: gr.create(path),
        lambda path: gr.load_library(path),
        lambda path: gr.load_module(path),
        lambda path: gr.load(path, program="main"),
    ],
    ids=["load", "load_bundle", "load_tt", "create", "load_library", "load_module", "program"],
)
def test_calls_refuse_a_bundle_before_anything_of_it_runs(planted, kind, call):
    with pytest.raises(GraphRuntimeError):
        call(planted.bundle(kind))
    assert not planted.ran()


def test_parameters_are_read_without_running_anything(planted):
    assert gr.load_params(planted.bundle()) == {}
    assert not planted.ran()


def test_a_bundle_that_was_read_otherwise_is_refused_when_it_is_submitted(planted):
    bundle = read_bundle(planted.bundle())
    with rt.open_device("cpu:0") as device, pytest.raises(UntrustedLibraryError):
        rt.submit(device, bundle, "main", [rt.create_owned_host_tensor(X)])
    assert not planted.ran()


def test_the_refusal_says_the_hash_and_the_three_ways_on(planted, capsys):
    bundle = planted.bundle()
    with pytest.raises(UntrustedLibraryError) as caught:
        gr.load(bundle)
    text = str(caught.value)
    for part in (
        planted.sha256,
        str(bundle),
        "graph-runtime trust add",
        "gr.trust",
        "--no-native",
        "libraries=False",
        "--rebuild",
        "rebuild=True",
    ):
        assert part in text
    assert caught.value.sha256 == (planted.sha256,)
    assert command("run", bundle, "--input", "x=random") == 2
    error = capsys.readouterr().err
    assert planted.sha256 in error
    assert error.count("\n") == 1


# ---------------------------------------------------------------- the ways on


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_runs_on_the_kernels_built_in_or_compiled_anew(planted, kind, kernel_cache):
    path = planted.bundle(kind)
    with config(CACHE_DIR=kernel_cache):
        assert values(gr.load(path, libraries=False)) == BUILT_IN
        assert values(gr.load(path, rebuild=True)) == BUILT_IN
        for chosen in ({"libraries": False}, {"rebuild": True}):
            with rt.open_device("cpu:0") as device:
                (made,) = rt.submit(
                    device, rt.load_bundle(path, **chosen), "main", [rt.create_owned_host_tensor(X)]
                )
                assert made.numpy().tolist() == BUILT_IN
    assert not planted.ran()


def test_what_is_rebuilt_is_what_was_compiled_and_not_the_kernels_built_in(
    planted, kernel_cache, new_document
):
    """Of an op that is faster compiled: others' kernels are those built in."""
    document = new_document()
    planted.graph = document.json(document.call("their_relu", document.input("x"), op="cumsum", axis=0))
    with config(CACHE_DIR=kernel_cache):
        session = gr.load(planted.bundle(), rebuild=True).session
    assert "built in" not in session.program.kernels[0].origin


def test_a_function_without_gr_op_says_that_only_the_library_has_it(planted, new_document):
    document = new_document()
    planted.graph = document.json(document.call("their_relu", document.input("x")))
    path = planted.bundle()
    for chosen in ({"libraries": False}, {"rebuild": True}):
        with pytest.raises(GraphRuntimeError, match="their_relu"):
            gr.load(path, **chosen)
    assert not planted.ran()


@pytest.mark.parametrize("way", ["bundle", "zip", "library", "sha256"])
def test_what_is_trusted_runs(planted, way):
    path = planted.bundle("theirs.zip" if way == "zip" else "theirs.bundle")
    named = {"bundle": path, "zip": path, "library": planted.library, "sha256": planted.sha256}[way]
    assert gr.trust(named) == [planted.sha256]
    assert not planted.ran()
    assert [row[:2] for row in gr.trusted()] == [(planted.sha256, "added")]
    assert values(gr.load(path)) == THEIRS
    assert planted.ran()
    assert gr.untrust(named) == [planted.sha256]
    with pytest.raises(UntrustedLibraryError):
        gr.load(path)
    assert gr.trusted() == []


def test_naming_a_library_is_asking_for_it(planted, tmp_path, capsys):
    assert values(gr.create(planted.graph, planted.library)) == THEIRS
    np.save(tmp_path / "x.npy", X)
    assert (
        command("run", planted.bundle(), "--library", planted.library, "--input", f"x={tmp_path / 'x.npy'}")
        == 0
    )
    assert "99" in capsys.readouterr().out
    assert planted.ran()
    assert gr.trusted() == []


def test_the_command(planted, capsys):
    path = planted.bundle()
    for arguments, found in [
        (("add", path), planted.sha256),
        (("list",), planted.sha256),
        (("remove", planted.sha256), "removed"),
        (("list",), "0 libraries"),
        (("list", "--json"), '"trusted":[]'),
        (("key", "--new"), "key"),
        (("key",), "key"),
        (("add", planted.sha256, "--json"), planted.sha256),
    ]:
        assert command("trust", *arguments) == 0
        assert found in capsys.readouterr().out
    for arguments in [
        ("remove", "0" * 64),
        ("add", "/nowhere"),
        ("add", planted.folder / "graph.json"),
        ("key", "--new"),
        ("add", planted.sha256.upper()),
    ]:
        assert command("trust", *arguments) == 2
        assert capsys.readouterr().err.startswith("error: ")


# ---------------------------------------------------------------- compiled here


@pytest.mark.slow
def test_what_this_user_compiled_runs_without_a_step(tmp_path, document, kernel_cache):
    x = document.input("x", (8, 8))
    (tmp_path / "graph.json").write_text(document.json(document.call("mine", x, op="tanh", shape=(8, 8))))
    environment = {**os.environ, "GR_CACHE_DIR": kernel_cache}
    for name in ("once.bundle", "again.zip"):  # compiled, then found in the cache
        for arguments in (
            ["compile", str(tmp_path / "graph.json"), "-o", str(tmp_path / name)],
            ["run", str(tmp_path / name), "--input", "x=random"],
        ):
            subprocess.run(
                [sys.executable, "-P", "-m", "graph_runtime.cli", *arguments],
                check=True,
                env=environment,
                capture_output=True,
            )
        assert {row.how for row in gr.trusted()} == {"compiled"}
        for row in gr.trusted():
            trust_store.remove([row.sha256])
        with pytest.raises(UntrustedLibraryError):
            gr.load(tmp_path / name)


def test_a_library_out_of_another_bundle_is_no_more_trusted_in_a_new_one(planted, tmp_path):
    gr.untrust(planted.sha256)
    trust_store.new_key()
    opened = read_bundle(planted.bundle())
    out = build_bundle(
        planted.graph, ["cpu:0"], tmp_path / "new.bundle", libraries=[opened.judge(opened.libraries[0])]
    )
    assert read_bundle(out).libraries[0].signature is None
    with pytest.raises(UntrustedLibraryError):
        gr.load(out)
    assert not planted.ran()


def test_a_bundle_that_cannot_be_written_down_is_warned_of_and_refused(planted, own_trust, tmp_path):
    own_trust.mkdir(mode=0o755)
    own_trust.chmod(0o755)
    with pytest.warns(UserWarning, match="refused until it is trusted.*mode is 755"):
        out = build_bundle(planted.graph, ["cpu:0"], tmp_path / "o.bundle", libraries=[planted.library])
    with pytest.raises(UntrustedLibraryError, match="mode is 755"):
        gr.load(out)
    with pytest.raises(GraphRuntimeError, match="mode is 755"):
        gr.trust(out)
    assert not planted.ran()


# ---------------------------------------------------------------- the key


def test_machines_with_one_key_run_what_each_other_compiled(planted, own_trust, tmp_path):
    key = trust_store.new_key()
    assert key.stat().st_mode & 0o777 == 0o600
    out = build_bundle(planted.graph, ["cpu:0"], tmp_path / "signed.bundle", libraries=[planted.library])
    assert re.fullmatch("[0-9a-f]{64}", read_bundle(out).libraries[0].signature)
    other = tmp_path / "other"
    with config(TRUST_DIR=str(other)):
        with pytest.raises(UntrustedLibraryError):  # another machine, without the key
            gr.load(out)
        trust_store.new_key()
        with pytest.raises(UntrustedLibraryError):  # with another key
            gr.load(out)
        (other / "key").write_text(key.read_text())
        (other / "key").chmod(0o644)
        with pytest.raises(UntrustedLibraryError, match="mode is 644"):
            gr.load(out)
        assert not planted.ran()
        (other / "key").chmod(0o600)
        assert values(gr.load(out)) == THEIRS
        assert gr.trusted() == []
    with config(TRUST_DIR=str(tmp_path / "third"), TRUST_KEY=str(key)):
        assert values(gr.load(out)) == THEIRS
    evil = planted.bundle(library=planted.compile("7"), signature=read_bundle(out).libraries[0].signature)
    with pytest.raises(UntrustedLibraryError):  # a signature is of those bytes
        gr.load(evil)


@pytest.mark.parametrize("text", ["", "short", "G" * 64, "0" * 63, "\x00" * 64, "0" * 65])
def test_a_malformed_key_signs_nothing_and_verifies_nothing(planted, own_trust, tmp_path, text):
    own_trust.mkdir(mode=0o700)
    (own_trust / "key").write_text(text)
    (own_trust / "key").chmod(0o600)
    assert trust_store.key()[0] is None
    assert not is_trusted(planted.sha256, "0" * 64)


def test_a_key_that_is_named_and_absent_is_said(planted, tmp_path):
    with config(TRUST_KEY=str(tmp_path / "none")), pytest.warns(UserWarning, match="there is no key"):
        build_bundle(planted.graph, ["cpu:0"], tmp_path / "o.bundle", libraries=[planted.library])


# ---------------------------------------------------------------- the store


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: folder.chmod(0o770),
        lambda folder: folder.chmod(0o701),
        lambda folder: (folder / "trusted").chmod(0o640),
        lambda folder: ((folder / "trusted").rename(folder / "t"), (folder / "trusted").symlink_to("t")),
        lambda folder: ((folder / "trusted").unlink(), os.mkfifo(folder / "trusted", 0o600)),
        lambda folder: (folder.rename(folder.with_name("x")), folder.write_text("")),
    ],
    ids=["group", "others", "file", "link", "fifo", "no_folder"],
)
def test_a_store_that_others_could_write_is_not_used(planted, own_trust, spoil):
    gr.trust(planted.sha256)
    spoil(own_trust)
    with pytest.raises(UntrustedLibraryError, match="not used"):
        gr.load(planted.bundle())
    with pytest.raises(GraphRuntimeError):
        gr.trust("0" * 64)
    assert not planted.ran()


def test_a_store_of_another_user_is_not_used(planted, own_trust, monkeypatch):
    gr.trust(planted.sha256)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(UntrustedLibraryError, match="belongs to user"):
        gr.load(planted.bundle())
    assert not planted.ran()


def test_a_store_is_private_and_keeps_what_it_does_not_know(own_trust):
    gr.trust("1" * 64)
    assert own_trust.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in own_trust.iterdir()} == {0o600}
    with (own_trust / "trusted").open("a") as file:
        file.write("# of my own\nnonsense\n" + "2" * 63 + " short")
    gr.trust("3" * 64)
    gr.untrust("1" * 64)
    assert [row.sha256 for row in gr.trusted()] == ["3" * 64]
    text = (own_trust / "trusted").read_text()
    assert text.startswith("# of my own\nnonsense\n" + "2" * 63 + " short\n" + "3" * 64)


def test_names_of_files_cannot_forge_a_line(tmp_path, planted):
    evil = tmp_path / ("x\n" + "4" * 64 + " added 2026-01-01 y.so")
    evil.write_bytes(planted.library.read_bytes())
    gr.trust(evil)
    assert [row.sha256 for row in gr.trusted()] == [planted.sha256]


_ADD = """
import sys
import graph_runtime as gr
for i in range(int(sys.argv[2])):
    gr.trust(f"{int(sys.argv[1]) * 1000 + i:064x}")
    if i % 3 == 0:
        gr.untrust(f"{int(sys.argv[1]) * 1000 + i:064x}")
"""


def test_processes_that_write_at_the_same_time_lose_nothing(own_trust):
    def one(number: int) -> None:
        subprocess.run([sys.executable, "-P", "-c", _ADD, str(number), "12"], check=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(one, range(3)))
    wanted = {f"{n * 1000 + i:064x}" for n in range(3) for i in range(12) if i % 3}
    assert {row.sha256 for row in gr.trusted()} == wanted
    assert {p.name for p in own_trust.iterdir()} == {"trusted", "lock"}


# ---------------------------------------------------------------- what is hashed is what is opened


@pytest.mark.parametrize("how", ["replace", "write"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changes_after_it_was_hashed_changes_nothing(planted, kind, how, monkeypatch):
    gr.trust(planted.sha256)
    path, other = planted.bundle(kind), planted.compile("666")
    evil = planted.folder / "evil"
    evil.write_bytes((other if kind == "theirs.bundle" else planted.bundle("evil.zip", other)).read_bytes())
    target = path / "libraries" / "theirs.so" if kind == "theirs.bundle" else path
    opened = core.tvm_open

    def swap(*arguments):
        if how == "replace":
            os.replace(evil, target)
        else:
            target.write_bytes(evil.read_bytes())
        return opened(*arguments)

    monkeypatch.setattr(core, "tvm_open", swap)
    assert values(gr.load(path)) == THEIRS
    assert "666" not in planted.ran()
    assert evil.exists() is (how == "write")


def test_sealed_bytes_cannot_change_and_are_held_once(planted):
    size = planted.library.stat().st_size
    one = seal("a.so", planted.library, 0, size)
    for change in (lambda fd: os.pwrite(fd, b"x", 0), lambda fd: os.ftruncate(fd, 1)):
        with pytest.raises(OSError, match="not permitted"):
            change(one._fd)
    assert seal("b.so", planted.library, 0, size) is one
    assert one.sha256 == planted.sha256
    assert os.readlink(one.path).startswith("/memfd:a.so")
    with pytest.raises(LibraryError, match="cut off"):
        seal("c.so", planted.library, 0, size + 1)


def test_a_bundle_that_is_loaded_twice_maps_its_library_once(planted):
    gr.trust(planted.sha256)
    path = planted.bundle("twice.bundle")
    held = [gr.load(path) for _ in range(3)]
    maps = Path("/proc/self/maps").read_text()
    assert 1 == len(set(re.findall(r"(\d+) +/memfd:twice\.bundle/libraries/theirs\.so", maps)))
    assert all(values(module) == THEIRS for module in held)


# ---------------------------------------------------------------- one way in


def test_there_is_no_other_way_to_open_a_library():
    """dlopen is called in two places of C: gr_dlopen, and for the core's own file, to make its names global.
    Python calls what leads there in library.py, for OpenBLAS in blas.py, in device_handles.py for the C of
    a device kind, which an installed package brought and this process compiled. An extension of Python's own
    is opened in torch/native_calls.py: bytes of the kernel cache, which were hashed (docs/security.md)."""
    c = {
        path.relative_to(ROOT).as_posix(): len(
            re.findall(r"(?<![\w])dlopen\(", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S))
        )
        for path in (ROOT / "native").rglob("*.[ch]")
    }
    assert {name: count for name, count in c.items() if count} == {
        "native/core/library.c": 4,
    }
    text = (ROOT / "native" / "core" / "library.c").read_text()
    assert "RTLD_NOLOAD" in text[text.index("dlopen(info") :][:60]
    callers, others = {}, {}
    for path in [*(ROOT / "graph_runtime").rglob("*.py"), *(ROOT / "codegen").rglob("*.py")]:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        for call in re.findall(r"core\.(library_open|tvm_open|blas_open)\(", text):
            callers.setdefault(call, set()).add(name)
        if "gr_device_load(" in text:
            callers.setdefault("device_load", set()).add(name)
        if re.search(r"CDLL\(|PyDLL|LoadLibrary|\.dlopen\(|load_dynamic|ExtensionFileLoader", text):
            others[name] = text
    assert callers == {
        "library_open": {"graph_runtime/run/library.py"},
        "tvm_open": {"graph_runtime/run/library.py"},
        "blas_open": {"graph_runtime/binding/blas.py"},
        "device_load": {"graph_runtime/run/device_handles.py"},
    }
    assert set(others) == {"graph_runtime/torch/native_calls.py"}


def test_inspect_says_whether_a_library_may_run(planted, capsys):
    path = planted.bundle()
    for trusted in (False, True):
        if trusted:
            gr.trust(path)
        assert command("inspect", path, "--json") == 0
        assert json.loads(capsys.readouterr().out)["libraries"][0]["trusted"] is trusted


def test_a_signature_is_part_of_the_schema(planted):
    path = planted.bundle(signature="0" * 64)
    index = orjson.loads((path / "bundle.json").read_bytes())
    assert index["libraries"][0]["signature"] == "0" * 64
    index["libraries"][0]["signature"] = "x"
    (path / "bundle.json").write_bytes(orjson.dumps(index))
    with pytest.raises(GraphRuntimeError, match="signature"):
        read_bundle(path)


def test_what_is_no_library_is_not_trusted(tmp_path):
    for content in (b"", b"text", b"PK\x03\x04"):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(GraphRuntimeError):
            gr.trust(tmp_path / "f")
    with pytest.raises(InputError):
        gr.trust(7)
    assert gr.trusted() == []
