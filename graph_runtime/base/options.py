"""Options: how a model is prepared, planned and run, in one value that goes from the caller to the session.

create(), prepare(), plan(), build_bundle() and the commands take it, or its fields as keywords. A bundle
keeps it, and ``graph-runtime plan`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from .option_fields import (
    COMPILING,
    FLOWS,
    NONE,
    PLACING,
    READING,
    REWRITING,
    RUNNING,
    STORING,
    Flag,
    OptionValue,
    option,
)

__all__ = ["MAX_IN_FLIGHT", "Options", "Words"]

MAX_IN_FLIGHT = 8

if TYPE_CHECKING:  # what type checkers and editors see; help() sees option_words.py's

    class Words(TypedDict, total=False):
        """The fields of Options as keywords; one that is None stays as it was. A test says each line."""

        dims: Mapping[str, int | tuple[int, ...]] | None
        batch: int | None
        values: Mapping[str, Any] | None
        fuse: bool | None
        compile: bool | None
        most_warnings: int | None
        rules: Sequence[str | Callable[..., Any]] | None
        place: Mapping[str, Any] | None
        placement: str | Callable[..., Any] | None
        objective: str | None
        fallback: str | None
        costs: Any
        topology: Any
        interconnect: Any
        stream: Sequence[str] | None
        error_bound: str | None
        bound_inputs: Mapping[str, Any] | None
        device_map: Mapping[str, Any] | None
        strict: bool | None
        formats: Mapping[str, str] | None
        layouts: Mapping[str, str] | None
        numerics: Mapping[str, Mapping[str, str]] | None
        policy: str | None
        reuse: str | None
        order: str | Callable[..., Any] | None
        packer: str | Callable[..., Any] | None
        threads: int | None
        queues: str | None
        max_in_flight: int | None
        unset_inputs: str | None
        programs: int | None
        most_steps: int | None


@dataclass(frozen=True, kw_only=True)
class Options(OptionValue):
    """How a model is prepared, planned and run. Raises InputError for a field that should be a mapping and
    is none; other words are judged where they are used.

    Reading an ONNX file. ``dims``: {symbolic dimension: size}, and {input: its sizes} for one without a
    shape; {symbolic dimension: [sizes]}: buckets, of which one serves a run where that is proven.
    ``batch``: the first dimension of all inputs, open or not. ``values``: {input: its value}, numbers or
    arrays, of inputs that become constants.

    Preparing. ``fuse``: whether nodes may be fused and rewritten; None: those of an ONNX file or a Model may,
    a graph.json, a Graph and a GraphBuilder say how they want to be run. ``compile``: whether C is generated
    and compiled for kernels that the installed ones do more slowly; None: those of an ONNX file or a Model,
    and where nodes may be rewritten; where that fails the installed ones serve, with a warning. ``rules``:
    rewrite rules of your own, functions of a Net or "package.module:function" each, between simplifying and
    fusing.

    Placing. ``place``: pins, glob over node, op and function names -> device. ``device_map``: device type
    of the file -> device. ``strict``: a device that the list does not have is an error, not a warning.
    ``placement``: the policy that places the rest (PLACEMENT_POLICIES), "package.module:function", or such
    a function; None: mincut for several devices where nodes may be rewritten and there are no pins, else
    the first device. ``objective``: what placement policies make least: "serial", "makespan" or
    "throughput". ``fallback``: a node that cannot run where it is asked to is an "error", or runs on a
    "host" of the list. ``costs``: what times are, a costs.CostModel or "package.module:Name" of one; None:
    this package's. ``topology``: how chips are cabled, a name, a path or a Topology; None: what one sends
    to another goes through the host. ``interconnect``: how machines are connected, a path or an
    Interconnect, as ``cluster.interconnect`` is; None: by links of 1 Gbit/s.

    ``stream``: inputs that stay on the host and that every run copies where they are read, globs over their
    names; "auto" among them: as many of the largest weights as make the rest fit, where that is faster than
    what else fits.

    ``error_bound``: "pcc=0.999", or another measure of docs/accuracy.md: devices and formats of nodes are
    chosen so that the predicted time is least while all outputs keep to it, which runs on ``bound_inputs``
    prove, {input: array or .npy file}; what these leave out is drawn from a seed (docs/placement.md).

    Storing and computing. ``formats``: device or kind -> format of its floats; of a host, of its products'
    weights (docs/cpu.md). ``layouts``: glob -> layout of what those nodes make, as
    "l1/tile/bf16/height[8x1]" (plan/wishes.py); of nodes on a host the format of their weights.
    ``numerics``: device or kind -> {"fidelity", "dst", "numerics"} of nodes that do not say. ``policy``: how
    ops are cut onto the cores of buda boards (BALANCER_POLICIES); None: as the file says, else each kernel
    cuts its own. ``reuse``: how memory is shared, "serial", "safe" or "off" (docs/memory.md); None: "safe"
    for what may run on queues, else "serial". ``order``: the order of the nodes, a function of a
    LaidOutGraph; ``packer``: what looks for offsets; both as functions or "package.module:function"; None:
    this package's (docs/extending.md).

    Running. ``threads``: size of the intra-op pool; None: as it is. ``queues``: "threads" lets run() use the
    devices' queues, "inline" does not. ``max_in_flight``: queued runs that hold memory at once; the next one
    waits for the oldest. ``unset_inputs``: runs "refuse" inputs that were never set, or "allow" them, as TVM.
    ``programs``: of different sizes that a model of open sizes keeps; ``most_steps``: iterations of a loop
    whose end a run finds. ``most_warnings``: Python warnings about a plan that a module gives when it is
    opened, one by one, before it says how many more there are; 0: none.
    """

    dims: Mapping[str, int | tuple[int, ...]] = option(
        NONE,
        READING,
        Flag(
            "dim",
            "Bind a symbolic dimension of an ONNX file: batch=4; of an input without a shape all of them: "
            "x=1x3x224x224; several sizes are buckets of programs: batch=1,8,32; repeatable.",
            form="sizes",
            shown="batch=4",
        ),
        example="{'batch': 4}",
    )
    batch: int | None = option(
        None,
        READING,
        Flag(
            "batch", "The first dimension of the inputs of an ONNX file, open or not.", form="number", least=1
        ),
    )
    values: Mapping[str, Any] = option(
        NONE,
        READING,
        Flag(
            "value",
            "Make an input of an ONNX file a constant: sr=16000, sizes=1,80 or a .npy file; repeatable.",
            form="constants",
            shown="sr=16000",
        ),
        example="{'sr': 16000}",
    )
    fuse: bool | None = option(
        None,
        REWRITING,
        Flag(
            "fuse",
            "Whether nodes are fused and rewritten. Without either: those of an ONNX file "
            "are, those of a graph.json are run as they are written.",
            form="choice",
        ),
    )
    compile: bool | None = option(
        None,
        COMPILING,
        Flag(
            "compile",
            "Whether C is generated and compiled for kernels that the installed ones do more slowly. "
            "Without either: those of an ONNX file, and where nodes are rewritten.",
            form="choice",
        ),
    )
    most_warnings: int = option(
        5,
        COMPILING,
        Flag(
            "most-warnings",
            "Warnings about a plan that are shown one by one, 5 if not given; 0: none.",
            form="number",
            least=0,
        ),
    )
    rules: tuple[str | Callable[..., Any], ...] = option(
        (),
        REWRITING,
        Flag(
            "rule",
            "A rewrite rule of your own, before nodes are fused: package.module:function; repeatable.",
            form="texts",
        ),
        example="functions, or of names as 'package.module:function'",
    )
    place: Mapping[str, Any] = option(
        NONE,
        PLACING,
        Flag(
            "place",
            "Pin nodes: 'conv*=tt:0' (a glob over node, op and function names); repeatable.",
            form="pairs",
            shown="'conv*=tt:0'",
        ),
        example="{'conv*': 'tt:0'}",
    )
    placement: str | Callable[..., Any] | None = option(
        None,
        PLACING,
        Flag(
            "placement",
            "The placement policy: what places nodes that neither --place nor the file places: single, "
            "greedy, mincut, heft, optimal, or package.module:function; without it mincut where nodes may be "
            "rewritten, else the first device.",
        ),
    )
    objective: str = option(
        "serial", PLACING, Flag("objective", "What --placement makes least: serial, makespan or throughput.")
    )
    fallback: str = option(
        "error",
        PLACING,
        Flag("fallback", "A node that cannot run where it is asked to: error, or host with a warning."),
    )
    costs: Any = option(
        None,
        PLACING,
        Flag("costs", "A cost model of your own, for placing and simulating: package.module:Name."),
    )
    topology: Any = option(
        None,
        PLACING,
        Flag(
            "topology",
            "How chips are cabled, for placing and simulating: n300, t3000, galaxy, or a file of your own.",
        ),
    )
    interconnect: Any = option(
        None,
        PLACING,
        Flag(
            "interconnect", "How machines are connected, for devices as node1/tt:0: a file (docs/devices.md)."
        ),
    )
    stream: tuple[str, ...] = option(
        (),
        PLACING,
        Flag(
            "stream",
            "Inputs that stay on the host and that every run copies: a glob over their names, or auto for "
            "as many weights as have no room; repeatable.",
            form="texts",
        ),
        example="globs over inputs, as ['w*'] or ['auto']",
    )
    error_bound: str | None = option(
        None,
        REWRITING,
        Flag(
            "error-bound",
            "Choose devices and formats of nodes so that the predicted time is least while every output "
            "reaches pcc=0.999 (or cosine, nmse, max_abs, max_rel, max_ulp, p99_ulp), proved by runs.",
        ),
    )
    bound_inputs: Mapping[str, Any] = option(
        NONE,
        REWRITING,
        Flag(
            "bound-input",
            "A value of an input for the runs of --error-bound: x=x.npy; repeatable; others are random.",
            form="pairs",
            shown="x=x.npy",
        ),
        example="{'x': array}",
    )
    device_map: Mapping[str, Any] = option(
        NONE,
        PLACING,
        Flag("map", "Use a device for a device type of the file: opencl=tt:0; repeatable.", form="pairs"),
        example="{'2': 'tt:0'}",
    )
    strict: bool = option(
        False,
        PLACING,
        Flag("strict", "No fallback: a device type that no --device has is an error.", form="yes"),
    )
    formats: Mapping[str, str] = option(
        NONE,
        (PLACING, STORING),
        Flag(
            "format",
            "How a device stores floats: tt=bf16, or tt:1=bfp8_b; repeatable.",
            form="pairs",
            shown="tt=bf16",
        ),
        example="{'tt': 'bf16'}",
    )
    layouts: Mapping[str, str] = option(
        NONE,
        (PLACING, STORING),
        Flag(
            "layout",
            "Where and how nodes' values lie on a device: 'conv*=l1/block[4x8]', 'h=dram/row_major' "
            "(a glob as of --place); repeatable.",
            form="pairs",
            shown="'conv1=l1'",
        ),
        example="{'conv*': 'l1'}",
    )
    numerics: Mapping[str, Mapping[str, str]] = option(
        NONE,
        (PLACING, STORING),
        Flag(
            "fidelity",
            "Math fidelity of a device: tt=LoFi, HiFi2, HiFi3 or HiFi4; repeatable.",
            form="words",
            shown="tt=HiFi2",
        ),
        Flag(
            "dst",
            "What a device keeps sums in: tt=fp32 or tt=bf16; repeatable.",
            form="words",
            shown="tt=bf16",
        ),
        Flag(
            "numerics",
            "Arithmetic of a device: tt=fast, exact (slow), or ttnn's functions; repeatable.",
            form="words",
            shown="tt=exact",
        ),
        example="{'tt': {'fidelity': 'HiFi2'}}",
    )
    policy: str | None = option(
        None,
        STORING,
        Flag(
            "policy",
            "The balancer policy: how ops are cut onto the cores of a buda board: nlp, ribbon, cnn, "
            "optimal, ...; without it each kernel cuts its own. Also takes what --placement takes, but for "
            "optimal.",
        ),
    )
    reuse: str | None = option(
        None,
        STORING,
        Flag("reuse", "Which values may share memory: serial (least), safe (no waits between queues), off."),
    )
    order: str | Callable[..., Any] | None = option(
        None, STORING, Flag("order", "An order of nodes of your own: package.module:function.")
    )
    packer: str | Callable[..., Any] | None = option(
        None, STORING, Flag("packer", "A memory packer of your own: package.module:function.")
    )
    threads: int | None = option(
        None, RUNNING, Flag("threads", "Threads that one kernel may use.", form="number", least=1, most=256)
    )
    queues: str = option("inline", RUNNING)
    max_in_flight: int = option(MAX_IN_FLIGHT, RUNNING)
    unset_inputs: str = option("refuse", RUNNING)
    programs: int = option(64, FLOWS)
    most_steps: int = option(1_000_000, FLOWS)
