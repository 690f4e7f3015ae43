"""Training on the device against the same on the CPU: digits, gradients, optimizers here and there."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def digits():
    """1536 real images of handwritten digits: float32 [n, 64] of 0 .. 1, and their classes."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    return (torch.from_numpy(data.data[:1536]).float() / 16, torch.from_numpy(data.target[:1536]))


def mlp():
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))


def train(run, model, optimizer, images, labels, device, batch=96, epochs=2):
    """Losses of each step: the model on ``device``, the loss on the CPU."""
    losses = []
    for _ in range(epochs):
        for x, y in zip(images.split(batch), labels.split(batch), strict=True):
            optimizer.zero_grad()
            loss = functional.cross_entropy(run(x.to(device)).float().cpu(), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_digits_have_the_loss_curve_of_the_cpu(tt, digits, name, compiled):
    """Optimizer steps are operations on the device, of an optimizer made before the model moved."""
    model = mlp()
    twin = copy.deepcopy(model)
    optimizer = OPTIMIZERS[name](model.parameters())
    model.to("tt")
    run = torch.compile(model, backend="tt") if compiled else model
    made = train(run, model, optimizer, *digits, "tt")
    wanted = train(twin, twin, OPTIMIZERS[name](twin.parameters()), *digits, "cpu")
    torch.testing.assert_close(made, wanted, rtol=1e-2, atol=1e-3)
    assert made[-1] < 0.8 * made[0]
    if compiled:
        assert not tt.stats().eager_graphs


def test_the_optimizer_may_stay_on_the_host(digits):
    """Parameters of the CPU are stepped there and copied to the device's model."""
    model = mlp()
    twin = copy.deepcopy(model)
    device_model = copy.deepcopy(model).to("tt")
    run = torch.compile(device_model, backend="tt")
    optimizer, other = OPTIMIZERS["adam"](model.parameters()), OPTIMIZERS["adam"](twin.parameters())
    losses, wanted = [], train(twin, twin, other, *digits, "cpu", epochs=1)
    for x, y in zip(digits[0].split(96), digits[1].split(96), strict=True):
        loss = functional.cross_entropy(run(x.to("tt")).cpu(), y)
        device_model.zero_grad()
        loss.backward()
        for host, device in zip(model.parameters(), device_model.parameters(), strict=True):
            host.grad = device.grad.cpu()
        optimizer.step()
        device_model.load_state_dict(model.state_dict())
        losses.append(loss.item())
    torch.testing.assert_close(losses, wanted, rtol=1e-2, atol=1e-3)


def test_bfloat16_learns(digits):
    model = mlp().to("tt", torch.bfloat16)
    run = torch.compile(model, backend="tt")
    images = digits[0].to(torch.bfloat16)
    losses = train(run, model, OPTIMIZERS["sgd"](model.parameters()), images, digits[1], "tt")
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.dtype == torch.bfloat16 and p.device.type == "tt" for p in model.parameters())


@pytest.mark.parametrize("frozen", [None, 0, 2, 4])
def test_gradients_of_every_layer_but_frozen_ones(same, frozen):
    model = mlp()
    if frozen is not None:
        model[frozen].requires_grad_(False)
    twin = copy.deepcopy(model)
    run = torch.compile(model.to("tt"), backend="tt")
    x, y = torch.ones(16, 64), torch.arange(16) % 10
    functional.cross_entropy(run(x.to("tt")).cpu(), y).backward()
    functional.cross_entropy(twin(x), y).backward()
    for made, wanted in zip(model.parameters(), twin.parameters(), strict=True):
        assert (made.grad is None) == (wanted.grad is None)
        if wanted.grad is not None:
            same(made.grad, wanted.grad, 1e-4)


def test_gradients_accumulate_over_batches(same, digits):
    model = mlp()
    twin = copy.deepcopy(model)
    run = torch.compile(model.to("tt"), backend="tt")
    for x, y in list(zip(digits[0].split(16), digits[1].split(16), strict=True))[:4]:
        functional.cross_entropy(run(x.to("tt")).cpu(), y).backward()
        functional.cross_entropy(twin(x), y).backward()
    for made, wanted in zip(model.parameters(), twin.parameters(), strict=True):
        same(made.grad, wanted.grad, 1e-4)


