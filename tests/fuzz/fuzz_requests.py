"""Mutated requests of the inference protocol: each is answered or refused with a 4xx and a reason, and the
server goes on.

    SEED=1 ITERS=10000 python tests/fuzz/fuzz_requests.py [SEED [ITERS]]

Requests of JSON and of binary tensors lose, gain and swap bytes, values and headers, and reach the front as
the HTTP server hands them over; a model that the installed kernels run answers them. A failure prints the
command that replays it.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path

import numpy as np
from driver import fuzz, run
from fixed_pool import FixedPool

import graph_runtime as gr
from graph_runtime.cluster.batcher import Batcher, RowBatch
from graph_runtime.cluster.catalog import Catalog, ServedModel
from graph_runtime.cluster.front import Front
from graph_runtime.cluster.http.http_heads import Head, parse_head
from graph_runtime.cluster.metrics import ServingMetrics
from graph_runtime.cluster.runner import Runner, ServedSource

SECONDS_OF_TEST = 1.0
INFER = "/v2/models/m/infer"
X, AT = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([0, 2], np.int32)
_VALUES = (
    None,
    True,
    0,
    -1,
    1 << 31,
    1 << 63,
    1 << 70,
    1.5,
    1e39,
    "",
    "x",
    [],
    {},
    [[]],
    [1],
    "é" * 99,
    [0] * 40,
)
_TEXTS = (b"", b"{", b"[", b'"', b"1e999", b"\\u0000", b"\xff\xfe", b"NaN", b"-", b"[" * 200, b'{"a":' * 60)


def make_request(binary: bool) -> tuple[dict, bytes]:
    rows = []
    for name, array, datatype in (("x", X, "FP32"), ("i", AT, "INT32")):
        row = {"name": name, "shape": list(array.shape), "datatype": datatype}
        row |= {"parameters": {"binary_data_size": array.nbytes}} if binary else {"data": array.tolist()}
        rows.append(row)
    raw = {"id": "7", "inputs": rows, "outputs": [{"name": "softmax", "parameters": {"binary_data": binary}}]}
    return raw, X.tobytes() + AT.tobytes() if binary else b""


def draw(seed: int) -> tuple[str, bytes]:
    """The headers, one a line, an empty line, and the body."""
    rng = random.Random(seed)
    name = rng.choice(("json", "binary"))
    raw, tail = make_request(name == "binary")
    for _ in range(rng.choice((0, 1, 1, 2))):
        _change(raw, rng)
    text = json.dumps(raw).encode()
    length = len(text)
    body = bytearray(text + tail)
    for _ in range(rng.choice((0, 0, 1, 2))):
        at = rng.randrange(len(body) + 1)
        body[at : at + rng.choice((0, 0, 1, 4, 30))] = rng.choice((*_TEXTS, bytes([rng.randrange(256)])))
    headers = {"content-length": str(len(body)), "host": "localhost"}
    if name == "binary":
        headers["inference-header-content-length"] = str(length)
    if rng.random() < 0.2:
        which = rng.choice([*headers, "content-encoding", "inference-header-content-length"])
        headers[which] = rng.choice(("", "-1", "0", "1", "9" * 30, "1e3", str(length + 1), "gzip", "²"))
    lines = [f"{key}: {value}" for key, value in headers.items()]
    return name, "\n".join(lines).encode("latin-1") + b"\n\n" + bytes(body)


def _change(raw: dict, rng: random.Random) -> None:
    """Put another value somewhere, take a key away, or add one."""
    at: object = raw
    while rng.random() < 0.75:
        inner = list(at.values()) if isinstance(at, dict) else at
        inner = [one for one in inner if isinstance(one, dict | list) and one]
        if not inner:
            break
        at = rng.choice(inner)
    key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
    kind = rng.randrange(4)
    if kind == 0:
        del at[key]
    elif kind == 1 and isinstance(at, dict):
        at[rng.choice(("id", "inputs", "shape", "data", "parameters", "x"))] = deepcopy(rng.choice(_VALUES))
    elif kind == 2 and isinstance(at, list):
        at.append(deepcopy(at[key]))
    else:
        at[key] = deepcopy(rng.choice(_VALUES))


@functools.cache
def front() -> Front:
    def program(rows: int) -> gr.GraphBuilder:
        builder = gr.GraphBuilder()
        x, i = builder.input("x", (rows, 4)), builder.input("i", (rows,), "int32")
        table = builder.param("table", np.eye(4, dtype=np.float32))
        builder.output(builder.op("softmax", builder.op("add", x, builder.op("take", table, i, axis=0))))
        return builder

    with tempfile.TemporaryDirectory() as folder:
        path = gr.build_bundle(
            {f"b{n}": program(n) for n in (1, 4)}, "cpu:0", Path(folder) / "m", compile=False
        )
        runner = Runner(ServedSource(str(path)))

    async def answer(batch: RowBatch):
        reply = runner.run(batch)
        if reply.error:
            raise gr.KernelError(reply.error)
        return reply.outputs

    catalog, metrics = Catalog(), ServingMetrics("m", "1")
    catalog.add(ServedModel("m", "1", Batcher(runner.served, FixedPool(answer), metrics=metrics), metrics))
    return Front(catalog, deadline=5.0)


def judge(_: str, data: bytes) -> str:
    lines, _, body = data.partition(b"\n\n")
    text = b"POST " + INFER.encode() + b" HTTP/1.1\r\n" + lines.replace(b"\n", b"\r\n")
    try:
        head = parse_head(text)
    except gr.RequestError as error:
        return f"refused {error.status}" if 400 <= error.status < 500 else fail(error)
    status, text = asyncio.run(_call(head, body))
    if status == 200:
        return "answered"
    assert 400 <= status < 500 or (status == 504 and b"deadline" in text), (status, text)
    assert json.loads(text)["error"], "it has no reason"
    assert front().bodies.held == 0
    return f"refused {status}"


def fail(error: gr.RequestError) -> str:
    raise AssertionError(f"a head is refused with {error.status}") from error


async def _call(head: Head, body: bytes) -> tuple[int, bytes]:
    try:
        begun = front().begin(head)
    except gr.RequestError as error:
        return error.status, json.dumps({"error": str(error)}).encode()
    if begun.body.size > len(body):
        front().drop(begun)
        return 408, b'{"error": "the body did not arrive"}'
    size = begun.body.size
    if size:
        begun.body.room()[:] = body[:size]
        begun.body.fill(size)
    response = await front().answer(begun)
    return response.status, b"".join(response.body)


def fuzz_requests(seed: int, iters: int, seconds: float = 1e9):
    return fuzz("fuzz_requests.py", draw, judge, seed, iters, seconds)


def test_mutated_requests():
    seed, iters = int(os.environ.get("SEED", "0")), int(os.environ.get("ITERS", "200"))
    begin = time.monotonic()
    counts = fuzz_requests(seed, iters, SECONDS_OF_TEST if "ITERS" not in os.environ else 1e9)
    assert {outcome for _, outcome in counts} >= {"answered", "refused 400"}, time.monotonic() - begin


if __name__ == "__main__":
    run(fuzz_requests, "10000", sys.argv[1:])
