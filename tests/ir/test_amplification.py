"""Small files that stand for much: each is read or refused within two seconds of the processor's time and
twenty times its size + 64 MiB. Measured in a process of its own."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from graph_runtime import GraphBuilder

SECONDS, TIMES, ALLOWED = 2.0, 20, 64 << 20

MEASURE = """
    import resource, sys, time, warnings
    import graph_runtime as gr
    {prepare}
    warnings.simplefilter("ignore")
    def peak():
        return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) << 10
    before, begin = peak(), time.process_time()
    try:
        {call}
        said = "read"
    except gr.GraphRuntimeError as error:
        said = type(error).__name__ + ": " + str(error)[:300]
    print(time.process_time() - begin, peak() - before, said, sep="\\n")
"""
# what any file takes is no part of it: modules that the first import of one brings
ANY_ONNX_FILE = """
import tempfile
import onnx.inliner
from onnx import helper
put = helper.make_tensor_value_info("x", 1, (4,)), helper.make_tensor_value_info("y", 1, (4,))
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", put[:1], put[1:])
with tempfile.NamedTemporaryFile(suffix=".onnx") as small:
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    small.write(model.SerializeToString())
    small.flush()
    gr.create(small.name)
"""
CALLS = {
    "graph": ("from graph_runtime.ir.documents.loader import load_graph", "load_graph(sys.argv[1])"),
    "bundle": ("import graph_runtime.run.loading", "gr.load(sys.argv[1])"),
    "params": ("from graph_runtime.artifacts.prepare import read_params", "read_params(sys.argv[1])"),
    "snapshot": (
        "from graph_runtime.base.machine.devices import parse_list; "
        "from graph_runtime.plan.snapshot import read_snapshot",
        "read_snapshot(memoryview(open(sys.argv[1], 'rb').read()), parse_list('cpu:0'))",
    ),
    "create": ("import graph_runtime.run.factory", "gr.create(sys.argv[1])"),
    "onnx": (ANY_ONNX_FILE, "gr.create(sys.argv[1])"),
    "manifest": (
        "from graph_runtime.artifacts.libraries.manifest import read_manifest",
        "read_manifest(sys.argv[1])",
    ),
}


def within(kind: str, file) -> str:
    """What came of reading a file, which took as little as it may."""
    prepare, call = CALLS[kind]
    script = textwrap.dedent(MEASURE).format(prepare=prepare, call=call)
    done = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    seconds, peak, said = done.stdout.splitlines()[:3]
    size = file.stat().st_size if file.is_file() else sum(f.stat().st_size for f in file.iterdir())
    assert int(peak) <= TIMES * size + ALLOWED, f"{int(peak) >> 20} MiB for {size} bytes: {said}"
    assert float(seconds) <= SECONDS, f"{float(seconds):.1f} s for {size} bytes: {said}"
    return said


# ---------------------------------------------------------------- JSON

BIG = 8 << 20
HEAD = (
    b'{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {"dltype": ["list_str", []], '
)
TEXTS = {
    "arrays": lambda: b"[" + b"[]," * (BIG // 3) + b"[]]",
    "nested arrays": lambda: b"[" + b"[[[[]]]]," * (BIG // 9) + b"[]]",
    "objects": lambda: b"[" + b"{}," * (BIG // 3) + b"{}]",
    "small objects": lambda: b"[" + b'{"a":0},' * (BIG // 8) + b"{}]",
    "strings": lambda: b"[" + b'"ab",' * (BIG // 5) + b'""]',
    "numbers": lambda: b"[" + b"9999," * (BIG // 5) + b"0]",
    "floats": lambda: b"[" + b"1e9," * (BIG // 4) + b"0]",
    "deep": lambda: b"[" * BIG,
    "deep objects": lambda: b'{"a":' * (BIG // 5),
    "keys": lambda: b"{" + b",".join(b'"%d":0' % i for i in range(BIG // 11)) + b"}",
    "one key": lambda: b"{" + b'"a":0,' * (BIG // 6) + b'"a":0}',
    "colons": lambda: b'["' + b":" * BIG + b'\\u003a"]',
    "backslashes": lambda: b'["' + b"\\u003a" * (BIG // 6) + b'"]',
    "one number": lambda: b"[" + b"9" * BIG + b"]",
}


def _some(names, *quick):
    """All names; those that are not ``quick`` in the slow step."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.sampled
