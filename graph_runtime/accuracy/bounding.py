"""Devices and formats of nodes for the least predicted time, within an error that the user gives:
``error_bound="pcc=0.999"``.

A node has several ways: a host in float32, a host with its weight in bf16, a simulated device in its
format. What a way costs in exactness is measured on the node alone, given right values. A price, ns for a
unit of that error, makes one number of time and error, and the placement policy makes it least; a lower price
gives a faster and coarser model. The price is bisected, each trial is a run of the whole model, and only what
a run has proved is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..artifacts.prepare import Prepared
from ..base import dtypes
from ..base.cursor import Cursor
from ..base.errors import (
    InputError,
    PlanError,
    did_you_mean,
)
from ..base.files.mapped import map_file
from ..base.machine.devices import Device, parse_list
from ..base.options import Options
from ..base.progress import Tell, silent
from ..ir.documents.tensor_files import read_npy
from ..ir.model import Model, Note
from ..plan.placing.causes import time_text
from ..plan.placing.problem import UNSUPPORTED
from .compare import given_inputs, judge
from .searching import Goal
from .side_by_side import latency
from .thresholds import AT_LEAST
from .ways import BoundProblem, FormatTrials, Trial, is_free

__all__ = ["bounded"]

_FORMATS = ("f32", "bf16", "bfp8_b")  # of simulated devices, where the caller names none
_RULE = "error_bound"


def bounded(
    source: Model,
    devices: str | Device | Sequence[str | Device],
    options: Options,
    libraries: Sequence[Any] = (),
    *,
    tell: Tell = silent,
    **words: Any,
) -> Prepared:
    """What prepare() makes of ``source`` with ``options.error_bound``. ``words``: others of prepare's.

    Raises InputError for what is no bound, PlanError where no way that was tried keeps to it, and what
    prepare, create, interpret and run raise.
    """
    goal = Goal.of(options.error_bound or "")
    given = given_inputs(source, {name: _array(source, name, v) for name, v in options.bound_inputs.items()})
    plain = replace(options, error_bound=None, bound_inputs={})
    asked = BoundProblem(
        source, parse_list(devices), plain, given, judge(source, given), libraries, goal, words
    )
    cases = [FormatTrials(asked, formats) for formats in _far_formats(asked)]
    found, runs = list[Trial](), 0
    for case in sorted(cases, key=lambda one: one.fastest_ns):
        least = min((one.latency_ns for one in found), default=UNSUPPORTED)
        if case.fastest_ns < least:
            met, spent = case.search(least, tell)
            found, runs = found + met, runs + spent
    if not found:
        raise _missed(asked, cases)
    best = min(found, key=lambda one: one.latency_ns)
    return _said(best, asked, options, runs)


def _far_formats(asked: BoundProblem) -> list[dict[str, str]]:
    """What simulated devices may store floats in: {} where there are none or the caller says it, else one of
    _FORMATS that all of them have."""
    far = [d for d in asked.devices if not d.descriptor.on_host]
    left = [d for d in far if is_free(asked, d)]
    known = [fmt for fmt in _FORMATS if all(fmt in d.descriptor.formats for d in left)]
    return [{str(d): fmt for d in left} for fmt in known] if left and known else [{}]


def _array(source: Model, name: str, value: Any) -> np.ndarray:
    """A value of bound_inputs, a .npy file or numbers, as the input wants it."""
    graph = source.graph
    if name not in graph.input_names:
        text = f"bound_inputs: the model has no input {name!r}{did_you_mean(name, graph.input_names)}"
        raise InputError(text, got=name)
    type_ = graph.entry_type(graph.input_eids[graph.input_names.index(name)])
    if isinstance(value, str):
        value = _from_file(value, name)
    array = np.asarray(value, dtypes.to_numpy(type_.dtype))
    if array.shape != type_.shape:
        text = f"bound_inputs: input {name!r} is {type_}, got {list(array.shape)}"
        raise InputError(text, got=array.shape, wanted=type_.shape)
    return array


def _from_file(path: str, name: str) -> np.ndarray:
    def wrong(message: str, offset: int) -> InputError:
        text = f"bound_inputs: {name}: cannot read {path}: {message} (byte {offset}); it takes a .npy file"
        return InputError(text, got=path)

    try:
        data = map_file(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise wrong(getattr(error, "strerror", None) or str(error), 0) from None
    return read_npy(Cursor(data, wrong))


# ---------------------------------------------------------------- what is said


def _missed(asked: BoundProblem, cases: Sequence[FormatTrials]) -> PlanError:
    """That even where errors count most the bound is missed."""
    goal, values = asked.goal, list[float]()
    for case in cases:
        prepared = case.prepared(case.exact)
        values.append(goal.worst(asked.outputs(prepared)))
    nearest = (max if goal.measure in AT_LEAST else min)(values)
    return PlanError(
        f"error bound {goal!s}: the most exact placement on these devices has "
        f"{goal.measure}={nearest:.6g}; loosen the bound, or put cpu:0 into the list of devices",
        got=str(goal),
        wanted=nearest,
    )


def _said(best: Trial, asked: BoundProblem, options: Options, runs: int) -> Prepared:
    """What is handed out: the caller's options, and notes that say what was chosen and why."""
    case, goal, prepared = best.case, asked.goal, best.prepared
    given = "given" if options.bound_inputs else "random"
    exact = case.prepared(case.exact)
    plain = latency(exact, list(asked.given))
    text = (
        f"{goal!s}: {goal.measure} is {best.value:.6g} in a run on {given} inputs, "
        f"{time_text(best.latency_ns)} predicted where the most exact placement takes {time_text(plain)}; "
        f"{runs} runs"
    )
    notes = [Note(_RULE, text), *_of_weights(best), *_of_devices(best)]
    model = replace(prepared.model, notes=(*prepared.model.notes, *notes))
    kept = replace(options, bound_inputs={}, formats={**options.formats, **case.formats})
    return replace(prepared, model=model, options=kept)


