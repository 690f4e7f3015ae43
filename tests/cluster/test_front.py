"""The front as the HTTP server calls it: paths, bounds, statuses; no Ray and no sockets."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from fixed_pool import FixedPool

import graph_runtime as gr
from graph_runtime.cluster.batch_rows import stack
from graph_runtime.cluster.batcher import Batcher, RowBatch
from graph_runtime.cluster.catalog import Catalog, ServedModel
from graph_runtime.cluster.front import Front
from graph_runtime.cluster.http.http_heads import Head
from graph_runtime.cluster.http.long_texts import LongTexts
from graph_runtime.cluster.http.request_bodies import Bodies
from graph_runtime.cluster.http.requests import read_text
from graph_runtime.cluster.metrics import ServingMetrics, metrics_text
from graph_runtime.cluster.ports import OPEN, Port, Served
from graph_runtime.cluster.transport.shared_memory import SharedMemory

SERVED = Served((Port("x", "int64", (OPEN, 2)),), (Port("y", "int64", (OPEN, 2)),), (1, 4), ((((1, 2),),)))
GOOD = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 2], "data": [1, 2]}], "id": "q"}


def make_front(run=None, versions=("1",), bodies=None, **words) -> Front:
    async def doubled(batch: RowBatch):
        return {"y": 2 * stack(batch.requests, batch.filled)["x"]}

    catalog = Catalog()
    for version in versions:
        metrics = ServingMetrics("m", version)
        batcher = Batcher(SERVED, FixedPool(run or doubled, 1), metrics=metrics)
        catalog.add(ServedModel("m", version, batcher, metrics))
    return Front(catalog, bodies or Bodies(), **words)


def put(body, data) -> None:
    """The bytes of a body, as they come."""
    at = 0
    while not body.whole:
        room = body.room()
        room[:] = data[at : at + len(room)]
        at += len(room)
        body.fill(len(room))


def call(front, path, body=None, method=None, headers=()):
    """(status, the JSON or text of the answer)."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = {b"content-length": str(len(data)).encode(), b"host": b"localhost:8000", **dict(headers)}
    head = Head(method or ("GET" if body is None else "POST"), path, {k: v for k, v in given.items() if v})
    try:
        begun = front.begin(head)
    except gr.RequestError as error:
        return error.status, {"error": str(error)}
    put(begun.body, data)
    response = asyncio.run(front.answer(begun))
    text = b"".join(response.body)
    assert response.nbytes == len(text)
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text.decode()


INFER = "/v2/models/m/infer"


def test_an_inference():
    front = make_front()
    status, found = call(front, INFER, GOOD)
    assert (status, found["id"], found["model_version"]) == (200, "q", "1")
    assert found["outputs"] == [{"name": "y", "datatype": "INT64", "shape": [1, 2], "data": [2, 4]}]
    text = call(front, "/metrics")[1]
    assert 'gr_requests_total{model="m",version="1",status="200"} 1' in text
    assert 'gr_request_seconds_count{model="m",version="1"} 1' in text
    assert 'gr_bytes_total{model="m",version="1",direction="in"}' in text