@pytest.mark.parametrize("name", _some(TEXTS, "objects", "colons", "nested arrays"))
def test_json_of_a_graph(name, tmp_path):
    file, text = tmp_path / "graph.json", TEXTS[name]()
    for data in (
        text,
        HEAD + b'"shape": ["list_shape", []]}, "metadata": ' + text + b"}",
        HEAD + b'"shape": ["list_shape", ' + text + b"]}}",
    ):
        file.write_bytes(data)
        within("graph", file)


def index(**changes) -> dict:
    return {
        "format": "graph_runtime.bundle",
        "version": 2,
        "devices": ["cpu:0"],
        "programs": [
            {"name": "main", "graph": "main.json", "inputs": [], "outputs": [], "params": {}, "aliases": []}
        ],
        "libraries": [],
        "params": None,
        "files": {"main.json": {"bytes": 0, "sha256": "0" * 64}},
        **changes,
    }


def many(count: int) -> dict:
    slot = {"dtype": "float32", "shape": [0], "offset": 0}
    row = {"bytes": 0, "sha256": "0" * 64}
    program = index()["programs"][0]
    return {
        "tensors": {"params": {"file": "main.json", "tensors": {f"w{i}": slot for i in range(count)}}},
        "files": {"files": {f"{i}.json": row for i in range(count)}},
        "programs": {"programs": [{**program, "name": f"p{i}"} for i in range(count)]},
        "devices": {"devices": ["cpu:0"] * count},
        "inputs": {"programs": [{**program, "inputs": [f"x{i}" for i in range(count)]}]},
    }


