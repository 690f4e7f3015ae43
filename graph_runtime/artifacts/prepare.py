"""The one way from a user's source to a plan, used by create(), build_bundle() and every command.

    source --frontends--> Model --simplify, fuse--> Model --place, target--> Model, Placement --plan--> Plan

prepare() does all steps, and decides options left open: whether nodes are rewritten and kernels compiled, the
placement policy, and how memory is shared.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..base.errors import CheckError, InputError, PlanError
from ..base.files.mapped import as_path, open_file
from ..base.machine.devices import Device, parse, parse_list
from ..base.machine.isa import host_features
from ..base.option_words import takes_words
from ..base.options import Options
from ..base.progress import Tell, silent
from ..base.providers import provided
from ..ir.documents import params
from ..ir.model import Constant, Model, Note
from ..ir.ops.registry import from_outside
from ..plan.globs import EXACTLY, matching
from ..plan.storage.offsets import Packer
from ..plan.types import SAFE, SERIAL, Placement, Plan, Supplies
from .door import Plannable, open_model

if TYPE_CHECKING:
    from ..base.options import Words
    from ..rewrite.formats.pack_weights import Measure
    from .bundles.bundle import Bundle

_POLICY = "mincut"
Bytes = bytes | bytearray | memoryview
_OF_NODES = ("formats", "layouts", "numerics", "policy")  # options for arithmetic and storage of nodes


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model ready for a run. ``source``: the model as imported; ``model``: the model after the rewrites,
    with the constants that the plan's graph needs; ``plan``: the model's plan; ``options``: the options that
    made the plan, with all decisions. ``compiles``: whether C will be generated and compiled for nodes whose
    installed kernels are slower. ``of_tensors``: the options for the arithmetic of nodes, without the formats
    of hosts' weights, which are already in the model."""

    source: Model
    model: Model
    plan: Plan
    options: Options
    compiles: bool = False
    of_tensors: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Changes by the front-end and the rewrites with their reasons, in order."""
        return self.model.notes


@takes_words()
def prepare(
    source: Any,
    devices: str | Device | Sequence[str | Device] | None = None,
    options: Options | None = None,
    *,
    params: Any = None,
    libraries: Sequence[Any] | None = None,
    kept: bool = False,
    measure: Measure | None = None,
    tell: Tell = silent,
    **words: Unpack[Words],
) -> Prepared:
    """Read a model, rewrite it for devices if allowed, and plan it.

    ``source``: as in open_source, but not a bundle; its own devices, params and libraries are used if none
    are given here. A Plan stays unchanged. ``words``: fields that replace those of ``options``. ``params``:
    values of inputs that become constants, as read_params takes them. ``libraries``: LibraryFiles with
    further kernels. ``kept``: whether the plan will be stored; if so, memory is packed thoroughly, and runs
    on several devices may be queued. ``measure``: tuner that times the kernels of ops that have several
    (tuning.Tuner); by default a rule chooses the kernel. ``tell``: function that is called during steps that
    take long.

    With ``options.error_bound`` the model is run as often as needed to meet it (accuracy/bounding.py).

    Raises what the front-end, the rewrites and plan raise: DocumentError, GraphError, UnsupportedOpError,
    PlanError, DeviceError, InputError.
    """
    if words or not isinstance(options, Options):
        options = Options.of(options, **words)
    opened = open_model(source, options, tell)
    devices = opened.devices if devices is None else devices
    libraries = opened.libraries if libraries is None else libraries
    given = opened.values if params is None and opened.plan is None else params
    imported = _with_params(opened.model, given)
    options = _decided(opened, devices, options, kept)
    compiles = _compiles(opened, options)
    if options.error_bound is not None and opened.plan is None:
        found: Prepared = provided("error bound")(
            imported, devices, options, libraries, kept=kept, measure=measure, tell=tell
        )
        return replace(found, compiles=compiles)
    if opened.plan is not None:
        return Prepared(imported, imported, opened.plan, options, compiles, _of_tensors(options))
    from ..binding import packing, tiles  # plans read from a bundle need neither
    from ..plan.passes import plan as make_plan

    supplies = _supplies(libraries, packing.pack_thoroughly if kept else packing.pack)
    placement = None
    model, asked = imported, options
    if options.fuse:
        from ..rewrite.formats.store_weights import split_formats, split_layouts
        from ..rewrite.target import target

        weights, tensors = split_formats(parse_list(devices), options.formats)
        asked = replace(options, formats=tensors)
        model, placement = _rewritten(imported, devices, asked, supplies.kernels, weights, tell)
        stored, layouts = split_layouts(placement, weights, options.layouts)
        fast, paired = tiles.tile_products(), "avx512_bf16" in (host_features() or ())
        model, placement = target(model, placement, measure, stored, fast, paired)
        asked = replace(asked, place={}, layouts=layouts)  # other placements and formats are in the model now
    tell("planning", 0, 0)
    try:
        planned = make_plan(
            model.graph, devices, asked, placed=placement, inputs=_set_inputs(model), supplies=supplies
        )
    except CheckError as error:
        if getattr(error, "rule", None) != "alias" or not imported.offers:
            raise
        graph = model.graph
        model = replace(model, graph=replace(graph, hints=replace(graph.hints, aliases=())))
        planned = make_plan(model.graph, devices, asked, inputs=_set_inputs(model), supplies=supplies)
    return Prepared(imported, model, _with_circular(planned), options, compiles, _of_tensors(asked))


def _supplies(libraries: Sequence[Any], packer: Packer) -> Supplies:
    if not libraries:
        return Supplies(packer=packer)
    from .libraries.judge import inplace_rules, library_kernels

    return Supplies(library_kernels(libraries), inplace_rules(libraries), packer)


def _with_circular(planned: Plan) -> Plan:
    """The plan with the circular buffers of each node, placed in the room left in L1."""
    if not any(device.circular_cores for device in planned.devices):
        return replace(planned, circular=np.zeros(planned.graph.num_nodes, np.int64))
    from ..binding import circular

    return circular.planned(planned)


def _of_tensors(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in _OF_NODES}


def _decided(
    opened: Plannable, devices: str | Device | Sequence[str | Device], options: Options, kept: bool
) -> Options:
    """The options, with a decision for each field that is None because it depends on the source, and with the
    model's dims."""
    rewritable = opened.rewritable or bool(options.rules) if options.fuse is None else options.fuse
    if options.error_bound is not None and not rewritable and opened.plan is None:
        raise InputError(
            f"error_bound={options.error_bound!r} chooses formats while a model is rewritten, and this is "
            "run as it is written: give fuse=True (--fuse)",
            got=options.error_bound,
        )
    if options.rules and not rewritable:
        text = "rules rewrite nodes, and fuse=False says that none may be: leave one of the two out"
        raise InputError(text)
    several = len(parse_list(devices)) > 1
    by_cost = rewritable and several and not options.place and options.placement is None
    return replace(
        options,
        dims=opened.model.dims or options.dims,
        compile=True if opened.rebuilt else options.compile,
        fuse=rewritable,
        placement=_POLICY if by_cost else options.placement,
        reuse=options.reuse or (SAFE if options.queues == "threads" or (kept and several) else SERIAL),
    )


