"""Choice of a device and format for each node, for the least predicted time within the user's error bound:
``error_bound="pcc=0.999"``.

A node has several ways: a host in float32, a host with its weight in bf16, a simulated device in its format.
The error of a way is measured on the node alone, with exact inputs. A price, in ns per unit of that error,
turns time and error into one number, which the placement policy minimises; a lower price gives a faster and
coarser model. The price is found by bisection; each trial runs the whole model, and only choices that met the
bound in such a run are accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..artifacts.prepare import Prepared
from ..base import dtypes
from ..base.errors import InputError, PlanError, did_you_mean
from ..base.files.mapped import map_file
from ..base.machine.devices import Device, parse_list
from ..base.options import Options
from ..base.progress import Tell, silent
from ..ir.documents.params import Cursor
from ..ir.documents.tensor_files import read_npy
from ..ir.model import Model, Note
from ..plan.placing.causes import time_text
from ..plan.placing.problem import UNSUPPORTED
from .compare import given_inputs, judge
from .searching import Goal
from .side_by_side import latency
from .thresholds import AT_LEAST
from .ways import BoundProblem, FormatTrials, Trial, is_free

_FORMATS = ("f32", "bf16", "bfp8_b")  # storage formats tried on simulated devices by default
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
    """The result of prepare() for ``source`` with ``options.error_bound``. ``words``: further keyword
    arguments of prepare().

    Raises InputError for an invalid bound, PlanError if no tried choice meets it, and what prepare, create,
    interpret and run raise.
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
    """Storage formats of floats to try on simulated devices: each of _FORMATS that all of these devices
    support. Only {} if there are no simulated devices, or if the caller chose the format."""
    far = [d for d in asked.devices if not d.descriptor.on_host]
    left = [d for d in far if is_free(asked, d)]
    known = [fmt for fmt in _FORMATS if all(fmt in d.descriptor.formats for d in left)]
    return [{str(d): fmt for d in left} for fmt in known] if left and known else [{}]


def _array(source: Model, name: str, value: Any) -> np.ndarray:
    """An array in the dtype and shape of the input ``name``. ``value``: value of this input in bound_inputs,
    a .npy file or numbers."""
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
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise wrong(getattr(error, "strerror", None) or str(error), 0) from None
    return read_npy(Cursor(data, wrong))


# ---------------------------------------------------------------- errors and notes


def _missed(asked: BoundProblem, cases: Sequence[FormatTrials]) -> PlanError:
    """The error for a bound that even the most exact choice misses."""
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
    """The result to return: ``best`` with the caller's options, and with notes on the choice and its
    reasons."""
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
    """Notes on matrix products on hosts: those that run in bf16, and those that could, with the time saved
    and the error added."""
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
    """Notes on nodes that run on simulated devices, with their format."""
    case, graph = best.case, best.case.placement.graph
    notes = []
    for at, device in enumerate(case.asked.devices):
        if not device.descriptor.on_host:
            names = [graph.names[n] for n in np.flatnonzero((best.choice.did == at) & (graph.func_id >= 0))]
            fmt = case.formats.get(str(device), "the format asked for")
            if names:
                notes.append(Note(_RULE, f"{len(names)} nodes on {device} in {fmt}", tuple(names)))
    return notes
