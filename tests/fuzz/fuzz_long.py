"""Long and deep inputs of up to 10 MB for every reader of strangers' bytes: each gives a value or a
GraphRuntimeError, in 5 seconds of processor time and 20 times its size + 64 MiB at most.

    SEED=1 SECONDS=60 python tests/fuzz/fuzz_long.py [SEED [ITERS]]

A piece of a file that can be read, or of what hurts parsers, is repeated, nested and put in; or all bytes
are random. Each input is read in a process of its own, which says what that took. Shorter inputs have less
time. A failure prints the command that replays it.
"""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz_bundles import as_zip, bundles
from fuzz_documents import graphs, manifests, parameters
from fuzz_messages import draw as draw_message
from fuzz_requests import make_request
from fuzz_tvm import blobs, libraries, try_library

import graph_runtime as gr
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.artifacts.libraries.manifest import read_manifest
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.cli.sources import read_input, read_texts
from graph_runtime.cluster.http.http_heads import parse_head
from graph_runtime.cluster.http.requests import parse_request
from graph_runtime.cluster.ports import Port, Served
from graph_runtime.cluster.transport.messages import read_message
from graph_runtime.compat.tvm_files.blob import parse_blob
from graph_runtime.frontends.onnx import load_model as load_onnx
from graph_runtime.frontends.stablehlo import load_model as load_stablehlo
from graph_runtime.frontends.stablehlo.op_stages import stays_open
from graph_runtime.frontends.stablehlo.source import read_source
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.graph import TensorType
from graph_runtime.study.experiment import COLUMNS, read_rows
from graph_runtime.ttnn.tensors.tensorbin import read_tensor, write_tensor
from graph_runtime.views.page.comparisons import read_comparison
from graph_runtime.views.profile import Report

