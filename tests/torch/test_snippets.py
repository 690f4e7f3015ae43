"""What users of pybuda asked for (tenstorrent/tt-forge-onnx, issue 175), as they wrote it."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # dynamo's own look
    pytest.mark.filterwarnings("ignore:the parameters of this module"),
]  # golden results are alive


class MNISTLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(784, 32), nn.Linear(32, 10)

    def forward(self, x):
        return torch.softmax(self.l2(torch.relu(self.l1(x))), dim=-1)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def equal(made, wanted):
    pairs = zip(made, wanted, strict=True)
    return all(torch.allclose(a.cpu(), b.cpu(), rtol=1e-5, atol=1e-5) for a, b in pairs)


def test_to_before_compile(tt):
    input_tensor = torch.rand(1, 784)
    framework_model = MNISTLinear()
    golden = framework_model(input_tensor)

    framework_model.to("tt")
    tt_model = torch.compile(framework_model, backend="tt")
    output = tt_model(input_tensor.to("tt"))

    assert output.device == torch.device("tt:0")
    assert equal([output.to("cpu")], [golden])
    assert tt.stats()["compiles"] == 1


def test_compile_before_to(tt):
    framework_model = MNISTLinear()
    input_tensor = torch.rand(1, 784)
    golden = framework_model(input_tensor)

    tt_model = torch.compile(framework_model, backend="tt")
    tt_model.to("tt")
    outputs = [tt_model(input_tensor.to("tt")).to("cpu")]

    assert equal(outputs, [golden])
    assert tt.stats()["compiles"] == 1


def test_loss_compiled_for_the_cpu(tt):
    """Model on tt, loss told .to("cpu") and compiled: its inputs are gathered, backward goes through the
    device."""
    input_tensor = torch.rand(1, 784).to("tt")
    framework_model = MNISTLinear()
    golden_model = copy.deepcopy(framework_model)
    framework_model.to("tt")
    loss = nn.L1Loss().to("cpu")

    tt_model = torch.compile(framework_model, backend="tt")
    cpu_loss = torch.compile(loss, backend="tt")

    target = torch.rand(1, 10)
    output = tt_model(input_tensor)
    value = cpu_loss(output, target)
    value.backward()

    golden = nn.L1Loss()(golden_model(input_tensor.cpu()), target)
    golden.backward()
    assert value.device.type == "cpu"
    assert equal([value.detach()], [golden.detach()])
    grads = [p.grad for p in framework_model.parameters()]
    assert all(g.device == torch.device("tt:0") for g in grads)
    assert equal(grads, [p.grad for p in golden_model.parameters()])
    target_on_tt = cpu_loss(tt_model(input_tensor), target.to("tt"))
    assert equal([target_on_tt.detach()], [golden.detach()])


def test_the_gradient_hook_of_the_thread(tt):
    """A hook on the model's output sees the loss's gradient; backward is not called a second time."""
    model = MNISTLinear()
    twin = copy.deepcopy(model)
    tt_model = torch.compile(model.to("tt"), backend="tt")
    seen = []
    x = torch.rand(2, 784)
    output = tt_model(x.to("tt"))
    output.register_hook(lambda grad: seen.append(grad))
    loss = nn.functional.mse_loss(output.cpu(), torch.zeros(2, 10))
    loss.backward()

    wanted = twin(x)
    wanted.retain_grad()
    nn.functional.mse_loss(wanted, torch.zeros(2, 10)).backward()
    assert seen[0].device == torch.device("tt:0")
    assert equal(seen, [wanted.grad])
    assert equal([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])


def test_a_model_left_on_the_cpu_says_so(tt):
    model = torch.compile(MNISTLinear(), backend="tt")
    with pytest.raises(RuntimeError, match="same device"):
        model(torch.rand(1, 784).to("tt"))
