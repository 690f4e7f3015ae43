"""A bundle keeps its board, stack, parameters and layouts: compiled kernels see sharded tensors as those
built in do, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.base.errors import DocumentError
from graph_runtime.ir.graph import TensorType
from graph_runtime.testing.graphs import GraphMaker

LAYOUTS = {"x*": "height", "add": "block[3x2]/bf16", "relu": "l1/row_major/width[3x1]"}


def graph():
    maker = GraphMaker()
    a, b = (maker.input(TensorType("float32", shape)) for shape in ((70, 96), (70, 96)))
    return maker.graph([maker.op("tanh", [maker.op("relu", [maker.op("add", [a, b])])])])


@pytest.mark.parametrize("device", ["tt:0=wormhole_b0/buda[rows=9,clock=900]", "tt:0"])
def test_a_bundle_runs_in_the_layouts_that_it_was_compiled_for(tmp_path, device):
    rng = np.random.default_rng(3)
    values = {f"x{i}": rng.standard_normal(s).astype("f4") for i, s in enumerate(((70, 96), (70, 96)))}
    plain = gr.create(graph(), None, [device], layouts=LAYOUTS)
    plain.run(**values)
    folder = build_bundle(graph(), [device], tmp_path / "b", layouts=LAYOUTS, march="x86-64-v2", jobs=1)
    assert read_bundle(folder).devices == (device,)
    module = gr.load(folder)
    made, said = module.session.plan, plain.session.plan
    assert [str(made.layout(e)) for e in range(5)] == [str(said.layout(e)) for e in range(5)]
    assert made.devices == said.devices
    module.run(**values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), plain.get_output(0).numpy())


def test_a_bundle_that_names_no_device_is_refused(tmp_path):
    folder = build_bundle(graph(), ["tt:0"], tmp_path / "b", march="x86-64-v2", jobs=1)
    index = folder / "bundle.json"
    index.write_text(index.read_text().replace('"tt:0"', '"tt:0=n150[rows"'))
    with pytest.raises(DocumentError):
        read_bundle(folder)