MOST_SECONDS, MOST_TIMES, SPARE = 5.0, 20, 64 << 20
MOST_OF_NODES = 112 << 20
LONGEST = 10_000_000
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
# what hurts parsers: what opens, closes, escapes, counts, names many, or is long by itself
_SHORT = rb"""
[ ] { } ( ) < > [] {} () <> [[]] {{}} " ' \ \" "" // /* # @ ! ^ % -> : , = ; . - + 0 1 9 -1
1, -1, 1.5, 1e9, 0x1 true, null, dense< tensor< tensor<4x array<i64: @" "a" "a", [1], [[1], {a=
loc( #a< !a< a.b "a"() :i1 i1, ->i1 %a, %a= %a:9, ^b: {-# #-} x1 1x \u0000 {"a": {"a":1}, "a":1, [0,0,0], "",
"""
PIECES = (
    *_SHORT.split(),
    *(b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\x1a\0", b"*\0", b":\0", b"\n\0", b"\x08\1", b"\x80", b"\xff"),
    *(b" ", b"\n", b"\t", b"\f", b"\r\n", b"\0", b" \f", b"a b ", b"a: b\r\n", b"1\n", b"a,b\n", b'"a\n'),
    *(b"%a = stablehlo.add %a, %a : tensor<f32>\n", b'"a"():()->()\n', b"%b:4096 = a.b : i1\n"),
    *(b"\0\0\0\0\0\0\0\1", b"\1\0\0\0\0\0\0\0", b"PK\1\2", b"PK\5\6", b"\x7fELF", b"\xff" * 8),
)


# ---------------------------------------------------------------- what is read


def _texts(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(GOLDEN.glob(pattern))]


def _tensorbins() -> list[bytes]:
    from graph_runtime.compat import ttnn

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tensorbin"
        write_tensor(path, ttnn.Tensor(np.zeros((1, 1, 32, 32), np.float32), ttnn.bfloat16))
        return [path.read_bytes()]


def _tensor(path: Path) -> object:
    try:
        return read_tensor(path)
    except RuntimeError as error:
        if "TT_FATAL" not in str(error):  # as ttnn refuses a file
            raise
        return str(error)


def _onnx_files() -> list[bytes]:
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    w = helper.make_tensor("w", TensorProto.FLOAT, [3, 3], [0.5] * 9)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Softmax", ["a"], ["b"], "soft", axis=-1),
        helper.make_node("Transpose", ["b"], ["y"], "turned", perm=[1, 0]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    return [helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()]


def _in_file(read: Callable[[Path], object], suffix: str) -> Callable[[bytes], object]:
    def reader(data: bytes) -> object:
        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(data)
            file.flush()
            return read(Path(file.name))

    return reader


def _stablehlo(data: bytes) -> object:
    source = read_source(data)
    return stays_open(source) or load_stablehlo(source)


def _request(data: bytes) -> object:
    inputs = Port("x", "float32", (2, 4)), Port("i", "int32", (2,))
    return parse_request(data, None, Served(inputs, (Port("softmax", "float32", (2, 4)),), (), ()))


REPORT = Report(({"Name": {"string": "f"}, "Duration (us)": {"microseconds": 1.0}},), {}, {}).json().encode()
COMPARISON = b"""{"compare": {"worst_nmse": 0.0, "bound": 0.1, "ok": true, "judge": "numpy",
    "bound_isolated": null, "outputs": [], "isolated": [], "accumulated": []}}"""
HEAD = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 5"
ROW = (",".join(COLUMNS) + "\n" + ",".join("1" for _ in COLUMNS) + "\n").encode()


def _npy() -> list[bytes]:
    found = io.BytesIO(), io.BytesIO()
    np.save(found[0], np.zeros((2, 3), np.float32))
    np.save(found[1], np.array(["a", "bc"]))
    return [file.getvalue() for file in found]


def _read_npy(path: Path) -> object:
    return read_input(str(path), TensorType("float32", (2, 3)), np.random.default_rng(0))


Target = tuple[Callable[[], list[bytes]], Callable[[bytes], object], int]
TARGETS: dict[str, Target] = {  # the inputs that can be read, what reads them, how often it is asked
    "stablehlo": (lambda: _texts("stablehlo/*.mlir"), _stablehlo, 8),
    "onnx": (_onnx_files, load_onnx, 5),
    "graph": (graphs, load_graph, 3),
    "params": (lambda: parameters()[:2], _in_file(read_params, ".bin"), 1),
    "safetensors": (lambda: parameters()[2:3], _in_file(read_params, ".safetensors"), 2),
    "npz": (lambda: parameters()[3:], _in_file(read_params, ".npz"), 2),
    "bundle": (lambda: [as_zip(files) for files in bundles()[-3:]], _in_file(read_bundle, ".zip"), 2),
    "manifest": (manifests, _in_file(read_manifest, ".so"), 1),
    "library": (libraries, try_library, 2),
    "blob": (blobs, lambda data: parse_blob(data, "blob"), 1),
    "tensorbin": (_tensorbins, _in_file(_tensor, ".tensorbin"), 1),
    "head": (lambda: [HEAD], parse_head, 1),
    "request": (lambda: [json.dumps(make_request(False)[0]).encode()], _request, 2),
    "message": (lambda: [draw_message(i)[1] for i in range(4)], read_message, 1),
    "report": (lambda: [REPORT], Report.from_json, 1),
    "comparison": (lambda: [COMPARISON], read_comparison, 1),
    "study": (lambda: [ROW], _in_file(read_rows, ".csv"), 2),
    "npy": (_npy, _in_file(_read_npy, ".npy"), 1),
    "texts": (_npy, _in_file(lambda path: read_texts(str(path)), ".npy"), 1),
}  # fmt: skip


# ---------------------------------------------------------------- what is drawn

_WORD = re.compile(rb"\w+|\s+|[^\w\s]", re.ASCII)


def draw(seed: int, seeds: dict[str, list[bytes]]) -> tuple[str, bytes]:
    rng = random.Random(seed)
    name = rng.choices(list(TARGETS), [often for _, _, often in TARGETS.values()])[0]
    size = rng.choice((LONGEST // 50, LONGEST // 10, LONGEST))
    return name, made(rng, rng.choice(seeds[name]), size)


def made(rng: random.Random, good: bytes, size: int) -> bytes:
    """``size`` bytes: something short again and again, alone or in the middle of what can be read."""
    how = rng.randrange(8)
    if how == 0:
        return rng.randbytes(size)
    piece = _piece(rng, good)
    long = piece * (size // len(piece) + 1)
    if how == 1:
        return long[:size]
    at = rng.choice([match.start() for match in _WORD.finditer(good)] or [0])
    if how == 2:  # nested, and closed again
        opened, closed = rng.choice(
            ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b"<", b">"), (b'{"a":', b"}"))
        )
        count = size // (len(opened) + len(closed))
        return good[:at] + opened * count + closed * count + good[at:]
    if how == 3:  # of a whole: many of them behind each other
        return (good * (size // max(len(good), 1) + 1))[:size]
    if how == 4:  # lines
        lines = good.split(b"\n")
        line = rng.choice(lines) + b"\n"
        begin = rng.randrange(len(lines))
        return b"\n".join([*lines[:begin], line * (size // len(line) + 1), *lines[begin:]])
    if how == 5:  # numbered, so that no two are equal
        count = size // (len(piece) + 7) + 1
        long = b"".join(b"%b%d " % (piece, i) for i in range(count))
    return good[:at] + long[:size] + good[at + rng.choice((0, 0, 1)) :]


def _piece(rng: random.Random, good: bytes) -> bytes:
    if rng.random() < 0.7:
        return b"".join(rng.choice(PIECES) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    at = rng.randrange(len(good))
    return good[at : at + rng.choice((1, 2, 4, 8, 30, 100))]


# ---------------------------------------------------------------- the judge


def _status(key: str) -> int:
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) << 10


def measured(read: Callable[[bytes], object], data: bytes, before: bytes = b"") -> tuple[str, float, int]:
    """(what came of it, seconds of processor time, bytes of memory), in a process of its own, which has read
    ``before``: so the pages of libraries are not counted."""
    end, begin = os.pipe()
    child = os.fork()
    if child:
        os.close(begin)
        with os.fdopen(end, "rb") as pipe:
            told = pipe.read()
        status = os.waitpid(child, 0)[1]
        return pickle.loads(told) if told else (f"it ended with {status}", float("inf"), 0)
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        if before:
            read(before)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
        there, clock = _status("VmRSS"), time.process_time()
        try:
            outcome = "read" if read(data) is not None else "nothing"
        except gr.GraphRuntimeError as error:
            outcome = type(error).__name__
        except BaseException as error:
            outcome = f"fault: {type(error).__name__}: {error}"[:300]
        told = pickle.dumps((outcome, time.process_time() - clock, _status("VmHWM") - there))
        os.write(begin, told)
    finally:
        os._exit(0)


def judge(name: str, data: bytes, seed: int) -> str:
    outcome, seconds, nbytes = measured(TARGETS[name][1], data)
    limit = max(MOST_SECONDS * len(data) / LONGEST, 1.0)
    why = "" if not outcome.startswith(("fault", "it ended")) else outcome
    if seconds > limit:
        why = f"{seconds:.1f} s of processor time, at most {limit:.1f} ({outcome})"
    if nbytes > MOST_TIMES * len(data) + SPARE:
        why = f"{nbytes >> 20} MiB, at most {(MOST_TIMES * len(data) + SPARE) >> 20} ({outcome})"
    if not why:
        return outcome
    file = Path(tempfile.gettempdir()) / f"fuzz-long-{name}-{seed}"
    file.write_bytes(data)
    replay = f"replay: python tests/fuzz/fuzz_long.py {seed} 1"
    raise AssertionError(f"{name}: {len(data)} bytes: {why}\nkept in {file}\n{replay}")


def fuzz_long(seed: int, iters: int, seconds: float) -> Counter:
    """What came of ``iters`` inputs, or as many as ``seconds`` allow."""
    seeds = {name: make() for name, (make, _, _) in TARGETS.items()}
    for name, (_, read, _) in TARGETS.items():  # what is imported and compiled once is not the input's
        for data in seeds[name]:
            try:
                read(data)
            except gr.GraphRuntimeError:
                continue
    gc.collect()
    gc.freeze()
    counts: Counter = Counter()
    end = time.monotonic() + seconds
    for i in range(iters):
        if time.monotonic() > end:
            break
        name, data = draw(seed + i, seeds)
        counts[name, judge(name, data, seed + i)] += 1
    return counts


def models() -> dict[str, bytes]:
    """A hundred thousand nodes each."""
    from onnx import TensorProto, helper

    many = 100_000
    rows = ["func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {"]
    rows += ["%0 = stablehlo.abs %arg0 : tensor<4xf32>"]
    rows += [f"    %{i} = stablehlo.add %{i - 1}, %arg0 : tensor<4xf32>" for i in range(1, many)]
    text = "\n".join([*rows, f"return %{many - 1} : tensor<4xf32>", "}"])
    nodes = [helper.make_node("Add", [f"x{i}", "x0"], [f"x{i + 1}"], f"n{i}") for i in range(many)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x0", f"x{many}"))
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return {"stablehlo": text.encode(), "onnx": model.SerializeToString()}


def check_nodes() -> None:
    for name, data in models().items():
        read = {"stablehlo": load_stablehlo, "onnx": load_onnx}[name]
        outcome, _, nbytes = measured(read, data, TARGETS[name][0]()[-1])
        print(f"{name:12} 100,000 nodes: {outcome}, {nbytes >> 20} MiB")
        assert outcome == "read", (name, outcome)
        assert nbytes <= MOST_OF_NODES, (name, nbytes >> 20)


@pytest.mark.slow
@pytest.mark.skipif("GR_BUILD" in os.environ, reason="a sanitizer has memory and time of its own")
@pytest.mark.filterwarnings("ignore::UserWarning")  # a value, with words beside it
def test_long_inputs_and_many_nodes():
    assert sum(fuzz_long(int(os.environ.get("SEED", "0")), 1 << 30, 20.0).values()) > 10
    check_nodes()


if __name__ == "__main__":
    given = dict(zip(("SEED", "ITERS"), sys.argv[1:], strict=False))
    first = int(given.get("SEED", os.environ.get("SEED", "0")))
    found = fuzz_long(first, int(given.get("ITERS", 1 << 30)), float(os.environ.get("SECONDS", "60")))
    for (target, outcome), number in sorted(found.items()):
        print(f"{target:12} {outcome:24} {number:6}")
    print(f"{sum(found.values())} long inputs from seed {first}: each a value or a typed error, in bounds")
    check_nodes()
