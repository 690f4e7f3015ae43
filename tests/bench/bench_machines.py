"""What a graph over machines costs, as JSON lines, each beside its bound in the same run.

    python tests/bench/bench_machines.py [--only stages|call|memory|wire] [--turns 7]

Needs the extra ``cluster`` (but for memory and wire). stages: runs a second of two stages on two nodes, 8
under way, beside each stage alone; alternating turns, medians. call: ms of run() of a graph of one small
node on a node, beside Ray's own empty call of the same worker. memory: 64 MB from one process to another of
this host, beside a memcpy of as many bytes. wire: 64 MB over a link of 1 Gbit/s and 5 ms each way between
two network namespaces (root), beside the line rate; the link is a pair of TUN devices and a process that
delays packets, which needs no netem of the kernel.
"""

from __future__ import annotations

import argparse
import collections
import fcntl
import json
import multiprocessing
import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import machine

import graph_runtime as gr
from graph_runtime.cluster.transport.endpoint import Endpoint
from graph_runtime.ir.model import Model

BLOCK = 64 << 20
KEY = bytes(32)
RATE, DELAY = 125e6, 0.005  # bytes a second, seconds each way


def line(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


# **************** on Ray ****************


def layers(count: int, width: int = 768, rows: int = 64) -> Model:
    rng = np.random.default_rng(0)
    builder = gr.GraphBuilder()
    value = builder.input("x", (rows, width))
    for i in range(count):
        weight = rng.standard_normal((width, width)).astype(np.float32) / width**0.5
        value = builder.op("tanh", builder.op("matmul", value, builder.param(f"w{i}", weight)), name=f"t{i}")
    builder.output(value)
    return Model.from_builder(builder)


def rate(module: Any, x: np.ndarray, runs: int) -> float:
    """Runs a second, 8 under way."""
    start = time.perf_counter()
    for run in [module.run_async(x=x) for _ in range(runs)]:
        run.wait()
    return runs / (time.perf_counter() - start)


def stages(cluster: Any, turns: int) -> None:
    """Both halves take equally long, so the bound is half of the whole's time. cpu_share: processor seconds
    of both stages alone by those of the workers that run them together, which other work disturbs less."""
    import ray

    x = np.random.default_rng(1).standard_normal((64, 768)).astype(np.float32)
    words: dict[str, Any] = {"fuse": False, "compile": False, "threads": 1}
    late = {f"{op}{i}": "node1/cpu:0" for i in range(8, 16) for op in ("t", "matmul_")}
    place = {"*": "node0/cpu:0", **late}
    both = cluster.create(layers(16), ["node0/cpu:0", "node1/cpu:0"], place=place, **words)
    alone = [cluster.create(layers(8), [f"node{i}/cpu:0"], **words) for i in range(2)]
    pids = [ray.get(cluster.fleet.member(f"node{i}").actor.pid.remote()) for i in range(2)]
    for module in (both, *alone):
        rate(module, x, 16)
    found, used = [], []
    for _ in range(2 * turns):
        row, took = [], []
        for module in (both, *alone):
            before = _seconds_of(*pids)
            row.append(rate(module, x, 24))
            took.append(_seconds_of(*pids) - before)
        found.append(row)
        used.append((took[1] + took[2]) / max(took[0], 1e-9))
    shares = [row[0] / min(row[1:]) for row in found]
    two, first, second = (statistics.median(column) for column in zip(*found, strict=True))
    rates = {"both": two, "first": first, "second": second}
    shown = {"share": statistics.median(shares), "best": max(shares), "cpu_share": statistics.median(used)}
    line(bench="stages", **rates, **shown)


def call(cluster: Any, turns: int) -> None:
    import ray

    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (4,))))
    module = cluster.create(builder, ["node0/cpu:0"], fuse=False, compile=False)
    actor = cluster.fleet.member("node0").actor
    x, data = np.ones(4, np.float32), bytes(400)
    worker = ray.get(actor.pid.remote())
    calls = {"run": lambda: module.run(x=x), "empty": lambda: ray.get(actor.empty.remote(data))}
    took: dict[str, list[float]] = {name: [] for name in calls}
    used = dict.fromkeys(calls, 0.0)
    for turn in range(2 * turns):
        for name, once in calls.items():
            before = _seconds_of(os.getpid(), worker)
            for _ in range(30):
                start = time.perf_counter()
                once()
                if turn:  # not the first ones
                    took[name].append((time.perf_counter() - start) * 1e3)
            if turn:
                used[name] += _seconds_of(os.getpid(), worker) - before
    facts: dict[str, Any] = {}
    for name, found in took.items():
        facts[f"{name}_ms"] = [float(np.quantile(found, q)) for q in (0, 0.25, 0.5, 0.75)]
        facts[f"{name}_cpu_ms"] = used[name] * 1e3 / len(found)
    more = {
        f"more_{what}": facts["run_ms"][at] - facts["empty_ms"][at]
        for at, what in ((0, "least_ms"), (2, "ms"))
    }
    line(bench="call", **facts, **more, more_cpu_ms=facts["run_cpu_ms"] - facts["empty_cpu_ms"])


def _seconds_of(*pids: int) -> float:
    """Of a processor, that processes have used."""
    found = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            found += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return found / os.sysconf("SC_CLK_TCK")


# **************** links ****************


def receiver(pipe: Any, host: str | None) -> None:
    """Another process: says when a block is there."""
    back: dict[str, Any] = {}

    def came(message: Any) -> None:
        if "back" in message.header:
            back.update(message.header["back"])
        else:
            last = int(message.tensors["x"][-1])
            end.send(back, {"got": last, "cpu": time.process_time()})

    end = Endpoint("receiver", KEY, came, host)
    pipe.send(dict(end.address))
    pipe.recv()