def _of_weights(best: Trial) -> list[Note]:
    """Which products on hosts are in bf16 and which could be, with what that saves and costs."""
    case, stored = best.case, set(best.choice.stored)
    graph, did = case.placement.graph, best.choice.did
    found: dict[bool, list[str]] = {True: [], False: []}
    sums = {True: [0, 0.0], False: [0, 0.0]}
    for nid in np.flatnonzero((case.stored.cost < case.plain.cost).any(1)).tolist():
        saved = int(case.plain.cost[nid, did[nid]] - case.stored.cost[nid, did[nid]])
        if saved > 0:
            here = graph.names[nid] in stored
            found[here].append(graph.names[nid])
            sums[here][0] += saved
            sums[here][1] = max(sums[here][1], float(case.errors[1, nid, did[nid]]))
    words = {True: "products on hosts in bf16: saves", False: "products on hosts stay f32: bf16 would save"}
    return [
        Note(
            _RULE,
            f"{len(names)} {words[here]} {time_text(int(sums[here][0]))}, nmse of a node alone up to "
            f"{sums[here][1]:.1e}",
            tuple(names),
        )
        for here, names in found.items()
        if names
    ]


def _of_devices(best: Trial) -> list[Note]:
    """Which nodes run on simulated devices, in which format."""
    case, graph = best.case, best.case.placement.graph
    notes = []
    for at, device in enumerate(case.asked.devices):
        if not device.descriptor.on_host:
            names = [graph.names[n] for n in np.flatnonzero((best.choice.did == at) & (graph.func_id >= 0))]
            fmt = case.formats.get(str(device), "the format asked for")
            if names:
                notes.append(Note(_RULE, f"{len(names)} nodes on {device} in {fmt}", tuple(names)))
    return notes