def test_health_metadata_and_versions():
    front = make_front(versions=("2", "10"), version="0.2")
    assert call(front, "/v2/health/live") == (200, {"live": True})
    assert call(front, "/v2/health/ready") == (200, {"ready": True})
    assert call(front, "/v2")[1]["name"] == "graph_runtime"
    found = call(front, "/v2/models/m")[1]
    assert found["versions"] == ["2", "10"]
    assert found["inputs"] == [{"name": "x", "datatype": "INT64", "shape": [-1, 2]}]
    assert call(front, INFER, GOOD)[1]["model_version"] == "10"
    assert call(front, "/v2/models/m/versions/2/infer", GOOD)[1]["model_version"] == "2"
    assert call(front, "/v2/models/m/versions/3/infer", GOOD)[0] == 404
    assert call(front, "/v2/models/m/config")[1]["max_batch_size"] == 4
    assert [row["version"] for row in call(front, "/v2/repository/index", {})[1]] == ["2", "10"]
    assert call(front, "/v2/cluster")[1]["models"][0]["name"] == "m"
    front.catalog.find("m").ready = False
    assert call(front, "/v2/health/ready")[0] == 503
    assert call(front, "/v2/models/m/ready")[0] == 503
    assert call(front, INFER, GOOD)[0] == 503


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "text"),
    [
        ("/", None, (), 404, "nothing"),
        ("/v2/models/mm/infer", GOOD, (), 404, "did you mean 'm'"),
        ("/v2/models/m/nothing", GOOD, (), 404, "nothing"),
        (INFER, None, (), 405, "POST"),
        (INFER, b"{", (), 400, "JSON"),
        (INFER, b"", (), 400, "empty"),
        (INFER, GOOD, [(b"content-length", None)], 411, "Content-Length"),
        (INFER, GOOD, [(b"content-length", b"-1")], 400, "Content-Length"),
        (INFER, GOOD, [(b"content-length", b"9" * 5000)], 400, "Content-Length"),
        (INFER, GOOD, [(b"content-length", b"99999999999")], 413, "at most"),
        (INFER, GOOD, [(b"content-encoding", b"gzip")], 415, "gzip"),
        (INFER, GOOD, [(b"inference-header-content-length", b"1e3")], 400, "number"),
        (INFER, GOOD, [(b"inference-header-content-length", "²".encode("latin-1"))], 400, "number"),
    ],
)
def test_what_is_refused_says_why_and_the_server_goes_on(path, body, headers, status, text):
    front = make_front()
    got, found = call(front, path, body, headers=headers)
    assert (got, text in found["error"]) == (status, True), found
    assert call(front, INFER, GOOD)[0] == 200
    assert front.bodies.held == 0


def test_bodies_are_bounded_together():
    front = make_front(bodies=Bodies(most_held=10))
    assert call(front, INFER, GOOD)[0] == 429
    assert front.bodies.held == 0


def begun_body(front, size, came):
    """A body of which so many bytes have come, and where it is told that it has to go."""
    refused = []
    begun = front.begin(Head("POST", INFER, {b"content-length": str(size).encode(), b"host": b"localhost"}))
    begun.body.refuse = lambda error: (refused.append(error.status), front.drop(begun))
    while came:
        count = min(came, len(begun.body.room()))
        begun.body.fill(count)
        came -= count
    return refused


def test_bodies_that_are_promised_keep_nobody_out():
    """What counts is what has come; where that is too much the largest goes."""
    front = make_front()
    for _ in range(50):
        begun_body(front, 256 << 20, 0)
    assert (front.bodies.held, call(front, INFER, GOOD)[0]) == (0, 200)
    front = make_front(bodies=Bodies(most_held=1_000_000))
    small, large = begun_body(front, 400_000, 300_000), begun_body(front, 900_000, 690_000)
    assert call(front, INFER, {**GOOD, "id": "q" * 200})[0] == 200
    assert front.bodies.held == 990_000
    other = begun_body(front, 20_000, 19_999)
    assert (small, large, other, front.bodies.held) == ([], [429], [], 319_999)


def test_memory_for_a_body_is_taken_when_some_of_it_has_come():
    taken = []
    bodies = Bodies(allocate=lambda size: (taken.append(size), memoryview(bytearray(size)))[1])
    body = bodies.open({b"content-length": b"200000"})
    body.fill(40_000)
    body.room()[:2] = b"xy"
    body.fill(2)
    assert (taken, bytes(body.memory[40_000:40_002])) == ([65_536, 200_000], b"xy")

    def none(size):
        raise MemoryError

    with pytest.raises(gr.RequestError, match="not enough memory for a body of 5 bytes") as caught:
        Bodies(allocate=none).open({b"content-length": b"5"})
    assert caught.value.status == 429


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"host": "127.0.0.1:8000"}, 200),
        ("POST", {"host": "LocalHost"}, 200),
        ("POST", {"host": "[::1]:80"}, 200),
        ("POST", {"host": "localhost:9", "origin": "http://localhost:9"}, 200),
        ("POST", {"host": "localhost:9", "sec-fetch-site": "same-origin"}, 200),
        ("POST", {"host": "evil.example:8000"}, 403),
        ("POST", {"host": "127.0.0.1.evil.example"}, 403),
        ("POST", {"host": "localhost:8000@evil.example"}, 403),
        ("POST", {"host": "evil.example:80:127.0.0.1"}, 403),
        ("POST", {"host": ""}, 403),
        ("POST", {"host": "10.0.0.1"}, 403),
        ("POST", {"host": "127.0.0.1", "origin": "http://evil.example"}, 403),
        ("POST", {"host": "127.0.0.1", "origin": "null"}, 403),
        ("POST", {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:81"}, 403),
        ("POST", {"host": "127.0.0.1", "sec-fetch-site": "cross-site", "content-type": "text/plain"}, 403),
        ("GET", {"host": "127.0.0.1", "sec-fetch-site": "cross-site"}, 200),
        ("GET", {"host": "evil.example"}, 403),
    ],
)
def test_pages_of_other_sites_run_nothing(method, headers, status):
    ran = []

    async def run(batch):
        ran.append(batch)
        return {"y": 2 * stack(batch.requests, batch.filled)["x"]}

    path, body = (INFER, GOOD) if method == "POST" else ("/v2/health/live", None)
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    got, found = call(make_front(run), path, body, method, given)
    assert (got, bool(ran)) == (status, (status, method) == (200, "POST")), found
    if status == 403:
        assert ("loopback" in found["error"]) or ("another site" in found["error"])
        own = [*given, (b"authorization", b"Bearer t")]  # with a token no page of another site gets in
        assert call(make_front(token="t"), path, body, method, own)[0] == 200


