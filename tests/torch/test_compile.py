"""torch.compile(backend="tt"): values, gradients, what moves and what does not, sizes, options, refusals."""

from __future__ import annotations

import copy
import gc
import json
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import InputError, UnsupportedOpError  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def mlp(*sizes):
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def pair_of(model, **options):
    """(compiled model on tt, its module, the same model on the CPU)."""
    twin = copy.deepcopy(model)
    model.to("tt")
    return torch.compile(model, backend="tt", **options), model, twin


def same_gradients(same, model, twin, tolerance=1e-5):
    for made, wanted in zip(model.parameters(), twin.parameters(), strict=True):
        assert (made.grad is None) == (wanted.grad is None)
        if wanted.grad is not None:
            assert made.grad.device == made.device
            same(made.grad, wanted.grad, tolerance)


def test_forward_and_backward_equal_the_cpu(tt, same):
    compiled, model, twin = pair_of(mlp(20, 16, 4))
    for _ in range(2):
        x = torch.randn(6, 20)
        made, wanted = compiled(x.to("tt")), twin(x)
        assert made.device == torch.device("tt:0")
        same(made, wanted)
        made.square().sum().backward()
        wanted.square().sum().backward()
    same_gradients(same, model, twin, 1e-4)
    assert tt.stats()["compiles"] == 2
    assert tt.stats()["programs"] == 4
    assert not tt.stats().eager_graphs


def test_weights_are_neither_uploaded_nor_converted(tt):
    model = mlp(40, 64, 10).to("tt")
    compiled = torch.compile(model, backend="tt")
    x = torch.randn(8, 40).to("tt")
    with gr.stats() as moved, torch.no_grad():
        compiled(x)
    assert moved.bytes("h2d", "tt:0") == 0
    assert moved.count("conversion") == 0
    assert tt.stats()["prepared"] == 0
    trained = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        y = compiled(x)
        with gr.stats() as moved:
            trained.zero_grad()
            y.backward(y.detach())
            trained.step()
            y = compiled(x)
        assert moved.bytes("d2h") == 0, moved.rows()
        assert moved.bytes("h2d") <= (0 if step else 16), moved.rows()  # numbers, once


