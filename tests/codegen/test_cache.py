"""The compile cache: what is damaged or another's is compiled anew, and never linked, copied or opened."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
import warnings

import pytest
from graph_runtime.codegen import cache as cache_module
from graph_runtime.codegen import shared_library
from graph_runtime.codegen.cache import Cache, open_cache
from graph_runtime.codegen.process import CommandPool

import graph_runtime as gr
from graph_runtime.base.config import config
from graph_runtime.base.errors import WriteError
from graph_runtime.base.files import folders
from graph_runtime.cli import main

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user are made by root")
OTHER = 12345


@pytest.fixture
def cache(tmp_path):
    with config(CACHE_DIR=str(tmp_path / "kept")):
        yield open_cache()


@pytest.fixture(autouse=True)
def warned_anew(monkeypatch):
    monkeypatch.setattr(cache_module, "_warned", set())


def damaged(data: bytes) -> dict[str, bytes]:
    """The ways in which a file goes bad."""
    return {
        "flipped": bytes([*data[:-9], data[-9] ^ 1, *data[-8:]]),
        "code": data.replace(b"\xc3", b"\xcc"),
        "cut": data[: len(data) // 2],
        "empty": b"",
        "longer": data + b"\0",
    }


@pytest.mark.parametrize(
    "way",
    [w if w in ("flipped", "cut") else pytest.param(w, marks=pytest.mark.slow) for w in damaged(bytes(16))],
)
@pytest.mark.parametrize("kind", ["libraries", "objects"])
def test_a_damaged_file_is_compiled_anew(toy, tmp_path, kind, way):
    kernels = [toy.kernel("a"), toy.kernel("b", times=2)]
    first = toy.compile(tmp_path / "kernels.so", *kernels).read_bytes()
    folder = open_cache().folder
    kept = {file: file.read_bytes() for file in (folder / kind).iterdir() if file.suffix in (".so", ".o")}
    assert kept
    for file, good in kept.items():
        file.write_bytes(damaged(good)[way])
    if kind == "objects":
        shutil.rmtree(folder / "libraries")  # so that the objects are asked for
    (tmp_path / "kernels.so").unlink()
    assert toy.compile(tmp_path / "kernels.so", *kernels).read_bytes() == first
    assert {file: file.read_bytes() for file in kept} == kept  # and they are whole again
    ctypes.CDLL(str(tmp_path / "kernels.so"))


@pytest.mark.parametrize("with_sums", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("kind", ["libraries", "objects"])
def test_files_that_were_swapped_are_not_taken_for_each_other(toy, tmp_path, kind, with_sums):
    """Their sha256 are swapped with them, or not."""
    one, two = (tmp_path / f"{name}.so" for name in "ab")
    first = [toy.compile(out, toy.kernel(out.stem, times=n)).read_bytes() for n, out in enumerate((one, two))]
    folder = open_cache().folder
    ends = {"libraries": ".so", "objects": ".o"}[kind]
    files = sorted((folder / kind).glob(f"*{ends}"))[:2]
    for add in ("", ".sha256") if with_sums else ("",):
        a, b = (file.with_name(file.name + add) for file in files)
        a.rename(folder / "x")
        b.rename(a)
        (folder / "x").rename(b)
    if kind == "objects":
        shutil.rmtree(folder / "libraries")
    for n, out in enumerate((one, two)):
        out.unlink()
        assert toy.compile(out, toy.kernel(out.stem, times=n)).read_bytes() == first[n]


def test_what_is_hashed_is_what_is_opened(toy, tmp_path, monkeypatch):
    """A file that changes right after it was verified changes nothing: its bytes were read once."""
    first = toy.compile(None, toy.kernel("a")).read_bytes()
    find = Cache.find

    def find_and_spoil(self, kind, key):
        data = find(self, kind, key)
        if data is not None:
            self._path(kind, key).write_bytes(b"\xcc" * len(data))
        return data

    monkeypatch.setattr(Cache, "find", find_and_spoil)
    path = toy.compile(None, toy.kernel("a"))
    assert path.read_bytes() == first
    assert not path.is_relative_to(open_cache().folder)
    assert toy.compile(tmp_path / "a.so", toy.kernel("a")).exists()


def test_a_file_without_its_sha256_or_behind_a_link_is_not_found(cache, tmp_path):
    cache.keep("objects", "k", b"data")
    assert cache.find("objects", "k") == b"data"
    path = cache.folder / "objects" / "k.o"
    shutil.move(path, tmp_path / "elsewhere.o")
    path.symlink_to(tmp_path / "elsewhere.o")
    assert cache.find("objects", "k") is None
    path.unlink()
    shutil.move(tmp_path / "elsewhere.o", path)
    path.with_name("k.o.sha256").unlink()
    assert cache.find("objects", "k") is None
    cache.keep("objects", "k", b"data")
    path.chmod(0o666)  # others could have written to it
    assert cache.find("objects", "k") is None


# ------------------------------------------------------------------------------------------------ folders
def test_its_folders_are_the_users_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        with config(CACHE_DIR=str(tmp_path / "a" / "b")):
            made = open_cache().folder
            open_cache().keep("objects", "k", b"data")
    finally:
        os.umask(before)
    assert made == tmp_path / "a" / "b"
    assert {
        stat.S_IMODE(p.stat().st_mode)
        for p in (tmp_path / "a", *tmp_path.joinpath("a").rglob("*"))
        if p.is_dir()
    } == {0o700}
    assert stat.S_IMODE((made / "objects" / "k.o").stat().st_mode) & 0o077 == 0


def refused(folder, match: str) -> None:
    """The folder is not used, a warning says why, and what is compiled is kept elsewhere."""
    with config(CACHE_DIR=str(folder)):
        with pytest.warns(UserWarning, match=match):
            used = open_cache()
        assert not used.folder.is_relative_to(folder)
        assert folders.why_not_private(used.folder) == ""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert open_cache() == used  # said once
        used.keep("objects", "k", b"data")
        assert used.find("objects", "k") == b"data"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, mode):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    refused(folder, re.escape(f"mode {mode:04o}: chmod go-w {folder}"))
    folder.chmod(0o755)  # others may look at it: that is no danger
    with config(CACHE_DIR=str(folder)):
        assert open_cache().folder == folder


def test_a_folder_inside_that_others_may_write_to_is_not_used(tmp_path):
    (tmp_path / "kept" / "objects").mkdir(parents=True)
    (tmp_path / "kept" / "objects").chmod(0o777)
    refused(tmp_path / "kept", "its folder objects may be written to by others")


def test_a_way_on_which_others_may_put_another_folder_is_not_used(tmp_path):
    parent = tmp_path / "shared"
    (parent / "mine").mkdir(parents=True, mode=0o700)
    parent.chmod(0o777)
    refused(parent / "mine", "shared, on the way to it, may be written to by others")
    (tmp_path / "link").symlink_to(parent / "mine")
    refused(tmp_path / "link", "shared, on the way to it")
    parent.chmod(0o1777)  # as /tmp: others may not rename it
    with config(CACHE_DIR=str(parent / "mine")):
        assert open_cache().folder == parent / "mine"


_PLANT = """
import os, sys
from pathlib import Path
from graph_runtime.codegen.cache import Cache
code = Path(sys.argv[3]).read_bytes()
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))                            # the other user from here on
cache = Cache(Path(sys.argv[2]))
for kind, key in zip(sys.argv[4::2], sys.argv[5::2]):
    os.makedirs(cache.folder / kind, exist_ok=True)
    cache.keep(kind, key, code)
