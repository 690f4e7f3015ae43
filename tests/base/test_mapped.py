"""Files that are no regular files are refused at once, and a mapped file that is cut short is explained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime import GraphBuilder
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.files.mapped import map_file, open_file
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.params import save_params

pytestmark = pytest.mark.core


def other_files(folder):
    """A pipe, a device, a folder and a socket."""
    os.mkfifo(folder / "pipe.json")
    os.mknod(folder / "socket.json", 0o600 | 0o140000)
    (folder / "folder.json").mkdir()
    return [folder / "pipe.json", "/dev/zero", folder / "folder.json", folder / "socket.json"]


READERS = {
    "graph": load_graph,
    "create": gr.create,
    "params": read_params,
    "bundle": gr.load,
    "library": lambda path: gr.load_module(path),
    "tensor": lambda path: __import__("graph_runtime.runtime").runtime.load_tensor(path),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused_at_once(reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in other_files(tmp_path):
        name = str(path).rsplit("/", 1)[-1] if path != "/dev/zero" else path
        with pytest.raises(gr.GraphRuntimeError, match=name):
            READERS[reader](name)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        *(
            pytest.param(command, marks=pytest.mark.slow)
            for command in (["plan"], ["inspect"], ["verify"], ["estimate"], ["compile", "-o", "x.bundle"])
        ),
    ],
)
def test_no_command_waits_for_a_pipe(command, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    os.mkfifo(tmp_path / "pipe.onnx")
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe.json", "pipe.onnx", "pipe"):
        done = subprocess.run(
            [sys.executable, "-m", "graph_runtime.cli", command[0], name, *command[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode not in (0, -signal.SIGALRM)
        assert "Traceback" not in done.stderr


@pytest.mark.timeout(20)
def test_a_pipe_inside_of_a_bundle_is_refused(tmp_path):
    path = bundle(tmp_path)
    for name in ("params.bin", "main.plan", "bundle.json"):
        (path / name).rename(tmp_path / "kept")
        os.mkfifo(path / name)
        with pytest.raises(gr.GraphRuntimeError):
            gr.load(path)
        (path / name).unlink()
        (tmp_path / "kept").rename(path / name)
    gr.load(path)


# ---------------------------------------------------------------- files that are cut


def bundle(folder):
    b = GraphBuilder()
    x = b.input("x", (1, 4096))
    first = b.param("first", np.ones((256, 4096), np.float32))
    second = b.param("second", np.full((256, 256), 2.0, np.float32))
    b.output(b.op("dense", b.op("dense", x, first), second))
    return build_bundle(b, "cpu:0", folder / "net.bundle", compile=False, fuse=False)


CUT = """
    import os, sys
    import faulthandler
    import numpy as np
    import graph_runtime as gr
    {before}
    module = gr.load(sys.argv[1]{option})
    {after}
    os.truncate(sys.argv[1] + "/params.bin", {size})
    module.run(x=np.ones((1, 4096), np.float32))
    print(module.get_output(0).numpy()[0, 0])
"""


def cut(path, size=0, option="", before="", after="", **env):
    script = textwrap.dedent(CUT).format(size=size, option=option, before=before, after=after)
    return subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("size", "tensor"), [(0, "first"), (4096 * 256 * 4, "second")])
def test_the_fault_of_a_file_that_was_cut_names_file_and_tensor(tmp_path, size, tensor, threads):
    done = cut(bundle(tmp_path), size, GR_NUM_THREADS=threads)
    assert done.returncode == -signal.SIGBUS
    assert "params.bin was cut short while it was in use: byte " in done.stderr
    assert threads == "2" or f" byte {size} " in done.stderr  # of two threads either may fault first
    assert f"of tensor {tensor} " in done.stderr
    assert all(line.startswith("graph_runtime: ") for line in done.stderr.splitlines())


@pytest.mark.parametrize(("before", "after"), [("faulthandler.enable()", ""), ("", "faulthandler.enable()")])
def test_faulthandler_still_shows_where_python_was(tmp_path, before, after):
    done = cut(bundle(tmp_path), before=before, after=after)
    assert done.returncode == -signal.SIGBUS
    assert "of tensor first " in done.stderr
    assert "Fatal Python error: Bus error" in done.stderr
    assert 'File "<string>"' in done.stderr


def test_a_signal_that_is_sent_ends_the_process_as_ever(tmp_path):
    done = cut(bundle(tmp_path), after="os.kill(os.getpid(), 7)")
    assert done.returncode == -signal.SIGBUS
    assert not done.stderr


@pytest.mark.parametrize(("option", "env"), [(', verify="full"', {}), ("", {"GR_MAP": "0"})])
def test_what_was_read_and_not_mapped_stays_right(tmp_path, option, env):
    done = cut(bundle(tmp_path), option=option, **env)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 4096 * 256 * 2


def test_a_bundle_that_is_verified_refuses_a_changed_parameter(tmp_path):
    path = bundle(tmp_path)
    data = bytearray((path / "params.bin").read_bytes())
    data[100] ^= 1
    (path / "params.bin").write_bytes(data)
    gr.load(path)
    with pytest.raises(gr.ParamsError, match="was changed"):
        gr.load(path, verify="full")
    with pytest.raises(gr.InputError, match="'quick' or 'full'"):
        read_bundle(path, verify="all")


def test_parameters_of_other_files_are_named_too(tmp_path):
    file = tmp_path / "w.params"
    save_params({"a": np.ones(100_000, np.float32), "b": np.ones(100_000, np.float32)}, file)
    script = textwrap.dedent("""
        import os, sys
        import graph_runtime as gr
        from graph_runtime.binding import core
        from graph_runtime.artifacts.prepare import read_params
        found = read_params(sys.argv[1])
        os.truncate(sys.argv[1], 8192)
        found["b"].sum()
    """)
    done = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGBUS
    assert "w.params was cut short" in done.stderr
    assert "of tensor b " in done.stderr


def test_what_is_no_longer_mapped_is_forgotten(tmp_path):
    from graph_runtime.base.files import mapped

    (tmp_path / "f").write_bytes(bytes(10_000))
    before = len(mapped._known)
    view = map_file(tmp_path / "f", 100, 5000)
    assert len(view) == 5000
    assert len(mapped._known) == before + 1
    del view
    assert len(mapped._known) == before
    with open_file(tmp_path / "f") as file:
        assert len(file.read()) == 10_000
