"""The one way from a user's source to a plan: compile, run, plan, estimate, verify and inspect all take it.

    source --frontends--> Model --simplify, fuse--> Model --place, target--> Model, Placement --plan--> Plan

prepare() does all of it; what may not be rewritten goes to plan() at once.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import rewrite
from ..base.errors import DocumentError, InputError, PlanError
from ..base.machine.devices import Device, parse, parse_list
from ..base.progress import Tell, silent
from ..frontends import is_onnx
from ..ir.builder import GraphBuilder
from ..ir.documents.loader import load_graph
from ..ir.documents.params import read_params
from ..ir.graph import Graph
from ..ir.model import Constant, Model, Note
from ..plan import plan as make_plan
from ..plan.globs import EXACTLY, matching
from ..plan.placement import place as place_graph
from ..plan.types import Plan
from ..rewrite.choose_kernels import Measure
from ..rewrite.target import target

__all__ = ["Prepared", "prepare", "read_model"]

_POLICY = "mincut"
_PLACING = ("placement", "objective", "fallback", "device_map", "strict", "kernels")  # options that place


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model on its way to a run: ``source`` as it was imported, ``model`` after the rewrites, with the
    constants that the plan's graph wants, and the ``plan``."""

    source: Model
    model: Model
    plan: Plan

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the front-end and the rewrites did and why, in order."""
        return self.model.notes


def prepare(
    source: Any,
    devices: str | Device | Sequence[str | Device],
    *,
    params: Any = None,
    dims: Mapping[str, int] | None = None,
    fuse: bool | None = None,
    measure: Measure | None = None,
    tell: Tell = silent,
    **options: Any,
) -> Prepared:
    """Read a model, rewrite it for devices, and plan it.

    ``source``: a Model, a GraphBuilder, a Graph, JSON text or bytes, or the path of an ONNX file or a
    graph.json. ``params``: values of inputs that are constants from then on, what read_params takes.
    ``dims``: {symbolic dimension: size} of an ONNX file. ``fuse``: whether rewrites may change nodes; by
    default those of an ONNX file or a Model, not those of a graph.json, a Graph or a GraphBuilder, which say
    how they want to be run. ``measure`` times the kernels of ops that have several (tuning.Tuner); by default
    a rule chooses. ``tell`` hears of steps that take long. ``options``: as plan.plan's; what may be
    rewritten is placed by the policy mincut where there are several devices, and neither ``place`` nor
    ``placement`` says otherwise.

    Raises what the front-end, the rewrites and plan raise: DocumentError, GraphError, UnsupportedOpError,
    PlanError, DeviceError, InputError.
    """
    imported = _with_params(read_model(source, dims, tell), params)
    fuse = isinstance(source, Model) or is_onnx(source) if fuse is None else fuse
    model, place = imported, options.get("place") or {}
    if fuse:
        model = _rewritten(imported, devices, place, tell)
        options["place"] = _pins(model, place)
        if not place and options.get("placement") is None and len(parse_list(devices)) > 1:
            options["placement"] = _POLICY
    options["inputs"] = model.input_names if model.constants else ()
    if fuse:
        tell("placing", 0, 0)
        model, options = _targeted(model, devices, options, measure)
    tell("planning", 0, 0)
    return Prepared(imported, model, make_plan(model.graph, devices, **options))


# **************** rewriting ****************


def _rewritten(
    model: Model,
    devices: str | Device | Sequence[str | Device],
    place: Mapping[str, str | Device],
    tell: Tell,
) -> Model:
    tell("simplifying", 0, 0)
    simple = rewrite.simplify(model, devices, place)
    tell("fusing", 0, 0)
    return rewrite.fuse(simple, devices)


def _targeted(
    model: Model,
    devices: str | Device | Sequence[str | Device],
    options: Mapping[str, Any],
    measure: Measure | None,
) -> tuple[Model, dict[str, Any]]:
    """The model as the devices that its nodes were placed on want it, and the options that are left to plan,
    the ready placement among them."""
    placing = {name: options[name] for name in _PLACING if name in options}
    placement = place_graph(
        model.graph,
        devices,
        pins=options["place"],
        inputs=options["inputs"],
        formats=options.get("formats"),
        constants=model.constants,
        **placing,
    )
    model, placement = target(model, placement, measure)
    rest = {name: value for name, value in options.items() if name not in ("place", *_PLACING)}
    return model, {**rest, "placement": placement}


def _pins(model: Model, place: Mapping[str, str | Device]) -> dict[str, str | Device]:
    """The caller's pins that still name something, and by their names the nodes that stand for pinned ones
    and are not named by them any more."""
    kept, named = {}, {}
    for pin, device in place.items():
        with contextlib.suppress(PlanError):  # all that it named has become part of other nodes
            hits = np.flatnonzero(matching(model.graph, pin, "pin"))
            kept[pin] = device
            named |= dict.fromkeys((model.graph.names[nid] for nid in hits.tolist()), str(parse(device)))
    return {
        **kept,
        **{EXACTLY + name: device for name, device in model.pins.items() if named.get(name) != device},
    }


# **************** reading ****************


def read_model(
    source: Any, dims: Mapping[str, int] | None = None, tell: Tell = silent, batch: int | None = None
) -> Model:
    """The Model of a source, as prepare takes it. ``batch``: first dimension of an ONNX file's inputs."""
    if is_onnx(source):
        from ..frontends.onnx import load_model

        tell("importing", 0, 0)
        try:
            return load_model(source, dims=dims or {}, batch=batch)
        except DocumentError as error:
            raise DocumentError(f"{source}: {error}", **error.fields) from None
    if dims:
        raise InputError(
            f"dims {dict(dims)} bind symbolic dimensions of an ONNX file; this graph has none", got=dict(dims)
        )
    if batch:
        raise InputError(
            f"a batch of {batch} needs an ONNX file; a graph has the sizes it was written with", got=batch
        )
    if isinstance(source, Model):
        return source
    if isinstance(source, GraphBuilder):
        return Model.from_builder(source)
    return Model(source if isinstance(source, Graph) else load_graph(source))


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