def _compiles(opened: Plannable, options: Options) -> bool:
    """Whether C will be compiled. If the options do not decide: yes if nodes may be rewritten, or if the body
    of an op is in another package."""
    if options.compile is not None:
        return options.compile
    if options.fuse or opened.rewritable:
        return True
    return any(from_outside(f.op or "") for f in opened.graph.funcs)


# **************** rewriting ****************


def _rewritten(
    model: Model,
    devices: str | Device | Sequence[str | Device],
    options: Options,
    kernels: Mapping[str, Collection[str]],
    weights: Mapping[str, str],
    tell: Tell,
) -> tuple[Model, Placement]:
    """The model, simplified and fused, and the placement of its nodes. ``weights`` {host: format of the
    weights of the host's products}."""
    from .. import rewrite  # loaded only if nodes may be rewritten
    from ..plan.passes import place

    tell("simplifying", 0, 0)
    model = rewrite.simplify(model, devices, options.place)
    model = rewrite.rewrite(model, [rewrite.find_rule(rule) for rule in options.rules], devices)
    tell("fusing", 0, 0)
    model = rewrite.fuse(model, devices)
    tell("placing", 0, 0)
    return model, place(
        model.graph,
        devices,
        options,
        pins=_pins(model, options.place),
        inputs=_set_inputs(model),
        kernels=kernels,
        constants=model.constants,
        weights=weights,
    )


def _set_inputs(model: Model) -> Sequence[str]:
    """Names of the inputs that every run sets anew; () if they are not known."""
    return model.input_names if model.constants else ()


