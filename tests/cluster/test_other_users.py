"""Another user of the machine, while models are served and graphs are on nodes: nothing that this user's
processes have made is theirs to read, write, rename or connect to. Also, what a killed server leaves.

Needs the extra ``cluster``, and root, to be the other user. In .ci/run it is no skip where that is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import graph_runtime as gr

pytestmark = [pytest.mark.slow, pytest.mark.timeout(170)]
STRANGER = {"user": 1001, "group": 1001, "extra_groups": []}

# what the other user gets out of paths: {path: what it could do}
ATTACK = r"""
import json, os, socket, stat, sys
def tried(path):
    yield "read", lambda: os.close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    yield "write", lambda: os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    yield "make", lambda: os.symlink("/etc/passwd", os.path.join(path, "planted"))
    yield "connect", lambda: socket.socket(socket.AF_UNIX).connect(path)
    yield "rename", lambda: os.rename(path, path + ".taken")
found = {}
for path in json.load(sys.stdin):
    for name, way in tried(path):
        try:
            way()
        except OSError:
            continue
        found.setdefault(path, []).append(name)
print(json.dumps(found))
"""
GRAPH = """
import sys
import graph_runtime as gr
words = {"nodes": 2, "cores": 1} if sys.argv[1] == "local" else {}
with gr.cluster.connect(sys.argv[1], **words) as cluster:
    builder = gr.GraphBuilder()
    builder.output(builder.op("tanh", builder.input("x", (1, 4))))
    cluster.create(builder, [f"{cluster.nodes[-1]}/cpu:0"]).run(x=[[1.0, 2.0, 3.0, 4.0]])
    print("ready", flush=True)
    sys.stdin.read()
"""


def need_root() -> None:
    why = "" if os.geteuid() == 0 else "to be another user needs root"
    why = why or ("" if find_spec("ray") else "the extra cluster is not installed")
    if why:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary files as /tmp is: everybody's, and short, since sockets are in it."""
    made = Path("/tmp", f"gr{secrets.token_hex(2)}")
    made.mkdir()
    made.chmod(0o1777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def started(place: Path, word: str, *command: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this project, which has said a word."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environ |= {"TMPDIR": str(place), "GR_CACHE_DIR": str(place / "cache"), **more}
    log = place / f"{time.monotonic_ns()}.log"
    with log.open("wb") as file:
        log.chmod(0o600)
        made = subprocess.Popen(
            [sys.executable, *command], env=environ, stdin=subprocess.PIPE, stdout=file, stderr=file
        )
    try:
        end = time.monotonic() + 120
        while not re.search(word, log.read_text()):
            assert made.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield made
    finally:
        made.stdin.close()
        made.send_signal(signal.SIGINT)
        try:
            made.wait(60)
        finally:
            made.kill()


@contextlib.contextmanager
def serving(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    with contextlib.ExitStack() as stack:
        before = os.umask(0o077)
        stack.callback(os.umask, before)
        bundle = place / "net.bundle"
        builder = gr.GraphBuilder()
        builder.output(builder.op("tanh", builder.input("x", (1, 4))))
        gr.build_bundle({"run": builder}, "cpu:0", bundle, compile=False)
        bundle.chmod(0o700)
        os.umask(before)
        command = ("-m", "graph_runtime.cli", "serve", f"demo={bundle}", "--port", "0")
        yield stack.enter_context(started(place, "serving on", *command))


def gained(*paths: Path) -> dict[str, list[str]]:
    """What the other user can do with paths."""
    run = subprocess.run(
        ["/usr/bin/env", "python3", "-c", ATTACK],
        input=json.dumps(list(map(str, paths))).encode(),
        stdout=subprocess.PIPE,
        check=True,
        cwd="/",
        **STRANGER,
    )
    return json.loads(run.stdout)


def test_nothing_of_a_server_is_another_users(place):
    need_root()
    with serving(place):
        assert any(stat.S_ISSOCK(path.lstat().st_mode) for path in place.rglob("*"))
        assert gained(*place.rglob("*")) == {}
    assert not list(place.glob("graph_runtime*"))


def test_nothing_of_nodes_is_another_users(place):
    need_root()
    with started(place, "ready", "-c", GRAPH, "local"):
        assert any(path.name.startswith("raylet.") for path in place.rglob("*"))
        assert gained(*place.rglob("*")) == {}
    assert not list(place.glob("graph_runtime*"))


@contextlib.contextmanager
def ray_head(place: Path, folder: Path) -> Iterator[dict[str, str]]:
    """A Ray that ``ray start`` has started on loopback; the variables by which it is joined."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    words = ("--port=6399", "--node-ip-address=127.0.0.1", "--include-dashboard=false", "--num-cpus=2")
    head = ("-m", "ray.scripts.scripts", "start", "--head", "--block", f"--temp-dir={folder}", *words)
    with started(place, "Ray runtime started", *head, "--disable-usage-stats", **own):
        yield own


def test_a_ray_that_is_joined_is_closed_or_refused(place):
    """Its folder is open to all when it has started. Without a trace of another user it is closed."""
    need_root()
    with ray_head(place, place / "ray") as own:
        (logs,) = place.glob("ray/session_2*/logs")
        script = ("-c", GRAPH, "127.0.0.1:6399")
        assert "rename" in gained(logs / "old")[str(logs / "old")]
        (logs / "old.taken/planted").unlink()
        (logs / "old.taken").rename(logs / "old")
        with started(place, "ready", *script, **own):
            assert gained(*place.rglob("*")) == {}
        (place / "ray").chmod(0o777)
        assert "make" in gained(logs / "old")[str(logs / "old")]
        with started(place, "other users .*belongs to user 1001; start it with", *script, **own):
            pass


def test_what_a_killed_server_leaves_ends(place):
    """Its folders and Ray's processes, by a watcher; where that was killed, too, with the next server."""
    if find_spec("ray") is None:
        pytest.skip("the extra cluster is not installed")

    def users() -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                files = [os.readlink(file) for file in (process / "fd").iterdir()]
                if any(file.startswith(f"{place}/graph_runtime") for file in files):
                    found.append(int(process.name))
        return found

    def left() -> list[str]:
        end = time.monotonic() + 90  # beside other steps of the gate
        while (list(place.glob("graph_runtime*")) or users()) and time.monotonic() < end:
            time.sleep(0.1)
        folders = [str(path) for path in place.glob("graph_runtime*")]
        return folders + [Path(f"/proc/{pid}/cmdline").read_bytes().decode()[:200] for pid in users()]

    with serving(place) as server:
        assert len(users()) > 5
        server.kill()
        server.wait()
        assert not left()
    with serving(place) as server:
        watchers = [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if str(place).encode() in (text := (process / "cmdline").read_bytes()) and b"left_behind" in text
        ]
        for pid in [*watchers, server.pid]:
            os.kill(pid, signal.SIGKILL)
        server.wait()
    assert list(place.glob("graph_runtime*"))
    with serving(place):
        assert len(list(place.glob("graph_runtime*"))) == 1
    assert not left()