"""


@needs_root
@pytest.mark.parametrize("way", ["their folder", "our folder, open to all", "our folder, closed again"])
def test_a_cache_that_another_user_planted_is_not_used(toy, tmp_path, way):
    """Right names, right sha256, and code that would end the process: none of it is linked or opened."""
    kernels, out = [toy.kernel("a")], tmp_path / "kernels.so"
    first = toy.compile(out, *kernels).read_bytes()
    bad = tmp_path / "bad.so"
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", bad], input=source, text=True, check=True)
    planted = tmp_path / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    arguments = []
    for kind in ("libraries", "objects"):
        for file in (open_cache().folder / kind).iterdir():
            if file.suffix in (".so", ".o"):
                arguments += [kind, file.stem]
    for place in (tmp_path, *tmp_path.parents):  # the other user comes this far
        if not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o011)
    subprocess.run([sys.executable, "-c", _PLANT, str(OTHER), str(planted), str(bad), *arguments], check=True)
    if way == "their folder":
        os.chown(planted, OTHER, OTHER)
    planted.chmod(0o777 if way == "our folder, open to all" else 0o755)
    out.unlink()
    text = "belongs to user 12345" if "open" not in way else "may be written to by others"
    with config(CACHE_DIR=str(planted)), pytest.warns(UserWarning, match=text):
        assert toy.compile(out, *kernels).read_bytes() == first
    if way == "our folder, closed again":  # even inside of folders that are ours
        for kind in ("libraries", "objects"):
            os.chown(planted / kind, 0, 0)
        with config(CACHE_DIR=str(planted)):
            out.unlink()
            assert toy.compile(out, *kernels).read_bytes() == first
            assert all(p.stat().st_uid == 0 for p in planted.rglob("*"))


def test_a_cache_that_cannot_be_made_is_an_error_that_names_the_setting(tmp_path):
    (tmp_path / "file").write_text("")
    with config(CACHE_DIR=str(tmp_path / "file" / "x")), pytest.raises(WriteError, match="GR_CACHE_DIR") as e:
        open_cache()
    assert isinstance(e.value, OSError)
    assert e.value.got == str(tmp_path / "file" / "x")


@pytest.mark.core
@pytest.mark.parametrize("home", ["/proc", "/dev/null", "a file", "read only"])
def test_a_home_that_cannot_be_written_keeps_what_is_compiled_for_this_process(home, tmp_path, monkeypatch):
    """build_bundle goes on, as commands do that compile nothing."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    kept = {}
    if home == "a file":
        home = str(tmp_path / "file")
        (tmp_path / "file").write_text("")
    if home == "read only":
        home = str(tmp_path / "home")
        monkeypatch.setenv("HOME", home)
        with config(CACHE_DIR=""):
            open_cache().keep("objects", "k", b"data")
        kept = {"k": b"data"}
        monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(home))
    monkeypatch.setenv("HOME", home)
    b = gr.GraphBuilder()
    b.output(b.op("relu", b.input("x", (2,))))
    with config(CACHE_DIR="", TRUST_DIR=str(tmp_path / "trust")):
        cache_module._warned.clear()
        with pytest.warns(UserWarning, match=r"GR_CACHE_DIR chooses .* kept until this process ends"):
            bundle = gr.build_bundle(b.build(), "cpu:0", tmp_path / "bundle", compile=True)
        assert (bundle / "kernels.so").exists()
        for key, data in kept.items():  # what only may be read is read
            assert open_cache().find("objects", key) == data