def test_a_step_moves_the_batch_the_output_and_its_gradient_only(tt):
    compiled, model, _ = pair_of(mlp(30, 16, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.randn(4, 30), torch.randint(0, 10, (4,))
    for step in range(3):
        with gr.stats() as moved:
            loss = nn.functional.cross_entropy(compiled(x.to("tt")).cpu(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step:
            assert (moved.count("h2d"), moved.bytes("h2d")) == (2, (4 * 30 + 4 * 10) * 4)
            assert (moved.count("d2h"), moved.bytes("d2h")) == (1, 4 * 10 * 4)


def test_other_batches_are_other_programs_within_the_bound(tt, same):
    compiled, _, twin = pair_of(mlp(8, 6, 4), dynamic=True, options={"max_programs": 2, "buckets": False})
    with torch.no_grad():
        for batch in (3, 5, 3, 7, 5):
            x = torch.randn(batch, 8)
            same(compiled(x.to("tt")), twin(x))
        for batch in (4, 6, 4):  # the one that was used longest ago goes
            x = torch.randn(batch, 8)
            same(compiled(x.to("tt")), twin(x))
    assert tt.stats()["compiles"] == 6
    assert not tt.stats().eager_graphs


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo's own look
def test_graph_breaks_split_the_model(tt, same):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.a(x)
            torch._dynamo.graph_break()
            return self.b(x)

    compiled, model, twin = pair_of(Broken())
    x = torch.randn(2, 4)
    made, wanted = compiled(x.to("tt")), twin(x)
    same(made, wanted)
    made.sum().backward()
    wanted.sum().backward()
    same_gradients(same, model, twin)
    assert tt.stats()["compiles"] == 4


class Special(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


def test_a_graph_that_cannot_be_lowered_runs_op_by_op_and_is_counted(tt, same):
    compiled, _, twin = pair_of(Special())
    x = torch.rand(3)
    same(compiled(x.to("tt")), twin(x))
    ((reason, times),) = tt.stats().eager_graphs.items()
    assert "aten.special_bessel_j0" in reason
    assert times == 1


def test_that_can_be_forbidden(tt):
    x = torch.rand(3).to("tt")
    with pytest.raises(Exception, match=r"aten\.special_bessel_j0") as raised:
        torch.compile(Special(), backend="tt", options={"fallback": "error"})(x)
    assert "cannot be lowered" in str(raised.value)
    torch._dynamo.reset()
    with tt.no_fallback(), pytest.raises(Exception, match=r"aten\.special_bessel_j0"):
        torch.compile(Special(), backend="tt")(x)
    with tt.no_fallback(), pytest.raises(UnsupportedOpError, match="aten::special_bessel_j0"):
        torch.special.bessel_j0(x)


def test_placement_puts_operations_on_the_cpu(tt, same, tmp_path):
    options = {"placement": {"relu*": "cpu"}, "trace": str(tmp_path)}
    compiled, _, twin = pair_of(mlp(8, 6, 4), options=options)
    x = torch.randn(2, 8)
    with torch.no_grad():
        same(compiled(x.to("tt")), twin(x))
    (trace,) = tmp_path.glob("*.json")
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert any("relu" in str(name) for name in names)


def test_formats_and_fidelity_change_the_numbers(tt):
    model = mlp(32, 32, 8)
    x = torch.randn(4, 32)
    wanted = model(x).detach()
    model.to("tt")
    errors = {}
    for name, options in {"exact": {}, "bf16": {"formats": "bf16"}, "lofi": {"fidelity": "LoFi"}}.items():
        torch._dynamo.reset()
        with torch.no_grad():
            made = torch.compile(model, backend="tt", options=options)(x.to("tt"))
            errors[name] = (made.cpu() - wanted).abs().max()
    assert errors["exact"] < 1e-5 < errors["bf16"] < 0.1
    assert errors["lofi"] < 0.2


BAD = [
    ({"fidelty": "LoFi"}, "did you mean"),
    ({"fallback": "gpu"}, "fallback"),
    ({"max_programs": 0}, "1 or more"),
    ({"placement": "cpu"}, "mapping"),
    ({"placement": {"sofmax*": "cpu"}}, "did you mean 'softmax'"),
]


@pytest.mark.parametrize(("options", "text"), BAD)
def test_options_that_are_none(options, text):
    with pytest.raises(Exception, match=text) as raised:
        torch.compile(mlp(4, 4), backend="tt", options=options)(torch.ones(1, 4))
    assert InputError.__name__ in repr(raised.value) or isinstance(raised.value.__cause__, InputError)


def test_bfloat16_and_integers(tt, same):
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Embedding(11, 8)

        def forward(self, x):
            return self.rows(x).to(torch.bfloat16).float()

    compiled, _, twin = pair_of(Count())
    x = torch.randint(0, 11, (3, 5))
    with torch.no_grad():
        same(compiled(x.to("tt")), twin(x))
    assert not tt.stats().eager_graphs


def test_random_numbers_in_a_graph_follow_the_seed(tt):
    compiled = torch.compile(nn.Dropout(0.5).train(), backend="tt")
    x = torch.ones(64, 64).to("tt")
    with torch.no_grad():
        torch.manual_seed(5)
        first = compiled(x).cpu()
        second = compiled(x).cpu()
        torch.manual_seed(5)
        again = compiled(x).cpu()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert 0.4 < (first == 0).float().mean() < 0.6


def test_cpu_models_run_on_the_cpu_device(tt, same):
    model = mlp(8, 6, 4)
    x = torch.randn(2, 8)
    made = torch.compile(model, backend="tt")(x)
    assert made.device.type == "cpu"
    same(made, model(x))
    made.sum().backward()
    assert model[0].weight.grad.device.type == "cpu"
    assert tt.stats()["compiles"] == 2


def programs_of(monkeypatch):
    """A list that all programs come into that are made from now on."""
    from graph_runtime.torch.compiled import backend

    made, plain = [], backend.CompiledGraph

    def kept(*args):
        made.append(plain(*args))
        return made[-1]

    monkeypatch.setattr(backend, "CompiledGraph", kept)
    return made


def ops_of(program):
    graph = program.plan.graph
    return [graph.node(nid).op for nid in range(graph.num_nodes) if graph.func_id[nid] >= 0]


def test_graphs_are_fused_before_they_are_planned(tt, same, monkeypatch, tmp_path):
    made = programs_of(monkeypatch)
    compiled, model, twin = pair_of(mlp(20, 16, 4), options={"trace": str(tmp_path)})
    x = torch.randn(6, 20)
    out, wanted = compiled(x.to("tt")), twin(x)
    same(out, wanted)
    out.square().sum().backward()
    wanted.square().sum().backward()
    same_gradients(same, model, twin, 1e-4)
    forward, backward = made
    assert ops_of(forward) == ["matmul", "matmul"]  # biases and relu are their epilogues
    assert ops_of(backward).count("matmul") == 3
    assert "transpose" not in ops_of(backward)
    assert tt.stats()["fused"] >= 3 + 4
    assert any("epilogue" in note.rule for note in forward.notes)
    notes = json.loads((tmp_path / f"{forward.name}.json").read_text())["otherData"]["notes"]
    assert notes == [note.text for note in forward.notes]


def test_nodes_on_different_devices_are_not_fused(tt, same, monkeypatch):
    made = programs_of(monkeypatch)
    compiled, _, twin = pair_of(mlp(8, 6, 4), options={"placement": {"relu*": "cpu"}})
    x = torch.randn(2, 8)
    with torch.no_grad():
        same(compiled(x.to("tt")), twin(x))
    assert "relu" in ops_of(made[0])
    assert ops_of(made[0]).count("matmul") == 2


def test_programs_hold_no_memory_for_weights_and_activations(tt):
    model = mlp(256, 512, 8).to("tt")
    compiled = torch.compile(model, backend="tt")
    x = torch.randn(4, 256).to("tt")
    gc.collect()  # what other tests left
    torch.tt.synchronize()
    empty = torch.tt.memory_allocated()
    like_y = torch.zeros(4, 8).to("tt")
    of_y = torch.tt.memory_allocated() - empty
    with torch.no_grad():
        for _ in range(3):
            y = compiled(x)
    torch.tt.synchronize()
    assert torch.tt.memory_allocated() - empty == 2 * of_y
    del y, like_y
    assert torch.tt.memory_allocated() == empty


def test_a_hundred_steps_upload_no_weight(tt):
    compiled, model, _ = pair_of(mlp(24, 16, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x, y = torch.randn(4, 24), torch.randint(0, 10, (4,))

    def step():
        loss = nn.functional.cross_entropy(compiled(x.to("tt")).cpu(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    step()
    tt.stats(clear=True)
    with gr.stats() as moved:
        for _ in range(100):
            step()
    assert (moved.count("h2d"), moved.bytes("h2d")) == (200, 100 * (4 * 24 + 4 * 10) * 4)  # batch, gradient
    assert moved.count("conversion") == 0
    assert tt.stats()["prepared"] == 0
    assert tt.stats()["programs"] == 200


def test_numbers_of_a_graph_that_do_not_fit_are_left_to_torch(tt):
    x = torch.tensor([1, 2])
    assert torch.compile(lambda x: x + 2**35, backend="tt")(x).tolist() == [2**35 + 1, 2**35 + 2]
    ((reason, _),) = tt.stats().eager_graphs.items()
    assert "may not fit 32 bits" in reason


class Attention(nn.Module):
    def forward(self, q, k, v, mask=None):
        return nn.functional.scaled_dot_product_attention(q, k, v, mask)


@pytest.mark.parametrize("device", ["cpu", "tt"])
def test_attention_without_a_mask_is_not_guarded_against_one(tt, same, monkeypatch, device):
    made = programs_of(monkeypatch)
    q, k, v = torch.randn(3, 2, 4, 8, 16).unbind(0)
    with torch.no_grad():
        out = torch.compile(Attention(), backend="tt")(*(x.to(device) for x in (q, k, v)))
    same(out, nn.functional.scaled_dot_product_attention(q, k, v), 1e-4)
    assert not {"equal", "all", "where"} & set(ops_of(made[0]))
    assert not made[0].on_cpu


def test_rows_that_a_mask_hides_are_zero(tt, same, monkeypatch):
    made = programs_of(monkeypatch)
    q, k, v = torch.randn(3, 1, 2, 4, 8).unbind(0)
    mask = torch.ones(4, 4).tril(-1).bool()  # the first row sees nothing
    wanted = nn.functional.scaled_dot_product_attention(q, k, v, mask)
    assert not wanted[..., 0, :].any()
    with torch.no_grad():
        same(torch.compile(Attention(), backend="tt")(*(x.to("tt") for x in (q, k, v, mask))), wanted, 1e-4)
        same(Attention()(*(x.to("tt") for x in (q, k, v, mask))), wanted, 1e-4)
    assert "where" in ops_of(made[0])


def doubled(x, y):
    return [x + x, x.t() * y, y * torch.tensor(3, dtype=x.dtype)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int16])
def test_graphs_on_the_cpu_compute_with_what_devices_only_store(tt, same, dtype):
    x, y = torch.arange(6).reshape(2, 3).to(dtype), torch.tensor(3).to(dtype)
    for made, wanted in zip(torch.compile(doubled, backend="tt")(x, y), doubled(x, y), strict=True):
        same(made, wanted)
    assert not tt.stats().eager_graphs
