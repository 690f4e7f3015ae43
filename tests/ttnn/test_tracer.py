"""ttnn.tracer: what torch and ttnn compute is a graph; model_preprocessing: parameters of modules."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")
nx = pytest.importorskip("networkx")
pytestmark = pytest.mark.core
tracer, preprocessing = ttnn.tracer, ttnn.model_preprocessing


def names(graph):
    return [graph.nodes[node]["operation"].to_string() for node in nx.topological_sort(graph)]


def test_calls_of_torch_and_ttnn_are_one_graph(device):
    with tracer.trace():
        x = torch.ones(4, 64)
        y = ttnn.from_torch(torch.exp(x), layout=ttnn.TILE_LAYOUT, device=device)
        z = ttnn.to_torch(ttnn.add(y, y))
    graph = tracer.get_graph(z)
    assert names(graph) == ["torch.ones", "torch.exp", "ttnn.from_torch", "ttnn.add", "ttnn.to_torch"]
    (added,) = [node for node in graph if "add" in node.name]
    assert [data["sink_input_index"] for _, _, data in graph.in_edges(added, data=True)] == [0, 1]
    kept = graph.nodes[added]
    assert (kept["shapes"], kept["dtypes"]) == (([4, 64],), (ttnn.float32,))
    assert (kept["layouts"], kept["memory_configs"]) == ((ttnn.TILE_LAYOUT,), (ttnn.DRAM_MEMORY_CONFIG,))
    assert kept["duration"] > 0
    assert torch.allclose(z, 2 * torch.exp(torch.ones(4, 64)), rtol=1e-3)
    torch.exp(x)
    assert len(tracer.get_graph(z)) == 5  # nothing is added afterwards


def test_a_module_is_a_node_with_a_graph():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.ReLU()))
    with tracer.trace():
        made = model(torch.ones(2, 4))
    graph = tracer.get_graph(made)
    assert [name.splitlines()[0] for name in names(graph)] == [
        "torch.ones",
        f"{torch.nn.Sequential.__module__}.Sequential",
    ]
    flat = tracer.get_graph(made, flatten=True)
    assert not list(nx.simple_cycles(flat))
    assert sorted(names(flat)) == [
        "torch.nn.Parameter\n0.bias",
        "torch.nn.Parameter\n0.weight",
        "torch.nn.functional.linear",
        "torch.nn.functional.relu",
        "torch.ones",
    ]
    (relu,) = [node for node in flat if "relu" in node.name]
    ((source, _),) = flat.in_edges(relu)
    assert "linear" in source.name
    assert "__call__" in vars(torch.nn.Module)
    assert torch.equal(made, model(torch.ones(2, 4)))


def test_an_error_ends_tracing_and_traces_do_not_nest():
    with pytest.raises(KeyError), tracer.trace():
        raise KeyError
    assert not tracer.is_tracing_enabled()
    with pytest.raises(RuntimeError, match="nest"), tracer.trace():
        tracer.enable_tracing()
    with pytest.raises(RuntimeError, match="no traced tensor"):
        tracer.get_graph(torch.ones(2))
    with pytest.raises(ttnn.Unsupported, match="codegen"):
        tracer.codegen(None)


def test_a_picture_needs_graphviz(monkeypatch):
    with tracer.trace():
        made = torch.exp(torch.ones(2))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.warns(UserWarning, match="Graphviz is not installed"):
        assert tracer.visualize(made) is None
    with pytest.raises(ValueError, match="suffix"):
        tracer.visualize(made, file_name="x.txt")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 32)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(32, 32), torch.nn.Linear(32, 64, bias=False)])
        self.norm = torch.nn.LayerNorm(64)
        self.scale = torch.nn.Parameter(torch.ones(64))


def test_parameters_have_the_names_of_modules(device):
    net = Net()
    found = preprocessing.preprocess_model_parameters(initialize_model=lambda: net, device=device)
    assert sorted(found) == ["layers", "norm", "scale", "table"]
    assert found.layers[0].weight.shape == [32, 32]
    assert found.layers[1].weight.shape == [32, 64]
    assert "bias" not in found.layers[1]
    assert found.norm.bias.shape == [1, 64]
    assert found.table.weight.layout is ttnn.ROW_MAJOR_LAYOUT
    x = torch.rand(2, 32)
    y = ttnn.from_torch(x, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    made = ttnn.to_torch(ttnn.linear(y, found.layers[0].weight, bias=found.layers[0].bias))
    assert torch.allclose(made.float(), net.layers[0](x), atol=2e-2)
    with pytest.raises(AttributeError, match="no parameter 'missing'"):
        found.layers[0].missing  # noqa: B018


def test_a_callers_preprocessor_and_a_cache(tmp_path, device):
    def custom(model, name, ttnn_module_args):
        assert ttnn_module_args is None
        return {"row": ttnn.ones([1, 32])} if name.endswith("norm") else {}

    def get(**more):
        with ttnn.manage_config("model_cache_path", tmp_path), ttnn.manage_config("enable_model_cache", True):
            return preprocessing.preprocess_model_parameters(model_name="a/net", version="1", **more)

    with pytest.raises(RuntimeError, match="don't exist"):
        get()
    made = get(initialize_model=Net, custom_preprocessor=custom)
    again = get(device=device)
    assert sorted(again) == sorted(made)
    assert again.norm.row.shape == [1, 32]
    assert (again.layers[1].weight.to_numpy() == made.layers[1].weight.to_numpy()).all()


def test_what_modules_were_called_with_is_inferred_from_a_run():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.MaxPool2d(2))
    found = preprocessing.infer_ttnn_module_args(
        model=model, run_model=lambda m: m(torch.ones(2, 3, 16, 16)), device=None
    )
    assert isinstance(found[0], preprocessing.Conv2dArgs)
    assert (found[0].in_channels, found[0].padding, found[0].input_height) == (3, (1, 1), 16)
    assert (found[1].input_channels, found[1].batch_size) == (8, 2)
    conv, norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8).eval()
    norm.running_mean += 0.5
    weight, bias = preprocessing.fold_batch_norm2d_into_conv2d(conv, norm)
    x = torch.rand(1, 3, 8, 8)
    folded = torch.nn.functional.conv2d(x, weight, bias)
    assert np.allclose(folded.detach(), norm(conv(x)).detach(), atol=1e-5)
