"""Operations on the host: fetch the arguments, run torch's CPU kernel, place the results on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..run.tensors import journal
from . import content
from .copies import set_tensor
from .counters import count, type_of
from .kinds import kind_of
from .refused_layouts import no_layout
from .required import TorchDeviceError
from .store import device_of, devices, empty

# arguments that an operation writes although its schema does not say so, so that no other code would write
# them back
_UNSAID = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::batch_norm_update_stats": ("running_mean", "running_var"),
}
# operations whose indices may be on the CPU
_INDEXED = ("aten::index", "aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index")


# operations whose results the host makes for the device: ranges, and random numbers of torch.manual_seed;
# the host also makes some of them for graphs (hoist.py)
MADE = frozenset(
    f"aten::{name}"
    for name in (
        *("arange", "range", "linspace", "logspace", "eye", "tril_indices", "triu_indices"),
        *("uniform_", "normal_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_"),
        *("bernoulli_", "randperm", "rand", "randn", "randint", "normal"),
    )
)


def check_devices(op: Any, args: Any, kwargs: Any) -> int | None:
    """The number of the device that all tensors of a call are on; None if there is no such tensor. CPU
    tensors without dimensions count as numbers, not as tensors. Raises torch's RuntimeError for tensors on
    several devices."""
    found: dict[torch.device, None] = {}
    for position, arg in enumerate((*args, *kwargs.values()) if kwargs else args):
        if isinstance(arg, torch.Tensor):
            tensors: Sequence[Any] = (arg,)
        elif isinstance(arg, (list, tuple)):
            tensors = _tensors(arg)
        else:
            continue
        for tensor in tensors:
            device = tensor.device
            if device.type == "cpu" and (
                not tensor.dim() or (position == 1 and op._schema.name.rstrip("_") in _INDEXED)
            ):
                continue
            found[device] = None
    if len(found) > 1:
        names = ", ".join(sorted((str(d) for d in found), reverse=True)[:-1])
        last = min(str(d) for d in found)
        text = (
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{names} and {last}! ({op._schema.name})"
        )
        raise TorchDeviceError(text, op=op._schema.name, got=[str(d) for d in found])
    return next((d.index for d in found if d.type == "tt"), None)


def _tensors(arg: Any) -> list[torch.Tensor]:
    if isinstance(arg, torch.Tensor):
        return [arg]
    if isinstance(arg, (list, tuple)):
        return [t for item in arg for t in _tensors(item)]
    return []


def types_of(args: Any) -> tuple[str, ...]:
    """The journal's texts for the tt tensors among the arguments."""
    return tuple(type_of(t) for t in _tensors(args) if t.device.type == "tt")


class _Swap:
    """Replaces the tt tensors among arguments by CPU tensors, each fetched once; ``back`` {id of a CPU
    tensor: the tt tensor}."""

    def __init__(self) -> None:
        self.copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.back: dict[int, torch.Tensor] = {}
        self.own: dict[int, torch.Tensor] = {}

    def __call__(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self._tensor(x) if x.device.type == "tt" else x
        if isinstance(x, (list, tuple)):
            return type(x)(self(item) for item in x)
        if isinstance(x, torch.device):
            return torch.device("cpu")
        return x

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        found = self.copies.get(id(x))
        if found is None:
            host = content.fetch(x)
            if not x.is_contiguous() and x.numel() and _dense(x):
                host = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype).copy_(host)
            found = self.copies[id(x)] = (x, host)
            self.back[id(host)] = x
        return found[1]

    def resizable(self, host: Any) -> Any:
        """A copy, with memory of torch's allocator, of a tensor that an operation writes and may resize;
        fetched memory cannot be resized."""
        if isinstance(host, (list, tuple)):
            return type(host)(self.resizable(item) for item in host)
        original = self.back.get(id(host)) if isinstance(host, torch.Tensor) else None
        if original is None:
            return host
        made = self.own.setdefault(id(host), host.clone())
        self.back[id(made)] = original
        return made


def _called(op: Any, given: list[Any], more: dict[str, Any]) -> Any:
    """The operation's result. Where torch passes a number that it had wrapped in a tensor, the overload that
    takes numbers is called."""
    for argument, value in zip(op._schema.arguments, given, strict=False):
        if isinstance(value, (int, float)) and isinstance(argument.type, torch.TensorType):
            return op._overloadpacket(*given, **more)
    return op(*given, **more)


