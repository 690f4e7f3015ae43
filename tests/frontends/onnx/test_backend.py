"""The node tests of the ONNX backend test suite on cpu and on tt.

Skipped is what names its reason below: an element type or op that we do not list, or a limit that a converter
states. Everything else passes.
"""

from __future__ import annotations

import re
import unittest
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnx_test = pytest.importorskip("onnx.backend.test")

from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402

from graph_runtime.compat import onnx_backend  # noqa: E402
from graph_runtime.frontends.onnx import families  # noqa: E402, F401
from graph_runtime.frontends.onnx.context import table  # noqa: E402
from graph_runtime.frontends.onnx.elements import BY_CODE  # noqa: E402
from graph_runtime.frontends.onnx.host_ops import DRAWS  # noqa: E402
from graph_runtime.frontends.onnx.read import DTYPES  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LEAST = 1857  # tests that run
# what a converter says that it does not do, or what no exact comparison can ask
LIMITS = {
    r"training_dropout(?!.*zero_ratio)": "drops elements at random",
    r"test_loop16_seq_none": "the suite cannot compare a sequence that begins with a scalar",
    r"bernoulli": "random numbers",
}
# tests whose stored results were rounded to 16 bits after each step: two units in the last place
ROUGH = {r"attention_.*bf16": {"rtol": 0.02}, r"attention_.*fp16": {"rtol": 0.003}}
ROUGH |= {
    r"test_dft": {"rtol": 0.001, "atol": 1e-5}
}  # a fast transform's zeros are not as near to it as ours


def reason(case) -> str | None:
    """Why a test is skipped, None if it is not."""
    graph = case.model.graph
    codes = {_element(value.type) for value in (*graph.input, *graph.output, *graph.value_info)}
    if others := codes - set(DTYPES) - set(BY_CODE):
        return f"element types {sorted(map(str, others))}"
    for pattern, text in LIMITS.items():
        if re.search(pattern, case.name):
            return text
    for node in case.model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in table() and not _expanded(node, case.model):
            return f"no converter for {domain}{'.' * bool(domain)}{node.op_type}"
    return None


def _element(kind) -> int | str:
    """The element type of a tensor, or of the tensors of a sequence or an optional."""
    if kind.HasField("tensor_type"):
        return kind.tensor_type.elem_type
    if kind.HasField("sequence_type"):
        return _element(kind.sequence_type.elem_type)
    return (
        _element(kind.optional_type.elem_type) if kind.HasField("optional_type") else kind.WhichOneof("value")
    )


def _expanded(node, model) -> bool:
    versions = {o.domain: o.version for o in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def _backend(devices, **options):
    """Ours on these devices: the suite knows CPU and CUDA only."""

    class OnDevices(onnx_backend.GraphRuntimeBackend):
        @classmethod
        def prepare(cls, model, device="CPU", **kwargs):
            return super().prepare(model, devices if device == "CPU" else device, **options, **kwargs)

    return OnDevices


def _made(backend, tolerance) -> tuple[type, dict[str, str]]:
    """(a TestCase of all node tests, {name of each that is skipped: why})."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in load_model_tests(kind="node")}
        rough = {name: tolerance for name in cases if tolerance}
        rough |= {
            name: tolerance | kwargs
            for pattern, kwargs in ROUGH.items()
            for name in cases
            if re.search(pattern, name)
        }
        made = onnx_test.BackendTest(backend, __name__, test_kwargs=rough)
        suite = made.test_cases["OnnxBackendNodeModelTest"]
    skipped = {}
    for attribute in [name for name in dir(suite) if name.startswith("test_")]:
        name, device = attribute.rsplit("_", 1)
        if device != "cpu":
            delattr(suite, attribute)
        elif text := reason(cases[name]):
            skipped[name] = text
            setattr(suite, attribute, unittest.skip(text)(getattr(suite, attribute)))
    return suite, skipped


NodeTestsOnCpu, SKIPPED = _made(_backend("cpu:0"), {})
# a tt device computes functions of floats by polynomials; what it has no kernel for runs on cpu
NodeTestsOnTT, _ = _made(
    _backend("tt:0,cpu:0", fallback="host", formats={"tt": "f32"}), {"rtol": 0.01, "atol": 0.001}
)


def test_as_many_node_tests_run_as_we_say():
    count = sum(name.startswith("test_") for name in dir(NodeTestsOnCpu))
    assert count - len(SKIPPED) >= LEAST


def test_no_listed_op_is_skipped_as_a_whole(node_cases):
    run = {node.op_type for case in node_cases if case.name not in SKIPPED for node in case.model.graph.node}
    listed = {op for domain, op in table() if not domain}
    none = {"GlobalLpPool", "SimplifiedLayerNormalization"}  # of which the suite has no test
    none |= {"ConcatFromSequence", "Optional", "SequenceAt", "SequenceConstruct", "SequenceErase"}
    none |= {name for _, name in DRAWS}  # numbers that no suite can know: test_draws.py
    assert listed - run == none


@pytest.mark.timeout(600)
def test_compiled_kernels_pass_the_same_tests(node_cases, tmp_path, few_units, monkeypatch):
    """Every thirtieth test, its kernels generated with constant shapes and compiled in one library. At -O0,
    for its code is what is asked about: artifacts/test_compile.py has the bits of -O3."""
    from graph_runtime.codegen import shared_library
    from graph_runtime.codegen.build import build_library

    from graph_runtime.base.errors import GraphRuntimeError
    from graph_runtime.frontends.onnx import load_model
    from graph_runtime.plan import plan

    flags = tuple("-O0" if flag == "-O3" else flag for flag in shared_library.FLAGS)
    monkeypatch.setattr(shared_library, "FLAGS", flags)
    chosen = [case for case in node_cases[::30] if case.name not in SKIPPED]
    plans = []
    for case in chosen:
        try:
            plans.append((case, plan(load_model(case.model).graph, ["cpu:0"])))
        except GraphRuntimeError:  # it needs values of a run, for which a library cannot wait
            continue
    library = build_library([p for _, p in plans], tmp_path / "nodes.so")
    assert len(plans) > 30
    for case, _ in plans:
        ready = onnx_backend.prepare(case.model, "CPU", library=str(library))
        for inputs, outputs in case.data_sets:
            found = ready.run([_array(value) for value in inputs])
            allowed = {"rtol": case.rtol, "atol": case.atol}
            allowed |= next((k for p, k in ROUGH.items() if re.search(p, case.name)), {})
            for one, other in zip(found, map(_array, outputs), strict=True):
                np.testing.assert_allclose(
                    np.asarray(one, np.float64),
                    np.asarray(other, np.float64),
                    **allowed,
                    err_msg=case.name,
                )


def _array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