# ------------------------------------------------------------------------------------------------ pruning
def test_it_forgets_by_age_and_by_size(cache):
    now = time.time()
    for age in range(10):
        cache.keep("objects", f"k{age}", bytes(100_000))
        os.utime(cache.folder / "objects" / f"k{age}.o", (now - age * 86400 - 60,) * 2)
    assert cache.prune(days=0) == []
    gone = cache.prune(days=7)
    assert sorted(entry.path.name for entry in gone) == ["k7.o", "k8.o", "k9.o"]
    with config(CACHE_DAYS=5):
        assert sorted(entry.path.name for entry in cache.prune()) == ["k5.o", "k6.o"]
    assert sorted(entry.path.name for entry in cache.prune(megabytes=0.3)) == ["k2.o", "k3.o", "k4.o"]
    assert sorted(p.name for p in (cache.folder / "objects").iterdir()) == [
        "k0.o",
        "k0.o.sha256",
        "k1.o",
        "k1.o.sha256",
    ]


@pytest.mark.core
def test_the_command_shows_prunes_and_clears(cache, capsys):
    def command(*args: str) -> dict:
        with pytest.raises(SystemExit) as stopped:
            main(["cache", *args, "--json"])
        assert not stopped.value.code
        return json.loads(capsys.readouterr().out)

    cache.keep("libraries", "a", bytes(1000))
    for key in "bc":
        cache.keep("objects", key, bytes(500))
    os.utime(cache.folder / "objects" / "b.o", (time.time() - 3 * 86400,) * 2)
    cache.times.write_text("{}")
    shown = command()
    assert shown["folder"] == str(cache.folder)
    assert shown["entries"] == 4
    assert shown["kinds"]["objects"]["entries"] == 2
    assert 1000 < shown["kinds"]["objects"]["bytes"] < 1300
    assert 3 * 86400 <= shown["kinds"]["objects"]["oldest_seconds"] < 3 * 86400 + 600
    assert shown["kinds"]["objects"]["newest_seconds"] < 600
    pruned = command("prune", "--days", "2")
    assert pruned["deleted"]["entries"] == 1
    assert pruned["kinds"]["objects"]["entries"] == 1
    with pytest.raises(SystemExit):
        main(["cache"])
    text = capsys.readouterr().out
    assert "libraries" in text
    assert "1 entry" in text
    cleared = command("clear")
    assert (cleared["deleted"]["entries"], cleared["entries"], cleared["bytes"]) == (3, 0, 0)
    assert not any(p.is_file() for p in cache.folder.rglob("*"))