def pair(host: str | None, own: str | None) -> tuple[Callable[[np.ndarray], float], Any]:
    """What sends a block to another process and waits until it is there."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_in_namespace, args=("gr1", there, host))
    process.start()
    to = here.recv()
    got = threading.Semaphore(0)
    cpu = [0.0]

    def came(message: Any) -> None:
        cpu[0] = message.header["cpu"]
        got.release()

    end = Endpoint("sender", KEY, came, own)
    end.send(to, {"back": dict(end.address)})

    def send(block: np.ndarray) -> float:
        end.send(to, {"n": 1}, {"x": block})
        got.acquire()
        return cpu[0]  # seconds that the other process has used

    return send, here


def _in_namespace(name: str, pipe: Any, host: str | None) -> None:
    if host is not None:
        _enter(name)
    receiver(pipe, host)


def _enter(name: str) -> None:
    import ctypes

    with open(f"/run/netns/{name}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter network namespace {name}")


def memory(turns: int) -> None:
    send, pipe = pair(None, None)
    block, other = np.ones(BLOCK, np.uint8), np.zeros(BLOCK, np.uint8)
    for _ in range(3):  # memory is taken
        send(block)
        np.copyto(other, block)
    sent, copied, sent_cpu, copied_cpu = [], [], [], []
    before = send(block)
    for _ in range(5 * turns):
        start, cpu = time.perf_counter(), time.process_time()
        there = send(block)
        middle, half = time.perf_counter(), time.process_time()
        np.copyto(other, block)
        sent.append(middle - start)
        copied.append(time.perf_counter() - middle)
        sent_cpu.append(half - cpu + there - before)
        copied_cpu.append(time.process_time() - half)
        before = there
    pipe.send(None)
    line(
        bench="memory",
        sent_gb_per_s=BLOCK / statistics.median(sent) / 1e9,
        memcpy_gb_per_s=BLOCK / statistics.median(copied) / 1e9,
        share=statistics.median(copied) / statistics.median(sent),
        share_of_least=min(copied) / min(sent),
        share_of_cpu=statistics.median(copied_cpu) / statistics.median(sent_cpu),
    )


def wire(turns: int) -> None:
    if os.geteuid() != 0:
        line(bench="wire", skipped="network namespaces need root")
        return
    relay = subprocess.Popen([sys.executable, __file__, "--relay"], stdout=subprocess.PIPE, text=True)
    try:
        assert relay.stdout is not None
        relay.stdout.readline()
        _enter("gr0")
        send, pipe = pair("10.77.0.2", "10.77.0.1")
        block = np.ones(BLOCK, np.uint8)
        send(block)  # the window opens
        took = []
        for _ in range(turns):
            start = time.perf_counter()
            send(block)
            took.append(time.perf_counter() - start)
        small = []
        for _ in range(9):
            start = time.perf_counter()
            send(block[:8])
            small.append(time.perf_counter() - start)
        pipe.send(None)
    finally:
        relay.terminate()
        relay.wait()
    facts = {"seconds": statistics.median(took), "round_trip_ms": min(small) * 1e3}
    line(bench="wire", link="tun", **facts, share=BLOCK / RATE / statistics.median(took))


def relay() -> None:
    """Two namespaces, a TUN device in each, and packets between them at RATE, DELAY later."""
    subprocess.run("ip netns del gr0; ip netns del gr1", shell=True, stderr=subprocess.DEVNULL, check=False)
    ends = []
    for i in range(2):
        fd = os.open("/dev/net/tun", os.O_RDWR)
        # TUNSETIFF of a TUN device without a header before packets
        fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH", f"grtun{i}".encode(), 0x1001))
        ends.append(fd)
        inside = f"ip netns exec gr{i} ip"
        for command in (
            f"ip netns add gr{i}",
            f"ip link set grtun{i} netns gr{i}",
            f"{inside} addr add 10.77.0.{i + 1}/24 dev grtun{i}",
            f"{inside} link set dev grtun{i} mtu 65000 txqueuelen 200 up",
            f"{inside} link set lo up",
        ):
            subprocess.run(command.split(), check=True)
    for source, target in (ends, ends[::-1]):
        threading.Thread(target=_carry, args=(source, target), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def _carry(source: int, target: int) -> None:
    waiting: collections.deque[tuple[float, bytes]] = collections.deque()
    there = threading.Condition()

    def deliver() -> None:
        while True:
            with there:
                while not waiting:
                    there.wait()
                at, packet = waiting.popleft()
            if (left := at - time.monotonic()) > 0:
                time.sleep(left)
            os.write(target, packet)

    threading.Thread(target=deliver, daemon=True).start()
    free = 0.0
    while True:
        packet = os.read(source, 65536)
        free = max(free, time.monotonic()) + len(packet) / RATE
        with there:
            waiting.append((free + DELAY, packet))
            there.notify()
        if (ahead := free - time.monotonic()) > 0.002:  # the sender's queue fills, as at a device
            time.sleep(ahead)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("stages", "call", "memory", "wire"))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--relay", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.relay:
        relay()
        return
    line(bench="machines", **machine("ray"))
    if asked.only in (None, "memory"):
        memory(asked.turns)
    if asked.only in (None, "stages", "call"):
        with gr.cluster.connect("local", nodes=2) as cluster:
            for name, once in (("call", call), ("stages", stages)):
                if asked.only in (None, name):
                    once(cluster, asked.turns)
    if asked.only in (None, "wire"):  # last: this process stays in the namespace
        wire(asked.turns)


if __name__ == "__main__":
    main()
