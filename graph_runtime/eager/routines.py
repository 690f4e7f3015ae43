"""numpy's functions by name, computed on the device, or by numpy with the result placed back; functions that
create tensors; and any op of the registry by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.machine.devices import Device, parse
from ..ir.graph import TensorType
from ..ir.ops import registry
from ..run.single.apply import Refused, apply
from ..run.single.fallback import device_first, host_only, only
from ..run.single.host import on_host
from ..run.single.operands import device_of, dtype_name, tensor
from ..run.single.upload import push
from ..run.tensors.spec import default_spec, held
from ..run.tensors.tensor import Tensor
from . import arithmetic, movement, reduction
from .elementwise import ELEMENTWISE

# **************** creation ****************


def array(value: Any, device: Device | str = "cpu:0", dtype: Any = None) -> Tensor:
    """A tensor on ``device`` with values in any form that numpy accepts. The layout is that which planning
    would choose there. A dtype that the device lacks is replaced by its 32-bit counterpart (float64 on tt by
    float32).

    Raises InputError for a value outside the dtype's range, DeviceError for a dtype that no device supports,
    DeviceMemoryError.
    """
    device = parse(device)
    host = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    name = held(device, dtypes.from_numpy(host.dtype) if dtype is None else dtype_name(dtype))
    return push(host, default_spec(device, TensorType(name, host.shape)))


def full(
    shape: int | tuple[int, ...], value: Any, device: Device | str = "cpu:0", dtype: Any = None
) -> Tensor:
    """A tensor filled with one value. Raises as ``array`` does."""
    return array(np.broadcast_to(np.asarray(value), shape), device, dtype)


def zeros(shape: int | tuple[int, ...], device: Device | str = "cpu:0", dtype: Any = "float32") -> Tensor:
    """A tensor of zeros. Raises as ``array`` does."""
    return full(shape, 0, device, dtype)


def ones(shape: int | tuple[int, ...], device: Device | str = "cpu:0", dtype: Any = "float32") -> Tensor:
    """A tensor of ones. Raises as ``array`` does."""
    return full(shape, 1, device, dtype)


def full_like(a: Tensor, fill_value: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Tensor:
    """A tensor filled with one value on a's device; its shape and dtype are a's unless others are given."""
    return full(
        a.shape if shape is None else shape, fill_value, a.device, a.dtype if dtype is None else dtype
    )


def zeros_like(a: Tensor, dtype: Any = None, shape: Any = None, **_: Any) -> Tensor:
    """Zeros of a's shape and dtype on a's device."""
    return full_like(a, 0, dtype, shape)


def ones_like(a: Tensor, dtype: Any = None, shape: Any = None, **_: Any) -> Tensor:
    """Ones of a's shape and dtype on a's device."""
    return full_like(a, 1, dtype, shape)


@device_first(np.copy)
def copy(a: Tensor, order: str = "K", **more: Any) -> Tensor:
    """A copy of the tensor, with its own memory."""
    only(more)
    return apply("cast", (("to", tensor(a).dtype),), a)


# **************** any op ****************


def call(op: str, *inputs: Any, **attrs: Any) -> Tensor:
    """The result of a registry op (docs/ops.md), called by name: ``call("softmax", x, axis=-1)``. Inputs that
    are not tensors become tensors on the first tensor's device; as in a graph, dtypes must match. An
    attribute of None counts as missing.

    Raises UnsupportedOpError for an unknown op, InputError for attributes that the op lacks.
    """
    said = {name: value for name, value in attrs.items() if value is not None}
    (entry, attrs), device = registry.resolve(op, said), device_of(op, *inputs)
    op = entry.name
    tensors = [x if isinstance(x, Tensor) else array(x, device) for x in inputs]
    pairs = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in sorted(attrs.items()))
    try:
        return apply(op, pairs, *tensors)
    except Refused as refused:
        return on_host(
            op,
            lambda *arrays: entry.reference(list(arrays), entry.decode(attrs))[0],
            tensors,
            {},
            refused.reason,
            refused.error,
        )


# **************** on the host, placed back ****************

argsort = host_only("argsort", np.argsort)
cumprod = host_only("cumprod", np.cumprod)
diff = host_only("diff", np.diff)
hstack = host_only("hstack", np.hstack)
repeat = host_only("repeat", np.repeat)
roll = host_only("roll", np.roll)
sort = host_only("sort", np.sort)
tril = host_only("tril", np.tril)
triu = host_only("triu", np.triu)
vstack = host_only("vstack", np.vstack)

# **************** the table ****************

Functions = dict[Callable[..., Any], Callable[..., Any]]

_made = [f for part in (reduction, movement, arithmetic) for name, f in vars(part).items() if name[0] != "_"]
_made = [f for f in (*_made, *ELEMENTWISE.values(), copy) if hasattr(f, "host")]
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {f.host: f for f in _made if isinstance(f.host, np.ufunc)}
DEVICE: Functions = {
    **{f.host: f for f in _made if not isinstance(f.host, np.ufunc)},
    np.amax: reduction.max,
    np.amin: reduction.min,
    np.zeros_like: zeros_like,
    np.ones_like: ones_like,
    np.full_like: full_like,
    np.empty_like: zeros_like,
}
HOST: Functions = {
    getattr(np, f.__name__): f
    for f in (argsort, cumprod, diff, hstack, repeat, roll, sort, tril, triu, vstack)
}
METADATA: Functions = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: len(a.shape),
    np.size: lambda a, axis=None: a.type.size if axis is None else a.shape[axis],
    np.iscomplexobj: lambda x: False,
    np.isrealobj: lambda x: True,
    np.result_type: lambda *given: np.result_type(*map(_known, given)),
    np.can_cast: lambda from_, to, casting="safe": np.can_cast(_known(from_), to, casting),
}
FUNCTIONS: Functions = DEVICE | HOST | METADATA


def _known(value: Any) -> Any:
    return dtypes.to_numpy(value.dtype) if isinstance(value, Tensor) else value
