"""Options: how a model is prepared, planned and run, in one value that goes from the caller to the session.

create(), prepare(), plan(), build_bundle() and the commands take it, or its fields as keywords. A bundle
keeps it, and ``graph-runtime plan`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from .errors import InputError, no_such

__all__ = ["MAX_IN_FLIGHT", "Options"]

MAX_IN_FLIGHT = 8
_EXAMPLES = {
    "place": "{'conv*': 'tt:0'}",
    "device_map": "{'2': 'tt:0'}",
    "formats": "{'tt': 'bf16'}",
    "layouts": "{'conv*': 'l1'}",
    "numerics": "{'tt': {'fidelity': 'HiFi2'}}",
    "dims": "{'batch': 4}",
    "values": "{'sr': 16000}",
    "bound_inputs": "{'x': array}",
}
_NONE: Mapping[Any, Any] = MappingProxyType({})


def _mapping() -> Any:
    return field(default_factory=lambda: _NONE)


@dataclass(frozen=True, kw_only=True)
class Options:
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
    whose end a run finds.
    """

    dims: Mapping[str, int | tuple[int, ...]] = _mapping()
    batch: int | None = None
    values: Mapping[str, Any] = _mapping()
    fuse: bool | None = None
    compile: bool | None = None
    rules: tuple[str | Callable[..., Any], ...] = ()
    place: Mapping[str, Any] = _mapping()
    device_map: Mapping[str, Any] = _mapping()
    strict: bool = False
    placement: str | Callable[..., Any] | None = None
    objective: str = "serial"
    fallback: str = "error"
    costs: Any = None
    topology: Any = None
    interconnect: Any = None
    stream: tuple[str, ...] = ()
    error_bound: str | None = None
    bound_inputs: Mapping[str, Any] = _mapping()
    formats: Mapping[str, str] = _mapping()
    layouts: Mapping[str, str] = _mapping()
    numerics: Mapping[str, Mapping[str, str]] = _mapping()
    policy: str | None = None
    reuse: str | None = None
    order: str | Callable[..., Any] | None = None
    packer: str | Callable[..., Any] | None = None
    threads: int | None = None
    queues: str = "inline"
    max_in_flight: int = MAX_IN_FLIGHT
    unset_inputs: str = "refuse"
    programs: int = 64
    most_steps: int = 1_000_000

    def __new__(cls, *args: Any, **words: Any) -> Options:
        """Refuses names that are no fields, as of() does."""
        for name in words.keys() - set(_FIELDS):
            raise InputError(no_such("option", name, _FIELDS), got=name, wanted=list(_FIELDS))
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name in _EXAMPLES:
            value = getattr(self, name)
            _require_mapping(name, value, _EXAMPLES[name])
            object.__setattr__(self, name, MappingProxyType(dict(value)))
        for name in ("values", "bound_inputs"):
            plain = {key: _listed(value) for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, MappingProxyType(plain))
        if isinstance(self.rules, str) or not isinstance(self.rules, Sequence):
            text = (
                f"rules is a list of functions, or of names as 'package.module:function'; got {self.rules!r}"
            )
            raise InputError(text, got=type(self.rules).__name__)
        object.__setattr__(self, "rules", tuple(self.rules))
        if isinstance(self.stream, str) or not all(isinstance(glob, str) for glob in self.stream):
            text = f"stream is a list of globs over inputs, as ['w*'] or ['auto']; got {self.stream!r}"
            raise InputError(text, got=type(self.stream).__name__)
        object.__setattr__(self, "stream", tuple(self.stream))
        for device, words in self.numerics.items():
            _require_mapping(f"numerics of {device}", words, "{'fidelity': 'HiFi2'}")

    @classmethod
    def of(cls, options: Options | None = None, /, **words: Any) -> Options:
        """``options``, or the defaults, with the fields that ``words`` names; one that is None stays as it
        was. Raises InputError for a word that is no field."""
        if options is not None and not isinstance(options, Options):
            text = f"options is a gr.Options, got {type(options).__name__}: give its fields as keywords"
            raise InputError(text, got=type(options).__name__)
        for name in words:
            if name not in _FIELDS:
                raise InputError(no_such("option", name, _FIELDS), got=name, wanted=list(_FIELDS))
        given = {name: value for name, value in words.items() if value is not None}
        return replace(options or cls(), **given)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Options:
        """What as_json() gave. Raises InputError for a name that is no field, and for a mapping that is
        none."""
        return cls.of(None, **raw)

    def as_json(self) -> dict[str, Any]:
        """The fields that are not the default, as JSON has them. A function is named "module:function"."""
        default = Options()
        return {
            name: _plain(getattr(self, name))
            for name in _FIELDS
            if getattr(self, name) != getattr(default, name)
        }


_FIELDS = tuple(one.name for one in fields(Options))


def _listed(value: Any) -> Any:
    """An array as lists, which compare and are JSON."""
    return value.tolist() if hasattr(value, "tolist") else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}" if callable(value) or _is_model(value) else str(value)


def _is_model(value: Any) -> bool:
    """Whether it is an object of the field ``costs``, named by its class."""
    return hasattr(value, "dispatch") and hasattr(value, "copy")


def _require_mapping(name: str, value: object, example: str) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is a mapping, as {example}; got {value!r}", got=type(value).__name__)
