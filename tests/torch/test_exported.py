"""torch.export programs as Models and bundles, which run without torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tt = pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.artifacts.prepare import prepare  # noqa: E402
from graph_runtime.base.errors import InputError, KernelError, UnsupportedOpError  # noqa: E402
from graph_runtime.torch.kinds import values_of  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # torch.export's own
    pytest.mark.filterwarnings("ignore:placement mincut decides nothing"),
    pytest.mark.filterwarnings("ignore:The tensor attributes .*_flat_weights"),  # nn.RNNBase's
]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 5),
        nn.Softmax(-1),
    ).eval()


def test_a_bundle_runs_without_torch(tmp_path):
    model, x = network(), torch.rand(2, 1, 8, 8)
    program = torch.export.export(model, (x,))
    (name,) = program.graph_signature.user_inputs
    bundle = tt.export(program, tmp_path / "net.bundle", devices=("tt:0", "cpu:0"), compile=False)
    np.save(tmp_path / "x.npy", x.numpy())
    code = (
        "import sys, numpy as np, graph_runtime as gr\n"
        f"m = gr.load({str(bundle)!r})\n"
        f"m.run(**{{{name!r}: np.load({str(tmp_path / 'x.npy')!r})}})\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, m.get_output(0).numpy())\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_parameters_are_constants_and_inputs_keep_their_names():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, image, shift):
            return self.layer(image) + shift

    model = tt.to_model(torch.export.export(Named(), (torch.rand(4, 3), torch.rand(2))))
    assert set(model.constants) == {"layer.weight", "layer.bias"}
    assert set(model.graph.input_names) - set(model.constants) == {"image", "shift"}


def test_products_inside_of_autocast_run_on_panels_of_bf16():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 8))

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.net(x)

    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(5, 64)
    made = tt.to_model(torch.export.export(model, (x,)))
    prepared = prepare(made, "cpu:0")
    graph = prepared.plan.graph
    calls = [graph.node(nid) for nid in np.flatnonzero(graph.func_id >= 0).tolist()]
    assert [c.input_types[1].dtype for c in calls if c.op == "dense"] == ["bfloat16"] * 2
    module = gr.create(made, None, "cpu:0")
    (name,) = set(graph.input_names) - set(prepared.model.constants)
    module.run(**{name: x.numpy()})
    got = module.get_output(0).numpy().astype(np.float64)
    with torch.no_grad():
        autocast = np.abs(model(x).float().numpy() - model.net.double()(x.double()).numpy()).max()
        exact = model.net(x.double()).numpy()
    assert 0 < np.abs(got - exact).max() < 1.5 * autocast  # as near as torch's own


def test_what_cannot_be_exported_says_why():
    with pytest.raises(InputError, match=r"torch\.export\.export"):
        tt.to_model(network())
    with pytest.raises(InputError, match=r"model\.eval"):
        tt.to_model(torch.export.export(network().train(), (torch.rand(2, 1, 8, 8),)))

    class Special(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    with pytest.raises(UnsupportedOpError, match=r"aten\.special_bessel_j0"):
        tt.to_model(torch.export.export(Special(), (torch.rand(2),)))


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, shift):
        return self.layer(x).softmax(-1).mean(1) + shift


def dynamic_program(model):
    batch, time = torch.export.Dim("batch", min=1, max=16), torch.export.Dim("time", max=40)
    shapes = {"x": {0: batch, 1: time}, "shift": {0: batch}}
    return torch.export.export(model, (torch.rand(3, 5, 4), torch.rand(3, 3)), dynamic_shapes=shapes)


def test_dynamic_sizes_are_programs_of_a_bundle_that_the_command_line_runs(tmp_path):
    model = Averaged().eval()
    sizes = {"batch": [1, 3], "time": [2, 6]}
    bundle = tt.export(dynamic_program(model), tmp_path / "net.bundle", sizes=sizes, compile=False)
    module = gr.load(bundle)
    for batch, time in ((1, 2), (3, 6), (1, 6)):
        x, shift = torch.rand(batch, time, 4), torch.rand(batch, 3)
        module.run(x=x.numpy(), shift=shift.numpy())
        wanted = model(x, shift).detach().numpy()
        np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-6)
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "shift.npy", shift.numpy())
    command = [
        sys.executable,
        "-m",
        "graph_runtime.cli",
        "run",
        str(bundle),
        "--output",
        str(tmp_path / "y.npz"),
    ]
    command += [f"--input=x={tmp_path / 'x.npy'}", f"--input=shift={tmp_path / 'shift.npy'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="compiled for"):
        module.run(x=np.zeros((2, 6, 4), np.float32), shift=np.zeros((2, 3), np.float32))


def test_sizes_that_are_not_said_are_guessed_and_told(tmp_path):
    batch = torch.export.Dim("batch", min=2, max=9)
    program = torch.export.export(network(), (torch.rand(3, 1, 8, 8),), dynamic_shapes=({0: batch},))
    with pytest.warns(UserWarning, match="batch: 2, 3, 4, 8"):
        bundle = tt.export(program, tmp_path / "net.bundle", compile=False)
    assert len(gr.load(bundle).flow.steps) == 4
    model = tt.to_model(program, sizes={"batch": 7})
    assert model.graph.entry_type(int(model.graph.outputs[0])).shape == (7, 5)


def test_sizes_that_are_wrong_say_what_may_be(tmp_path):
    program, path = dynamic_program(Averaged().eval()), tmp_path / "net.bundle"
    with pytest.raises(InputError, match="did you mean 'batch'"):
        tt.export(program, path, sizes={"bach": [1]})
    with pytest.raises(InputError, match="batch is from 1 to 16, got 17"):
        tt.export(program, path, sizes={"batch": [1, 17]})
    with pytest.raises(InputError, match="at most 64"):
        tt.export(program, path, sizes={"batch": range(1, 12), "time": range(1, 12)})
    with pytest.raises(InputError, match="'time'"):
        tt.to_model(program, sizes={"batch": 3})
    with pytest.raises(InputError, match="no dynamic sizes"):
        tt.to_model(torch.export.export(network(), (torch.rand(2, 1, 8, 8),)), sizes={"batch": 3})
    assert not path.exists()


DEVICES = pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
MOST = 2**31 - 1
WIDE = {  # functions of integers from 0 to 3, and a buffer of large ones
    "products": lambda x, big: (x * 2**33, (x * x * 2654435761) % 97, x.sum() * 2**40, x * big[0]),
    "sums": lambda x, big: ((x * 2**30).cumsum(0), (x.int() + 2**30).sum(), x.sum(dtype=torch.float64)),
    "orders": lambda x, big: (*(x * 2**33).sort(), *(x * 2**33).max(0), (x == x.argmax()).long() * 2**31),
    "chosen": lambda x, big: (torch.where(x > 1, big[1], x), big[x], (x * 2**40).gather(0, x)),
    "added up": lambda x, big: big.scatter_add(0, x, x * 2**33).index_put((x,), x * 2**34, accumulate=True),
    "floats": lambda x, big: ((x.float() * 2**40).long(), (x * 2**30).float(), big.double()),
    "matrices": lambda x, big: (big[:, None] @ x[None, :], torch.stack([x, big]).t(), big.expand(2, 4)),
    "limits": lambda x, big: (
        torch.full_like(x, 2**31).clone(),
        (big[3:] * 1).view(1, 1),
        torch.where(x > 2**40, x, 2**31).flip(0),
        (x % 2**33) + MOST,
        x.masked_fill(x > 1, 2**31)[:2],
        ((x - 2**31) * 1).abs(),
    ),
    "indices": lambda x, big: (big.float()[x + 2**35 - 2**35], big[x] + 1),
}


class Given(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("big", torch.tensor([2**40, -(2**35), 7, 2**31]))

    def forward(self, x):
        return self.function(x, self.big)


def ran(program, device, x):
    devices = device if device == "cpu:0" else [device, "cpu:0"]
    module = gr.create(tt.to_model(program, device), None, devices, compile=False)
    module.run(x=x.numpy())
    return module


def is_torchs(module, wanted):
    for at, each in enumerate(wanted if isinstance(wanted, tuple) else (wanted,)):
        made = module.get_output(at).numpy()
        np.testing.assert_array_equal(made, each.numpy())
        assert made.dtype == each.numpy().dtype or (made.dtype, each.dtype) == (np.int32, torch.int64)


@DEVICES
@pytest.mark.parametrize("name", WIDE)
def test_integers_that_pass_32_bits_are_torchs(name, device):
    model, x = Given(WIDE[name]), torch.tensor([3, 1, 0, 2])
    is_torchs(ran(torch.export.export(model, (x,)), device, x), model(x))


def test_integers_that_are_proven_to_fit_stay_on_the_device():
    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.place = nn.Embedding(9, 4), nn.Embedding(9, 4)
            self.register_buffer("order", torch.arange(9))

        def forward(self, x):
            at = self.order[: x.shape[0]] + 2
            return self.table(x) + self.place(at) + self.place(torch.arange(3) * 2), x.argmax() + 1

    model = tt.to_model(torch.export.export(Embedded(), (torch.arange(3),)), "tt:0")
    types = map(model.graph.entry_type, range(model.graph.num_entries))
    assert "int64" not in {each.dtype for each in types}


@DEVICES
def test_large_indices_are_out_of_range_and_large_inputs_are_kept_or_refused(device):
    program = torch.export.export(Given(lambda x, big: big[x * 2**32]), (torch.zeros(2, dtype=torch.int64),))
    with pytest.raises(KernelError, match="out of range"):
        ran(program, device, torch.tensor([0, 1]))
    program = torch.export.export(Given(lambda x, big: x * 3), (torch.zeros(2, dtype=torch.int64),))
    is_torchs(ran(program, device, torch.tensor([2**40, 1])), torch.tensor([3 * 2**40, 3]))
    program = torch.export.export(Given(lambda x, big: (x * 3, x > 5)), (torch.zeros(2, dtype=torch.int64),))
    large = torch.tensor([2**40, 1])
    if device == "cpu:0":
        is_torchs(ran(program, device, large), (large * 3, large > 5))
    else:
        with pytest.raises(InputError, match="1099511627776"):
            ran(program, device, large)


def test_programs_of_several_sizes_have_results_of_one_dtype(tmp_path):
    sized = torch.export.Dim("sized", max=4096)
    model, x = Given(lambda x, big: (x > 0).long().sum() * 2**20), torch.ones(5, dtype=torch.int64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: sized},))
    bundle = tt.export(program, tmp_path / "net.bundle", sizes={"sized": [4, 4096]}, compile=False)
    module = gr.load(bundle)
    for size in (4, 4096):
        x = torch.ones(size, dtype=torch.int64)
        module.run(x=x.numpy())
        is_torchs(module, model(x))
        assert module.get_output(0).numpy().dtype == np.int64


RECURRENT = {
    "lstm": lambda: nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True),
    "lstm without bias": lambda: nn.LSTM(6, 40, bias=False),
    "gru": lambda: nn.GRU(6, 5, 2, bidirectional=True),
    "gru without bias": lambda: nn.GRU(6, 5, bias=False, batch_first=True),
    "rnn of relu": lambda: nn.RNN(6, 5, bias=False, nonlinearity="relu", bidirectional=True),
    "rnn with dropout in eval": lambda: nn.RNN(6, 5, 3, dropout=0.5),
}


def _results(made):
    y, last = made
    return [y, *(last if isinstance(last, tuple) else (last,))]


def _exported(layer, *given, device):
    """What a program gives, and how many nodes of each op its graph has."""
    model = tt.to_model(torch.export.export(layer, given), device)
    module = gr.create(model, devices=list(dict.fromkeys([device, "cpu:0"])), compile=False)
    names = [name for name in model.graph.input_names if name not in model.constants]
    module.run(**{name: x.numpy() for name, x in zip(names, given, strict=True)})
    ops = [model.graph.node(nid).op for nid in range(model.graph.num_nodes)]
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())], ops


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_one_op_each(name, device):
    torch.manual_seed(0)
    layer, x = RECURRENT[name]().eval(), torch.randn(3, 4, 6)
    state = torch.randn(layer.num_layers * (1 + layer.bidirectional), 4 if not layer.batch_first else 3, 40)
    state = state[..., : layer.hidden_size].contiguous()

    class Begun(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, state):
            return _results(self.layer(x, (state, 2 * state) if isinstance(layer, nn.LSTM) else state))

    with torch.no_grad():
        wanted = Begun()(x, state)
    found, ops = _exported(Begun(), x, state, device=device)
    assert sum(op in ("lstm", "gru", "rnn") for op in ops) == layer.num_layers
    for made, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(made, expected.numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_a_layer_whose_states_are_projected_is_steps():
    layer, x = nn.LSTM(6, 5, proj_size=3).eval(), torch.randn(3, 4, 6)
    with torch.no_grad():
        wanted, _ = layer(x)
    (made, *_), ops = _exported(layer, x, device="cpu:0")
    assert "lstm" not in ops
    np.testing.assert_allclose(made, wanted.numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_layers_of_other_floats(dtype):
    """Parameters of 64 and of 16 bits were words in place of numbers."""
    dtype = getattr(torch, dtype)
    for layer in (nn.GRU(6, 5).eval().to(dtype), nn.Linear(6, 5).to(dtype)):
        x = torch.randn(3, 4, 6).to(dtype)
        with torch.no_grad():
            wanted = layer(x)[0] if isinstance(layer, nn.GRU) else layer(x)
        model = tt.to_model(torch.export.export(layer, (x,)))
        module = gr.create(model, devices=["cpu:0"], compile=False)
        (name,) = (name for name in model.graph.input_names if name not in model.constants)
        module.run(**{name: values_of(x)})
        made = module.get_output(0).numpy().astype(np.float64)
        np.testing.assert_allclose(made, wanted.double().numpy(), atol=4 * torch.finfo(dtype).eps)
