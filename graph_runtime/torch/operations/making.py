"""Creation of tensors: kernels whose calls are repeated (repeats.py) although they have no rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..copies import COMPOSITE, copy_from, duplicate
from ..counters import Unsupported, count
from ..device.device_module import refuse_in_child
from ..direct import Eager
from ..kinds import kind_of
from ..required import TorchDeviceError
from ..store import collect, device_of, empty, wrap
from .repeats import Repeating

aten = torch.ops.aten


class FunctionKernel(Repeating):
    """The kernel of an overload that is a plain function of its arguments."""

    def __init__(self, op: Any, function: Callable[..., Any], written: int | None = None):
        super().__init__(op, written)
        self.function, self.name = function, op._schema.name.removeprefix("aten::")

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        refuse_in_child()
        return self.function(*args, **kwargs)


def empty_memory_format(size: Any, *, memory_format: Any = None, **how: Any) -> torch.Tensor:
    """aten::empty.memory_format"""
    shape, strides = tuple(size), None
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        strides = torch.empty(shape, device="meta", memory_format=memory_format).stride()
    return _made(shape, strides, **how)


def empty_strided(size: Any, stride: Any, **how: Any) -> torch.Tensor:
    """aten::empty_strided"""
    return _made(tuple(size), tuple(stride), **how)


def _made(
    shape: tuple[int, ...],
    strides: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> torch.Tensor:
    if layout not in (None, torch.strided):
        raise TorchDeviceError(
            f"tt tensors are strided, not {layout}: keep this one on the CPU", got=str(layout)
        )
    if pin_memory:
        raise TorchDeviceError("only CPU memory can be pinned, not that of tt")
    return empty(shape, strides, torch.get_default_dtype() if dtype is None else dtype, device_of(device))


def full(size: Any, number: Any, *, dtype: Any = None, **how: Any) -> torch.Tensor:
    """aten::full. Memory is allocated once, for the filled values."""
    dtype = torch.full((), number).dtype if dtype is None else dtype
    shape, kind = tuple(size), kind_of(dtype)
    if not kind.raw and 0 not in shape and how.get("layout") in (None, torch.strided):
        index = device_of(how.get("device"))
        collect()
        try:
            made = Eager(index).filled(shape, number, kind.stored).tensor
        except (Unsupported, ArithmeticError, TypeError):
            pass  # torch's fill_ takes the number, or raises its error
        else:
            count("device")
            return wrap(made, dtype, index)
    return _made(shape, None, dtype, **how).fill_(number)


def zeros(size: Any, *, dtype: Any = None, **how: Any) -> torch.Tensor:
    """aten::zeros, and aten::_efficientzerotensor, whose zeros are stored here like other values."""
    return full(size, 0, dtype=torch.get_default_dtype() if dtype is None else dtype, **how)


def _like(op: Any, *numbers: Any) -> Callable[..., torch.Tensor]:
    def kernel(self: torch.Tensor, *given: Any, **how: Any) -> torch.Tensor:
        device = how.get("device")
        elsewhere = device is not None and torch.device(device).type != "tt"
        if elsewhere or not _in_rows(self, how.get("memory_format")):
            return op.redispatch(COMPOSITE, self, *given, **how)
        more = {key: value for key, value in how.items() if value is not None and key != "memory_format"}
        return full(self.shape, *(numbers or given), **{"dtype": self.dtype, "device": self.device, **more})

    return kernel


def _in_rows(x: torch.Tensor, order: Any) -> bool:
    """Whether a tensor made like ``x``, with the memory format ``order``, is row-major."""
    return order is torch.contiguous_format or (
        order in (None, torch.preserve_format) and x.is_contiguous() and not (x.is_conj() or x.is_neg())
    )


def clone(self: torch.Tensor, *, memory_format: Any = None) -> torch.Tensor:
    """aten::clone: the result shares memory with the tensor until one of the two is written."""
    if not self.numel() or self.is_conj() or self.is_neg() or not _in_rows(self, memory_format):
        return aten.clone.default.redispatch(COMPOSITE, self, memory_format=memory_format)
    try:
        return duplicate(self)
    except Unsupported:  # the view cannot be stored as a tensor of its own
        return aten.clone.default.redispatch(COMPOSITE, self, memory_format=memory_format)


_FUNCTIONS: dict[Any, Callable[..., torch.Tensor]] = {
    aten.empty.memory_format: empty_memory_format,
    aten.empty_strided.default: empty_strided,
    aten._efficientzerotensor.default: zeros,
    aten.zeros.default: zeros,
    aten.full.default: full,
    aten.zeros_like.default: _like(aten.zeros_like.default, 0),
    aten.ones_like.default: _like(aten.ones_like.default, 1),
    aten.full_like.default: _like(aten.full_like.default),
    aten.clone.default: clone,
}
REPEATING = [
    *(FunctionKernel(op, function) for op, function in _FUNCTIONS.items()),
    FunctionKernel(aten._copy_from.default, copy_from, 1),
]
