"""tt tensors through the queues and pipes of multiprocessing: values go through the host's shared memory to
the device of the same number in the receiving process. Afterwards the processes share nothing."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from ..device.device_module import refuse_in_child
from ..store import torch_device


def _rebuild(
    cls: type, values: torch.Tensor, index: int, requires_grad: bool, attributes: dict[str, Any]
) -> Any:
    refuse_in_child()
    made = values.to(torch_device(index))
    if issubclass(cls, torch.nn.Parameter):
        made = cls(made, requires_grad=requires_grad)
    else:
        made.requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


def _reduce(tensor: torch.Tensor) -> Any:
    """The form in which torch.multiprocessing pickles a tensor. Raises RuntimeError for a result of autograd,
    as torch does for all devices."""
    if tensor.device.type != "tt":
        return reductions.reduce_tensor(tensor)
    refuse_in_child()
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that autograd made cannot go to another process: send x.detach() instead"
        )
    attributes = {key: value for key, value in vars(tensor).items() if not key.startswith("_")}
    values = tensor.detach().cpu()
    return _rebuild, (type(tensor), values, tensor.device.index, tensor.requires_grad, attributes)


def register() -> None:
    """Register the pickling of tensors with multiprocessing."""
    ForkingPickler.register(torch.Tensor, _reduce)
    ForkingPickler.register(torch.nn.Parameter, _reduce)
