"""numpy's array protocol and Python's operators for Tensor. A result is computed and stays on the operands'
device if a kernel can compute it there. ``attach`` puts the methods into operators.Operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import dtypes
from ..run.single.fallback import store, write
from ..run.single.host import on_host, tensors_in, to_host
from ..run.tensors.operators import METHODS, PROPERTIES
from ..run.tensors.tensor import Tensor
from . import arithmetic, indexing, movement, reduction, routines
from .routines import UFUNCS

_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reduction.sum,
    np.multiply: reduction.prod,
    np.maximum: reduction.max,
    np.minimum: reduction.min,
}


def array_ufunc(
    self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
) -> Any:
    """The result of a ufunc, on the device: computed by a kernel, or by the host and then placed back."""
    if any(_is_foreign(value) for value in inputs):
        return NotImplemented
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    if method == "__call__":
        function = UFUNCS.get(ufunc)
        if function is not None:
            return function(*inputs, out=out, **kwargs)
        return _host_ufunc(ufunc.__name__, ufunc, inputs, kwargs, out)
    if method == "reduce" and ufunc in _REDUCTIONS:
        return _reduce(ufunc, *inputs, out=out, **kwargs)
    if method == "at":
        return _at(ufunc, *inputs)
    return _host_ufunc(f"{ufunc.__name__}.{method}", getattr(ufunc, method), inputs, kwargs, out)


def _is_foreign(value: Any) -> bool:
    other = getattr(type(value), "__array_ufunc__", None)
    return (
        other is not None
        and other is not np.ndarray.__array_ufunc__
        and not isinstance(value, (Tensor, np.generic))
    )


def _host_ufunc(
    name: str, function: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> Any:
    if not tensors_in((*inputs, *kwargs.values())):  # the only tensor is the one given as out=
        made = function(*inputs, **kwargs)
    else:
        made = on_host(name, function, inputs, kwargs, f"no device has a kernel for {name}")
    return made if out is None else store(out, made, name)


def _reduce(
    ufunc: np.ufunc,
    array: Any,
    *,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    out: Any = None,
    **more: Any,
) -> Any:
    if dtype is not None:
        more["dtype"] = dtype
    return _REDUCTIONS[ufunc](array, axis=axis, keepdims=keepdims, out=out, **more)


def _at(ufunc: np.ufunc, array: Any, *rest: Any) -> None:
    """Run ufunc.at, which writes to its first argument. If the first argument is an array, only the other
    arguments are fetched."""

    def changed(values: np.ndarray, *operands: Any) -> np.ndarray:
        values = np.array(values)
        ufunc.at(values, *operands)
        return values

    if not isinstance(array, Tensor):
        args, _ = to_host(rest, tensors_in(rest), {})
        ufunc.at(array, *args)
        return
    name = f"{ufunc.__name__}.at"
    write(array, on_host(name, changed, (array, *rest), {}, f"no device has a kernel for {name}"))


def array_function(
    self: Tensor, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a numpy function that is no ufunc: computed on the device if eager has the function, else
    from arrays that are fetched in one batch."""
    ours = routines.FUNCTIONS.get(function)
    if ours is not None:
        return ours(*args, **kwargs)
    return host_function(function, args, kwargs)


def host_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of numpy's function, computed on fetched values; if out= is a tensor, the result is written
    to it."""
    out = kwargs.pop("out", None)
    name = function.__name__
    given, named = to_host(args, tensors_in((*args, *kwargs.values())), kwargs, hidden=f"numpy.{name}")
    made = function(*given, **named)
    return made if out is None else store(out, made, name)


# **************** methods ****************


def _binary(ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The methods for x op y, y op x and x op= y."""
    function = UFUNCS.get(ufunc) or (
        lambda a, b, out=None: _host_ufunc(ufunc.__name__, ufunc, (a, b), {}, out)
    )

    def forward(self: Tensor, other: Any) -> Any:
        return NotImplemented if getattr(other, "__array_ufunc__", True) is None else function(self, other)

    def backward(self: Tensor, other: Any) -> Any:
        return function(other, self)

    def in_place(self: Tensor, other: Any) -> Any:
        return function(self, other, out=self)

    return forward, backward, in_place


