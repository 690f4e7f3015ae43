"""The host's way: arguments fetched, torch's own kernel of the CPU, results placed back."""

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

__all__ = ["check_devices", "on_host", "to_device", "types_of"]

# arguments that operations write though their schemas do not say so: no other code would write them back
_UNSAID = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::batch_norm_update_stats": ("running_mean", "running_var"),
}
# operations whose indices may be on the CPU
_INDEXED = ("aten::index", "aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index")


# what the host makes for the device, in graphs too (hoist.py): ranges, random numbers by torch.manual_seed
MADE = frozenset(
    f"aten::{name}"
    for name in (
        *("arange", "range", "linspace", "logspace", "eye", "tril_indices", "triu_indices"),
        *("uniform_", "normal_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_"),
        *("bernoulli_", "randperm", "rand", "randn", "randint", "normal"),
    )
)


def check_devices(op: Any, args: Any, kwargs: Any) -> int | None:
    """The number of the one device among the tensors of a call, None where there is none. CPU tensors of no
    dimensions are numbers. Raises torch's RuntimeError for more than one device."""
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
            if device.type == "cpu" and (not tensor.dim() or (position == 1 and _is_indexed(op))):
                continue
            found[device] = None
    if len(found) > 1:
        names = ", ".join(sorted((str(d) for d in found), reverse=True)[:-1])
        last = min(str(d) for d in found)
        raise TorchDeviceError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{names} and {last}! ({op._schema.name})",
            op=op._schema.name,
            got=[str(d) for d in found],
        )
    return next((d.index for d in found if d.type == "tt"), None)


def _is_indexed(op: Any) -> bool:
    return op._schema.name.rstrip("_") in _INDEXED


def _tensors(arg: Any) -> list[torch.Tensor]:
    if isinstance(arg, torch.Tensor):
        return [arg]
    if isinstance(arg, (list, tuple)):
        return [t for item in arg for t in _tensors(item)]
    return []


def types_of(args: Any) -> tuple[str, ...]:
    """What the journal says of the tt tensors among arguments."""
    return tuple(type_of(t) for t in _tensors(args) if t.device.type == "tt")


class _Swap:
    """Arguments with CPU tensors for tt ones, each fetched once; ``back`` finds the original of one."""

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
            if not x.is_contiguous() and x.numel():
                host = (
                    torch.empty_strided(x.size(), x.stride(), dtype=x.dtype).copy_(host)
                    if _dense(x)
                    else host
                )
            found = self.copies[id(x)] = (x, host)
            self.back[id(host)] = x
        return found[1]

    def resizable(self, host: Any) -> Any:
        """A copy of what an operation writes, and may resize, in memory of torch's own: what was fetched is
        not."""
        if isinstance(host, (list, tuple)):
            return type(host)(self.resizable(item) for item in host)
        original = self.back.get(id(host)) if isinstance(host, torch.Tensor) else None
        if original is None:
            return host
        made = self.own.setdefault(id(host), host.clone())
        self.back[id(made)] = original
        return made


def _called(op: Any, given: list[Any], more: dict[str, Any]) -> Any:
    """What an operation makes. Of a number that it wrapped as a tensor torch hands over the number: then
    the overload for numbers is meant."""
    for argument, value in zip(op._schema.arguments, given, strict=False):
        if isinstance(value, (int, float)) and isinstance(argument.type, torch.TensorType):
            return op._overloadpacket(*given, **more)
    return op(*given, **more)


def _dense(x: torch.Tensor) -> bool:
    return torch._prims_common.is_non_overlapping_and_dense_or_false(x)


def on_host(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
    """The result of an operation done on the host, counted with its reason."""
    index = check_devices(op, args, kwargs)
    if index is None:
        index = device_of(kwargs.get("device"))
    device, types = devices()[index], types_of(args)
    tensors = [x for x in _tensors((*args, *kwargs.values())) if x.device.type == "tt"]
    if any(not x.numel() for x in tensors):
        made = _without_elements(op, args, kwargs, index)
        if made is not None:
            return made
    # what is made of nothing is a constant, as those of torch.full
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
    """For each tt tensor that an operation is given whether it reads its values, not only writes them."""
    written = {a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    named = [(a.name, x) for a, x in zip(op._schema.arguments, args, strict=False)] + list(kwargs.items())
    return [
        name not in written for name, x in named for t in _tensors(x) if t.device.type == "tt" and t.numel()
    ]


def _without_elements(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> Any:
    """The results of an operation that have no elements, and so no values; None where one has some."""
    if op._schema.is_mutable:
        return None

    def meta(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    def made(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return empty(tuple(x.size()), x.stride(), x.dtype, index)

    try:
        found = _called(op, *tree_map(meta, (list(args), kwargs)))
    except Exception:  # torch's kernel of the CPU says what is wrong
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
        if original.shape != changed.shape:  # an out= that was resized
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
    """A CPU tensor's values on a device, with its strides where they are dense."""
    if tensor.layout != torch.strided:
        raise no_layout(f"{tensor.layout}".removeprefix("torch."))
    kind_of(tensor.dtype)
    strides = tensor.stride() if _dense(tensor) else tensor.contiguous().stride()
    made = empty(tuple(tensor.size()), strides, tensor.dtype, index)
    content.put(made, tensor)
    return made
