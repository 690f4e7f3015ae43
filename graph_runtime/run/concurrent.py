"""Modules of one graph, run by several threads at the same time.

    ModulePool         makes modules when they are needed, and lends each to one thread at a time
    ConcurrentModule   has GraphModule's methods; each thread has inputs and outputs of its own

create(..., concurrent=4) makes a ConcurrentModule. All its modules share one copy of the constants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from ..base.errors import InputError, did_you_mean
from ..base.locks import new_lock
from ..base.machine.layout import HOST
from .flows.element_array import ElementArray
from .module import GraphModule, hand_out
from .tensors.arrays import array, borrow
from .tensors.tensor import Tensor

Module = TypeVar("Module")


class ModulePool(Generic[Module]):
    """At most ``most`` modules for use by threads. ``first``: the first module; ``make``: makes a further
    module when a thread wants one and none is free."""

    def __init__(self, first: Module, make: Callable[[], Module], most: int):
        self.most, self.members = most, [first]
        self._make, self._made = make, 1
        self._free = [first]
        self._waiting = 0  # threads; each counts itself before its last look at _free
        self._changed = threading.Condition(new_lock())

    def member(self) -> _Taken[Module]:
        """A context manager with a module that belongs to this thread alone, which waits if no module is
        free. Raises the errors of ``make``."""
        return _Taken(self)

    def fill(self) -> None:
        """Make modules now until there are ``most``. Raises the errors of ``make``."""
        self._made = self.most
        while len(self.members) < self.most:
            self._free.append(self._new())

    def take(self) -> Module:
        """A free module. If no module is free, a new one is made; if there are ``most`` already, the call
        waits for a module. Call ``give`` with the module afterwards."""
        while True:
            try:
                return self._free.pop()  # without a lock: most calls find a free one
            except IndexError:
                pass
            with self._changed:
                if self._made < self.most:
                    self._made += 1
                    break
                self._waiting += 1
                try:
                    if not self._free:
                        self._changed.wait()
                finally:
                    self._waiting -= 1
        return self._new()

    def give(self, module: Module) -> None:
        self._free.append(module)
        if self._waiting:
            with self._changed:
                self._changed.notify()

    def _new(self) -> Module:
        try:
            module = self._make()
        except BaseException:
            with self._changed:
                self._made -= 1
                self._changed.notify()
            raise
        self.members.append(module)
        return module


class _Taken(Generic[Module]):
    """Context manager that takes a module of a pool, and gives it back."""

    __slots__ = ("_module", "_pool")

    def __init__(self, pool: ModulePool[Module]):
        self._pool = pool

    def __enter__(self) -> Module:
        self._module = self._pool.take()
        return self._module

    def __exit__(self, *_: object) -> None:
        self._pool.give(self._module)


class _Own(threading.local):
    """The inputs that a thread has set, and the outputs of the thread's last run."""

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {}
        self.outputs: list[Any] | None = None


class ConcurrentModule:
    """A graph that any number of threads run. As many threads run at once as the pool may have modules; the
    others wait. Inputs and outputs belong to the thread that sets and runs them; parameters are shared.
    ``modules``: the modules made so far, for use while no thread runs."""

    def __init__(self, pool: ModulePool[Any]):
        self._pool = pool
        self._own = _Own()
        self._wanted = tuple(pool.members[0].get_input_info()[0])

    def __repr__(self) -> str:
        return f"<ConcurrentModule of {self._pool.most}: {self.modules[0]!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the names that GraphModule has but a module of several threads cannot have."""
        text = f"a ConcurrentModule has no {name!r}"
        if name == "session" or hasattr(GraphModule, name):
            text += ": create without concurrent=, or take one of module.modules, which are one thread's each"
        raise AttributeError(text)

    @property
    def modules(self) -> tuple[Any, ...]:
        return tuple(self._pool.members)

    # **************** running ****************

    def run(self, **inputs: Any) -> None:
        """Run with the inputs that this thread has set and those given by name. Inputs given by name count
        for this run alone. Raises the errors of GraphModule.run, except SessionBusyError."""
        own = self._own
        given = {**own.inputs, **inputs}
        if missing := [name for name in self._wanted if name not in given]:
            text = f"this thread has not set {', '.join(missing)}: inputs that other threads set are not used"
            raise InputError(text, wanted=missing)
        with self._pool.member() as module:
            module.run(**given)
            own.outputs = [_copied(module.get_output(at)) for at in range(module.get_num_outputs())]

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set inputs of this thread's runs: one input by name or index, or any number of inputs by name.
        Values are copied; the run checks them against the graph. Raises InputError for an unknown name."""
        if key is not None:
            params = {key if isinstance(key, str) else self._names()[key]: value, **params}
        if unknown := [name for name in params if self.get_input_index(name) < 0]:
            near = did_you_mean(unknown[0], self._names())
            raise InputError(f"there is no input {unknown[0]!r}{near}", got=unknown[0])
        self._own.inputs |= {name: kept(value) for name, value in params.items()}

    def get_output(self, index: str | int, out: Any = None) -> Any:
        """An output of this thread's last run, which no other run overwrites; with ``out`` (array or Tensor)
        the output is copied there. Raises InputError for an unknown output, and before this thread's first
        run."""
        names = list(self.get_output_info()[0])
        at = names.index(index) if isinstance(index, str) and index in names else index
        if not isinstance(at, int) or not 0 <= at < len(names):
            raise InputError(f"there is no output {index!r}{did_you_mean(str(index), names)}", got=index)
        if self._own.outputs is None:
            raise InputError("this thread has run nothing: there are no outputs")
        found = self._own.outputs[at]
        if isinstance(found, np.ndarray):
            found = self._own.outputs[at] = borrow(found)
        return hand_out(found, out) if isinstance(found, Tensor) else found

    # **************** information ****************

    def get_num_inputs(self) -> int:
        return int(self.modules[0].get_num_inputs())

    def get_num_outputs(self) -> int:
        return int(self.modules[0].get_num_outputs())

    def get_input_index(self, name: str) -> int:
        """The index of an input, -1 for an unknown name."""
        return int(self.modules[0].get_input_index(name))

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the inputs that are not parameters."""
        found: tuple[dict[str, Any], dict[str, str]] = self.modules[0].get_input_info()
        return found

    def get_output_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the outputs."""
        found: tuple[dict[str, Any], dict[str, str]] = self.modules[0].get_output_info()
        return found

    def _names(self) -> list[str]:
        count = range(self.get_num_inputs())
        names = {self.get_input_index(name): name for name in self.get_input_info()[0]}
        return [names.get(at, "") for at in count]


def kept(value: Any) -> Any:
    """A copy of a value, to which no other code writes."""
    if isinstance(value, Tensor):
        return array(value, value.device)
    if isinstance(value, list):
        return [kept(each) for each in value]
    return value if value is None or isinstance(value, ElementArray) else np.array(value)


def _copied(value: Any) -> Any:
    """A copy of an output. An output on the host becomes an array, because making a tensor takes longer than
    a small run."""
    if isinstance(value, Tensor) and value.layout.memory == HOST:
        return np.array(value.numpy())
    return kept(value)
