"""What the host does in place: an operation may resize what it writes, and see one tensor twice."""

from __future__ import annotations

import pytest
import torch
from torch.ao import quantization

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))

    def forward(self, x):
        return self.dequant(self.layers(self.quant(x)))


@pytest.mark.parametrize("backend", ["fbgemm", "qnnpack"])  # weights by channel, and as a whole
def test_quantization_aware_training_goes_on_after_its_first_step(tt, backend):
    x, y = torch.rand(16, 8), torch.rand(16, 4)
    losses = {}
    for device in ("cpu", "tt"):
        torch.manual_seed(1)
        model = Small()
        model.qconfig = quantization.get_default_qat_qconfig(backend)
        quantization.prepare_qat(model, inplace=True)
        model.to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        losses[device] = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["tt"] == pytest.approx(losses["cpu"], rel=1e-4)


RESIZING = {
    "sort": lambda x, out, at: torch.sort(x, descending=True, out=(out, at)),
    "mode": lambda x, out, at: torch.mode(x, out=(out, at)),
    "inv": lambda x, out, at: torch.linalg.inv_ex(x, out=(out, at.int())),
    "nonzero": lambda x, out, at: torch.nonzero(x, out=at),
}


@pytest.mark.parametrize("name", RESIZING)
def test_an_out_of_no_elements_is_resized(tt, name):
    def made(device):
        out = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
        RESIZING[name](x.to(device), *out)
        return [o.cpu() for o in out]

    x = torch.rand(4, 4)
    for ours, theirs in zip(made("tt"), made("cpu"), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_tensor_that_is_written_twice_by_one_operation_has_both_writes(tt):
    def made(device):
        x = torch.ones(3, dtype=torch.float64, device=device)
        torch._foreach_add_([x, x], 1.0)
        return x.cpu()

    torch.testing.assert_close(made("tt"), made("cpu"))