def _comparison(ufunc: np.ufunc, compare: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    function, name = UFUNCS[ufunc], ufunc.__name__

    def operate(self: Tensor, other: Any) -> Any:
        if isinstance(other, (Tensor, bool, int, float)):
            return function(self, other)
        return _host_ufunc(name, compare, (self, other), {}, None)

    return operate


def _unary(ufunc: np.ufunc) -> Callable[[Tensor], Any]:
    function = UFUNCS.get(ufunc) or (lambda x: _host_ufunc(ufunc.__name__, ufunc, (x,), {}, None))
    return lambda self: function(self)


_OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
# with operators instead of ufuncs, == of values that cannot be compared is False, as for numpy's arrays
_COMPARISONS = {
    "eq": (np.equal, operator.eq),
    "ne": (np.not_equal, operator.ne),
    "lt": (np.less, operator.lt),
    "le": (np.less_equal, operator.le),
    "gt": (np.greater, operator.gt),
    "ge": (np.greater_equal, operator.ge),
}


def _operators() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, ufunc in _OPERATORS.items():
        made[f"__{name}__"], made[f"__r{name}__"], made[f"__i{name}__"] = _binary(ufunc)
    for name, (ufunc, compare) in _COMPARISONS.items():
        made[f"__{name}__"] = _comparison(ufunc, compare)
    made |= {
        "__neg__": _unary(np.negative),
        "__pos__": _unary(np.positive),
        "__abs__": _unary(np.absolute),
        "__invert__": _unary(np.invert),
    }
    return made


def _shape_args(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 else args


def _fill(self: Tensor, value: Any) -> None:
    write(self, routines.full_like(self, value))


def _strides(self: Tensor) -> tuple[int, ...]:
    """Strides in bytes of the values as a C-contiguous array on the host, which the device's layout does not
    change."""
    size, made = self.itemsize, []
    for n in reversed(self.shape):
        made.append(size)
        size *= n
    return tuple(reversed(made))


_METHODS = {
    "__array_ufunc__": array_ufunc,
    "__array_function__": array_function,
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__contains__": lambda self, value: value in np.asarray(self),
    "reshape": lambda self, *shape, **kwargs: movement.reshape(self, _shape_args(shape), **kwargs),
    "ravel": movement.ravel,
    "flatten": lambda self, order="C": routines.copy(movement.ravel(self, order)),
    "transpose": lambda self, *axes: movement.transpose(self, _shape_args(axes) if axes else None),
    "squeeze": movement.squeeze,
    "swapaxes": movement.swapaxes,
    "astype": arithmetic.astype,
    "copy": routines.copy,
    "sum": reduction.sum,
    "mean": reduction.mean,
    "max": reduction.max,
    "min": reduction.min,
    "var": reduction.var,
    "std": reduction.std,
    "prod": reduction.prod,
    "any": reduction.any,
    "all": reduction.all,
    "argmax": reduction.argmax,
    "argmin": reduction.argmin,
    "cumsum": reduction.cumsum,
    "clip": arithmetic.clip,
    "round": arithmetic.round,
    "take": movement.take,
    "dot": reduction.dot,
    "fill": _fill,
    "tobytes": lambda self, order="C": self.numpy().tobytes(order),
}
_PROPERTIES = {
    "T": lambda self: movement.transpose(self),
    "mT": lambda self: movement.swapaxes(self, -1, -2),
    "itemsize": lambda self: dtypes.to_numpy(self.dtype).itemsize,
    "strides": _strides,
    "flat": lambda self: self.numpy().flat,
}


def attach(target: type) -> None:
    """Put every method and property into ``target``."""
    methods = _METHODS | _operators()
    for name in METHODS:
        setattr(target, name, methods[name])
    for name in PROPERTIES:
        setattr(target, name, property(_PROPERTIES[name]))
