"""Models served on Ray as a user does it: Triton's own client, replicas that are killed and paused under
load, a model replaced while it answers, a stranger at the door.

Needs the extra ``cluster`` and tritonclient[http].
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import cli

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from certificates import make_certificates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(170),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra cluster is not installed"),
]
SIZE = 64


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((SIZE, SIZE)).astype(np.float32) / 8


def make_bundle(path: Path, seed: int) -> None:
    def program(rows: int) -> gr.GraphBuilder:
        builder = gr.GraphBuilder()
        x, w = builder.input("x", (rows, SIZE)), builder.param("w", weights(seed))
        builder.output(builder.op("tanh", builder.op("matmul", x, w)))
        return builder

    gr.build_bundle({f"b{rows}": program(rows) for rows in (1, 4, 8)}, "cpu:0", path, compile=False)


def _processes() -> list[list[str]]:
    """[pid, parent's pid, command] of all."""
    done = subprocess.run(["ps", "-wweo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    return [line.split(None, 2) for line in done.stdout.splitlines()[1:]]


class Server:
    """A ``graph-runtime serve`` in a process of its own. ``lines``: what it has said."""

    def __init__(self, folder: Path, *arguments: str, **more: str):
        self.folder, self.log = folder, folder / "serve.log"
        environ = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | more
        command = [sys.executable, "-m", "graph_runtime.cli", "serve", *arguments, "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=folder)

    def wait_for(self, pattern: str, seconds: float = 60) -> str:
        """What the first group of a line is that it says."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.log.read_text()):
                return found[1]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        raise AssertionError(f"no {pattern} in {self.log.read_text()}")

    def replicas(self) -> list[int]:
        """The processes of its replicas: children of its own raylet."""
        raylet = self.raylet(r"^(\d+) ")
        found = [row for row in _processes() if row[1] == raylet and "ServeReplica:demo" in row[2]]
        return [int(pid) for pid, _, _ in found]

    def raylet(self, pattern: str) -> str:
        """The first group of a pattern in the line of Ray's process for this machine."""
        own = str(self.process.pid)
        (line,) = [" ".join(row) for row in _processes() if row[1] == own and "/raylet " in row[2]]
        return re.search(pattern, line)[1]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    make_bundle(folder / "net.bundle", 0)
    own = ("--replicas", "2", "--threads", "1", "--deadline", "60", "--trace", "served.json")
    made = Server(folder, "demo=net.bundle", *own)
    try:
        made.url = made.wait_for(r"serving on http://(\S+)", 90)
        yield made
        made.stop()
        assert made.process.returncode == 0, made.log.read_text()
        look_at_trace(json.loads((folder / "served.json").read_text()))
    finally:
        made.process.kill()


def look_at_trace(trace: dict) -> None:
    """Requests, runs of several replicas, and nodes of their sessions, with arrows from one to the other."""
    events = trace["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sum(name.startswith("replica, process") and "cpu:0" not in name for name in names.values()) > 1
    ends = {(e["id"], e["ph"]): names[e["pid"]] for e in events if e["ph"] in "sf"}
    kinds = {(ends[at, "s"].split(",")[0], ends[at, "f"].split(",")[0]) for at, phase in ends if phase == "s"}
    assert kinds >= {("front", "replica"), ("replica", "front"), ("replica", "replica")}
    assert any(e["ph"] == "X" and e["args"].get("op") == "matmul" for e in events)
    assert 0 < trace["otherData"]["clock_error_ns"] < 1e9


def ask(client, x: np.ndarray, binary: bool = True, headers: dict[str, str] | None = None) -> np.ndarray:
    import tritonclient.http as triton

    tensor = triton.InferInput("x", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    output = triton.InferRequestedOutput("tanh", binary_data=binary)
    said = client.infer("demo", [tensor], outputs=[output], request_id="q", headers=headers)
    return said.as_numpy("tanh")


class Load:
    """Threads that ask, and compare each answer: with the weights of any of ``seeds``. ``more``: of Triton's
    client."""

    def __init__(
        self,
        url: str,
        seeds: tuple[int, ...] = (0,),
        threads: int = 4,
        headers: dict[str, str] | None = None,
        **more,
    ):
        self._headers, self._more = headers or {}, more
        self.answers, self.errors, self.seconds = 0, [], []
        self.seen: set[int] = set()
        self._url, self._seeds, self._end = url, seeds, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        import tritonclient.http as triton

        words = {"connection_timeout": 90, "network_timeout": 90, **self._more}
        client = triton.InferenceServerClient(self._url, **words)
        rng = np.random.default_rng(seed)
        while not self._end.is_set():
            x = rng.standard_normal((int(rng.integers(1, 6)), SIZE)).astype(np.float32)
            begin = time.monotonic()
            try:
                got = ask(client, x, headers=dict(self._headers))  # which the client writes to
            except Exception as error:
                self.errors.append(repr(error))
                continue
            self.seconds.append(time.monotonic() - begin)
            right = [s for s in self._seeds if np.allclose(got, np.tanh(x @ weights(s)), 1e-4, 1e-5)]
            if len(right) != 1:
                self.errors.append(f"a wrong answer to {x.shape}")
            self.seen.update(right)
            self.answers += 1

    def wait_for_more(self, count: int) -> None:
        """Until so many more are answered."""
        wanted, end = self.answers + count, time.monotonic() + 60
        while self.answers < wanted:
            assert time.monotonic() < end, self.errors
            time.sleep(0.05)


def metric(url: str, name: str) -> float:
    text = urllib.request.urlopen(f"http://{url}/metrics", timeout=10).read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def test_tritons_client_works_as_it_is(server):
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.url)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("demo")
    assert client.get_server_metadata()["name"] == "graph_runtime"
    assert client.get_model_metadata("demo")["inputs"][0]["shape"] == [-1, SIZE]
    assert client.get_model_config("demo")["max_batch_size"] == 8
    assert client.get_model_repository_index()[0]["state"] == "READY"
    rng = np.random.default_rng(0)
    for rows in (1, 3, 8, 21):
        for binary in (True, False):
            x = rng.standard_normal((rows, SIZE)).astype(np.float32)
            np.testing.assert_allclose(ask(client, x, binary), np.tanh(x @ weights(0)), 1e-4, 1e-5)
    with pytest.raises(Exception, match="shape"):
        ask(client, np.zeros((1, 3), np.float32))


def test_status_of_another_process(server):
    command = [sys.executable, "-m", "graph_runtime.cli", "cluster", "status", "--url"]
    done = subprocess.run([*command, f"http://{server.url}", "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["models"][0]["rows"] == [1, 4, 8]
    assert [node["alive"] for node in found["nodes"]] == [True]
    done = subprocess.run([*command, "http://127.0.0.1:9"], capture_output=True, text=True)
    assert (done.returncode, "no server" in done.stderr) == (2, True)


def test_replicas_that_are_killed_lose_nothing(server):
    pytest.importorskip("tritonclient.http")
    rng, before, killed = np.random.default_rng(7), metric(server.url, "gr_replays_total"), 0
    with Load(server.url) as load:
        for _ in range(3):
            load.wait_for_more(50)
            if found := server.replicas():  # else both are being replaced
                os.kill(int(rng.choice(found)), signal.SIGKILL)
                killed += 1
        load.wait_for_more(50)
    assert killed > 1
    assert load.errors == []
    assert load.answers > 20
    assert max(load.seconds) < 60
    assert metric(server.url, "gr_replays_total") > before


def test_a_replica_that_is_paused_delays_nothing_beyond_the_deadline(server):
    pytest.importorskip("tritonclient.http")
    wait_for_replicas(server, 2)
    with Load(server.url) as load:
        load.wait_for_more(20)
        paused = server.replicas()[0]
        os.kill(paused, signal.SIGSTOP)
        time.sleep(5)  # longer than a replica is silent before its requests run elsewhere
        with contextlib.suppress(ProcessLookupError):  # Ray Serve has put another in its place
            os.kill(paused, signal.SIGCONT)
        load.wait_for_more(20)
    assert load.errors == []
    assert load.answers > 20
    assert max(load.seconds) < 60


def wait_for_replicas(server: Server, count: int) -> None:
    end = time.monotonic() + 60
    while len(server.replicas()) != count and time.monotonic() < end:
        time.sleep(0.5)
    assert len(server.replicas()) == count


def test_a_model_is_replaced_while_it_answers(server):
    pytest.importorskip("tritonclient.http")
    with Load(server.url, seeds=(0, 1)) as load:
        make_bundle(server.folder / "net.bundle", 1)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("(is now)")
        load.wait_for_more(20)
    assert load.errors == []
    assert load.seen == {0, 1}
    with Load(server.url, seeds=(1,), threads=1) as load:
        load.wait_for_more(5)
    assert load.errors == []
    (server.folder / "net.bundle" / "bundle.json").write_text("{")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("(is not replaced)")
    with Load(server.url, seeds=(1,), threads=1) as load:
        load.wait_for_more(5)
    assert load.errors == []


def listening(pids: set[str]) -> set[tuple[str, str]]:
    """(command, address as /proc/net has it) of the sockets on which processes listen."""
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == "0A":
                sockets[f"socket:[{row[9]}]"] = row[1].rpartition(":")[0]
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            name = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")[0].decode()
            held = {os.readlink(file) for file in Path("/proc", pid, "fd").iterdir()}
            found |= {(name, sockets[one]) for one in held & sockets.keys()}
    return found


def test_nothing_listens_but_on_loopback(server):
    """HTTP, and all of Ray's processes."""
    rows, own = _processes(), {str(server.process.pid)}
    while more := {pid for pid, parent, _ in rows if parent in own} - own:
        own |= more
    found = listening(own)
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert len(found) > 5
    assert {one for one in found if one[1] not in loopback} == set()


def test_a_stranger_without_the_token_is_refused(server):
    """Another user of this machine reaches Ray: its token is what keeps them out."""
    address = server.raylet(r"--gcs-address=(\S+)")
    program = f"import ray; ray.init(address={address!r}, log_to_driver=False); print('let in')"
    ways = ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64})
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    clean["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # as the server's Ray: else it looks for another node
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    tried = [subprocess.Popen(command, env=clean | own, stdout=pipe, stderr=pipe, text=True) for own in ways]
    for process in tried:
        out, err = process.communicate(timeout=120)
        assert process.returncode != 0
        assert "let in" not in out
        assert re.search("[Aa]uthenticat|token", err), err[-500:]


def test_another_server_of_the_same_ray_serves_a_model_of_that_name(server, tmp_path):
    """Ray's address and token are all that it is told; each goes on when the other ends."""
    pytest.importorskip("tritonclient.http")
    make_bundle(tmp_path / "net.bundle", 3)
    raylet = server.raylet(r"^(\d+) ")
    row = [one for one in Path("/proc", raylet, "environ").read_text().split("\0") if "AUTH_TOKEN=" in one]
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": row[0].partition("=")[2]}
    own["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # as the server's Ray: else it looks for another node
    address = server.raylet(r"--gcs-address=(\S+)")
    other = Server(tmp_path, "demo=net.bundle", "--threads", "1", "--address", address, **own)
    try:
        url = other.wait_for(r"serving on http://(\S+)", 90)
        with Load(url, seeds=(3,), threads=1) as theirs, Load(server.url, seeds=(1,), threads=1) as ours:
            theirs.wait_for_more(5)
            ours.wait_for_more(5)
        assert (theirs.errors, ours.errors) == ([], [])
        other.stop()
        assert other.process.returncode == 0, other.log.read_text()
        with Load(server.url, seeds=(1,), threads=1) as ours:
            ours.wait_for_more(5)
        assert ours.errors == []
    finally:
        other.process.kill()


def test_a_word_that_nobody_knows_is_answered_by_the_one_that_was_meant(tmp_path, capsys):
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (32, 32))))
    (tmp_path / "graph.json").write_text(builder.to_json())
    with pytest.raises(SystemExit) as stopped:
        cli.main(["serve", str(tmp_path / "graph.json"), "--placement", "mincutt"])
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert not out, "nothing is printed before words are judged"
    assert "id you mean 'mincut'?" in err
    assert "heft" in err.split("there are: ")[1]


def test_what_is_open_to_others_does_not_start(tmp_path):
    make_bundle(tmp_path / "net.bundle", 0)
    command = [sys.executable, "-m", "graph_runtime.cli", "serve", "net.bundle", "--port", "0"]
    for more in (["--host", "0.0.0.0"], ["--address", "192.0.2.1:6379"]):
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 2
        assert "RAY_AUTH_MODE=token" in done.stderr


def test_requests_that_are_none_get_a_reason(server):
    url = f"http://{server.url}/v2/models/demo/infer"
    for body in (b"", b"{", b'{"inputs": []}', b"\0" * 100):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(urllib.request.Request(url, body), timeout=10)
        assert error.value.code == 400
        assert json.loads(error.value.read())["error"]


@pytest.fixture
def secrets(tmp_path) -> dict[str, str]:
    """The environment of a cluster with Ray's token and TLS: an authority, a certificate of it, a token."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")

    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[:1]
    certificate, key, authority = make_certificates(tmp_path, *own)
    (tmp_path / "token").write_text("0123456789abcdef" * 4)
    (tmp_path / "token").chmod(0o600)
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": certificate,
        "RAY_TLS_SERVER_KEY": key,
        "RAY_TLS_CA_CERT": authority,
    }


def test_a_host_that_others_reach_is_https_with_a_token(tmp_path, secrets):
    """With --replicas auto: one at first, more while batches wait, one again; no request is lost on the
    way."""
    pytest.importorskip("tritonclient.http")
    make_bundle(tmp_path / "net.bundle", 0)
    own = ("--host", "0.0.0.0", "--replicas", "auto", "--threads", "1")
    server = Server(tmp_path, "demo=net.bundle", *own, **secrets)
    try:
        port = server.wait_for(r"serving on https://0.0.0.0:(\d+)", 100)
        trusting = ssl.create_default_context(cafile=secrets["RAY_TLS_CA_CERT"])
        url = f"https://localhost:{port}/v2/models/demo"
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(url, timeout=20, context=trusting)
        assert error.value.code == 401
        error.value.close()
        bearer = {"Authorization": "Bearer " + "0123456789abcdef" * 4}
        assert get(url, bearer, trusting)["name"] == "demo"
        with socket.create_connection(("localhost", int(port)), 20) as raw, pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(raw, server_hostname="localhost")
        command = [sys.executable, "-m", "graph_runtime.cli", "cluster", "status", "--url"]
        command.append(f"https://localhost:{port}")
        done = subprocess.run(command, env=os.environ | secrets, capture_output=True, text=True)
        assert "demo" in done.stdout, done.stderr
        follow_the_load(port, bearer, trusting, secrets["RAY_TLS_CA_CERT"])
        server.stop()
    finally:
        server.process.kill()


def get(url: str, headers: dict[str, str], context: ssl.SSLContext) -> dict:
    asked = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(asked, timeout=20, context=context) as answer:
        return json.loads(answer.read())


def follow_the_load(port: str, bearer: dict[str, str], trusting: ssl.SSLContext, authority: str) -> None:
    def workers() -> int:
        return get(f"https://localhost:{port}/v2/cluster", bearer, trusting)["models"][0]["workers"]

    def wait_for_workers(count: int) -> None:
        end = time.monotonic() + 60
        while workers() != count:
            assert time.monotonic() < end
            time.sleep(0.5)

    assert workers() == 1
    if len(os.sched_getaffinity(0)) < 2:
        return  # there is one core, and so one replica at most
    words = {"ssl": True, "ssl_options": {"ca_certs": authority}, "headers": bearer}
    with Load(f"localhost:{port}", threads=1, **words) as trickle:
        with Load(f"localhost:{port}", threads=12, **words) as load:
            wait_for_workers(2)
        wait_for_workers(1)
    assert (load.errors, trickle.errors) == ([], [])
