"""Random numbers of torch.tt. They are made on the host. A device's default generator is torch's CPU
generator, so a seed gives the same numbers on every device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..store import device_of, devices, torch_device

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


class Generator(torch._C.Generator):
    """torch.Generator(device="tt"): its own random stream, made on the host with the numbers of a CPU
    generator of the same seed."""

    def __new__(cls, device: Any = "tt") -> Generator:
        made = super().__new__(cls)
        made._index = device_of(torch.device(device))
        return made

    _index: int

    @property
    def device(self) -> torch.device:
        return torch_device(self._index)

    def clone_state(self) -> Generator:
        made = Generator(self.device)
        made.set_state(self.get_state())
        return made

    def __reduce__(self) -> Any:
        return _again, (str(self.device), self.get_state())


def _again(device: str, state: torch.Tensor) -> Generator:
    made = Generator(device)
    made.set_state(state)
    return made


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def seed() -> None:
    """Set a random seed."""
    torch.default_generator.seed()


def seed_all() -> None:
    seed()


def initial_seed() -> int:
    return torch.default_generator.initial_seed()


def get_rng_state(device: Any = None) -> torch.Tensor:
    device_of(device)
    return torch.default_generator.get_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    device_of(device)
    torch.default_generator.set_state(state.cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """One state per device, all equal, because devices share one default generator."""
    return [get_rng_state(index) for index in range(len(devices()))]


def set_rng_state_all(states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(states):
        set_rng_state(state, index)
