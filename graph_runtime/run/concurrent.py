"""Modules of one graph that several threads run at the same time.

    ModulePool         modules, each one thread's for as long as it takes, made when they are needed
    ConcurrentModule   GraphModule's names over them: each thread has inputs and outputs of its own

create(..., concurrent=4) makes one. The constants of its modules are in memory once.
"""

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

__all__ = ["ConcurrentModule", "ModulePool", "kept"]

Module = TypeVar("Module")


class ModulePool(Generic[Module]):
    """At most ``most`` modules, of which ``first`` is there and ``make`` makes the others, each when as many
    threads run at once for the first time."""

    def __init__(self, first: Module, make: Callable[[], Module], most: int):
        self.most, self.members = most, [first]
        self._make, self._made = make, 1
        self._free = [first]
        self._waiting = 0  # threads; one counts before it looks for the last time, so give() sees it
        self._changed = threading.Condition(new_lock())

    def member(self) -> _Taken[Module]:
        """A block's module, which is this thread's alone in it; where none is free, the block waits for one.
        Raises what making one raises."""
        return _Taken(self)

    def fill(self) -> None:
        """Make all of them. Raises what making one raises."""
        self._made = self.most
        while len(self.members) < self.most:
            self._free.append(self._new())

    def take(self) -> Module:
        """See member."""
        while True:
            try:
                return self._free.pop()  # without a lock: most runs find one
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
        """It is free again."""
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
    """A block with a module of a pool."""

    __slots__ = ("_module", "_pool")

    def __init__(self, pool: ModulePool[Module]):
        self._pool = pool

    def __enter__(self) -> Module:
        self._module = self._pool.take()
        return self._module

    def __exit__(self, *_: object) -> None:
        self._pool.give(self._module)


class _Own(threading.local):
    """What one thread has set, and what its last run made."""

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {}
        self.outputs: list[Any] | None = None


class ConcurrentModule:
    """A graph that any number of threads run, as many at a time as the pool has modules; the others wait.
    Inputs that a thread sets are those of its own runs, and outputs those of its last one; parameters are of
    all.

    ``modules``: those that there are, for a caller that knows that no thread runs.
    """

    def __init__(self, pool: ModulePool[Any]):
        self._pool = pool
        self._own = _Own()
        self._wanted = tuple(pool.members[0].get_input_info()[0])

    def __repr__(self) -> str:
        return f"<ConcurrentModule of {self._pool.most}: {self.modules[0]!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        """What a GraphModule has and one for several threads cannot."""
        text = f"a ConcurrentModule has no {name!r}"
        if name == "session" or hasattr(GraphModule, name):
            text += ": create without concurrent=, or take one of module.modules, which are one thread's each"
        raise AttributeError(text)

    @property
    def modules(self) -> tuple[Any, ...]:
        """Those that there are."""
        return tuple(self._pool.members)

    # **************** running ****************

    def run(self, **inputs: Any) -> None:
        """Run with the inputs that this thread has set, and those given by name, which are for this run
        alone. Raises as GraphModule.run, but for SessionBusyError."""
        own = self._own
        given = {**own.inputs, **inputs}
        if missing := [name for name in self._wanted if name not in given]:
            text = f"this thread has set no {', '.join(missing)}: what others set are theirs"
            raise InputError(text, wanted=missing)
        with self._pool.member() as module:
            module.run(**given)
            own.outputs = [_copied(module.get_output(at)) for at in range(module.get_num_outputs())]

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Give this thread's runs inputs: one by name or index, any number by name. They are copied, and
        compared with the graph's when it runs. Raises InputError for an unknown name."""
        if key is not None:
            params = {key if isinstance(key, str) else self._names()[key]: value, **params}
        if unknown := [name for name in params if self.get_input_index(name) < 0]:
            near = did_you_mean(unknown[0], self._names())
            raise InputError(f"there is no input {unknown[0]!r}{near}", got=unknown[0])
        self._own.inputs |= {name: kept(value) for name, value in params.items()}

    def get_output(self, index: str | int, out: Any = None) -> Any:
        """An output of this thread's last run, which no other one overwrites. With ``out`` (array or Tensor)
        a copy of it, written there. Raises InputError, also where this thread has run nothing."""
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

    # **************** what it is ****************

    def get_num_inputs(self) -> int:
        """Number of inputs."""
        return int(self.modules[0].get_num_inputs())

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        return int(self.modules[0].get_num_outputs())

    def get_input_index(self, name: str) -> int:
        """The index of an input, -1 for a name that there is not."""
        return int(self.modules[0].get_input_index(name))

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the inputs that are no parameters."""
        found: tuple[dict[str, Any], dict[str, str]] = self.modules[0].get_input_info()
        return found

    def get_output_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """As get_input_info, of the outputs."""
        found: tuple[dict[str, Any], dict[str, str]] = self.modules[0].get_output_info()
        return found

    def _names(self) -> list[str]:
        count = range(self.get_num_inputs())
        names = {self.get_input_index(name): name for name in self.get_input_info()[0]}
        return [names.get(at, "") for at in count]


def kept(value: Any) -> Any:
    """A value that nothing else writes."""
    if isinstance(value, Tensor):
        return array(value, value.device)
    if isinstance(value, list):
        return [kept(each) for each in value]
    return value if value is None or isinstance(value, ElementArray) else np.array(value)


def _copied(value: Any) -> Any:
    """As kept, of an output; one on the host as an array: making a tensor takes longer than small runs."""
    if isinstance(value, Tensor) and value.layout.memory == HOST:
        return np.array(value.numpy())
    return kept(value)
