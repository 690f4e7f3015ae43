"""A lowered program: plan + kernels -> Program, whose flat arrays have the layout of the structs of
native/include/gr_program.h.

A Program holds no addresses but those of kernels, so it can be printed, compared and bound to any number of
sessions. run/sessions/bind.py fills in the other pointers: ``gr_arg.addr`` from the plan's storage, ``shape``
and ``attrs`` as offsets plus the address of their pool.

Lowering is vectorised: Python code runs for each distinct kernel and each distinct (type, layout), not for
each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...base.errors import LibraryError, UnsupportedOpError, did_you_mean
from ...base.machine.devices import NO_KERNELS
from ...base.machine.layout import HOST, Layout
from ...ir.graph import COPY, NOP, Func, Graph, TensorType
from ...ir.ops import registry
from ...ir.ops.numerics import Numerics
from ...ir.ops.rules import call_words, numeric_words, select
from ...plan.columns import first_of, input_behind, intern, ragged, starts
from ...plan.types import Plan
from .. import blas, core
from ..core import arg_fields


def struct(*rows: str) -> np.dtype:
    """The dtype of a C struct. Each row is a type, followed by the names of successive fields of that
    type."""
    typed = [(kind, names) for kind, *names in map(str.split, rows)]
    return np.dtype([(name, f"<{kind}") for kind, names in typed for name in names])


# struct gr_arg of native/include/gr_abi.h (32 bytes): a tensor as kernels and the copy engine see it.
# tests/native/test_executor.py compares this dtype and the following ones with C.
ARG = struct("u8 addr shape", "i4 ndim", "u1 dtype format layout memory", "u4 page_bytes num_pages")
# struct gr_call (40 bytes), gr_instr (48)
CALL = struct("u4 abi", "i4 nargs", "u8 args attrs scratch env")
INSTR = np.dtype([("fn", "<u8"), ("call", CALL)])
# struct gr_step (80), gr_lane (16), gr_slot (24) of native/include/gr_async.h
STEP = struct(
    "u8 fn attrs env scratch",
    "i8 first_arg",
    "i4 nargs lane",
    "i8 first_wait",
    "i4 num_waits num_inputs",
    "u8 node op",
)
LANE = struct("u8 device", "i4 role", "u4 circular")
SLOT = struct("u8 device", "i4 memory keep", "u8 extent")


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """The function that an instruction calls.

    ``name``: the func_name. ``fn``: address of a gr_kernel_fn or, if ``packed``, of a function of TVM's
    packed ABI. ``words``: the op's int64 attribute words. ``scratch``: bytes of host memory that a call
    needs. ``origin``: source of the kernel, as shown to users ("built in", a file). ``owner``: the opened
    library, kept alive as long as the program."""

    name: str
    fn: int
    words: tuple[int, ...] = ()
    scratch: int = 0
    packed: bool = False
    origin: str = "built in"
    owner: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Instructions as columns. A run executes the first ``main`` instructions; the others are copies that run
    when an input is set.

    ``nid`` int64 [instrs], ``kid`` int32 [instrs] (index into ``kernels``), ``arg_ptr`` int64 [instrs + 1],
    ``eid`` int64 [args] (the entry of each argument), ``args`` ARG [args] (addr is 0, shape is a byte offset
    into ``shapes``), ``shapes`` int64 (all shapes one after another), ``words`` int64 (all attribute words),
    ``word_ptr`` int64 [kernels + 1], ``scratch`` (the most bytes of scratch memory of any kernel),
    ``at_input`` {graph input: (first, last)} (the instructions to run when that input is set). ``circular``
    int64 [instrs]: bytes of circular buffers that each instruction opens on a core (circular.measured), None
    if not measured."""

    plan: Plan
    kernels: tuple[Kernel, ...]
    main: int
    nid: np.ndarray
    kid: np.ndarray
    arg_ptr: np.ndarray
    eid: np.ndarray
    args: np.ndarray
    shapes: np.ndarray
    words: np.ndarray
    word_ptr: np.ndarray
    scratch: int
    at_input: dict[int, tuple[int, int]]
    circular: np.ndarray | None = None

    @property
    def count(self) -> int:
        return len(self.nid)

    def circular_of(self, instrs: np.ndarray | slice = slice(None)) -> dict[int, int]:
        """{did: the most bytes of circular buffers that one of these instructions opens on that device},
        without zeros. The program must be measured."""
        assert self.circular is not None  # a caller measures the program first
        needs, did = self.circular[instrs], self.plan.did[self.nid[instrs]]
        return {d: int(needs[did == d].max()) for d in sorted({*did[needs > 0].tolist()})}


