"""torch.export programs as Models and bundles, which run without torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tt = pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402

from graph_runtime.base.errors import InputError, UnsupportedOpError  # noqa: E402

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