def _dense(x: torch.Tensor) -> bool:
    return torch._prims_common.is_non_overlapping_and_dense_or_false(x)


def on_host(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
    """The result of an operation that runs on the host, which is counted with ``reason``."""
    index = check_devices(op, args, kwargs)
    if index is None:
        index = device_of(kwargs.get("device"))
    device, types = devices()[index], types_of(args)
    tensors = [x for x in _tensors((*args, *kwargs.values())) if x.device.type == "tt"]
    if any(not x.numel() for x in tensors):
        made = _without_elements(op, args, kwargs, index)
        if made is not None:
            return made
    # results that depend on no values of a device are constants, like those of torch.full
    constant = not any(x.numel() for x in tensors) if tensors else False
    if op._schema.name in MADE and not any(_read(op, args, kwargs)):
        constant = True
        count("made")
    if not constant:
        journal.refuse(op._schema.name, device, types, reason)
    swap = _Swap()
    given, more = swap(list(args)), {key: swap(value) for key, value in kwargs.items()}
    unsaid = _UNSAID.get(op._schema.name, ())
    written = [
        a.name in unsaid or (a.alias_info is not None and a.alias_info.is_write) for a in op._schema.arguments
    ]
    for position, argument in enumerate(op._schema.arguments):
        if written[position]:
            if position < len(given):
                given[position] = swap.resizable(given[position])
            elif argument.name in more:
                more[argument.name] = swap.resizable(more[argument.name])
    result = _called(op, given, more)
    for position, argument in enumerate(op._schema.arguments):
        if written[position]:
            original = args[position] if position < len(args) else kwargs.get(argument.name)
            changed = given[position] if position < len(args) else more.get(argument.name)
            _write_back(original, changed)
    nbytes = sum(x.numel() * x.element_size() for x, _ in swap.copies.values())
    if not constant:
        journal.record(op._schema.name, device, types, reason, nbytes)
    return _placed(result, swap, index)


def _read(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[bool]:
    """For each tt tensor with elements in a call, whether the operation reads its values; False if it only
    writes them."""
    written = {a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    named = [(a.name, x) for a, x in zip(op._schema.arguments, args, strict=False)] + list(kwargs.items())
    return [
        name not in written for name, x in named for t in _tensors(x) if t.device.type == "tt" and t.numel()
    ]


def on_meta(x: Any) -> Any:
    """A tensor or device, on torch's device "meta"; anything else unchanged."""
    if isinstance(x, torch.Tensor):
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")
    return torch.device("meta") if isinstance(x, torch.device) else x


def _without_elements(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> Any:
    """The results of an operation, made without running it, if none of them has elements. None if a result
    has elements."""
    if op._schema.is_mutable:
        return None

    def made(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return empty(tuple(x.size()), x.stride(), x.dtype, index)

    try:
        found = _called(op, *tree_map(on_meta, (list(args), kwargs)))
    except Exception:  # torch's CPU kernel will raise an error that explains the problem
        return None
    results = [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
    if not results or any(x.numel() for x in results):
        return None
    return tree_map(made, found)


def _write_back(original: Any, changed: Any) -> None:
    if isinstance(original, (list, tuple)):
        for one, other in zip(original, changed, strict=True):
            _write_back(one, other)
    elif isinstance(original, torch.Tensor) and original.device.type == "tt":
        if original.shape != changed.shape:  # the operation resized its out= tensor
            set_tensor(original, to_device(changed, original.device.index))
        else:
            content.put(original, changed)


def _placed(result: Any, swap: _Swap, index: int) -> Any:
    if isinstance(result, torch.Tensor):
        original = swap.back.get(id(result))
        return to_device(result, index) if original is None else original
    if isinstance(result, (list, tuple)):
        placed = [_placed(item, swap, index) for item in result]
        return type(result)(placed) if type(result) in (list, tuple) else tuple(placed)
    return result


def to_device(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """A tensor on a device with the values of a CPU tensor, and with the CPU tensor's strides if these are
    dense."""
    if tensor.layout != torch.strided:
        raise no_layout(f"{tensor.layout}".removeprefix("torch."))
    kind_of(tensor.dtype)
    strides = tensor.stride() if _dense(tensor) else tensor.contiguous().stride()
    made = empty(tuple(tensor.size()), strides, tensor.dtype, index)
    content.put(made, tensor)
    return made