# **************** lowering ****************

Types = Sequence[TensorType]
Call = tuple[Func, str, Types, Types]  # function, kind of kernels, types of inputs and outputs
Resolve = Callable[[Func, str, Types, Types], Kernel]  # it raises LibraryError, UnsupportedOpError


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The calls of a plan, before their kernels are known. ``asked``: (function, kind of kernels, input
    types, output types) of each distinct call. ``of``: for each kernel of the program the index of its call
    in ``asked``. ``ways``: for each kernel the pair (numerics of the device, chosen op model), which
    determines the kernel's words. The other fields are those of Program."""

    plan: Plan
    main: int
    nid: np.ndarray
    kid: np.ndarray
    at_input: dict[int, tuple[int, int]]
    asked: tuple[Call, ...]
    of: tuple[int, ...]
    ways: tuple[tuple[Numerics, Any], ...]


def lower(plan: Plan, resolve: Resolve | None = None) -> Program:
    """The program of a plan. ``resolve``, by default built_in_kernel, is called once for each function and
    kind of kernels. Raises the errors of ``resolve``."""
    calls, resolve = calls_of(plan), resolve or built_in_kernel
    return program_of_calls(calls, [resolve(*call) for call in calls.asked])


def program_of_calls(calls: Calls, found: Sequence[Kernel]) -> Program:
    """The program with the kernels that were ``found`` for its calls."""
    plan, graph = calls.plan, calls.plan.graph
    kernels = tuple(
        chosen(found[at], *calls.asked[at][:2], *way) for at, way in zip(calls.of, calls.ways, strict=True)
    )
    arg_ptr, eid, flat = _arguments(graph, calls.nid)
    args, shapes = _records(plan, eid, flat)
    known = None if plan.circular is None or plan.as_ttnn else plan.circular[calls.nid]
    return Program(
        plan=plan,
        kernels=kernels,
        main=calls.main,
        nid=calls.nid,
        kid=calls.kid,
        arg_ptr=arg_ptr,
        eid=eid,
        args=args,
        shapes=shapes,
        words=np.array([w for k in kernels for w in k.words], np.int64),
        word_ptr=starts(np.array([len(k.words) for k in kernels], np.int64)),
        scratch=max((k.scratch for k in kernels), default=0),
        at_input=calls.at_input,
        circular=known,
    )


def _schedule(plan: Plan) -> tuple[np.ndarray, int, dict[int, tuple[int, int]]]:
    """(nids in instruction order, number of the instructions that a run executes, {graph input: (first,
    last)}). The mapping gives the instructions of the copies that run when that input is set."""
    graph = plan.graph
    is_nop = np.array([f.name == NOP for f in graph.funcs] + [True])  # index -1 of null nodes: this True
    calls = np.flatnonzero(~is_nop[graph.func_id])
    early = plan.at_input[calls]
    if not early.any():
        return calls, len(calls), {}
    main, copies = calls[~early], calls[early]
    source = input_behind(graph, copies)
    index_of = np.full(graph.num_nodes, -1, np.int64)
    index_of[graph.inputs] = np.arange(len(graph.inputs))
    owner = index_of[source]
    by_owner = np.argsort(owner, kind="stable")
    copies, owner = copies[by_owner], owner[by_owner]
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    lasts = [*firsts[1:].tolist(), len(owner)]
    spans = {int(owner[a]): (len(main) + int(a), len(main) + b) for a, b in zip(firsts, lasts, strict=True)}
    return np.concatenate([main, copies]), len(main), spans


