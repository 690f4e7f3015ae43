"""Values that an input's dtype does not hold are refused at every door by their place; those that it holds
come in unchanged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager
from graph_runtime.base.errors import InputError
from graph_runtime.compat import tvm

CASES = {
    "int64 in int32": ("int32", np.array([1, 1 << 40])),
    "float64 in float32": ("float32", np.array([0.5, 1e300])),
    "uint64 in int64": ("int64", np.array([1, 1 << 63], np.uint64)),
}


def graph(dtype):
    b = gr.GraphBuilder()
    b.output(b.op("add", b.input("x", (2,), dtype), b.input("w", (2,), dtype), name="y"))
    return b.build()


def made(dtype):
    module = gr.create(graph(dtype), None, "cpu:0")
    module.set_input(x=np.zeros(2, dtype), w=np.ones(2, dtype))
    return module


def _file(path, name, value):
    gr.save_params({name: value}, path)
    return path


def _npz(path, name, value):
    np.savez(path.with_suffix(".npz"), **{name: value})
    return path.with_suffix(".npz")


def _awaited(dtype, value):
    async def run():
        return await made(dtype).run_async(x=value)

    return asyncio.run(run())


def _bundled(dtype, value, path):
    gr.build_bundle(graph(dtype), path / "b", "cpu:0", params={"w": value})
    return gr.load(path / "b").get_input("w")


def _indexed(dtype, value):
    x = eager.array(np.zeros(2, dtype))
    x[0:2] = value
    return x


def _read(module, name="x"):
    return module.get_input(name)


def _set(module, *args, **words):
    module.set_input(*args, **words)
    return _read(module)


def _ran(module, value):
    module.run(x=value)
    return _read(module)


def _loaded(module, params):
    module.load_params(params)
    return _read(module, "w")


def _copied(dtype, value):
    tensor = gr.empty(2, dtype)
    tensor.copy_from(value)
    return tensor


def _tvm(dtype, value):
    module = tvm.contrib.graph_executor.create(gr.graph_to_json(graph(dtype)), None, tvm.cpu(0))
    module.set_input("x", value)
    return module.get_input("x")


# door: (dtype, value, folder) -> what holds the value, or what waits for a run that read it
DOORS = {
    "set_input": lambda d, v, _: _set(made(d), "x", v),
    "set_input, by keyword": lambda d, v, _: _set(made(d), x=v),
    "set_input, a list": lambda d, v, _: _set(made(d), "x", v.tolist()),
    "run": lambda d, v, _: _ran(made(d), v),
    "run_async": lambda d, v, _: made(d).run_async(x=v),
    "await": lambda d, v, _: _awaited(d, v),
    "submit": lambda d, v, _: made(d).session.submit({"x": v}).wait(),
    "run_from_inputs": lambda d, v, _: made(d).run_from_inputs("cpu", 0, "x", v)[:0],
    "load_params, a dict": lambda d, v, _: _loaded(made(d), {"w": v}),
    "load_params, TVM's": lambda d, v, p: _loaded(made(d), _file(p / "w.params", "w", v)),
    "load_params, .npz": lambda d, v, p: _loaded(made(d), _npz(p / "w", "w", v)),
    "create, params": lambda d, v, _: _read(gr.create(graph(d), None, "cpu:0", params={"w": v}), "w"),
    "build_bundle, params": _bundled,
    "GraphBuilder.param": lambda d, v, _: gr.GraphBuilder().param("w", v, d),
    "array": lambda d, v, _: gr.array(v, dtype=d),
    "copy_from": lambda d, v, _: _copied(d, v),
    "eager.array": lambda d, v, _: eager.array(v, dtype=d),
    "eager.full": lambda d, v, _: eager.full(2, v[1], dtype=d),
    "tvm, set_input": lambda d, v, _: _tvm(d, v),
    "tvm, copyfrom": lambda d, v, _: tvm.nd.empty((2,), d).copyfrom(v),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("door", DOORS)
def test_every_door(door, case, tmp_path: Path):
    dtype, value = CASES[case]
    words = rf"which does not fit {dtype}|is .*, (the graph says|its input is) {dtype}"
    with pytest.raises(gr.GraphRuntimeError, match=words) as caught:
        DOORS[door](dtype, value, tmp_path)
    if "its input is" in str(caught.value):
        return  # a constant has the very dtype
    fits = np.array([3, 3], value.dtype)
    held = DOORS[door](dtype, fits, tmp_path)
    if hasattr(held, "numpy"):
        np.testing.assert_array_equal(held.numpy(), fits.astype(dtype), strict=True)


@pytest.mark.parametrize("case", ["int64 in int32", "float64 in float32"])
def test_what_a_device_holds_in_32_bits(case):
    """eager and owned tensors narrow by themselves: numpy's functions then compute on the host or refuse."""
    dtype, value = CASES[case]
    x = eager.array(np.zeros(2, dtype), "tt:0")
    for narrowed in (
        lambda: eager.array(value, "tt:0"),
        lambda: gr.runtime.create_owned_host_tensor(value),
        lambda: x + value,
        lambda: _indexed(dtype, value),
        lambda: eager.where(x == 0, value, x),
    ):
        with pytest.raises(InputError, match=f"which does not fit {dtype}"):
            narrowed()
    assert (x < value).numpy().tolist() == [True, True]  # a comparison needs no common dtype


def test_values_of_a_model_that_become_constants(tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    h, t = onnx.helper, onnx.TensorProto
    infos = [h.make_tensor_value_info(n, k, [2]) for n, k in (("x", t.FLOAT), ("n", t.INT32), ("y", t.INT32))]
    node = h.make_node("Add", ["n", "n"], ["y"])
    model = h.make_model(
        h.make_graph([node], "g", infos[:2], infos[2:]), opset_imports=[h.make_opsetid("", 17)]
    )
    for values in ({"n": np.array([1, 1 << 40])}, {"x": np.array([1e300, 0])}):
        with pytest.raises(InputError, match="which does not fit"):
            gr.create(model, values=values)
    module = gr.create(model, values={"n": [3, 4]})
    module.run(x=np.zeros(2, np.float32))
    assert module.get_output(0).numpy().tolist() == [6, 8]
