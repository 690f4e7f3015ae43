"""Every file that a command or a call writes, where the disk is full (a file system of 1 MB), a limit of file
sizes is reached, or a quota is used up: one line that says so, no half-written file, what was there stays."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle
from graph_runtime.codegen.cache import open_cache

import graph_runtime as gr
from graph_runtime.artifacts.bundles import writer
from graph_runtime.base.config import config
from graph_runtime.base.errors import WriteError
from graph_runtime.compat.tvm_files.dump import DebugDump
from graph_runtime.compat.tvm_files.export import export
from graph_runtime.ir.documents.params import save_params
from graph_runtime.run.tuning import Tuner

BIG = 1 << 19  # float32 values of a parameter: 2 MB
COMMANDS = {
    "plan": ["plan", "GRAPH", "-o", "OUT/planned.json"],
    "plan dot": ["plan", "GRAPH", "-o", "OUT/planned.dot"],
    "plan html": ["plan", "GRAPH", "--html", "OUT/plan.html"],
    "estimate html": ["estimate", "GRAPH", "--html", "OUT/estimate.html"],
    "view": ["view", "GRAPH", "-o", "OUT/view.html"],
    "estimate trace": ["estimate", "GRAPH", "--trace", "OUT/estimate.json"],
    "run npz": ["run", "GRAPH", "--params", "PARAMS", "--input", "x=random", "-o", "OUT/y.npz"],
    "run trace": ["run", "GRAPH", "--params", "PARAMS", "--input", "x=random", "--trace", "OUT/trace.json"],
    "compile": ["compile", "GRAPH", "--params", "PARAMS", "-o", "OUT/net.bundle"],
    "compile zip": ["compile", "GRAPH", "--params", "PARAMS", "-o", "OUT/net.zip"],
    "export": ["export", "GRAPH", "--params", "PARAMS", "-o", "OUT/deploy"],
}


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """(graph.json of many nodes and a large parameter, its parameters)"""
    folder = tmp_path_factory.mktemp("net")
    builder = gr.GraphBuilder()
    x, w = builder.input("x", (BIG,)), builder.input("w", (BIG,))
    y = builder.op("add", x, w)
    for _ in range(12):
        y = builder.op("relu", builder.op("add", y, w))
    builder.output(y)
    (folder / "graph.json").write_text(builder.to_json())
    save_params({"w": np.ones(BIG, np.float32)}, folder / "params.bin")
    return folder / "graph.json", folder / "params.bin"


@pytest.fixture
def full(tmp_path):
    """A file system of 1 MB with a few hundred bytes left."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    folder = tmp_path / "full"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    with (folder / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def snapshot(folder: Path) -> dict[str, str]:
    """Files, hidden ones too, and a hash of each; without a cache's locks, which have no bytes and stay."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file() and not (p.parent.name == "locks" and not p.stat().st_size)
    }


def command(name: str, net, out: Path, cache: str, limit: str = "") -> subprocess.CompletedProcess[str]:
    words = {"GRAPH": str(net[0]), "PARAMS": str(net[1])}
    args = [words.get(word, word).replace("OUT/", f"{out}/") for word in COMMANDS[name]]
    code = f"{limit}\nfrom graph_runtime.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "GR_CACHE_DIR": cache},
    )


def require_one_line(done: subprocess.CompletedProcess[str], says: str) -> None:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    assert says in lines[0]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("plan", "run npz", "compile") else pytest.param(name, marks=pytest.mark.slow)
        for name in COMMANDS
    ],
)
def test_a_command_on_a_full_disk(name, net, full, kernel_cache):
    fill(full)
    before = snapshot(full)
    done = command(name, net, full, kernel_cache)
    require_one_line(done, "No space left on device; free some of it, or choose another place")
    assert snapshot(full) == before


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))"


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", [name if name == "plan" else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_a_command_that_may_write_small_files_only(name, net, tmp_path, kernel_cache):
    """SIGXFSZ ends no process of ours, and the file that was there before stays."""
    command(name, net, tmp_path / "warm", kernel_cache)  # so that no compiler is needed
    out = tmp_path / "out"
    out.mkdir()
    target = out / COMMANDS[name][-1].removeprefix("OUT/")
    if target.suffix in (".json", ".dot", ".html", ".npz"):
        target.write_text("before")
    before = snapshot(out)
    require_one_line(command(name, net, out, kernel_cache, LIMIT), "ulimit -f")
    assert snapshot(out) == before


def test_a_cache_on_a_full_disk(net, full, tmp_path):
    fill(full)
    done = command("compile", net, tmp_path, str(full))
    require_one_line(done, "GR_CACHE_DIR")
    assert sorted(snapshot(full)) == ["ballast"]
    assert snapshot(tmp_path / "net.bundle") == {} if (tmp_path / "net.bundle").exists() else True


@pytest.mark.slow
def test_a_cache_that_is_full_before_the_end(net, full, tmp_path):
    """The compiler finds no room, or the library does not: what is kept is whole."""
    for left in (40, 80, 160, 320, 640):
        (full / "ballast").write_bytes(bytes((1024 - left) * 1024))
        done = command("compile", net, tmp_path / str(left), str(full / f"cache{left}"))
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr
        assert (tmp_path / str(left) / "net.bundle").exists() == (done.returncode == 0)
        with config(CACHE_DIR=str(full / f"cache{left}")):
            kept = open_cache()
            for entry in kept.entries():
                assert entry.kind in ("libraries", "objects"), entry
                assert kept.find(entry.kind, entry.path.stem) is not None, entry
        (full / "ballast").unlink()
        subprocess.run(["rm", "-rf", full / f"cache{left}"], check=True)


def test_a_quota_that_is_used_up_in_the_midst_of_a_bundle(net, tmp_path, monkeypatch, kernel_cache):
    written = writer._Hashed.write

    def no_more(self, data):
        if self.count > 1 << 20:
            with writer.told(self._path):
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return written(self, data)

    monkeypatch.setattr(writer, "_CHUNK", 1 << 16)
    monkeypatch.setattr(writer._Hashed, "write", no_more)
    values = {"w": np.ones(BIG, np.float32), "v": np.ones(BIG, np.float32)}
    builder = gr.GraphBuilder()
    builder.output(builder.op("add", builder.input("w", (BIG,)), builder.input("v", (BIG,))))
    with config(CACHE_DIR=kernel_cache):
        for name in ("net.bundle", "net.zip"):
            with pytest.raises(WriteError, match="quota exceeded; delete files that count to it") as caught:
                build_bundle(builder, "cpu:0", tmp_path / name, params=values)
            assert caught.value.errno == errno.EDQUOT
    assert list(tmp_path.iterdir()) == []


def test_the_calls_that_write_without_a_command(net, full, tmp_path):
    """Measured times of kernels, TVM's debugger files, an exported folder."""
    fill(full)
    before = snapshot(full)
    graph = gr.load_graph(net[0])
    with pytest.raises(WriteError, match="No space left"):
        export(graph, full / "deploy", params={"w": np.ones(BIG, np.float32)})
    with pytest.raises(WriteError, match="No space left"):
        DebugDump(net[0].read_bytes(), gr.cpu(0), full)
    tuner = Tuner(full / "kernels.json")
    tuner.times = {"k" * 100_000: 1.0}
    with pytest.raises(WriteError, match="No space left"):
        tuner._write()
    assert snapshot(full) == before
