"""rotate of compat.ttnn: pixels against their places, and against torch's sampling."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def turned(device, x, angle, **given):
    here = ttnn.from_torch(x, dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    return ttnn.to_torch(ttnn.rotate(here, angle, **given))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_quarters_of_a_turn_are_exact(device, quarters, mode):
    x = torch.randn(2, 6, 6, 5)
    made = turned(device, x, 90.0 * quarters, interpolation_mode=mode)
    wanted = np.rot90(x.numpy(), quarters, (1, 2)).copy()  # against the clock
    assert torch.allclose(made, torch.from_numpy(wanted), atol=1e-5)


@pytest.mark.parametrize("center", [None, (2.0, 7.5)])
@pytest.mark.parametrize("angle", [17.0, -40.0, 133.0])
def test_angles_between(device, angle, center):
    x, golden = torch.randn(2, 9, 12, 3), ttnn.get_golden_function(ttnn.rotate)
    made = turned(device, x, angle, center=center, fill=0.5)
    assert torch.equal(made, golden(x, angle, center=center, fill=0.5))
    made = turned(device, x, angle, center=center, interpolation_mode="bilinear")
    wanted = golden(x, angle, center=center, interpolation_mode="bilinear")
    inner = golden(torch.ones_like(x), angle, center=center, interpolation_mode="bilinear") > 0.999
    assert inner.any()
    assert torch.allclose(made[inner], wanted[inner], atol=1e-4)  # torchvision blends edges twice


def test_what_rotate_refuses(device):
    x = torch.ones(1, 4, 4, 2)
    with pytest.raises(RuntimeError, match="expand=False"):
        turned(device, x, 5.0, expand=True)
    with pytest.raises(RuntimeError, match="must be 4D"):
        turned(device, x[0], 5.0)
    with pytest.raises(RuntimeError, match="Unsupported interpolation mode cubic"):
        turned(device, x, 5.0, interpolation_mode="cubic")
