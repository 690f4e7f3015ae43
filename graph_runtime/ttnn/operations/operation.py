"""Operation: a function of ttnn, with its name, its golden function and the steps around each call of it."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...base.errors import did_you_mean
from ..accepted.rules import ACCEPTED, Given
from ..devices import kernels
from ..devices.mesh_device import MeshDevice
from ..errors import Unsupported, guarded, on_queue
from ..memory.values import Layout
from ..programs.l1 import use_of_l1, what_is_kept
from ..registry import OPERATIONS, TRANSFERS
from ..settings import SETTINGS
from ..tensors.tensor import Tensor, tensors_within
from .argument_names import ARGUMENT_NAMES
from .bodies import Parameters, around, check_kinds
from .neutral import ACROSS, NEUTRAL
from .over_mesh import on_each_chip, takes_part

# context managers around each outermost call; each gives a function that is called with the result: with
# observer(operation, args, kwargs) as told: told(made)
OBSERVERS: list[Callable[..., Any]] = []
REPORTERS: dict[str, Callable[..., Any]] = {}  # name -> observer that CONFIG may ask for
WATCHERS: list[Any] = []  # captures of graphs; the last capture is told of each call (captures.py)
_before: list[Callable[..., Any]] = []
_after: list[Callable[..., Any]] = []


class _Local(threading.local):
    depth = 0  # number of operations that run inside of each other in this thread
    later = False  # whether this is a call for a chip of a mesh after the first


_local = _Local()


class Operation:
    """A callable. ``python_fully_qualified_name``: for example "ttnn.add"; ``served``: the registry ops that
    the function is made of; ``limits``: arguments that the function does not take; ``reason``: why the
    function is declined, "" if it is served.
    """

    is_cpp_operation = True
    is_experimental = False
    same_as = ""  # the name of the operation that this one is under another name
    whole = False  # whether the function takes tensors on a mesh whole, as a collective does
    is_binary = False  # whether it is elementwise on two operands: one ttnn program serves many shapes
    program_key: Callable[..., Any] | None = None  # (args, kwargs) -> key of the ttnn program

    def __init__(
        self, name: str, function: Callable[..., Any], served: str = "", limits: str = "", reason: str = ""
    ):
        self.python_fully_qualified_name = f"ttnn.{name}"
        self.__name__ = self.python_fully_qualified_name
        self.__doc__ = function.__doc__
        self.parameters = getattr(function, "parameters", None) or Parameters(function)
        self.parameters.function.__qualname__ = self.__name__  # the name in Python's own TypeErrors
        self.function, self.served, self.limits, self.reason = function, served, limits, reason
        self.name = name
        self._known = None if reason or self.parameters.open else self.parameters.names
        self._kinds = () if reason or name == "to_torch" else self.parameters.kinds()
        self._also_named = ARGUMENT_NAMES.get(name)
        self._golden: Callable[..., Any] | None = None
        self.preprocess_golden_function_inputs = self.postprocess_golden_function_outputs = None
        functools.update_wrapper(self, function, assigned=("__doc__",), updated=())
        if name in OPERATIONS:
            raise ValueError(f"ttnn.{name} is there already: give the function another name")
        OPERATIONS[name] = self

    def also(self, name: str) -> Operation:
        """The same operation under another name of ttnn's."""
        twin = copy.copy(self)
        twin.python_fully_qualified_name = twin.__name__ = f"ttnn.{name}"
        twin.same_as = self.name
        OPERATIONS[name] = twin
        return twin

    @property
    def golden_function(self) -> Callable[..., Any] | None:
        """A torch function for comparison; operations never compute with it."""
        if self._golden is None:
            from ..golden.functions import golden_of

            self._golden = golden_of(self.name)
        return self._golden

    @golden_function.setter
    def golden_function(self, function: Callable[..., Any] | None) -> None:
        self._golden = function

    def __call__(self, *args: Any, queue_id: Any = None, cq_id: Any = None, **kwargs: Any) -> Any:
        queue = cq_id if queue_id is None else queue_id
        if queue is not None:
            _check_queue(queue, [*args, *kwargs.values()])
            with on_queue(int(queue)):
                return self(*args, **kwargs)
        if self._also_named is not None:
            kwargs = {self._also_named.get(key, key): value for key, value in kwargs.items()}
        if self._known is not None and kwargs:
            self._check_arguments(kwargs)
        if self._kinds:
            check_kinds(self.__name__, self._kinds, args, kwargs)
        if not self.whole and takes_part(args, kwargs):
            return self._on_mesh(args, kwargs)
        if _local.depth:
            return self._called(args, kwargs, None)
        if _local.later:
            made = self._called(args, kwargs, None)
            _count(self.name, args, kwargs, False)
            return made
        launched = kernels.launches_captured()
        hooked = not SETTINGS.enable_fast_runtime_mode
        if hooked:
            _told(_before, "Pre", self, args, kwargs)
        observers = [*OBSERVERS, *reporters()] if hooked else list(OBSERVERS)
        if observers:
            made = self._observed(observers, args, kwargs)
        else:
            made = self._called(args, kwargs, WATCHERS[-1] if WATCHERS else None)
        _count(self.name, args, kwargs, kernels.launches_captured() > launched)
        if hooked:
            _told(_after, "Post", self, args, kwargs, made)
        return made

    def _on_mesh(self, args: Any, kwargs: Any) -> Any:
        """The result of a call on tensors or a device of several chips. Captures, hooks and logs see the call
        of the first chip, as all chips do the same. Raises Unsupported for an argument that concerns other
        chips."""
        if not self.reason:
            said = {**dict(zip(self.parameters.positional, args, strict=False)), **kwargs}
            given = sorted(name for name in ACROSS & said.keys() if said[name] not in (None, False))
            if given:
                text = f"{self.__name__} on a mesh of several chips with {given[0]} is not supported"
                raise Unsupported(f"{text}: each chip computes with its own part", op=self.__name__)

        def call(own: Any, more: Any) -> Any:
            made = self(*own, **more)
            _local.later = True
            return made

        outer = _local.later
        try:
            return on_each_chip(self.name, call, args, kwargs)
        finally:
            _local.later = outer

    def taken(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments, except those that have no effect and are not in the function's signature."""
        known = self._known
        if known is None or not kwargs:
            return kwargs
        return {key: value for key, value in kwargs.items() if key in known or key not in NEUTRAL}

    def _check_arguments(self, kwargs: dict[str, Any]) -> None:
        """Raise TypeError for an argument that the function would ignore."""
        known = self._known or frozenset()
        for name in kwargs:
            if name not in known and name not in NEUTRAL:
                text = f"unexpected {name!r}{did_you_mean(name, known)}"
                raise TypeError(f"{self.__name__}(): incompatible function arguments: {text}")

    def _observed(self, observers: list[Any], args: Any, kwargs: Any) -> Any:
        """The result of a call that runs inside of the observers; the first observer is outermost."""
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
                row = ACCEPTED.get(self.name)
                if row is not None and _local.depth == 1:
                    row.check(Given(self.parameters.named(args, kwargs)))
                made = self.function(*args, **self.taken(kwargs))
                if _local.depth == 1:
                    made = _apart(made, args)
                    use = use_of_l1(self, args, kwargs, made, watcher is not None)
        finally:
            _local.depth -= 1
            if watcher is not None:
                watcher.ended(made, use)
        return made

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":  # for inspect.signature and help
            return self.parameters.signature()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __hash__(self) -> int:
        return hash(self.python_fully_qualified_name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<ttnn operation {self.python_fully_qualified_name}>"


def reporters() -> list[Callable[..., Any]]:
    """The observers that CONFIG asks for outside of fast runtime mode."""
    wanted = {
        "logged": SETTINGS.enable_logging and SETTINGS.report_name,
        "compared": SETTINGS.enable_comparison_mode,
    }
    return [REPORTERS[name] for name, asked in wanted.items() if asked]


def _apart(made: Any, args: Any) -> Any:
    """The result of a call. A result that is the operand itself, written in place or with nothing to do, is
    a tensor of its own on the operand's memory, as in ttnn: a script may deallocate the operand."""
    if args and made is args[0] and isinstance(made, Tensor) and made._device is not None:
        return made._shared() if made.is_allocated() else made
    return made


def _check_queue(number: int, given: list[Any]) -> None:
    """Raise RuntimeError for a queue that the operation's device does not have."""
    devices = (x._device if isinstance(x, Tensor) else x for x in [*tensors_within(given), *given])
    for device in devices:
        if isinstance(device, MeshDevice):
            device.queue(number)


def _told(hooks: list[Callable[..., Any]], when: str, *args: Any) -> None:
    for hook in list(hooks):
        if hook(*args) is not None:
            raise RuntimeError(f"{when}-operation hook {hook} must return None")


_NO_PROGRAM = TRANSFERS | {"get_memory_config"}


_DRAWN = ("rand", "randn")  # functions whose ttnn program has no input tensor
_NO_MATTER = ("seed",)  # arguments of _DRAWN on which the ttnn program does not depend


def _count(name: str, args: Any, kwargs: Any, traced: bool) -> None:
    """Count a call on device tensors as a ttnn program of the device; calls of equal arguments share a ttnn
    program. ``traced``: whether the call is in a trace that is being captured; raises RuntimeError if it is
    the first of its ttnn program."""
    if name in _NO_PROGRAM:
        return
    given = [*args, *kwargs.values()]
    device = next((x._device for x in tensors_within(given) if x._device is not None), None)
    if device is None and name in _DRAWN:
        device = next((x for x in given if hasattr(x, "cached_programs")), None)
    if device is None:
        return
    key, special = _program_key(name, args, kwargs)
    warm = key if special else (name, *map(_key, tensors_within(given)))
    if traced and warm not in device.warm:
        with guarded(f"ttnn.{name}"):  # a card program that is new is written to the device
            device.refuse_in_capture("Writes are")
    if device.caches_programs:
        device.cached_programs.add(key)
        device.warm.add(warm)


def _program_key(name: str, args: Any, kwargs: Any) -> tuple[Any, bool]:
    """(the key of a call's ttnn program, whether the function has a rule of its own for it)."""
    known = {k: _key(v) for k, v in sorted(kwargs.items()) if name not in _DRAWN or k not in _NO_MATTER}
    special = OPERATIONS[name].program_key
    if special is not None:
        return (name, special(args, kwargs)), True
    if OPERATIONS[name].is_binary and len(args) > 1:
        return (name, _pair(*args[:2]), *map(_key, args[2:]), *known.items()), True
    return (name, *map(_key, args), *known.items()), False


def _pair(a: Any, b: Any) -> Any:
    """The key of the ttnn program of two operands. It has their dtypes, their memories and which of them is
    broadcast inside of tiles, but neither their sizes nor the value of a number. In ROW_MAJOR or in shards it
    has their shapes, too."""
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
    """The key of the ttnn program of an elementwise function of one tensor. It has the shape only if the
    tensor is in ROW_MAJOR or sharded; else the number of tiles is an argument at run time
    (unary_device_operation.cpp)."""

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


def operation(
    name: str, served: str = "", limits: str = "", doc: str = "", **how: Any
) -> Callable[[Callable[..., Any]], Operation]:
    """A decorator of the body of a ttnn function; ``name`` is without "ttnn.". The body's signature says
    which arguments are tensors; ``how`` are the arguments of bodies.around, which places the result. Keywords
    without effect (NEUTRAL) may be left out of the signature. ``doc`` replaces the body's docstring."""

    def made(body: Callable[..., Any]) -> Operation:
        body.__doc__ = doc or body.__doc__
        return Operation(name, around(body, **how), served, limits)

    return made


def of_all_chips(name: str, limits: str = "", doc: str = "") -> Callable[[Callable[..., Any]], Operation]:
    """As ``operation``, of a function that takes tensors and devices of several chips whole."""

    def made(body: Callable[..., Any]) -> Operation:
        found = operation(name, limits=limits, doc=doc)(body)
        found.whole = True
        return found

    return made


def declined(name: str, reason: str) -> Operation:
    """A function that exists so that modules which mention it can be imported; each call raises Unsupported
    with the reason."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"ttnn.{name} is not supported: {reason}", op=f"ttnn.{name}")

    return Operation(name, refuse, reason=reason)


@contextmanager
def register_pre_operation_hook(hook: Callable[..., Any]) -> Iterator[None]:
    """Call hook(operation, args, kwargs) before each operation of the block, unless in fast runtime mode."""
    _before.append(hook)
    try:
        yield
    finally:
        _before.remove(hook)


@contextmanager
def register_post_operation_hook(hook: Callable[..., Any]) -> Iterator[None]:
    """Call hook(operation, args, kwargs, output) after each operation of the block, unless in fast runtime
    mode."""
    _after.append(hook)
    try:
        yield
    finally:
        _after.remove(hook)
