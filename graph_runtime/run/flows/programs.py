"""The programs of a flow: made when their sizes are first met, the least recently used dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

import numpy as np

from ...base.errors import DeviceMemoryError
from ...base.garbage import gc_paused
from ...base.least_recent import LeastRecent
from ...base.locks import new_rlock
from ...base.machine.devices import cpu
from ...base.options import Options
from ...ir.model import Constant, Model
from ...plan.globs import naming
from ..module import GraphModule
from ..sessions.arena import Arena
from ..sessions.constants import digest
from ..sessions.session import Session
from ..tensors.host_values import aligned_empty
from ..tensors.tensor import Tensor

__all__ = ["Make", "Programs", "SizedProgram", "host_bytes", "options_for", "sized_program"]


@dataclass(frozen=True, eq=False)
class SizedProgram:
    """A model at known sizes, ready to run. ``inputs``: indices of those that are no constants, in the
    model's order; ``outputs``: its live tensors by name. ``nbytes``: of all of these."""

    module: GraphModule
    session: Session
    inputs: tuple[int, ...]
    outputs: dict[str, Tensor]
    nbytes: int


Share = Callable[[Mapping[str, Constant]], dict[str, np.ndarray]]
# the Share gives its constants' values, the Arena is for what it computes on the way
Make = Callable[[Model, Options, str, Share, Arena], GraphModule]


def sized_program(module: GraphModule, inputs: Sequence[str]) -> SizedProgram:
    """The program of a module; ``inputs``: names of those that are no constants."""
    graph = module.session.graph
    at = tuple(module.get_input_index(name) for name in inputs)
    outputs = {name: module.get_output(i) for i, name in enumerate(graph.output_names)}
    nbytes = sum(graph.entry_type(int(graph.input_eids[i])).nbytes for i in at)
    nbytes += sum(made.nbytes for made in outputs.values())
    return SizedProgram(module, module.session, at, outputs, nbytes)


def options_for(model: Model, options: Options) -> Options:
    """Those of one of several programs: pins and layouts that name nodes of it, for others may be meant by
    the rest."""
    if not (options.place or options.layouts):
        return options
    place, layouts = (naming(model.graph, table) for table in (options.place, options.layouts))
    return replace(options, place=place, layouts=layouts)


def host_bytes() -> int:
    """What the host has for tensors."""
    return sum(memory.banks * memory.bank_bytes for memory in cpu().descriptor.memories)


@dataclass(eq=False)
class Programs:
    """Makes programs for a flow and its loops, and keeps the ``most`` that were used last. Their constants
    are held once, whatever number of programs has them, and what they compute on the way lies in one
    ``arena``: one of them runs at a time.

    ``making``: held while a program is made, here or by a sibling. ``observer``: called with a session in
    place of its ``run``, by callers that look at its nodes. ``made``, ``hits`` and ``dropped`` count
    programs; ``sizes`` lists what each was made for, in order.
    """

    make: Make
    options: Options
    name: str
    most: int
    sizes: list[str] = field(default_factory=list)
    observer: Callable[[Session], None] | None = None
    arena: Arena = field(default_factory=Arena)
    making: threading.RLock = field(default_factory=new_rlock)
    _constants: WeakValueDictionary[Hashable, np.ndarray] = field(default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self.options = replace(self.options, dims={}, batch=None, values={})
        self.unmatched = {*self.options.place, *self.options.layouts}  # globs that have named no node yet
        # by the id of its model, which is kept beside it, so that no other has it
        self._held: LeastRecent[tuple[Model, SizedProgram]] = LeastRecent(self.most, host_bytes() // 8)

    @property
    def made(self) -> int:
        """Programs that were made."""
        return len(self.sizes)

    @property
    def hits(self) -> int:
        """Stages whose program was there."""
        return self._held.hits

    @property
    def dropped(self) -> int:
        """Programs that went for others."""
        return self._held.dropped

    def of(self, model: Model, several: bool = False) -> SizedProgram:
        """The program of a model, which is the one of the last call where that is still kept. ``several``:
        it serves several sizes, so that compiling its kernels is worth it."""
        held = self._held.get(id(model))
        if held is None:
            self._held.make_room()
            with self.making:
                program = self._roomy(model, several)
            held = self._held.put(id(model), (model, program), program.nbytes)
        return held[1]

    def _roomy(self, model: Model, several: bool) -> SizedProgram:
        """Its program; where there is no memory for it, the others go first."""
        try:
            return self._make(model, several)
        except DeviceMemoryError:
            if not len(self._held):
                raise
        self._held.clear()
        return self._make(model, several)

    def sibling(self) -> Programs:
        """Programs of the same flow that run at the same time as these; constants are held once for both."""
        return replace(self, sizes=[], arena=Arena())

    def run(self, session: Session) -> None:
        """Run a program's session, as the observer wants it."""
        if self.observer is None:
            session.run()
        else:
            self.observer(session)

    def __len__(self) -> int:
        return len(self._held)

    def modules(self) -> list[GraphModule]:
        """Those that are kept, the least recently used first. No two of them may run at the same time."""
        return [program.module for _, program in self._held]

    def _make(self, model: Model, several: bool) -> SizedProgram:
        graph = model.graph
        types = zip(graph.input_names, map(graph.entry_type, graph.input_eids), strict=True)
        inputs = {name: kind for name, kind in types if name not in model.constants}
        self.sizes.append(", ".join(f"{name} {kind}" for name, kind in inputs.items()))
        options = options_for(model, self.options)
        self.unmatched -= options.place.keys() | options.layouts.keys()
        if (
            options.compile is None and self.made > 1 and not several
        ):  # a compiler takes longer than most sizes are worth
            options = replace(options, compile=False)
        with gc_paused():
            module = self.make(model, options, f"{self.name}, program {self.made}", self._shared, self.arena)
        return sized_program(module, list(inputs))

    def _shared(self, constants: Mapping[str, Constant]) -> dict[str, np.ndarray]:
        """The constants' values, each of which is in memory once: those of an identity that is known are not
        computed again, others are known by what they hold."""
        found = {}
        for name in sorted(constants, key=lambda n: -constants[n].type.nbytes):
            identity = constants[name].identity
            held = self._constants.get(identity)
            if held is None:
                array = np.asarray(constants[name].read(), order="C")
                key = digest(array)
                held = self._constants.get(key)
                if held is None:
                    held = aligned_empty(array.shape, array.dtype)
                    held[...] = array
                    self._constants[key] = held
                self._constants[identity] = held
            found[name] = held
        return found