def _pins(model: Model, place: Mapping[str, str | Device]) -> dict[str, str | Device]:
    """The caller's pins that still match a node, and a pin by name for each node that replaces a pinned node
    and that these pins would not put on the same device."""
    kept: dict[str, str | Device] = {}
    named: dict[str, str] = {}
    for pin, device in place.items():
        with contextlib.suppress(PlanError):  # the nodes that the pin matched are now parts of other nodes
            hits = np.flatnonzero(matching(model.graph, pin, "pin"))
            kept[pin] = device
            named |= dict.fromkeys((model.graph.names[nid] for nid in hits.tolist()), str(parse(device)))
    moved = {EXACTLY + name: device for name, device in model.pins.items() if named.get(name) != device}
    return {**kept, **moved}


def _with_params(model: Model, params: Any) -> Model:
    """The model with ``params`` as constants in place of inputs."""
    if params is None:
        return model
    given = read_params(params)
    there = [key for key in model.graph.input_names if key in given]
    known = {key: Constant.of(given[key], f"parameter {key}") for key in there}
    if skipped := [key for key in given if key not in known]:
        names = ", ".join(skipped[:10]) + (" ..." if len(skipped) > 10 else "")
        warnings.warn(f"parameters that the graph has no inputs for were left out: {names}", stacklevel=4)
    return replace(model, constants={**model.constants, **known})


# **************** parameters of files and of bundles ****************

# A bundle's file holds raw values, described only by bundle.json; all other files are read by
# ir/documents/params.py.


def read_params(source: Bytes | str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Parameters by name, from TVM's binary (bytes or a path), ``.npz``, ``.safetensors``, a bundle or the
    parameter file in its folder (paths), or a mapping, which is returned unchanged.

    Parameters of a bundle have the names of their inputs; if two programs have different parameters of one
    name, that name is for the parameter of the first program; the name of the other parameter is its key in
    bundle.json.

    Arrays of a file are read-only views of the mapped file (compressed ``.npz`` members: copies). Raises
    ParamsError, with ``offset`` in bytes, for data that is truncated, malformed or of a dtype without an
    array form; DocumentError for an unreadable bundle.
    """
    if not isinstance(source, Mapping | Bytes):
        path = as_path(source, "a parameter file")
        bundle = bundle_of(path) if _may_be_raw(path) else None
        if bundle is not None:
            return _parameters(bundle)
        if path.suffix in params.MARKED:
            from ..ir.documents.tensor_files import read_marked  # most parameters are in other files

            return read_marked(path)
    return params.read_params(source)


load_params = read_params  # TVM's name of this function


def _may_be_raw(path: Path) -> bool:
    """Whether neither the file's name nor its first bytes tell its format."""
    if path.suffix in params.MARKED or path.is_dir():
        return path.suffix not in params.MARKED
    try:
        with open_file(path) as file:
            return file.read(len(params.MAGIC)) != params.MAGIC
    except (OSError, ValueError):  # the reader of files raises the error
        return False


def bundle_of(path: Path) -> Bundle | None:
    """The bundle that a path names: its folder, its zip, or the parameter file inside of its folder; None for
    any other path. Raises DocumentError for an unreadable bundle."""
    from .bundles.bundle import read_bundle  # most parameters are in other files
    from .bundles.files import INDEX

    if path.is_dir() or (path.is_file() and _is_zip(path)):
        return read_bundle(path)
    if not (path.is_file() and (path.parent / INDEX).is_file()):
        return None
    found = read_bundle(path.parent)
    return found if found.params_file == path.name else None


def _is_zip(path: Path) -> bool:
    from zipfile import is_zipfile  # few parameters are in a zip

    with open_file(path) as file:
        return file.read(4) == b"PK\x03\x04" and is_zipfile(file)


def _parameters(bundle: Bundle) -> dict[str, np.ndarray]:
    from ..ir.documents.weights import map_values  # few parameters are in a bundle

    names: dict[str, str] = {}
    for program in bundle.programs:
        for name, key in program.params.items():
            if key in bundle.slots:
                names.setdefault(name, key)
    named = set(names.values())
    names |= {key: key for key in bundle.slots if key not in named and key not in names}
    if not names or bundle.params_file is None:
        return {}
    found, _ = map_values(*bundle.member(bundle.params_file), bundle.slots, set(names.values()))
    for array in found.values():
        array.flags.writeable = False
    return {name: found[key] for name, key in names.items()}
