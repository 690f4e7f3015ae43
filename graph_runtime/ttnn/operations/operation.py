"""Operation: a function of ttnn, with its name, its golden function, and what wraps each call."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...base.errors import did_you_mean
from ..devices.mesh_device import MeshDevice
from ..errors import Unsupported, guarded
from ..memory.values import Layout
from ..programs.l1 import use_of_l1, what_is_kept
from ..registry import OPERATIONS
from ..settings import SETTINGS
from ..tensors.tensor import Tensor, tensors_within
from .neutral import NEUTRAL, check_kinds, kinds_of, known_arguments

# context managers of a call that is no part of another: with one(operation, args, kwargs) as told: told(made)
OBSERVERS: list[Callable[..., Any]] = []
REPORTERS: dict[str, Callable[..., Any]] = {}  # of those: what CONFIG asks for, by name
WATCHERS: list[Any] = []  # graph captures: the last one is told of each call (graphs.py)
_before: list[Callable[..., Any]] = []
_after: list[Callable[..., Any]] = []


class _Local(threading.local):
    depth = 0  # of operations in each other, in this thread


_local = _Local()


class Operation:
    """A callable. ``python_fully_qualified_name`` as "ttnn.add"; ``served``: the registry ops that it is
    made of; ``limits``: what it does not take; ``reason``: why it is declined, "" where it is not."""

    is_cpp_operation = True
    is_experimental = False
    is_binary = False  # two operands, element by element: one program for many shapes
    program_key: Callable[..., Any] | None = None  # of (args, kwargs): what the program depends on

    def __init__(
        self, name: str, function: Callable[..., Any], served: str = "", limits: str = "", reason: str = ""
    ):
        self.python_fully_qualified_name = f"ttnn.{name}"
        self.__name__ = self.python_fully_qualified_name
        self.__doc__ = function.__doc__
        function.__qualname__ = self.__name__  # in the TypeErrors of Python's own
        self.function, self.served, self.limits, self.reason = function, served, limits, reason
        self.name = name
        self._known = None if reason else known_arguments(function)
        self._kinds = () if reason or name == "to_torch" else kinds_of(function)
        self._golden: Callable[..., Any] | None = None
        self.preprocess_golden_function_inputs = self.postprocess_golden_function_outputs = None
        functools.update_wrapper(self, function, assigned=("__doc__",), updated=())
        OPERATIONS[name] = self

    @property
    def golden_function(self) -> Callable[..., Any] | None:
        """A torch function for comparison; no operation computes by it."""
        if self._golden is None:
            from ..golden.functions import golden_of

            self._golden = golden_of(self.name)
        return self._golden

    @golden_function.setter
    def golden_function(self, function: Callable[..., Any] | None) -> None:
        self._golden = function

    def __call__(self, *args: Any, queue_id: Any = None, cq_id: Any = None, **kwargs: Any) -> Any:
        if queue_id is not None or cq_id is not None:
            _check_queue(cq_id if queue_id is None else queue_id, [*args, *kwargs.values()])
        if self._known is not None and kwargs:
            self._check_arguments(kwargs)
        if self._kinds:
            check_kinds(self.__name__, self._kinds, args, kwargs)
        if _local.depth:
            return self._called(args, kwargs, None)
        hooked = not SETTINGS.enable_fast_runtime_mode
        if hooked:
            _told(_before, "Pre", self, args, kwargs)
        observers = [*OBSERVERS, *reporters()] if hooked else list(OBSERVERS)
        if observers:
            made = self._observed(observers, args, kwargs)
        else:
            made = self._called(args, kwargs, WATCHERS[-1] if WATCHERS else None)
        _count(self.name, args, kwargs)
        if hooked:
            _told(_after, "Post", self, args, kwargs, made)
        return made

    def _check_arguments(self, kwargs: dict[str, Any]) -> None:
        """Raise TypeError for an argument that the function would let go of."""
        known = self._known or frozenset()
        for name in kwargs:
            if name not in known and name not in NEUTRAL:
                text = f"unexpected {name!r}{did_you_mean(name, known)}"
                raise TypeError(f"{self.__name__}(): incompatible function arguments: {text}")

    def _observed(self, observers: list[Any], args: Any, kwargs: Any) -> Any:
        """A call with those that are told of it around it, the first one outermost."""
        if not observers:
            return self._called(args, kwargs, WATCHERS[-1] if WATCHERS else None)
        with observers[0](self, args, kwargs) as told:
            made = self._observed(observers[1:], args, kwargs)
            told(made)
        return made

    def _called(self, args: Any, kwargs: Any, watcher: Any) -> Any:
        name = self.python_fully_qualified_name
        if watcher is not None:
            watcher.started(self.name, args, kwargs)
        _local.depth += 1
        made = use = None
        try:
            with guarded(name, lambda text: what_is_kept(text, [*args, *kwargs.values()])):
                made = self.function(*args, **kwargs)
                if _local.depth == 1:
                    use = use_of_l1(self, args, kwargs, made, watcher is not None)
        finally:
            _local.depth -= 1
            if watcher is not None:
                watcher.ended(made, use)
        return made

    def __hash__(self) -> int:
        return hash(self.python_fully_qualified_name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<ttnn operation {self.python_fully_qualified_name}>"


def reporters() -> list[Callable[..., Any]]:
    """What CONFIG asks for around each call outside of fast runtime mode."""
    wanted = {
        "logged": SETTINGS.enable_logging and SETTINGS.report_name,
        "compared": SETTINGS.enable_comparison_mode,
    }
    return [REPORTERS[name] for name, asked in wanted.items() if asked]


def _check_queue(number: int, given: list[Any]) -> None:
    """Raise RuntimeError for a queue that the device of an operation has not."""
    devices = (x._device if isinstance(x, Tensor) else x for x in [*tensors_within(given), *given])
    for device in devices:
        if isinstance(device, MeshDevice):
            device.queue(number)


def _told(hooks: list[Callable[..., Any]], when: str, *args: Any) -> None:
    for hook in list(hooks):
        if hook(*args) is not None:
            raise RuntimeError(f"{when}-operation hook {hook} returned not None")


_NO_PROGRAM = {
    "to_torch",
    "from_torch",
    "as_tensor",
    "from_device",
    "deallocate",
    "to_device",
    "get_memory_config",
}


_DRAWN = ("rand", "randn")  # programs without tensors as inputs
_NO_MATTER = ("seed",)  # of those: one program for all


def _count(name: str, args: Any, kwargs: Any) -> None:
    """A call on device tensors is a program of the device, one for all calls of equal arguments."""
    if name in _NO_PROGRAM:
        return
    given = [*args, *kwargs.values()]
    device = next((x._device for x in tensors_within(given) if x._device is not None), None)
    if device is None and name in _DRAWN:
        device = next((x for x in given if hasattr(x, "programs")), None)
    if device is not None and device.caches_programs:
        known = {k: _key(v) for k, v in sorted(kwargs.items()) if name not in _DRAWN or k not in _NO_MATTER}
        special = OPERATIONS[name].program_key
        if special is not None:
            device.programs.add((name, special(args, kwargs)))
        elif OPERATIONS[name].is_binary and len(args) > 1:
            device.programs.add((name, _pair(*args[:2]), *map(_key, args[2:]), *known.items()))
        else:
            device.programs.add((name, *map(_key, args), *known.items()))


def _pair(a: Any, b: Any) -> Any:
    """What the program of two operands depends on: how they broadcast within tiles, neither their other sizes
    nor the value of a number. Rows and shards have programs of their shapes."""
    operands = [x for x in (a, b) if isinstance(x, Tensor)]
    if any(x.layout is Layout.ROW_MAJOR or x.is_sharded() for x in operands):
        return tuple(_key(x) if isinstance(x, Tensor) else None for x in (a, b))
    ends = [(1, 1, *x.shape)[-2:] for x in operands]
    stretched = tuple((one[0] == 1 < ends[0][0], one[1] == 1 < ends[0][1]) for one in ends[1:])
    if len(ends) > 1:
        stretched += ((ends[0][0] == 1 < ends[1][0], ends[0][1] == 1 < ends[1][1]),)
    kinds = ((x.dtype, x._config) if isinstance(x, Tensor) else None for x in (a, b))
    return (*kinds, stretched)


def elementwise_key(args: Any, kwargs: Any) -> Any:
    """What the program of an elementwise function of one tensor depends on: in tiles outside of shards not
    the shape, as how many tiles there are is said when it runs (unary_device_operation.cpp)."""

    def key(value: Any) -> Any:
        if isinstance(value, Tensor) and value.layout is Layout.TILE and not value.is_sharded():
            return value.dtype, value.layout, value._config
        return _key(value)

    return (*map(key, args), *((name, key(value)) for name, value in sorted(kwargs.items())))


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype, value.layout, value._config
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)


def operation(name: str, served: str = "", limits: str = "") -> Callable[[Callable[..., Any]], Operation]:
    """Decorates the body of the ttnn function of that name (without "ttnn.")."""
    return lambda function: Operation(name, function, served, limits)


def declined(name: str, reason: str) -> Operation:
    """A function that is there by name, so that a module which mentions it loads; a call says why it is not
    done."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"ttnn.{name} is not supported: {reason}", op=f"ttnn.{name}")

    return Operation(name, refuse, reason=reason)


@contextmanager
def register_pre_operation_hook(hook: Callable[..., Any]) -> Iterator[None]:
    """hook(operation, args, kwargs) before each operation of the block; not in fast runtime mode."""
    _before.append(hook)
    try:
        yield
    finally:
        _before.remove(hook)


@contextmanager
def register_post_operation_hook(hook: Callable[..., Any]) -> Iterator[None]:
    """hook(operation, args, kwargs, output) after each operation of the block; not in fast runtime mode."""
    _after.append(hook)
    try:
        yield
    finally:
        _after.remove(hook)
