"""The specializations of a flow: each is made when its sizes first occur, and the least recently used are
dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

import numpy as np

from ...base.errors import DeviceMemoryError
from ...base.least_recent import LeastRecent
from ...base.locks import new_rlock
from ...base.machine.devices import cpu
from ...base.options import Options
from ...base.progress import gc_paused
from ...ir.model import Constant, Model
from ...plan.globs import naming
from ..module import GraphModule
from ..sessions.arena import Arena
from ..sessions.constants import digest
from ..sessions.session import Session
from ..tensors.tensor import Tensor, aligned_empty


@dataclass(frozen=True, eq=False)
class Specialization:
    """A model at known sizes, ready to run. ``inputs``: indices of the inputs that are no constants, in the
    model's order; ``outputs``: the module's live output tensors by name; ``nbytes``: bytes of these inputs
    and outputs."""

    module: GraphModule
    session: Session
    inputs: tuple[int, ...]
    outputs: dict[str, Tensor]
    nbytes: int


Share = Callable[[Mapping[str, Constant]], dict[str, np.ndarray]]
# arguments: model, options, name, Share (function that gives the constants' values), Arena (memory for
# intermediate values)
Make = Callable[[Model, Options, str, Share, Arena], GraphModule]


def specialization_of(module: GraphModule, inputs: Sequence[str]) -> Specialization:
    """The Specialization of a module; ``inputs``: names of the inputs that are no constants."""
    graph = module.session.graph
    at = tuple(module.get_input_index(name) for name in inputs)
    outputs = {name: module.get_output(i) for i, name in enumerate(graph.output_names)}
    nbytes = sum(graph.entry_type(int(graph.input_eids[i])).nbytes for i in at)
    nbytes += sum(made.nbytes for made in outputs.values())
    return Specialization(module, module.session, at, outputs, nbytes)


def options_for(model: Model, options: Options) -> Options:
    """Options for one of several models. Pins and layouts that name no node of this model are left out,
    because they may be meant for another model."""
    if not (options.place or options.layouts):
        return options
    place, layouts = (naming(model.graph, table) for table in (options.place, options.layouts))
    return replace(options, place=place, layouts=layouts)


def host_bytes() -> int:
    """Bytes of memory that the host has for tensors."""
    return sum(memory.banks * memory.bank_bytes for memory in cpu().descriptor.memories)


@dataclass(eq=False)
class Specializations:
    """Makes the specializations of a flow and its loops, and keeps the ``most`` that were used last. All
    share one copy of their constants, and one ``arena`` for intermediate values, so only one specialization
    runs at a time.

    ``making``: lock that is held while a specialization is made, here or by a sibling. ``observer``: function
    that is called with a session instead of running the session, for callers that look at single nodes.
    ``made``, ``hits`` and ``dropped`` count specializations; ``sizes`` lists the sizes of those made, in
    order."""

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
        # by the id of the model; the model is kept, too, so that no other model gets the id
        self._held: LeastRecent[tuple[Model, Specialization]] = LeastRecent(self.most, host_bytes() // 8)

    @property
    def made(self) -> int:
        """Number of specializations made."""
        return len(self.sizes)

    @property
    def hits(self) -> int:
        """Number of times that a stage's specialization was found."""
        return self._held.hits

    @property
    def dropped(self) -> int:
        """Number of specializations dropped to make room for others."""
        return self._held.dropped

    def of(self, model: Model, several: bool = False) -> Specialization:
        """The specialization of a model. The result is the same object in every call, as long as the
        specialization is kept. ``several``: whether the specialization serves several sizes, so that it is
        worth compiling its kernels."""
        held = self._held.get(id(model))
        if held is None:
            self._held.make_room()
            with self.making:
                specialization = self._roomy(model, several)
            held = self._held.put(id(model), (model, specialization), specialization.nbytes)
        return held[1]

    def _roomy(self, model: Model, several: bool) -> Specialization:
        """The specialization of a model, newly made. If memory is short, all other specializations are
        dropped first."""
        try:
            return self._make(model, several)
        except DeviceMemoryError:
            if not len(self._held):
                raise
        self._held.clear()
        return self._make(model, several)

    def sibling(self) -> Specializations:
        """The specializations of a sibling flow, which may run at the same time; both share one copy of the
        constants."""
        return replace(self, sizes=[], arena=Arena())

    def run(self, session: Session) -> None:
        """Run a specialization's session, or call the observer with it if there is one."""
        if self.observer is None:
            session.run()
        else:
            self.observer(session)

    def __len__(self) -> int:
        return len(self._held)

    def modules(self) -> list[GraphModule]:
        """The modules of the kept specializations, the least recently used first. No two of them may run at
        the same time."""
        return [specialization.module for _, specialization in self._held]

    def _make(self, model: Model, several: bool) -> Specialization:
        graph = model.graph
        types = zip(graph.input_names, map(graph.entry_type, graph.input_eids), strict=True)
        inputs = {name: kind for name, kind in types if name not in model.constants}
        self.sizes.append(", ".join(f"{name} {kind}" for name, kind in inputs.items()))
        options = options_for(model, self.options)
        self.unmatched -= options.place.keys() | options.layouts.keys()
        if (
            options.compile is None and self.made > 1 and not several
        ):  # compiling takes longer than it would save at most sizes
            options = replace(options, compile=False)
        with gc_paused():
            module = self.make(
                model, options, f"{self.name}, specialization {self.made}", self._shared, self.arena
            )
        return specialization_of(module, list(inputs))

    def _shared(self, constants: Mapping[str, Constant]) -> dict[str, np.ndarray]:
        """The constants' values, each in memory once. A constant that was read before is not read again;
        equal values of other constants are recognised by their hash."""
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
