"""Training loops as people write them, on tt as on the CPU: losses step by step."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


def wasserstein(device):
    """A GAN with a spectral norm and a gradient penalty, whose gradient is one of a gradient."""
    maker = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2), nn.Tanh()).to(device)
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 16))
    critic = nn.Sequential(normed, nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
    makers = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
    critics = torch.optim.RMSprop(critic.parameters(), 1e-3)
    for _ in range(3):
        real, noise, share = (torch.randn(8, n).to(device) for n in (2, 4, 1))
        fake = maker(noise)
        between = (share * real + (1 - share) * fake.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty
        critics.zero_grad()
        loss.backward()
        critics.step()
        yield loss
        loss = -critic(fake).mean()
        makers.zero_grad()
        loss.backward()
        makers.step()
        yield loss


def recurrent(device):
    """A language model whose state is carried on from part to part."""
    table, cell, out = nn.Embedding(20, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 20)
    model = nn.ModuleList([table, cell, out]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    ids, state = torch.randint(0, 20, (4, 33)), None
    for begin in range(0, 32, 8):
        x, y = (ids[:, at : at + 8].to(device) for at in (begin, begin + 1))
        made, state = cell(table(x), state)
        state = state.detach()
        loss = functional.cross_entropy(out(made).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss


def policy(device):
    """Clipped policy gradients."""
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(4):
        states, actions, gains = torch.randn(10, 4), torch.randint(0, 3, (10,)), torch.randn(10)
        chances = torch.distributions.Categorical(logits=model(states.to(device)))
        chance, gains = chances.log_prob(actions.to(device)), gains.to(device)
        ratio = (chance - chance.detach()).exp()
        loss = (
            -torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean() - 0.01 * chances.entropy().mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def second_order(device):
    """L-BFGS with a line search."""
    model, x, y = nn.Linear(4, 2).to(device), torch.randn(20, 4).to(device), torch.randn(20, 2).to(device)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(2):
        yield optimizer.step(closure)


def averaged(device):
    """Contrastive, of two views, under a schedule; the average of the weights at the end."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten(), nn.LazyLinear(6))
    images = torch.rand(6, 3, 8, 8)
    model(images)
    model.to(device)
    mean = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=4)
    for _ in range(3):
        views = images + 0.1 * torch.randn_like(images), images.flip(-1)
        a, b = (functional.normalize(model(view.to(device)), dim=-1) for view in views)
        places = torch.arange(6, device=device)
        loss = functional.cross_entropy(a @ b.T / 0.1, places) + functional.triplet_margin_loss(
            a, b, b.roll(1, 0)
        )
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        mean.update_parameters(model)
        yield loss
    yield mean(images.to(device)).square().sum()


LOOPS = (wasserstein, recurrent, policy, second_order, averaged)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS, ids=[loop.__name__ for loop in LOOPS])
def test_losses_are_those_of_the_cpu(tt, loop):
    losses = {}
    for device in ("cpu", "tt"):
        torch.manual_seed(1)
        losses[device] = [float(loss.detach()) for loss in loop(device)]
    assert losses["tt"] == pytest.approx(losses["cpu"], rel=1e-4, abs=1e-5)
    assert not tt.stats().on_host


def test_a_scaler_skips_what_is_not_finite(tt):
    """Gradients are accumulated, unscaled, looked at, and the scale goes up and down, all on the device."""
    found = {}
    for device in ("cpu", "tt"):
        torch.manual_seed(1)
        model = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler(device, init_scale=256.0, growth_interval=2)
        scales = []
        for step in range(6):
            for _ in range(2):
                loss = model(torch.randn(3, 4).to(device)).square().mean()
                scaler.scale(loss * (float("inf") if step == 3 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scales.append(scaler.get_scale())
        found[device] = scales, [p.detach().cpu() for p in model.parameters()]
    assert found["tt"][0] == found["cpu"][0] == [256.0, 512.0, 512.0, 256.0, 256.0, 512.0]
    for made, wanted in zip(found["tt"][1], found["cpu"][1], strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    assert not any("_amp_" in op for op, _ in tt.stats().fallbacks)


def test_histograms_of_integers(tt):
    values = torch.tensor([0, 1, 1, 3, 7, 2, 1])
    made = torch.histc(values.to("tt").int(), bins=4, min=0, max=3)
    assert made.dtype == torch.int32
    assert made.tolist() == [1, 3, 1, 1]
    floats = values.float()
    assert torch.histc(floats.to("tt"), 4).tolist() == torch.histc(floats, 4).tolist()