@pytest.mark.core
def test_the_command_makes_no_folder_and_takes_no_nonsense(tmp_path, capsys):
    with config(CACHE_DIR=str(tmp_path / "none")):
        for args, code in (
            (["cache"], 0),
            (["cache", "clear"], 0),
            (["cache", "prune", "--days", "-1"], 2),
            (["cache", "--days", "1"], 2),
            (["cache", "burn"], 2),
        ):
            with pytest.raises(SystemExit) as stopped:
                main(args)
            assert (stopped.value.code or 0) == code, args
    assert not (tmp_path / "none").exists()
    assert "error: " in capsys.readouterr().err


_CLEARER = """
import sys
import threading
from graph_runtime.codegen.cache import open_cache
sys.stdin.readline()
while True:
    open_cache().clear()
"""


def test_a_cache_that_is_cleared_all_the_time_is_no_error(toy, tmp_path):
    kernels = [toy.kernel(f"k{i}") for i in range(3)]
    first = toy.compile(tmp_path / "kernels.so", *kernels).read_bytes()
    env = {**os.environ, "GR_CACHE_DIR": str(open_cache().folder)}
    with subprocess.Popen([sys.executable, "-c", _CLEARER], env=env, stdin=subprocess.PIPE) as clearer:
        clearer.stdin.write(b"\n")
        clearer.stdin.flush()
        try:
            for _ in range(4):
                assert toy.compile(tmp_path / "kernels.so", *kernels).read_bytes() == first
        finally:
            clearer.kill()


def test_threads_that_keep_and_find_one_key_see_whole_files_only(cache):
    contents = [bytes([n]) * 50_000 for n in range(4)]

    def work(n: int) -> None:
        for _ in range(50):
            cache.keep("objects", "k", contents[n])
            assert cache.find("objects", "k") in (None, *contents)

    with CommandPool(4) as running:
        for step in [running.submit(work, n) for n in range(4)]:
            step.result()


def test_a_unit_that_several_builds_want_is_compiled_by_one(toy, tmp_path, monkeypatch):
    compiled = []
    compile_one = shared_library._Build._compiled

    def counted(build, name, *rest):
        compiled.append(name)
        return compile_one(build, name, *rest)

    monkeypatch.setattr(shared_library._Build, "_compiled", counted)
    kernels = [toy.kernel(f"k{i}") for i in range(3)]
    with config(CACHE_DIR=str(tmp_path / "kept")), CommandPool(4) as running:
        steps = [running.submit(toy.compile, tmp_path / f"{n}" / "kernels.so", *kernels) for n in range(4)]
        made = {step.result().read_bytes() for step in steps}
    assert len(made) == 1
    assert len(compiled) == len(set(compiled)) > 0


def test_a_lock_that_is_held_ends_no_build_that_stops(cache):
    held, stopped, entered = threading.Event(), threading.Event(), threading.Event()

    def hold():
        with cache.alone("objects", "k", lambda: False):
            held.set()
            stopped.wait(30)

    def want():
        with cache.alone("objects", "k", stopped.is_set):
            entered.set()

    with CommandPool(2) as running:
        first = running.submit(hold)
        assert held.wait(30)
        second = running.submit(want)
        assert not entered.wait(0.2)
        stopped.set()
        second.result()
        first.result()
    assert entered.is_set()


def test_without_locks_a_build_goes_on(cache):
    cache.folder.mkdir(parents=True, exist_ok=True)
    (cache.folder / "locks").write_text("no folder")
    with cache.alone("objects", "k", lambda: False):
        pass
