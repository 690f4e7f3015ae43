"""Numpy-like functions: the function's own body runs on the device, numpy's function on the host if the
device refuses. The argument out= is handled here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ..tensors.tensor import Tensor
from .apply import Refused
from .host import on_host
from .launch import rebind
from .operands import cast, device_of

Function = Callable[..., Any]


class NumpyLike(Protocol):
    """A function under numpy's name. ``body``: the function that runs on the device and may raise Refused;
    ``host``: numpy's function."""

    __name__: str
    body: Function
    host: Function

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any: ...


def device_first(host: Function, doc: str | None = None) -> Callable[[Function], NumpyLike]:
    """Decorate the device body of a numpy-like function. If the body raises Refused, numpy's ``host`` does
    the whole function with the same arguments. ``out=`` is handled here. A function that is made of other
    decorated functions calls their bodies (``function.body``), so that after a refusal the host does the
    whole function once. ``doc``: docstring of a function made in a loop or by another function, whose name is
    then that of ``host``. Raises InputError if no argument is a tensor."""

    def decorate(body: Function) -> NumpyLike:
        if doc is not None:
            body.__name__ = body.__qualname__ = host.__name__
            body.__doc__ = doc
        name = body.__name__

        @wraps(body)
        def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            try:
                made = body(*args, **kwargs)
            except Refused as refused:
                device_of(name, *args, *kwargs.values())
                made = on_host(name, host, args, kwargs, refused.reason, refused.error)
            return made if out is None else store(out, made, name)

        found: Any = function
        found.body, found.host = body, host
        return found

    return decorate


def host_only(name: str, host: Function) -> Function:
    """A function without a kernel on any device: numpy computes, and the result is placed back on the
    device."""

    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        device_of(name, *args, *kwargs.values())
        made = on_host(name, host, args, kwargs, f"no device has a kernel for {name}")
        return made if out is None else store(out, made, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name}, done on the host and placed back on the device."
    return function


def only(more: dict[str, Any]) -> None:
    """Raise Refused if the caller gave an argument that only numpy's function has."""
    given = [key for key, value in more.items() if value is not None and value is not np._NoValue]
    if given:
        raise Refused(f"only numpy has the argument {given[0]}=")


def store(out: Any, made: Any, name: str) -> Any:
    """Write a result into ``out``, which is a tensor or an array (or numpy's tuple of one), and return
    ``out``. Raises InputError if the shapes differ, or if the dtypes are more than a same_kind cast apart."""
    if isinstance(out, tuple):
        if len(out) != 1:
            return tuple(store(o, m, name) if o is not None else m for o, m in zip(out, made, strict=True))
        (out,) = out
    if tuple(out.shape) != tuple(made.shape):
        text = f"{name}: out= has shape {tuple(out.shape)}, the result has {tuple(made.shape)}"
        raise InputError(text, got=tuple(out.shape), wanted=tuple(made.shape))
    to = dtypes.to_numpy(out.dtype) if isinstance(out, Tensor) else out.dtype
    of = dtypes.to_numpy(made.dtype) if isinstance(made, Tensor) else made.dtype
    if not np.can_cast(of, to, "same_kind"):
        text = f"{name}: out= is {to.name}, the result is {of.name}: cast it with astype first"
        raise InputError(text, got=to.name, wanted=of.name)
    if isinstance(out, Tensor):
        write(out, made)
    else:
        np.copyto(out, made.numpy() if isinstance(made, Tensor) else made, casting="same_kind")
    return out


def write(out: Tensor, made: Any) -> None:
    """Give the handle ``out`` new values of its shape. Other handles on the same memory keep the old values,
    unless the memory is a session's or the caller's own. Such memory is overwritten, after its readers are
    done. Raises the errors of Tensor.copy_from."""
    if isinstance(made, Tensor) and made.dtype != out.dtype:
        try:
            made = cast(made, out.dtype)
        except Refused:
            made = made.numpy()
    buffer = out.alive().buffer
    shared = buffer is None or buffer.owner is not None or out.readonly
    if isinstance(made, Tensor) and made.spec is out.spec and not shared:
        rebind(out, made)
    else:
        out.copy_from(made, "out=")
