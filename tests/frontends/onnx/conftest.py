"""What the tests of the ONNX front-end share. All need the extra "onnx"."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from graph_runtime.accuracy.interpreter import heads, interpret  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402
from graph_runtime.run.factory import create  # noqa: E402

_ALL_SLOW = "test_backend.py"


def pytest_ignore_collect(collection_path, config):
    """The default run takes no test of that file, and to name them all is six seconds' work: onnx makes the
    data of every node test."""
    return True if collection_path.name == _ALL_SLOW and config.option.markexpr == "not slow" else None


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@pytest.fixture(scope="session")
def node_cases():
    """Every node test of the ONNX backend test suite."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its references overflow on purpose
        return load_model_tests(kind="node")


def make(nodes, inputs, outputs, weights=None, opset=17, functions=()):
    """A ModelProto. ``nodes``: NodeProtos, or (op, inputs, outputs, attributes); ``inputs``: {name: shape} or
    {name: (element type, shape)}; ``outputs``: names."""
    protos = [
        n if isinstance(n, onnx.NodeProto) else helper.make_node(n[0], n[1], n[2], **(n[3:] or [{}])[0])
        for n in nodes
    ]
    given = [
        helper.make_tensor_value_info(
            name,
            *(
                t
                if isinstance(t[0:1], tuple) and len(t) == 2 and isinstance(t[1], (tuple, list))
                else (FLOAT, t)
            ),
        )
        for name, t in inputs.items()
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    stored = [numpy_helper.from_array(np.asarray(a), name) for name, a in (weights or {}).items()]
    graph = helper.make_graph(protos, "g", given, made, stored)
    imports = [helper.make_opsetid("", opset)] + [
        helper.make_opsetid(d, 1) for d in sorted({f.domain for f in functions})
    ]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def run(model, inputs, devices=("cpu:0",), **options):
    """The outputs of a Model, by its kernels."""
    module = create(model.graph, None, list(devices), **options)
    for name, constant in model.constants.items():
        module.set_input(name, constant.read())
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def reference(model, inputs):
    """The outputs of a Model, by the numpy references of its ops."""
    values = dict(inputs) | {name: constant.read() for name, constant in model.constants.items()}
    return heads(model.graph, interpret(model.graph, values))


@pytest.fixture(scope="session")
def kit():
    """make, load, run and reference, and the element types."""
    return SimpleNamespace(
        make=make, load=load_model, run=run, reference=reference, FLOAT=FLOAT, INT64=INT64, BOOL=BOOL
    )
