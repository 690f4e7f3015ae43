"""torch.compile(model, backend="tt"): programs from the forward and backward graphs that torch traced.

dynamo --graph--> AOTAutograd --aten, functional--> Compiled --sizes--> CompiledGraph --submit--> handles
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from ...base.errors import (
    CapacityError,
    DeviceMemoryError,
    GraphError,
    GraphRuntimeError,
    KernelError,
    PlanError,
    UnsupportedOpError,
)
from ...rewrite.buckets import Bucket
from ...run.tensors import journal
from ..counters import Unsupported, count, note_graph, note_split
from ..decomposed.decompositions import table
from .backend_options import BackendOptions, read, require_places
from .compiled_graph import CompiledGraph
from .emitter import Lowered
from .fitting import Fit
from .graphs import lower
from .open_sizes import OpenSizes
from .ranges import Ranges, note_bound
from .sized import SizedGraphs
from .splitting import split, survey

# after a graph break dynamo looks at every Python frame; frames of our kernels must be skipped
torch._dynamo.trace_rules.add("graph_runtime")

_numbers = itertools.count()


class Compiled:
    """A graph of aten operations, run as programs. A graph with fixed sizes has one program; a graph with
    open sizes has programs for buckets of sizes (sized.py). If some nodes cannot be lowered, the graph runs
    in pieces: each piece of lowerable nodes is a Compiled of its own, and the other nodes run one by one."""

    name: str
    options: BackendOptions

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        examples: Sequence[Any],
        kind: str,
        options: BackendOptions,
        wide: Set[torch.fx.Node] = frozenset(),
    ):
        self.gm, self.options, self.name = gm, options, f"{kind}_{next(_numbers)}"
        self._wide, self._reason = wide, ""
        self._made = 0
        self._only: CompiledGraph | None = None
        self._sized: SizedGraphs | None = None
        self._pieces: torch.fx.GraphModule | None = None
        if all(_is_static(x) for x in examples):
            self._only = self._of_sizes(examples)[0]
            self._choose: Callable[..., tuple[CompiledGraph | None, Fit | None]] = lambda _: (
                self._only,
                None,
            )
        else:
            sizes = OpenSizes.of(gm) if options.buckets else None
            self._sized = SizedGraphs(sizes, options.max_programs, self._lower, self._program)
            self._choose = self._of_sizes

    def __call__(self, *args: Any) -> Any:
        program, fit = (None, None) if self._pieces is not None else self._choose(args)
        if program is not None:
            try:
                return program(args, fit)
            except Unsupported as refused:  # these values are refused; other values may be accepted
                self._give_up(str(refused), refused)
            except (KernelError, DeviceMemoryError) as error:
                self._give_up(f"run error: {error}", error)
        if journal.forbidden():
            self._give_up(self._reason)
        return self.gm(*args) if self._pieces is None else self._pieces(*args)

    def _of_sizes(self, args: Sequence[Any]) -> tuple[CompiledGraph | None, Fit | None]:
        try:
            if self._sized is None:
                return self._program(self._lower(args), None), None
            return self._sized.program(args)
        except Unsupported as refused:
            if not self._split(refused):
                self._give_up(str(refused), refused)
        except (UnsupportedOpError, GraphError, PlanError, CapacityError, TypeError) as error:
            self._give_up(str(error), error)
        return None, None

    def _lower(self, args: Sequence[Any]) -> Lowered:
        strict = self.options.fallback != "cpu"
        return lower(self.gm, args, pins=self.options.placement, strict=strict, wide=self._wide)

    def _program(self, lowered: Lowered, bucket: Bucket | None) -> CompiledGraph:
        name = f"{self.name}_{self._made}" if self._made else self.name
        made = CompiledGraph(lowered, self.options, name, bucket)
        self._made += 1
        count("compiles")
        return made

    def _split(self, cause: Unsupported) -> bool:
        """Make this graph run in pieces from now on. Return False if pieces are not allowed, or if no node
        can be lowered."""
        if self.options.fallback != "cpu" or journal.forbidden():
            return False
        refused = survey(self.gm, pins=self.options.placement, wide=self._wide)
        nodes = [node for node in self.gm.graph.nodes if node.op == "call_function"]
        if not refused or len(refused) == len(nodes):
            return False

        def compiled(piece: torch.fx.GraphModule) -> Callable[..., Any]:
            given = [node.meta.get("val") for node in piece.graph.nodes if node.op == "placeholder"]
            return _compiled(piece, given, self.name, self.options)

        self._pieces = split(self.gm, refused, compiled)
        apart = [reason for node, reason in refused.items() if node.target is not operator.getitem]
        note_split(self.name, len(nodes), apart)
        self._reason = str(cause)
        return True

    def _give_up(self, reason: str, error: Exception | None = None) -> None:
        if self.options.fallback == "error" or journal.forbidden():
            raise UnsupportedOpError(
                f"graph {self.name} of torch.compile cannot be lowered: {reason}", got=self.name
            ) from error
        note_graph(reason)
        self._reason = reason


class Ranged:
    """A graph with 64-bit integers, for which programs compute in 32 bits. The nodes whose
    integers may not fit differ between calls; each set of such nodes has its own Compiled. Results carry the
    bounds of their integers."""

    def __init__(self, ranges: Ranges, make: Callable[[Set[torch.fx.Node]], Compiled]):
        self._ranges, self._make = ranges, make
        self._made = {(first := ranges.first): make(first)}

    def __call__(self, *args: Any) -> Any:
        fit = self._ranges.of_call(args)
        run = self._made.get(fit.wide)
        if run is None:
            run = self._made[fit.wide] = self._make(fit.wide)
        results = run(*args)
        for number, bound in fit.bounds.items():
            note_bound(results[number], bound)
        return results


def _compiled(gm: torch.fx.GraphModule, examples: Sequence[Any], kind: str, options: BackendOptions) -> Any:
    ranges = Ranges.of(gm)
    if ranges is None:
        return Compiled(gm, examples, kind, options)
    return Ranged(ranges, lambda wide: Compiled(gm, examples, kind, options, wide))


def _is_static(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and all(isinstance(n, int) for n in x.shape)


def compile_graph(kind: str, options: BackendOptions) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Any]:
    """A compiler that AOTAutograd calls for graphs of one ``kind``: "forward", "backward" or "inference"."""

    def compiler(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        if kind != "backward":  # unchecked for backward: users do not know its nodes
            require_places(options.placement, [node.name for node in gm.graph.nodes])
        return make_boxed_func(_compiled(gm, examples, kind, options))

    return compiler


def backend(
    gm: torch.fx.GraphModule,
    examples: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """The backend of torch.compile, found by the entry point "tt". Raises InputError for unknown options."""
    if mode not in (None, "default"):
        raise GraphRuntimeError(f'backend "tt" has no mode {mode!r}: say options={{...}}', got=mode)
    chosen = read(options)
    made = aot_autograd(
        fw_compiler=compile_graph("forward", chosen),
        bw_compiler=compile_graph("backward", chosen),
        inference_compiler=compile_graph("inference", chosen),
        decompositions=table(),
        partition_fn=min_cut_rematerialization_partition,
    )
    return made(gm, examples)
