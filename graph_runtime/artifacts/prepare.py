"""The one way from a user's source to a plan: create(), build_bundle() and every command take it.

    source --frontends--> Model --simplify, fuse--> Model --place, target--> Model, Placement --plan--> Plan

prepare() does all of it, and decides what its caller left open: whether nodes are rewritten and kernels
compiled, by what policy they are placed, and how memory is shared.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..base.errors import CheckError, InputError, PlanError
from ..base.machine.devices import Device, parse, parse_list
from ..base.machine.isa import host_features
from ..base.option_words import takes_words
from ..base.options import Options
from ..base.progress import Tell, silent
from ..base.providers import provided
from ..ir.model import Constant, Model, Note
from ..ir.ops.registry import from_outside
from ..plan.globs import EXACTLY, matching
from ..plan.types import SAFE, SERIAL, Placement, Plan, Supplies
from .door import open_model
from .libraries.offered import inplace_rules, library_kernels
from .parameters import read_params
from .plannable import Plannable

if TYPE_CHECKING:
    from ..base.options import Words
    from ..rewrite.host.choose_kernels import Measure

__all__ = ["Prepared", "prepare"]

_POLICY = "mincut"
_OF_NODES = ("formats", "layouts", "numerics", "policy")  # options that say how nodes compute


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model on its way to a run: ``source`` as it was imported, ``model`` after the rewrites, with the
    constants that the plan's graph wants, the ``plan``, and the ``options`` that led there: what the caller
    left open is decided in them. ``compiles``: whether C is to be generated and compiled for kernels that the
    installed ones do more slowly. ``of_tensors``: the options' words of how nodes compute, without those of
    hosts' weights, which are in the model by then."""

    source: Model
    model: Model
    plan: Plan
    options: Options
    compiles: bool = False
    of_tensors: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the front-end and the rewrites did and why, in order."""
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
    """Read a model, rewrite it for devices where it may be, and plan it.

    ``source``: as open_source takes it, but no bundle; what is opened brings devices, params and libraries
    that are not given here. A Plan stays as it is. ``words``: fields of ``options``, which come first.
    ``params``: values of inputs that are constants from then on, what read_params takes. ``libraries``:
    LibraryFiles whose kernels there will be, too. ``kept``: the plan will be written down: memory is packed
    thoroughly, and runs on several devices may be queued. ``measure`` times the kernels of ops that have
    several (tuning.Tuner); by default a rule chooses. ``tell`` hears of steps that take long.

    With ``options.error_bound`` the model is run as often as it takes to keep to it
    (accuracy/bounding.py).

    Raises what the front-end, the rewrites and plan raise: DocumentError, GraphError, UnsupportedOpError,
    PlanError, DeviceError, InputError.
    """
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
    from ..binding import circular, packing, tiles  # what is read from a bundle is planned
    from ..plan import plan as make_plan

    supplies = Supplies(
        library_kernels(libraries),
        inplace_rules(libraries),
        packing.pack_thoroughly if kept else packing.pack,
        circular.of_plan,
    )
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
        asked = replace(asked, place={}, layouts=layouts)  # the rest has been followed
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
    return Prepared(imported, model, planned, options, compiles, _of_tensors(asked))


def _of_tensors(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in _OF_NODES}


def _decided(
    opened: Plannable,
    devices: str | Device | Sequence[str | Device],
    options: Options,
    kept: bool,
) -> Options:
    """The options, with a decision in place of each None that means "as the source is"; dims as they were
    bound."""
    rewritable = opened.rewritable or bool(options.rules) if options.fuse is None else options.fuse
    if options.error_bound is not None and not rewritable and opened.plan is None:
        raise InputError(
            f"error_bound={options.error_bound!r} chooses formats while a model is rewritten, and this is "
            "run as it is written: give fuse=True (--fuse)",
            got=options.error_bound,
        )
    if options.rules and not rewritable:
        raise InputError(
            "rules rewrite nodes, and fuse=False says that none may be: leave one of the two out"
        )
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
    """Whether C is to be compiled: as the options say, else where nodes may be rewritten, and for ops whose
    bodies are another package's."""
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
    """The model, simplified and fused, and where its nodes are placed. ``weights``: host -> format of the
    weights of its products."""
    from .. import rewrite  # rewrites are loaded where nodes may be rewritten only
    from ..plan import placement as placing

    tell("simplifying", 0, 0)
    model = rewrite.simplify(model, devices, options.place)
    model = rewrite.rewrite(model, [rewrite.find_rule(rule) for rule in options.rules], devices)
    tell("fusing", 0, 0)
    model = rewrite.fuse(model, devices)
    tell("placing", 0, 0)
    return model, placing.place(
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
    """The inputs that every run sets anew, as far as that is known."""
    return model.input_names if model.constants else ()


def _pins(model: Model, place: Mapping[str, str | Device]) -> dict[str, str | Device]:
    """The caller's pins that still name something, and by their names the nodes that stand for pinned ones
    and are not named by them any more."""
    kept: dict[str, str | Device] = {}
    named: dict[str, str] = {}
    for pin, device in place.items():
        with contextlib.suppress(PlanError):  # all that it named has become part of other nodes
            hits = np.flatnonzero(matching(model.graph, pin, "pin"))
            kept[pin] = device
            named |= dict.fromkeys((model.graph.names[nid] for nid in hits.tolist()), str(parse(device)))
    return {
        **kept,
        **{EXACTLY + name: device for name, device in model.pins.items() if named.get(name) != device},
    }


def _with_params(model: Model, params: Any) -> Model:
    """The model with more of its inputs constant."""
    if params is None:
        return model
    given = read_params(params)
    known = {
        key: Constant.of(given[key], f"parameter {key}") for key in model.graph.input_names if key in given
    }
    if skipped := [key for key in given if key not in known]:
        names = ", ".join(skipped[:10]) + (" ..." if len(skipped) > 10 else "")
        warnings.warn(f"parameters that the graph has no inputs for were left out: {names}", stacklevel=4)
    return replace(model, constants={**model.constants, **known})
