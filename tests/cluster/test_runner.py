"""Bundles that answer batches: which rows may run together, what a bundle serves, and what travels."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cluster.batcher import RowBatch
from graph_runtime.cluster.offers import Making, make_source, parse_offer, require_used
from graph_runtime.cluster.ray import rays
from graph_runtime.cluster.runner import Runner, ServedSource, bundle_hash, read_source
from graph_runtime.cluster.status import status_lines
from graph_runtime.cluster.travel import content_hash, pack, unpack

W = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


def dense(rows: int, op: str = "softmax", axis: int = -1) -> gr.GraphBuilder:
    builder = gr.GraphBuilder()
    x, w = builder.input("x", (rows, 6)), builder.param("w", W)
    builder.output(builder.op(op, builder.op("matmul", x, w), axis=axis))
    return builder


def bundle(tmp_path, programs, devices="cpu:0", name="m.bundle") -> str:
    return str(gr.build_bundle(programs, devices, tmp_path / name, compile=False))


def expected(x: np.ndarray) -> np.ndarray:
    e = np.exp(x @ W)
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("devices", ["cpu:0", "tt:0"])
def test_programs_of_several_sizes_serve_rows_of_any_number(tmp_path, devices):
    path = bundle(tmp_path, {f"b{n}": dense(n) for n in (4, 1, 8)}, devices)
    runner = Runner(ServedSource(path))
    assert (runner.served.rows, runner.served.why) == ((1, 4, 8), "")
    assert runner.served.inputs[0].shape == (-1, 6)
    x = np.random.default_rng(1).standard_normal((3, 6)).astype(np.float32)
    reply = runner.run(RowBatch(("a",), 4, 3, ({"x": x},)))
    assert reply.error == ""
    (y,) = reply.outputs.values()
    np.testing.assert_allclose(y, expected(x), rtol=2e-2 if devices == "tt:0" else 1e-5)


def test_rows_that_depend_on_each_other_run_alone(tmp_path):
    runner = Runner(ServedSource(bundle(tmp_path, {"main": dense(4, axis=0)})))
    assert runner.served.rows == ()
    assert "depend on the other rows" in runner.served.why
    x = np.ones((4, 6), np.float32)
    assert runner.run(RowBatch(("a",), 0, 0, ({"x": x},))).outputs["softmax"].shape == (4, 5)


def test_outputs_without_rows_run_alone(tmp_path):
    runner = Runner(ServedSource(bundle(tmp_path, {"main": _sum()})))
    assert (runner.served.rows, "in common" in runner.served.why) == ((), True)


def _sum() -> gr.GraphBuilder:
    builder = gr.GraphBuilder()
    builder.output(builder.op("sum", builder.input("x", (4, 6)), axes=[0, 1], keepdims=False))
    return builder


def test_programs_that_take_other_inputs_are_other_models(tmp_path):
    path = bundle(tmp_path, {"one": dense(1), "other": _sum()})
    with pytest.raises(gr.DocumentError, match="PATH#other"):
        Runner(ServedSource(path))
    assert Runner(ServedSource(path, "one")).served.rows == (1,)
    with pytest.raises(gr.DocumentError, match="did you mean 'other'"):
        read_source(ServedSource(path, "othre"))


def test_what_values_cause_is_in_the_reply(tmp_path):
    builder = gr.GraphBuilder()
    table, at = builder.param("table", W), builder.input("i", (2,), "int32")
    builder.output(builder.op("take", table, at, axis=0))
    runner = Runner(ServedSource(bundle(tmp_path, builder)))
    assert runner.served.rows == (2,)
    reply = runner.run(RowBatch(("a",), 2, 2, ({"i": np.array([0, 99], np.int32)},)))
    assert (reply.kernel, reply.outputs) == (True, {})
    assert "out of range" in reply.error
    assert runner.run(RowBatch(("a",), 2, 2, ({"i": np.array([0, 1], np.int32)},))).error == ""


def test_offers():
    found = parse_offer("digits:2=some/net.bundle#step")
    assert (found.name, found.version, str(found.path), found.program) == (
        "digits",
        "2",
        "some/net.bundle",
        "step",
    )
    found = parse_offer("some/my net.onnx")
    assert (found.name, found.version, found.program) == ("my_net", "1", None)
    with pytest.raises(gr.InputError, match="NAME"):
        parse_offer("")


def test_a_source_stays_as_it_was_read(tmp_path):
    path = bundle(tmp_path, {"main": dense(1)})
    making = Making(tmp_path / "served")
    first = make_source(parse_offer(path), making)
    gr.build_bundle({"main": dense(1, "softmax", 0)}, "cpu:0", path, compile=False)
    second = make_source(parse_offer(path), making)
    hashes = {bundle_hash(read_source(source)) for source in (first, second)}
    assert len(hashes) == 2
    x = np.ones((1, 6), np.float32)
    (y,) = Runner(first).run(RowBatch(("a",), 1, 1, ({"x": x},))).outputs.values()
    np.testing.assert_allclose(y, expected(x), rtol=1e-5)
    with pytest.raises(gr.DocumentError, match="no file"):
        make_source(parse_offer(str(tmp_path / "none.bundle")), making)


def test_flags_that_no_bundle_follows_are_refused(tmp_path):
    offer = parse_offer(bundle(tmp_path, {"main": dense(1)}))
    require_used([offer], Making(tmp_path, options=gr.Options(threads=2)))
    with pytest.raises(gr.InputError, match="dims"):
        require_used([offer], Making(tmp_path, options=gr.Options(dims={"batch": 4})))
    with pytest.raises(gr.InputError, match="params"):
        require_used([offer], Making(tmp_path, params=tmp_path / "p.npz"))


def test_a_graph_json_is_compiled_to_be_served(tmp_path):
    builder = dense(2)
    (tmp_path / "net.json").write_bytes(gr.graph_to_json(builder.build()))
    np.savez(tmp_path / "w.npz", w=W)
    making = Making(tmp_path / "served", options=gr.Options(compile=False), params=tmp_path / "w.npz")
    assert Runner(make_source(parse_offer(str(tmp_path / "net.json")), making)).served.rows == (2,)


@pytest.mark.parametrize("name", ["m.bundle", "m.zip"])
def test_bundles_travel_by_content(tmp_path, name):
    path = bundle(tmp_path, {"main": dense(1)}, name=name)
    packed = pack(tmp_path / name, bytes)
    there = unpack(packed, bytes, tmp_path / "there")
    assert there.name == content_hash(packed)
    assert bundle_hash(read_source(ServedSource(str(there)))) == bundle_hash(read_source(ServedSource(path)))
    assert unpack(packed, lambda _: pytest.fail("it is there"), tmp_path / "there") == there


def test_bytes_that_changed_on_their_way_are_refused(tmp_path):
    bundle(tmp_path, {"main": dense(1)})
    packed = pack(tmp_path / "m.bundle", bytes)
    with pytest.raises(gr.ClusterError, match="arrived with sha256"):
        unpack(packed, lambda data: data + b"x", tmp_path / "there")
    evil = {"../evil": next(iter(packed.values()))}
    with pytest.raises(gr.ClusterError, match="outside"):
        unpack(evil, bytes, tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


def test_addresses_that_others_reach_need_a_token_and_tls(tmp_path):
    for host in ("127.0.0.1", "localhost", "::1", "[::1]"):
        rays.require_closed(host, {})
    files = {n: str(tmp_path / n) for n in ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")}
    for file in files.values():
        open(file, "w").close()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t"}
    tls = {"RAY_USE_TLS": "1", **files}
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org"):
        with pytest.raises(gr.ClusterError, match="token authentication and TLS is off"):
            rays.require_closed(host, {})
        with pytest.raises(gr.ClusterError, match="TLS is off"):
            rays.require_closed(host, token)
        with pytest.raises(gr.ClusterError, match="token authentication is off"):
            rays.require_closed(host, tls)
        with pytest.raises(gr.ClusterError, match="TLS is off"):
            rays.require_closed(host, {**token, **tls, "RAY_TLS_CA_CERT": ""})
        rays.require_closed(host, {**token, **tls})


def test_a_token_file_that_others_may_read_is_refused(tmp_path):
    file = tmp_path / "token"
    file.write_text("t\n")
    file.chmod(0o644)
    with pytest.raises(gr.ClusterError, match="chmod 600"):
        rays.auth_token({"RAY_AUTH_TOKEN_PATH": str(file)})
    file.chmod(0o600)
    assert rays.auth_token({"RAY_AUTH_TOKEN_PATH": str(file)}) == "t"


def test_status_as_lines():
    model = {
        "name": "m",
        "version": "1",
        "ready": True,
        "workers": 2,
        "devices": ["cpu:0"],
        "rows": [1, 4],
        "sha256": "ab" * 32,
        "queued": 3,
        "running": 1,
        "requests": {"200": 30, "429": 2},
        "runs": 20,
        "replays": {"lost": 1},
    }
    node = {"name": "here", "alive": True, "cores": 2}
    found = {"version": "0", "ray": "1", "nodes": [node], "models": [model]}
    before = {**found, "models": [{**model, "requests": {"200": 10}, "runs": 10}]}
    text = "\n".join(status_lines(found, before, 2.0))
    assert "node here: room for 2 threads of replicas" in text
    assert "1, 4 rows a run" in text
    row = next(line for line in text.splitlines() if line.startswith("m "))
    assert row.split() == ["m", "1", "2", "3", "1", "30", "2", "1", "10.0", "5.0"]


def test_a_ray_that_does_not_start_in_time_is_started_again():
    started, said = [], "The current node timed out during startup. This could happen because ..."

    def init(**words):
        if len(started) < 2:
            started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
            raise Exception(said)  # as Ray does
        started.append(words)

    rays._init(SimpleNamespace(init=init), address="local")
    assert started.pop() == {"address": "local"}
    assert [process.wait(10) for process in started] == [-signal.SIGKILL] * 2
    for text, tries in ((said, 3), ("another", 1)):
        seen = []

        def fail(text=text, seen=seen):
            seen.append(text)
            raise Exception(text)

        with pytest.raises(Exception, match=text[:7]):
            rays._init(SimpleNamespace(init=fail))
        assert len(seen) == tries
