"""Options: all choices for preparing, planning and running a model, in one value passed from the caller to
the session.

create(), prepare(), plan(), build_bundle() and the commands take it, or its fields as keywords. A bundle
keeps it, and ``graph-runtime plan`` prints it.

Read: option_fields (facts of a field, methods of a value), this module (the fields), option_words (signatures
of functions that take them)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict

from .errors import refuse_words
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

MAX_IN_FLIGHT = 8

if TYPE_CHECKING:  # for type checkers and editors; help() shows what option_words.py makes

    class Words(TypedDict, total=False):
        """The fields of Options as keywords; None leaves a field unchanged. A test compares these lines with
        Options."""

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
    """Choices for preparing, planning and running a model. Raises InputError for a field that should be a
    mapping but is not; other values are checked where they are used.

    Reading an ONNX file. ``dims``: {symbolic dimension: size}, or {input: its sizes} for an input without a
    shape. {symbolic dimension: [sizes]} gives buckets, one of which serves a run if its results are proven
    correct. ``batch``: size of the first dimension of all inputs, whether or not the file leaves it open.
    ``values``: {input: its value}, numbers or arrays, for inputs that become constants.

    Preparing. ``fuse``: whether nodes may be fused and rewritten; None: yes for an ONNX file or a Model, no
    for a graph.json, a Graph and a GraphBuilder, which say themselves how they are run. ``compile``: whether
    C is generated and compiled where the result is faster than the installed kernels; None: yes for an ONNX
    file or a Model, and for all others if nodes may be rewritten. If compiling fails the installed kernels
    are used, with a warning. ``rules``: your own rewrite rules, each a function of a Net or
    "package.module:function", run between simplifying and fusing.

    Placing. ``place``: pins, {glob over node, op and function names: device}. ``device_map``: {device type of
    the file: device}. ``strict``: whether a device missing in the list is an error and not a warning.
    ``placement``: the policy that places the other nodes (PLACEMENT_POLICIES), "package.module:function", or
    such a function; None: mincut for several devices if nodes may be rewritten and there are no pins, else
    the first device. ``objective``: the quantity that placement policies minimise: "serial", "makespan" or
    "throughput". ``fallback``: treatment of a node that cannot run on its device: "error", or "host" to run
    it on a host of the list. ``costs``: the cost model, a costs.CostModel or "package.module:Name" of such a
    class; None: this package's cost model. ``topology``: cabling of chips, a name, a path or a Topology;
    None: transfers between chips go through the host. ``interconnect``: links between machines, a path or an
    Interconnect, such as ``cluster.interconnect``; None: links of 1 Gbit/s.

    ``stream``: globs over the names of inputs that stay on the host and that every run copies to their
    readers. "auto" adds the largest weights, as many as must stay on the host for the other values to fit, if
    that is faster than the alternatives.

    ``error_bound``: bound of the outputs' error, as "pcc=0.999", or another measure of docs/accuracy.md.
    Devices and formats of nodes are chosen for the least predicted time with which all outputs meet the
    bound, as checked by runs on ``bound_inputs``, {input: array or .npy file}; inputs not given there are
    drawn from a seed (docs/placement.md).

    Storing and computing. ``formats``: {device or kind: format of its floats}; for a host, the format of the
    weights of products only (docs/cpu.md). ``layouts``: {glob: layout of the results of nodes that it names,
    as "l1/tile/bf16/height[8x1]"} (plan/wishes.py); for nodes on a host, the format of their weights.
    ``numerics``: {device or kind: {"fidelity", "dst", "numerics"}} for nodes without numerics of their own.
    ``policy``: the balancer policy that cuts ops onto the cores of buda boards (BALANCER_POLICIES); None: the
    file's policy. If the file has no policy, each kernel cuts its own op. ``reuse``: sharing of memory,
    "serial", "safe" or "off" (docs/memory.md); None: "safe" for plans that may run on queues, else "serial".
    ``order``: a function of a LaidOutGraph that orders the nodes; ``packer``: a function that finds offsets
    in memory. Both are given as a function or as "package.module:function"; None: this package's function
    (docs/extending.md).

    Running. ``threads``: size of the intra-op pool; None: unchanged. ``queues``: "threads" if run() may use
    the devices' queues, else "inline". ``max_in_flight``: most queued runs that hold memory at once; a
    further run waits for the oldest. ``unset_inputs``: whether runs "refuse" inputs that were never set, or
    "allow" them, as TVM does. ``programs``: most specializations kept for a model of open sizes;
    ``most_steps``: most iterations of a loop whose end a run finds. ``most_warnings``: most Python warnings
    about a plan that opening a module gives one by one; of further warnings only the number is given; 0: no
    warnings."""

    dims: Mapping[str, int | tuple[int, ...]] = option(
        NONE,
        READING,
        Flag(
            "dim",
            "Set a symbolic dimension of an ONNX file: batch=4; all those of an input without a shape: "
            "x=1x3x224x224; several sizes are buckets: batch=1,8,32; repeatable.",
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
            "Whether nodes are fused and rewritten. By default, those of an ONNX file "
            "are, those of a graph.json are run unchanged.",
            form="choice",
        ),
    )
    compile: bool | None = option(
        None,
        COMPILING,
        Flag(
            "compile",
            "Whether C is generated and compiled for kernels of which the installed ones are slower. "
            "By default, for an ONNX file, and if nodes are rewritten.",
            form="choice",
        ),
    )
    most_warnings: int = option(
        5,
        COMPILING,
        Flag(
            "most-warnings",
            "Number of warnings about a plan shown one by one, by default 5; 0: none.",
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
            "The placement policy, for nodes that neither --place nor the file places: single, "
            "greedy, mincut, heft, optimal, or package.module:function; by default mincut if nodes may be "
            "rewritten, else the first device.",
        ),
    )
    objective: str = option(
        "serial",
        PLACING,
        Flag("objective", "The quantity that --placement minimises: serial, makespan or throughput."),
    )
    fallback: str = option(
        "error",
        PLACING,
        Flag("fallback", "For a node that cannot run on its device: error, or host with a warning."),
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
            "Cabling of chips, for placing and simulating: n300, t3000, galaxy, or a file of your own.",
        ),
    )
    interconnect: Any = option(
        None,
        PLACING,
        Flag("interconnect", "Links between machines, for devices as node1/tt:0: a file (docs/devices.md)."),
    )
    stream: tuple[str, ...] = option(
        (),
        PLACING,
        Flag(
            "stream",
            "Inputs that stay on the host and that every run copies: a glob over their names, or auto for "
            "as many weights as do not fit; repeatable.",
            form="texts",
        ),
        example="globs over inputs, as ['w*'] or ['auto']",
    )
    error_bound: str | None = option(
        None,
        REWRITING,
        Flag(
            "error-bound",
            "Choose devices and formats of nodes for the least predicted time with which every output "
            "reaches pcc=0.999 (or cosine, nmse, max_abs, max_rel, max_ulp, p99_ulp), checked by runs.",
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
            "Format in which a device stores floats: tt=bf16, or tt:1=bfp8_b; repeatable.",
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
            "Memory and layout of nodes' values on a device: 'conv*=l1/block[4x8]', 'h=dram/row_major' "
            "(a glob as for --place); repeatable.",
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
            "dst", "Format of a device's sums: tt=fp32 or tt=bf16; repeatable.", form="words", shown="tt=bf16"
        ),
        Flag(
            "numerics",
            "Arithmetic of a device: tt=fast, tt=exact (slow), or tt=ttnn (its functions); repeatable.",
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
            "The balancer policy, which cuts ops onto the cores of a buda board: nlp, ribbon, cnn, "
            "optimal, ...; by default each kernel cuts its own. Also takes the values of --placement, except "
            "optimal.",
        ),
    )
    reuse: str | None = option(
        None,
        STORING,
        Flag(
            "reuse", "Sharing of memory by values: serial (least bytes), safe (no waits between queues), off."
        ),
    )
    order: str | Callable[..., Any] | None = option(
        None, STORING, Flag("order", "Your own order of nodes: package.module:function.")
    )
    packer: str | Callable[..., Any] | None = option(
        None, STORING, Flag("packer", "Your own memory packer: package.module:function.")
    )
    threads: int | None = option(
        None, RUNNING, Flag("threads", "Threads that one kernel may use.", form="number", least=1, most=256)
    )
    queues: str = option("inline", RUNNING)
    max_in_flight: int = option(MAX_IN_FLIGHT, RUNNING)
    unset_inputs: str = option("refuse", RUNNING)
    programs: int = option(64, FLOWS)
    most_steps: int = option(1_000_000, FLOWS)


def options_of(function: Callable[..., Any], options: Options | None, words: Mapping[str, Any]) -> Options:
    """``options`` changed by the ``words`` given to a function. Raises InputError for a word that its
    signature does not list."""
    known = signature(function).parameters if words else ()
    if unknown := [name for name in words if name not in known]:
        refuse_words(unknown, function)
    return Options.of(options, **words)