def test_the_loss_may_be_on_the_device_too(tt, digits):
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = mlp()

        def forward(self, x, y):
            return functional.cross_entropy(self.model(x), y)

    model = WithLoss()
    twin = copy.deepcopy(model)
    run = torch.compile(model.to("tt"), backend="tt")
    x, y = digits[0][:64], digits[1][:64]
    made, wanted = run(x.to("tt"), y.to("tt")), twin(x, y)
    made.backward()
    wanted.backward()
    torch.testing.assert_close(made.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-5)
    made, wanted = model.model[0].weight.grad.cpu(), twin.model[0].weight.grad
    torch.testing.assert_close(made, wanted, rtol=1e-3, atol=1e-5)
    assert not tt.stats().eager_graphs


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


def test_a_small_cnn(tt, digits):
    model = small_cnn()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = torch.compile(model.to("tt"), backend="tt")
    images = digits[0][:512].reshape(-1, 1, 8, 8)
    made = train(run, model, optimizer, images, digits[1][:512], "tt", batch=64, epochs=1)
    wanted = train(
        twin,
        twin,
        torch.optim.SGD(twin.parameters(), 0.1),
        images,
        digits[1][:512],
        "cpu",
        batch=64,
        epochs=1,
    )
    torch.testing.assert_close(made, wanted, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(model[1].running_var.cpu(), twin[1].running_var, rtol=1e-2, atol=1e-4)
    assert not tt.stats().eager_graphs


class Rows(nn.Module):
    """A 2-layer transformer that reads an image row by row."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.embed, self.head = nn.Linear(8, 16), nn.Linear(16, 10)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.head(self.layers(self.embed(x)).mean(1))


def test_a_transformer_of_two_layers(tt, digits):
    model = Rows()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    run = torch.compile(model.to("tt"), backend="tt")
    images = digits[0][:256].reshape(-1, 8, 8)
    made = train(run, model, optimizer, images, digits[1][:256], "tt", batch=64, epochs=1)
    wanted = train(
        twin,
        twin,
        torch.optim.Adam(twin.parameters(), 2e-3),
        images,
        digits[1][:256],
        "cpu",
        batch=64,
        epochs=1,
    )
    torch.testing.assert_close(made, wanted, rtol=1e-2, atol=2e-3)
    assert not tt.stats().eager_graphs


class Normalised(nn.Module):
    """Statistics are buffers that the forward pass writes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4, affine=False)
        )

    def forward(self, x):
        return self.layers(x).mean((2, 3))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("amp", [False, True], ids=["f32", "autocast"])
def test_running_statistics_follow_the_batches(tt, same, compiled, amp):
    twin = Normalised()
    model = copy.deepcopy(twin).to("tt")
    run = torch.compile(model, backend="tt") if compiled else model
    tolerance = 5e-2 if amp else 1e-4
    for _ in range(2):
        x = torch.randn(3, 2, 6, 6)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            wanted = twin(x)
        with torch.autocast("tt", torch.bfloat16, enabled=amp):
            made = run(x.to("tt"))
        same(made, wanted, tolerance)
        wanted.square().sum().backward()
        made.square().sum().backward()
    for made, wanted in zip(
        (*model.buffers(), *(p.grad for p in model.parameters())),
        (*twin.buffers(), *(p.grad for p in twin.parameters())),
        strict=True,
    ):
        same(made, wanted, 3 * tolerance)
    assert not any("batch_norm" in op for op, _ in tt.stats().fallbacks)
    assert not tt.stats().eager_graphs
    model.eval(), twin.eval()
    same(run(x.to("tt")), twin(x), tolerance)


@pytest.mark.parametrize("there", ["mean", "variance"])
@pytest.mark.parametrize("device", ["cpu", "tt:0"])
def test_batch_norm_wants_both_statistics_or_none(device, there):
    x, one = torch.randn(4, 3, 5, device=device), torch.ones(3, device=device)
    statistics = (one, None) if there == "mean" else (None, one)
    with pytest.raises(ValueError, match="must either both be None or neither"):
        functional.batch_norm(x, *statistics, training=True)