@pytest.mark.core
@pytest.mark.sampled
@pytest.mark.parametrize("count", [10_000, pytest.param(800_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", many(0))
def test_an_index_of_a_bundle(what, count, tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "main.json").write_bytes(b"")
    (folder / "bundle.json").write_text(json.dumps(index(**many(count)[what])))
    within("bundle", folder)


@pytest.mark.core
@pytest.mark.sampled
@pytest.mark.parametrize("name", _some(["objects", "small objects", "deep", "keys", "strings"], "objects"))
def test_headers_of_other_files(name, tmp_path):
    text = TEXTS[name]()
    size = len(text).to_bytes(8, "little")
    for kind, file, data in (
        ("params", "x.safetensors", size + text),
        ("snapshot", "main.plan", b"GRPLAN\x01\x00" + size + text),
        ("manifest", "x.so", b"\x93GR-MANIFEST\r\n\x1a\n" + size + text),
    ):
        (tmp_path / file).write_bytes(data)
        within(kind, tmp_path / file)


# ---------------------------------------------------------------- zips, parameters


@pytest.mark.slow
def test_a_zip_of_many_members(tmp_path):
    for name, kind in (("b.zip", "bundle"), ("x.npz", "params")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for i in range(200_000):
                archive.writestr(zipfile.ZipInfo(str(i)), b"")
        assert "members" in (said := within(kind, tmp_path / name)) or "arrays" in said


@pytest.mark.slow
def test_a_member_that_unpacks_to_much(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w") as file,
    ):
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % (1 << 30)
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n")
        for _ in range(1 << 10):
            file.write(bytes(1 << 20))
    within("params", tmp_path / "x.npz")


@pytest.mark.parametrize(
    "packing", _some([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], zipfile.ZIP_DEFLATED)
)
def test_a_member_that_unpacks_to_more_than_the_directory_says(tmp_path, packing):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", packing) as archive:
        archive.writestr("a.npy", bytes(96 << 20))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    for mark, at in ((b"PK\1\2", 24), (b"PK\3\4", 22)):  # of the directory, and beside the member
        at += data.rindex(mark)
        data[at : at + 4] = (1000).to_bytes(4, "little")
    (tmp_path / "x.npz").write_bytes(data)
    assert "ParamsError" in within("params", tmp_path / "x.npz")


@pytest.mark.slow
def test_parameters_of_many_and_huge_arrays(tmp_path):
    from graph_runtime.ir.documents.params import MAGIC, save_params

    file = tmp_path / "x.params"
    file.write_bytes(save_params({str(i): np.zeros(0, np.float32) for i in range(30_000)}))
    within("params", file)
    word = (1 << 40).to_bytes(8, "little")
    for data in (
        MAGIC + bytes(8) + word,
        MAGIC + bytes(8) + bytes(8) + word,
        MAGIC + bytes(8) + (1 << 20).to_bytes(8, "little") + bytes(8 << 20),
    ):
        file.write_bytes(data)
        within("params", file)


@pytest.mark.core
def test_a_storage_id_far_above_the_others(tmp_path):
    b = GraphBuilder()
    b.output(b.op("relu", b.input("x", (4,))))
    document = json.loads(b.to_json())
    for most in (1 << 18, 1 << 20):
        document["attrs"]["storage_id"] = ["list_int", [0, most]]
        (tmp_path / "graph.json").write_text(json.dumps(document))
        said = within("create", tmp_path / "graph.json")
        assert said == "read" if most == 1 << 18 else "cannot need more" in said


# ---------------------------------------------------------------- ONNX


def _function(helper, *nodes):
    return helper.make_function("f", "F", ["a"], ["b"], nodes, [helper.make_opsetid("", 17)])


def _calls(helper, count, **node):
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    return [
        helper.make_node("F", names[i : i + 1], names[i + 1 : i + 2], domain="f", **node)
        for i in range(count)
    ]


def _onnx(name):
    """(nodes, functions, names of outputs) of small models that stand for much."""
    import onnx

    helper = onnx.helper
    relu, long = helper.make_node("Relu", ["a"], ["b"]), "q" * 500_000
    weights = onnx.numpy_helper.from_array(np.zeros(1 << 17, np.float32), "w")
    if name == "constants in functions":
        constant = helper.make_node("Constant", [], ["k"], value=weights)
        return _calls(helper, 2000), [_function(helper, constant, relu)], ["y"]
    if name == "names in functions":
        body = helper.make_node("Relu", ["a"], [long]), helper.make_node("Relu", [long], ["b"])
        return _calls(helper, 2000), [_function(helper, *body)], ["y"]
    if name == "a name that a function repeats":
        call = helper.make_node("F", [long], ["y"], domain="f")
        body = [helper.make_node("Add", ["a", "a"], [f"c{i}"]) for i in range(2000)]
        return [helper.make_node("Relu", ["x"], [long]), call], [_function(helper, *body, relu)], ["y"]
    if name == "an attribute that a function repeats":
        call = helper.make_node("F", ["x"], ["y"], domain="f", k=weights)
        body = [helper.make_node("Constant", [], [f"c{i}"]) for i in range(2000)]
        for node in body:
            node.attribute.add(name="value", ref_attr_name="k", type=onnx.AttributeProto.TENSOR)
        made = _function(helper, *body, relu)
        made.attribute.append("k")
        return [call], [made], ["y"]
    if name == "branches":
        return _branches(helper, onnx.TensorProto.FLOAT, 1000), [], ["y"]
    if name == "outputs":
        made = [helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(6000)]
        return made, [], [f"y{i}" for i in range(6000)]
    assert name == "names that are nearly known"
    wrong = helper.make_node("Relu", ["w" * 199], ["y"])
    return [*(helper.make_node("Relu", ["x"], [f"n{i}" + "w" * 180]) for i in range(3000)), wrong], [], ["y"]


def _branches(helper, kind, count):
    """If nodes that see many names."""
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["t"])], "g", [], [helper.make_tensor_value_info("t", kind, None)]
    )
    return [
        helper.make_node("Split", ["x"], [f"v{i}" for i in range(20 * count)]),
        *(
            helper.make_node("If", ["x"], [f"y{i}" if i else "y"], then_branch=body, else_branch=body)
            for i in range(count)
        ),
    ]


@pytest.mark.core
@pytest.mark.parametrize(
    "name",
    [
        "constants in functions",
        "names in functions",
        "a name that a function repeats",
        "branches",
        "outputs",
        "an attribute that a function repeats",
        "names that are nearly known",
    ],
)
def test_an_onnx_file(name, tmp_path):
    onnx = pytest.importorskip("onnx")
    nodes, functions, outputs = _onnx(name)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, (4,))],
        [helper.make_tensor_value_info(output, kind, (4,)) for output in outputs],
    )
    model = helper.make_model(
        graph,
        functions=functions,
        ir_version=9,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)],
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    said = within("onnx", tmp_path / "m.onnx")
    assert "function" not in name or "inlining the functions" in said
