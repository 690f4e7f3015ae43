"""Faults under load, each of which loses no request: bench_cluster.py --only faults.

kills: a replica is killed (SIGKILL) every 2 s. pause: a replica is stopped (SIGSTOP) for 20 s. On two
machines of their own network namespaces (root only), the second with a disk of its own: link: the link is
cut for 20 s; node: the second machine is stopped for 20 s; disk: its disk is full, and its replica is
killed then, so that a new one starts there; leave and join: it leaves, and comes back. Each line has the
answers, those that were lost or wrong, those that took longer than their deadline, and the times.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from served import Load, Process, build, serve, wait_for_port

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from two_nodes import TwoNodes, why_not

DEADLINE, CLIENTS, WIDTH = 60.0, 16, 1024


def run_all(folder: Path, load: Load, replicas: int, seconds: float) -> None:
    """``seconds``: of kills."""
    bundle, request = build(folder / "faults.bundle", (1,), WIDTH, 4), load.request((1, WIDTH))
    with serve(bundle, folder, replicas) as server:
        kills(server, load, request, seconds)
        pause(server, load, request)
    if why := why_not():
        print(json.dumps({"bench": "faults", "what": "two machines", "skipped": why}), flush=True)
        return
    with TwoNodes(folder / "nodes") as nodes:
        two_machines(nodes, bundle, load, request)


def under_load(what: str, command: list[str], during: Callable[[], dict]) -> None:
    """Run a load, and what befalls the server meanwhile, which gives facts for the line."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    facts = during()
    out, _ = running.communicate()
    found = json.loads(out)
    line = {"bench": "faults", "what": what, "lost": found["errors"], "wrong": found["wrong"]}
    line |= {"beyond_deadline": int(found["longest_ms"] > 1e3 * DEADLINE), **facts}
    line |= {key: found[key] for key in ("answers", "seconds", "p50_ms", "p99_ms", "longest_ms")}
    print(json.dumps(line), flush=True)


def kills(server: Process, load: Load, request: Path, seconds: float) -> None:
    rng = np.random.default_rng(0)

    def during() -> dict:
        killed, end = 0, time.monotonic() + seconds
        while time.monotonic() < end - 2:
            time.sleep(2)
            if found := server.replicas():
                os.kill(int(rng.choice(found)), signal.SIGKILL)
                killed += 1
        return {"killed": killed}

    command = load.command(server.port, CLIENTS, seconds, request, "compare")
    under_load("a replica is killed every 2 s", command, during)


def pause(server: Process, load: Load, request: Path) -> None:
    def during() -> dict:
        time.sleep(2)
        paused = server.replicas()[0]
        os.kill(paused, signal.SIGSTOP)
        time.sleep(20)
        if gone := paused not in server.replicas():
            return {"replaced": gone}
        os.kill(paused, signal.SIGCONT)
        return {"replaced": gone}

    time.sleep(10)
    command = load.command(server.port, CLIENTS, 26, request, "compare")
    under_load("a replica is stopped for 20 s", command, during)


def two_machines(nodes: TwoNodes, bundle: Path, load: Load, request: Path) -> None:
    log = nodes.folder / "serve.log"
    command = [sys.executable, "-m", "graph_runtime.cli", "serve", f"m={bundle}", "--replicas", "2"]
    server = nodes.first([*command, "--threads", "1", "--address", nodes.address, "--port", "0"], log=log)
    port = wait_for_port(server, log)
    wait_for_replicas(nodes, port, 2)

    def hit(what: str, begin: Callable[[], None], end: Callable[[], None], seconds: float = 20) -> None:
        def during() -> dict:
            time.sleep(2)
            begin()
            time.sleep(seconds)
            end()
            return {"for_s": seconds}

        command = load.command(port, CLIENTS, seconds + 6, request, "compare")
        under_load(what, ["ip", "netns", "exec", nodes.names[0], *command], during)
        back = time.monotonic()
        found = wait_for_replicas(nodes, port, 2)
        took = {"back_after_s": round(time.monotonic() - back, 1), "replicas": found}
        print(json.dumps({"bench": "faults", "what": f"{what}: afterwards", **took}), flush=True)

    hit("the link of two machines is cut", lambda: nodes.cut(True), lambda: nodes.cut(False))
    hit("the second machine is stopped", lambda: nodes.pause_second(True), lambda: nodes.pause_second(False))
    hit("the second machine leaves and joins again", nodes.end_second, nodes.start_second, 5)
    hit("the second machine's disk is full", lambda: full(nodes), lambda: None, 15)
    server.send_signal(signal.SIGINT)
    server.wait(60)


def full(nodes: TwoNodes) -> None:
    nodes.fill_disk()
    for pid in nodes.second():
        if b"ServeReplica" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def wait_for_replicas(nodes: TwoNodes, port: int, count: int, seconds: float = 60) -> int:
    """Replicas that answer, when they are ``count`` or the time is over."""
    ask = ["ip", "netns", "exec", nodes.names[0], sys.executable, "-m", "graph_runtime.cli", "cluster"]
    end = time.monotonic() + seconds
    while True:
        done = subprocess.run(
            [*ask, "status", "--json", "--url", f"http://127.0.0.1:{port}"], capture_output=True, text=True
        )
        found = json.loads(done.stdout)["models"][0]["workers"]
        if found >= count or time.monotonic() > end:
            return found
        time.sleep(1)
