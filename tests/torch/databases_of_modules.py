"""torch's own databases of modules and of optimizers: what an entry gives on the device, and on the CPU.

for info in module_db: print(module(info))
for info in optim_db: print(optimizer(info))
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from databases import Outcome, samples_of, to
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_flatten

__all__ = ["MODULES", "OPTIMIZERS", "module", "optimizer"]

MODULES = {info.name.removeprefix("nn."): info for info in module_db}
OPTIMIZERS = {info.name: info for info in optim_db}

_STEPS = 3
# of LBFGS, in a step. After the 20 of its default the loss is 1e-8, and the last bit of the input moves
# torch's own parameters by 3e-4; after 3 by 6e-8
_ITERATIONS = 3


def module(info: Any, dtype: torch.dtype = torch.float32) -> Outcome:
    """Results of a module, in training and in evaluation, and gradients of its parameters and inputs."""

    def cases() -> Iterator[Callable[..., Any]]:
        for training in (True, False) if info.train_and_eval_differ else (True,):
            torch.manual_seed(0)
            for given in info.module_inputs_func(info, "cpu", dtype, True, training):
                if given.forward_input is not None:
                    yield _passes(info, given, training)

    return samples_of(cases())


def _passes(info: Any, given: Any, training: bool) -> Callable[..., Any]:
    torch.manual_seed(0)
    made = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs).train(training)

    def run(device: str, dtype: torch.dtype | None = None) -> Any:
        net = copy.deepcopy(made).to(device=device, dtype=dtype)
        args, kwargs = (to(x, device, dtype) for x in (given.forward_input.args, given.forward_input.kwargs))
        torch.manual_seed(0)
        results = tree_flatten(net(*args, **kwargs))[0]
        leaves = [x for x in (*tree_flatten((args, kwargs))[0], *net.parameters()) if _wants_grad(x)]
        sums = [x for x in results if _wants_grad(x)]
        weights = [
            torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape).to(device) for x in sums
        ]
        grads = torch.autograd.grad(sums, leaves, weights, allow_unused=True) if leaves and sums else ()
        return results, grads, list(net.buffers())

    return run


def _wants_grad(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def optimizer(info: Any, dtype: torch.dtype = torch.float32) -> Outcome:
    """Parameters after a few steps, for each of an optimizer's options, one at a time and foreach."""

    def cases() -> Iterator[Callable[..., Any]]:
        for given in info.optim_inputs_func(device="cpu", dtype=dtype):
            for foreach in (False, True) if "foreach" in info.supported_impls else (None,):
                yield _steps(info, given.kwargs, foreach)

    return samples_of(cases())


def _steps(info: Any, options: dict[str, Any], foreach: bool | None) -> Callable[..., Any]:
    def run(device: str, dtype: torch.dtype | None = None) -> Any:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(6, 8, bias=False), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        if info.optim_cls is torch.optim.Muon:
            net[2].bias = None
        x, net = torch.rand(5, 6), net.to(device=device, dtype=dtype)
        x = x.to(device=device, dtype=dtype)
        more = {} if foreach is None else {"foreach": foreach}
        if info.step_requires_closure:
            more["max_iter"] = _ITERATIONS
        made = info.optim_cls(net.parameters(), **(more | to(options, device)))

        def loss() -> torch.Tensor:
            made.zero_grad()
            found = net(x).square().sum()
            found.backward(create_graph=bool(options.get("differentiable")))
            return found

        for _ in range(_STEPS):
            made.step(loss) if info.step_requires_closure else (loss(), made.step())
        return [p.detach() for p in net.parameters()]

    return run
