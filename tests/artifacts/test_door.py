"""The one door: what a source is, what is opened of it, and errors that name the file."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts import door
from graph_runtime.artifacts.door import Plannable, Waiting
from graph_runtime.base.errors import DocumentError, GraphError, GraphRuntimeError, InputError
from graph_runtime.base.options import Options

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

LOOP = """\
func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<40> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %x = %arg0) : tensor<i32>, tensor<f32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %y = stablehlo.add %x, %x : tensor<f32>
    stablehlo.return %j, %y : tensor<i32>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
"""


def onnx_model(op="Relu", size=2, opset=17, **words):
    sizes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **words)], "g", sizes[:1], sizes[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made.SerializeToString()


def relu():
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (2,))))
    return builder


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """{name: (source, kind)}."""
    tmp_path = tmp_path_factory.mktemp("sources")
    text = gr.graph_to_json(relu().build())
    files = {"net.json": text, "net": text, "net.onnx": onnx_model(), "model": onnx_model()}
    files |= {"net.mlir": LOOP.encode()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    gr.build_bundle(relu(), "cpu:0", tmp_path / "net.zip", compile=False)
    gr.build_bundle(relu(), "cpu:0", tmp_path / "net.bundle", compile=False)
    (tmp_path / "zipped").write_bytes((tmp_path / "net.zip").read_bytes())
    kinds = {"net.json": door.GRAPH, "net": door.GRAPH, "net.onnx": door.ONNX, "model": door.ONNX}
    kinds |= {"net.mlir": door.STABLEHLO, "net.zip": door.BUNDLE, "net.bundle": door.BUNDLE}
    kinds |= {"zipped": door.BUNDLE, "nothing.onnx": door.ONNX, "nothing": door.GRAPH}
    found = {name: (tmp_path / name, kind) for name, kind in kinds.items()}
    found |= {f"{name} as str": (str(path), kind) for name, (path, kind) in found.items()}
    found |= {f"bytes of {name}": (data, kinds[name]) for name, data in files.items()}
    found |= {"text": (text.decode(), door.GRAPH), "lines": (LOOP, door.STABLEHLO)}
    plan = gr.prepare(relu(), "cpu:0").plan
    objects = (relu(), relu().build(), gr.load_model(onnx_model()), plan)
    return found | {type(one).__name__: (one, door.GRAPH) for one in objects}


def test_a_source_is_what_it_is(sources):
    got = {name: door.kind_of(source) for name, (source, _) in sources.items()}
    assert got == {name: kind for name, (_, kind) in sources.items()}


def test_all_that_can_be_planned_is_opened_once_and_planned(sources):
    for name, (source, kind) in sources.items():
        if name.startswith("nothing"):
            continue
        opened = door.open_source(source)
        assert isinstance(opened, Plannable), name
        assert door.open_source(opened) is opened
        assert opened.rewritable == (kind in (door.ONNX, door.STABLEHLO) or isinstance(source, gr.Model))
        plan = gr.prepare(opened, compile=False).plan
        assert [str(device) for device in plan.devices] == list(map(str, opened.devices)), name


def test_what_brings_a_bundle_comes_with_it(sources):
    opened = door.open_source(sources["net.bundle"][0])
    assert (opened.name, opened.devices, opened.entry.name) == ("net.bundle", ("cpu:0",), "main")
    for call in (gr.create, lambda source: gr.prepare(source, "cpu:0")):
        with pytest.raises(DocumentError, match=r"net\.bundle is a bundle: gr\.load opens it"):
            call(sources["net.bundle"][0])


def test_a_loop_whose_end_is_known_is_unrolled_where_one_program_is_asked_for(tmp_path):
    path = tmp_path / "loop.mlir"
    path.write_text(LOOP)
    assert isinstance(door.open_source(path), Plannable)
    assert isinstance(door.open_source(path, unroll=False), Waiting)
    module = gr.create(path, compile=False)
    assert type(module).__name__ == "FlowModule"
    module.run(arg0=np.float32(1))
    assert module.get_output(0).numpy() == 2.0**40


@pytest.mark.parametrize(
    ("model", "options", "error", "text"),
    [
        (onnx_model("Nothing"), {}, gr.UnsupportedOpError, "Nothing"),
        (onnx_model(opset=3), {}, GraphError, "opset 3"),
        (onnx_model(), {"dims": {"n": 1}}, InputError, "no dimension 'n'"),
        (onnx_model(), {"values": {"z": 1}}, InputError, "no input 'z'"),
        (onnx_model()[:20], {}, DocumentError, "cut off"),
        (onnx_model(size="n"), {}, GraphRuntimeError, "dimensions without a size: n"),
    ],
)
def test_errors_name_the_file(tmp_path, model, options, error, text):
    (tmp_path / "faulty.onnx").write_bytes(model)
    with pytest.raises(error, match=text) as caught:
        gr.prepare(tmp_path / "faulty.onnx", "cpu:0", Options(**options))
    assert str(caught.value).count("faulty.onnx") == 1


@pytest.mark.parametrize("word", ["dims", "batch", "values"])
@pytest.mark.parametrize("name", ["net.json", "net.mlir", "net.bundle"])
def test_sizes_are_an_onnx_files(sources, name, word):
    value = 2 if word == "batch" else {"n": 2}
    with pytest.raises(InputError, match=rf"{word} .* needs an ONNX file; {name}"):
        door.open_source(sources[name][0], Options(**{word: value}))
