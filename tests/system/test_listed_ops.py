"""Ops that were added one by one, in every place where an op is: a graph.json by its name, the kernels of cpu
and tt, eager mode, costs, the simulator, and torch and ONNX where these have it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import costs, eager
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops.registry import resolve
from graph_runtime.simulation.walks import walk_of

pytestmark = pytest.mark.core

# {name: (numpy's function, torch's, ONNX's op)}; "" where there is none
LISTED = {
    **{name: (name, name, "") for name in ("exp2", "log2", "log10", "trunc", "hypot", "logaddexp2", "ldexp")},
    **{name: (name, name, "") for name in ("rad2deg", "deg2rad", "square")},
    **{name: ("", name, "") for name in ("frac", "erfc", "i0", "lgamma", "digamma")},
    **{name: ("", name, "") for name in ("lerp", "addcmul", "addcdiv")},
    **{name: (there, name, "") for name, there in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"))},
    **{name: (there, name, "") for name, there in (("le", "less_equal"), ("gt", "greater"))},
    "ge": ("greater_equal", "ge", "GreaterOrEqual"),
    "cbrt": ("cbrt", "", ""),
    "softcap": ("", "", ""),
    "squared_difference": ("", "", ""),
    "hardswish": ("", "nn.functional.hardswish", "HardSwish"),
    "relu6": ("", "nn.functional.relu6", ""),
    "hardtanh": ("", "nn.functional.hardtanh", ""),
    "mod": ("mod", "remainder", "Mod"),
    "conv3d": ("", "nn.functional.conv3d", "Conv"),
    "max_pool3d": ("", "", "MaxPool"),
    "avg_pool3d": ("", "", "AveragePool"),
    "lrn": ("", "", "LRN"),
    "lp_pool2d": ("", "", "LpPool"),
    "max_pool2d_indices": ("", "", ""),
    "topk": ("", "", ""),
    "sum_abs": ("", "", "ReduceL1"),
    "sum_squares": ("", "", "ReduceSumSquare"),
}
COMPOSED = ("max_pool3d", "avg_pool3d", "lp_pool2d")  # ONNX's are made of others
FORMATS = {"cpu": None, "tt": {"tt": "f32"}}
OPS = {name: resolve(name, {}) for name in LISTED}
HOW = {"MaxPool": {"kernel_shape": [2, 2, 2]}, "AveragePool": {"kernel_shape": [2, 2, 2]}}
HOW |= {"LRN": {"size": 3}, "LpPool": {"kernel_shape": [2, 3]}, "Mod": {"fmod": 1}}


def case_of(name: str, kind: str):
    """A case of the op that the kind can do, and its attributes: for an alias those that go with it."""
    op, own = OPS[name]
    case = next(c for c in draws.cases_on(op, kind) if all(shape and 0 not in shape for _, shape in c.inputs))
    return op, case, own or case.attrs


def document(name: str, case, attrs) -> str:
    """A graph.json of one call by this name, the attributes of an alias not given."""
    builder = gr.GraphBuilder()
    given = [builder.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(case.inputs)]
    made = builder.op(name, *given, **({} if OPS[name][1] else attrs))
    builder.output(*(made if isinstance(made, tuple) else (made,)))
    whole = json.loads(builder.to_json())
    call = whole["nodes"][-1]["attrs"]
    if name != OPS[name][0].name:
        call["gr.op"] = name
        for attr in OPS[name][1]:
            call.pop(f"gr.{attr}")
    return json.dumps(whole)


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
@pytest.mark.parametrize("name", LISTED)
def test_a_graph_runs_and_eager_mode_calls_it(name, device):
    kind = device[:-2]
    op, case, attrs = case_of(name, kind)
    arrays = draws.draw(case)
    wanted = op.reference(arrays, op.decode(attrs))[0].astype(np.float64)
    text = document(name, case, attrs)
    assert f'"gr.op": "{name}"' in text
    module = gr.create(text, None, [device], place={"*": device}, formats=FORMATS[kind])
    module.run(**{f"x{i}": array for i, array in enumerate(arrays)})
    found = [module.get_output(0)]
    if module.get_num_outputs() == 1:  # eager mode has ops of one output alone
        given = {} if OPS[name][1] else attrs
        with eager.strict():
            found.append(eager.call(name, *(eager.array(a, device) for a in arrays), **given))
    bound = case.nmse.get("tt/f32" if kind == "tt" else "cpu", 0.0)
    assert max(draws.nmse(made.numpy(), wanted) for made in found) <= bound


@pytest.mark.parametrize("name", LISTED)
def test_it_has_costs_and_a_walk(name):
    op, case, attrs = case_of(name, "tt")
    graph = gr.create(document(name, case, attrs), None, ["cpu:0"]).session.plan.graph
    nid = graph.num_nodes - 1
    for device, at in (
        (devices.cpu(), Layout("host", "row_major", "f32")),
        (devices.tt(), Layout("dram", "tile", "f32")),
    ):
        cost = costs.node_cost(
            graph, nid, device, [at] * (len(case.inputs) + graph.row_ptr[nid + 1] - graph.row_ptr[nid])
        )
        assert 0 < cost.cycles < float("inf")
    assert walk_of(op.name)


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
@pytest.mark.parametrize("name", [name for name, (there, _, _) in LISTED.items() if there])
def test_numpys_function_stays_on_the_device(name, device):
    _, case, _ = case_of(name, device[:-2])
    arrays, function = draws.draw(case), getattr(np, LISTED[name][0])
    if name == "ldexp":  # numpy's exponents are integers
        arrays[1] = arrays[1].astype(np.int32)
    with eager.strict():
        found = function(*(eager.array(a, device) for a in arrays))
    assert draws.nmse(found.numpy(), function(*arrays)) <= max(case.nmse.get("tt/f32", 0.0), 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, there, _) in LISTED.items() if there])
def test_torchs_function_stays_on_the_device(name):
    torch = pytest.importorskip("torch")
    tt = pytest.importorskip("graph_runtime.torch")
    _, case, _ = case_of(name, "tt")
    function = torch
    for part in LISTED[name][1].split("."):
        function = getattr(function, part)
    given = [torch.from_numpy(a) for a in draws.draw(case)]
    more = (0.25,) if name == "lerp" and len(given) == 2 else ()
    with tt.no_fallback():
        found = function(*(x.to("tt") for x in given), *more)
    torch.testing.assert_close(found.cpu(), function(*given, *more), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
@pytest.mark.parametrize("name", [name for name, (_, _, there) in LISTED.items() if there])
def test_onnxs_op_is_it(name, device):
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    there, (op, case, _) = LISTED[name][2], case_of(name, "tt")
    if there == "LRN":  # onnx's own counts channels by the batch
        case = replace(case, inputs=(("float32", (5, 5, 9, 7)),))
    types = [TensorType(dtype, shape) for dtype, shape in case.inputs]
    names = [f"x{i}" for i in range(len(types))]
    code = {"float32": onnx.TensorProto.FLOAT, "int32": onnx.TensorProto.INT32}
    node = onnx.helper.make_node(there, names, ["y"], **HOW.get(there, {}))
    values = [
        onnx.helper.make_tensor_value_info(n, code[t.dtype], t.shape)
        for n, t in zip(names, types, strict=True)
    ]
    made = onnx.helper.make_graph([node], "one", values, [onnx.helper.make_empty_tensor_value_info("y")])
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    arrays = dict(zip(names, draws.draw(case), strict=True))
    formats = FORMATS[device[:-2]]
    module = gr.create(model, None, [device], place={"*": device}, formats=formats, compile=False)
    assert op.name in COMPOSED or op.name in {func.op for func in module.session.plan.graph.funcs}
    module.run(**arrays)
    (wanted,) = evaluator(model).run(None, arrays)
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-4)