def calls_of(plan: Plan) -> Calls:
    """The calls of a plan's instructions, and the kernels that they need."""
    order, main, at_input = _schedule(plan)
    graph = plan.graph
    kinds = list(dict.fromkeys(d.kernels for d in plan.devices))
    kind_of = np.array([kinds.index(d.kernels) for d in plan.devices], np.int64)
    plain = graph.func_id[order] * len(kinds) + kind_of[plan.did[order]]
    ways, way = _ways(plan, order)
    keys = plain * len(ways) + way
    distinct, kid = intern(keys, len(graph.funcs) * len(kinds) * len(ways))
    first = first_of(kid, len(distinct))
    asked: dict[int, Call] = {}
    for key, at in zip((distinct // len(ways)).tolist(), first.tolist(), strict=True):
        if key not in asked:
            view = graph.node(int(order[at]))
            func, kind = graph.funcs[key // len(kinds)], kinds[key % len(kinds)]
            asked[key] = func, kind, view.input_types, view.output_types
    rows = {key: row for row, key in enumerate(asked)}
    of = tuple(rows[key] for key in (distinct // len(ways)).tolist())
    chosen_ways = tuple(ways[key] for key in (distinct % len(ways)).tolist())
    return Calls(plan, main, order, kid.astype(np.int32), at_input, tuple(asked.values()), of, chosen_ways)


def _ways(plan: Plan, order: np.ndarray) -> tuple[list[tuple[Numerics, Any]], np.ndarray]:
    """The distinct pairs (numerics of the device, chosen op model), and the index of each instruction's
    pair."""
    if not plan.numerics and plan.model_id is None:
        return [(Numerics(), None)], np.zeros(len(order), np.int64)
    numerics = plan.numerics or (Numerics(),)
    of_device = plan.did[order].astype(np.int64) if plan.numerics else np.zeros(len(order), np.int64)
    model = np.full(len(order), -1, np.int64) if plan.model_id is None else plan.model_id[order]
    distinct, way = np.unique(of_device * (len(plan.models) + 1) + model + 1, return_inverse=True)
    split = [divmod(pair, len(plan.models) + 1) for pair in distinct.tolist()]
    return [(numerics[n], plan.models[m - 1] if m else None) for n, m in split], way


def chosen(kernel: Kernel, func: Func, kind: str, numerics: Numerics, model: Any) -> Kernel:
    """The kernel with the attribute words chosen for the node in place of the default ones."""
    words = numeric_words(registry.get(func.op or ""), func.attrs, kind, numerics, model)
    if not kernel.words or not words:
        return kernel
    return replace(kernel, words=kernel.words[: len(kernel.words) - len(words)] + words)


def _arguments(graph: Graph, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row pointers; entries: a node's inputs, then its outputs; whether the kernel sees each entry as
    1-d)."""
    n_in = graph.in_ptr[order + 1] - graph.in_ptr[order]
    n_out = graph.row_ptr[order + 1] - graph.row_ptr[order]
    arg_ptr = starts(n_in + n_out)
    eid = np.empty(int(arg_ptr[-1]), np.int64)
    eid[ragged(arg_ptr[:-1], n_in)] = graph.in_eid[ragged(graph.in_ptr[order], n_in)]
    eid[ragged(arg_ptr[:-1] + n_in, n_out)] = ragged(graph.row_ptr[order], n_out)
    flatten = np.array([f.takes_flat for f in graph.funcs], bool)
    return arg_ptr, eid, np.repeat(flatten[graph.func_id[order]], n_in + n_out)


def _records(plan: Plan, eid: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the gr_arg of each argument, the pool of shapes into which the gr_args point)."""
    graph, num_layouts = plan.graph, len(plan.layouts)
    on_host = np.array([layout.memory == HOST for layout in plan.layouts], bool)
    flat = flat & on_host[plan.layout_id[eid]]  # tensors in tiles or pages keep their own shape
    keys = (graph.type_id.astype(np.int64) * num_layouts + plan.layout_id)[eid] * 2 + flat
    distinct, row = intern(keys, len(graph.types) * num_layouts * 2)
    table = np.zeros(len(distinct), ARG)
    pool: list[int] = []
    for i, key in enumerate(distinct.tolist()):
        type_, layout = graph.types[key // 2 // num_layouts], plan.layouts[key // 2 % num_layouts]
        shape = (type_.size,) if key % 2 else type_.shape
        table[i] = arg_record(type_, layout, shape)
        table[i]["shape"] = 8 * len(pool)
        pool.extend(shape)
    as_words = table.view(np.uint64).reshape(-1, 4)  # numpy copies rows of words faster than records
    return as_words.take(row, axis=0).reshape(-1).view(ARG), np.array(pool, np.int64)


# **************** arguments ****************


def arg_record(type_: TensorType, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """One ARG without its pointers. ``shape`` is the shape that the kernel sees; the pages are those of the
    whole entry."""
    record = np.zeros((), ARG)
    record["ndim"] = len(shape)
    for name, value in arg_fields(type_.dtype, type_.shape, layout).items():
        record[name] = value
    return record


# **************** kernels that are built into the core ****************


def built_in_kernel(func: Func, kind: str, inputs: Types, outputs: Types) -> Kernel:
    """The kernel that runs ``func`` on devices of ``kind`` without a library. Raises LibraryError for a
    function without gr.op, and the errors of generic_kernel."""
    if func.name == COPY:
        return Kernel(COPY, core.copy_kernel())
    if kind == NO_KERNELS:
        return Kernel(func.name, core.null_kernel())
    if func.op is None:
        raise nowhere(func, kind)
    return generic_kernel(func, kind, inputs, outputs)


def generic_kernel(func: Func, kind: str, inputs: Types, outputs: Types) -> Kernel:
    """The kernel built into the wheel for a function with gr.op. Raises UnsupportedOpError, which lists the
    alternatives."""
    op = registry.require(func.op or func.name)
    selected = select(op, func.attrs, kind, inputs, outputs)
    if selected.library:
        selected = blas.present(selected, op, func.attrs, kind, inputs, outputs)
    address = core.generic_kernels().get(selected.generic)
    if address is None:
        text = (
            f"op {op.name}: the kernel {selected.generic} is not built into this installation: build it anew "
            "(`pip install -e .` in a checkout), or compile it for the graph (compile=True, graph-runtime "
            "compile)"
        )
        raise UnsupportedOpError(text, op=op.name, got=selected.generic)
    words = call_words(op, func.attrs, kind, inputs, outputs)
    return Kernel(
        func.name, address, words=words, scratch=selected.scratch, origin=f"built in: {selected.generic}"
    )


def nowhere(func: Func, kind: str, libraries: Sequence[Any] = ()) -> LibraryError:
    """The error for a function without gr.op that none of these libraries has."""
    elsewhere = sorted({of for library in libraries for name, of in library.kernels if name == func.name})
    if elsewhere:
        text = (
            f"function {func.name!r} is built for {', '.join(elsewhere)} devices only, the graph calls it "
            f"on {kind}: compile the graph for {kind}"
        )
        return LibraryError(text, got=kind, wanted=elsewhere)
    known = {name for library in libraries for name in library.names(kind)}
    where = ", ".join(str(library.path) for library in libraries) or "no library was given"
    text = (
        f"no kernel for function {func.name!r} on {kind}{did_you_mean(func.name, known)}: it is in no "
        f"library ({where}) and its nodes have no gr.op to take a built-in kernel by; give the library that "
        "has it, for a graph of TVM's the one that was exported with it"
    )
    return LibraryError(text, got=func.name, wanted=sorted(known)[:50])