def test_the_body_of_a_client_that_goes_away_is_no_longer_held():
    front = make_front()
    begun = front.begin(Head("POST", INFER, {b"content-length": b"5", b"host": b"[::1]:80"}))
    begun.body.fill(3)
    assert front.bodies.held == 3
    front.drop(begun)
    assert front.bodies.held == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (gr.KernelError("an index is -1"), 422),
        (gr.GraphRuntimeError("a replica has no memory"), 500),
        (ZeroDivisionError("a mistake"), 500),
    ],
)
def test_what_fails_in_a_run(error, status):
    async def run(batch: RowBatch):
        raise error

    got, found = call(make_front(run), INFER, GOOD)
    assert got == status
    assert ("internal" if isinstance(error, ZeroDivisionError) else str(error)) in found["error"]
    assert "mistake" not in found["error"]


def test_workers_that_are_all_lost_are_a_503():
    async def run(batch: RowBatch):
        raise gr.WorkerLost("lost", worker="w", cause="killed")

    status, found = call(make_front(run), INFER, GOOD)
    assert status == 503
    assert "killed" in found["error"]


def test_a_clients_timeout_is_kept():
    async def run(batch: RowBatch):
        await asyncio.sleep(60)

    status, found = call(make_front(run), INFER, {**GOOD, "parameters": {"timeout": 20_000}})
    assert (status, "deadline" in found["error"]) == (504, True)


def test_nothing_but_liveness_is_told_without_the_token():
    front = make_front(token="secret")
    assert call(front, "/v2/health/live")[0] == 200
    for path in ("/v2", "/metrics", "/v2/cluster", "/v2/models/m", "/nothing"):
        assert call(front, path)[0] == 401
    for given in (b"Bearer secre", b"Bearer secret2", b"secret", "Bearer sécret".encode()):
        assert call(front, INFER, GOOD, headers=[(b"authorization", given)])[0] == 401
    assert call(front, INFER, GOOD, headers=[(b"authorization", b"Bearer secret")])[0] == 200


def test_values_larger_than_the_largest_program_are_cut_and_joined():
    x = np.arange(18).reshape(9, 2)
    raw = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [9, 2], "data": x.tolist()}]}
    status, found = call(make_front(), INFER, raw)
    assert status == 200
    assert found["outputs"][0]["data"] == (2 * x).reshape(-1).tolist()


