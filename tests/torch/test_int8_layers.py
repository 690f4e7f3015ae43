"""Layers of int8 as torchao exports them: products of integers on hosts, assertions that are no values."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graph_runtime as gr  # noqa: E402
import graph_runtime.torch as tt  # noqa: E402

pytestmark = [pytest.mark.core, pytest.mark.filterwarnings("ignore::FutureWarning")]  # torch.export's


class _Layer(torch.nn.Module):
    """What a linear layer of torchao's Int8DynamicActivationInt8WeightConfig does. ``shifted``: as on CPUs
    that multiply uint8 by int8, to which it adds 128."""

    def __init__(self, n: int, k: int, shifted: bool):
        super().__init__()
        self.shifted = shifted
        torch.manual_seed(n)
        self.register_buffer("w", torch.randint(-127, 128, (n, k), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(n) / 100)

    def forward(self, x):
        torch.ops.aten._assert_tensor_metadata(x, None, None, torch.float32)
        low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        low, high = torch.min(low, torch.zeros_like(low)), torch.max(high, torch.zeros_like(high))
        step = torch.max(-low, high) / 127
        q = torch.clamp(torch.round(x / step), -127, 127).to(torch.int8)
        if self.shifted:
            q, w = (q.to(torch.int32) + 128).to(torch.uint8), self.w.t()
            made = torch._int_mm(q, w) - 128 * w.sum(0, keepdim=True, dtype=torch.int32)
        else:
            made = torch._int_mm(q, self.w.t())
        return made.to(torch.float32) * step * self.scale


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("rows", "k", "n"), [(17, 64, 32), (33, 40, 72)])
def test_a_dynamic_layer_multiplies_in_integers(rows, k, n, shifted, tmp_path):
    layer, x = _Layer(n, k, shifted).eval(), torch.randn(rows, k)
    tt.export(torch.export.export(layer, (x,)), tmp_path / "m.bundle", devices=("cpu:0",), compile=False)
    module = gr.load(tmp_path / "m.bundle")
    module.run(x=x.numpy())
    graph = module.session.plan.graph
    assert "quantized_dense" in {graph.funcs[f].op for f in graph.func_id.tolist() if f >= 0}
    wanted = _Layer(n, k, False)(x).numpy()  # the same, but for torch without uint8 in _int_mm
    # two products of float32 behind exact sums
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-6, atol=0)
