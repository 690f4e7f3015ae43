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
from graph_runtime.base.errors import InputError, UnsupportedOpError  # noqa: E402
from graph_runtime.build.prepare import prepare  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export's own


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