def test_a_long_text_is_read_by_a_process_of_its_own_and_for_the_queue_that_there_is_then(monkeypatch):
    front, x = make_front(), np.arange(4).reshape(-1, 2)
    raw = {"inputs": [{"name": "x", "datatype": "INT64", "shape": list(x.shape), "data": x.tolist()}]}
    text = json.dumps(raw).encode() + b" " * 300_000
    model, read = front.catalog.find("m"), []
    texts = front._texts

    async def tripled(batch: RowBatch):
        return {"y": 3 * stack(batch.requests, batch.filled)["x"]}

    async def twice(*arguments):
        read.append(await LongTexts.read(texts, *arguments))
        if len(read) == 1:  # an update comes meanwhile
            model.batcher = Batcher(SERVED, FixedPool(tripled))
        return read[-1]

    async def test():
        begun = front.begin(
            Head("POST", INFER, {b"content-length": b"%d" % len(text), b"host": b"localhost"})
        )
        put(begun.body, text)
        try:
            return await front.answer(begun)
        finally:
            texts.close()

    monkeypatch.setattr(texts, "read", twice)
    response = asyncio.run(test())
    assert (response.status, len(read)) == (200, 2), response
    assert json.loads(response.body[0])["outputs"][0]["data"] == (3 * x).reshape(-1).tolist()


def long_text(**more) -> bytes:
    row = {"name": "x", "datatype": "INT64", "shape": [200_000, 2], "data": [1] * 400_000}
    return json.dumps({"inputs": [row], "id": "q", **more}).encode()


def test_long_texts():
    """What the process gives and refuses is what reading here does; one that ends is started again; what a
    client that has left asked for is over before the next."""
    memory = SharedMemory(16 << 20)

    def shared(text):
        view = memory.take(len(text))
        view[:] = text
        return view

    async def test():
        texts = LongTexts(memory)
        try:
            for text in (long_text(), long_text(outputs=[{"name": "y"}], parameters={"timeout": 5})):
                here = read_text(text, SERVED)
                for view in (memoryview(text), shared(text)):
                    said = await texts.read(view, SERVED)
                    assert (said.id, said.timeout, said.outputs) == (here.id, here.timeout, here.outputs)
                    np.testing.assert_array_equal(said.tensors[0].array, here.tensors[0].array, strict=True)
            row = {"name": "x", "datatype": "INT64", "shape": [1, 2], "parameters": {"binary_data_size": 16}}
            binary = json.dumps({"inputs": [row]}).encode()
            request = (await texts.read(memoryview(binary), SERVED)).request(memoryview(bytes(16)))
            assert request.inputs["x"].tolist() == [[0, 0]]
            with pytest.raises(gr.RequestError, match="there is no input 'z'") as caught:
                await texts.read(memoryview(binary.replace(b'"x"', b'"z"')), SERVED)
            assert caught.value.status == 400
            texts._process.kill()
            with pytest.raises(gr.RequestError, match=r"has ended.*again later") as caught:
                await texts.read(memoryview(binary), SERVED)
            assert caught.value.status == 503
            left = asyncio.ensure_future(texts.read(memoryview(long_text()), SERVED))
            await asyncio.sleep(0.05)
            left.cancel()
            assert (await texts.read(memoryview(binary), SERVED)).id == ""
        finally:
            texts.close()

    asyncio.run(test())


def test_a_text_of_many_keys_is_refused_before_it_is_read():
    text = b"{" + b'"a":1,' * 1_400_000 + b"}"
    with pytest.raises(gr.RequestError, match="has 1400000 keys, at most 1200 are accepted") as caught:
        read_text(text, SERVED)
    assert caught.value.status == 400


def test_prometheus_own_parser_reads_the_metrics():
    parser = pytest.importorskip("prometheus_client.parser", reason="it comes with the extra cluster")
    metrics = [ServingMetrics('m"\\', "1"), ServingMetrics("n\nq", "2")]
    metrics[0].requests.add("200", 3)
    metrics[0].seconds.observe(0.003)
    metrics[0].ran(1, 3, 4)
    families = {one.name: one for one in parser.text_string_to_metric_families(metrics_text(metrics))}
    assert {name: one.type for name, one in families.items()} == {
        metric.name.removesuffix("_total"): metric.kind for metric in metrics[0].all()
    }
    (requests,) = families["gr_requests"].samples
    assert (requests.labels, requests.value) == ({"model": 'm"\\', "version": "1", "status": "200"}, 3)
    seconds = [one for one in families["gr_request_seconds"].samples if one.labels["model"] == 'm"\\']
    assert (seconds[-1].name, seconds[-1].value) == ("gr_request_seconds_count", 1)
    assert [one.value for one in seconds if one.labels.get("le") in ("0.0025", "0.005", "+Inf")] == [0, 1, 1]
    assert {one.labels["model"] for one in families["gr_runs"].samples} == {'m"\\', "n\nq"}
