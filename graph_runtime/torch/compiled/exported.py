"""Bundles of torch's exported programs, which run without torch.

export(torch.export.export(model.cpu().eval(), (x,)), "model.bundle", devices=("tt:0", "cpu:0"))
export(exported_program, "model.bundle", sizes={"batch": [1, 8, 32]})      with dynamic sizes
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from ...base.errors import InputError, UnsupportedOpError
from ...base.machine.devices import Device, parse, parse_list
from ...base.options import Options
from ...ir.model import Model
from ...run.flows.saving import flow_of_models, save_flow
from ..counters import Unsupported
from ..decomposed.decompositions import table
from ..kinds import values_of
from ..magnitudes import ANY, MOST, bound_of
from .dims import Dims
from .graphs import lower
from .ranges import Ranges

_KIND = torch.export.graph_signature.InputKind


def to_model(
    program: torch.export.ExportedProgram,
    device: str | Device = "cpu:0",
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """The Model of an exported program: its parameters are constants, and its inputs have the names of
    forward()'s arguments. 64-bit integers are int64 on a CPU; for tt they are int32 if they are proven to
    fit, else int64 on the host. ``sizes``: {name of the Dim of a dynamic dimension: its size}.

    Raises InputError for anything but an exported program, for an exported program that changes its buffers
    (a model in training), and for sizes outside of its ranges; UnsupportedOpError if an operation cannot be
    lowered.
    """
    return _model_at(_decomposed(program), str(device), sizes)


def _model_at(
    exported: torch.export.ExportedProgram, device: str, sizes: Mapping[str, int] | None = None
) -> Model:
    """The Model of a decomposed exported program."""
    dims = Dims.of(exported)
    if dims is None and sizes:
        raise InputError(f"the exported program has no dynamic sizes, got {dict(sizes)}", got=dict(sizes))
    chosen = {} if dims is None else dims.complete(sizes or {})
    if dims is None:
        values = [n.meta["val"] for n in exported.graph_module.graph.nodes if n.op == "placeholder"]
    else:
        values = dims.arguments_at(chosen)
    return _model(exported, device, values, _whole(exported, device, chosen))


def _decomposed(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    if not isinstance(exported, torch.export.ExportedProgram):
        text = f"export takes what torch.export.export(model, args) gives, got {type(exported).__name__}"
        raise InputError(text, got=type(exported).__name__)
    exported = exported.run_decompositions(table())
    if exported.graph_signature.buffers_to_mutate:
        changed = ", ".join(exported.graph_signature.buffers_to_mutate.values())
        raise InputError(
            f"the exported program changes its buffers ({changed}): call model.eval() before "
            "torch.export.export",
            got=changed,
        )
    return exported


def _whole(exported: torch.export.ExportedProgram, device: str, sizes: Mapping[str, int]) -> Set[Node]:
    """The nodes, including arguments, whose 64-bit integers stay int64; on a CPU all nodes. ``sizes``
    {symbol: the greatest size}."""
    gm, signature = exported.graph_module, exported.graph_signature
    if parse(device).kind == "cpu":
        return frozenset(gm.graph.nodes)
    arguments = [node for node in gm.graph.nodes if node.op == "placeholder"]
    limits: dict[str | int, int] = dict(sizes.items())
    free = {}  # arguments that callers give; a call refuses values that are too large for int32
    kept: set[Node] = set()
    for number, (node, spec) in enumerate(zip(arguments, signature.input_specs, strict=True)):
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor) or meta.dtype != torch.int64:
            continue
        limits[number] = 2**31
        if spec.kind == _KIND.USER_INPUT:
            free[number] = node
        else:
            limits[number] = bound_of(_tensor(exported, spec.target)) or 0
            if limits[number] > MOST:
                limits[number] += 1  # the largest int64 becomes ANY, 2^63
                kept.add(node)
    ranges = Ranges.of(gm)
    if ranges is None:
        return kept
    wide = ranges.within(limits)
    alone = {number: node for number, node in free.items() if wide.issuperset(node.users)}
    return kept.union(alone.values(), ranges.within(limits | dict.fromkeys(alone, ANY)))


def _model(
    exported: torch.export.ExportedProgram, device: str, values: Sequence[Any], whole: Set[Node]
) -> Model:
    specs = exported.graph_signature.input_specs
    arguments = [node for node in exported.graph_module.graph.nodes if node.op == "placeholder"]
    names = {
        number: spec.arg.name if spec.kind == _KIND.USER_INPUT else spec.target
        for number, spec in enumerate(specs)
    }
    try:
        lowered = lower(exported.graph_module, values, device=device, names=names, whole=whole)
    except Unsupported as refused:
        raise UnsupportedOpError(f"the exported program cannot be lowered: {refused.args[0]}") from refused
    if any(output.number is None for output in lowered.outputs):
        raise InputError("an output of the exported program is one of its inputs, or a constant")
    for number, key in lowered.inputs:
        if specs[number].kind != _KIND.USER_INPUT:
            tensor = _tensor(exported, specs[number].target)
            narrow = tensor.dtype == torch.int64 and arguments[number] not in whole
            lowered.builder.params[key] = values_of(tensor.to(torch.int32) if narrow else tensor)
    return Model.from_builder(lowered.builder)


def _tensor(exported: torch.export.ExportedProgram, name: str) -> torch.Tensor:
    return exported.state_dict.get(name, exported.constants.get(name)).detach().cpu()


def export(
    program: torch.export.ExportedProgram,
    path: str | os.PathLike[str],
    devices: str | Device | Sequence[str | Device] = ("tt:0", "cpu:0"),
    sizes: Mapping[str, Sequence[int]] | None = None,
    **options: Any,
) -> Path:
    """Write an exported program as a bundle, for ``graph-runtime run`` and graph_runtime.load. The bundle
    runs on the first of ``devices``; operations without a kernel there run on the other devices. ``options``:
    further arguments of build_bundle.

    For dynamic sizes the bundle has a program for each combination of ``sizes`` {name of a dimension's Dim:
    sizes}. By default each dimension has the size of the example and powers of two up to 64, within its
    range, and a warning lists the sizes. Raises what to_model and compiling raise, and InputError for more
    than 64 combinations.
    """
    from ...codegen.build import build_bundle

    found = parse_list(devices)
    spellings = [d.spelling for d in found]
    exported = _decomposed(program)
    dims = Dims.of(exported)
    if dims is None:
        return build_bundle(_model_at(exported, str(found[0])), spellings, path, **options)
    combinations = dims.combinations(sizes)
    greatest = {symbol: max(each[symbol] for each in combinations) for symbol in dims.names}
    whole = _whole(exported, str(found[0]), greatest)
    models = [_model(exported, str(found[0]), dims.arguments_at(chosen), whole) for chosen in combinations]
    ports = dims.ports(models[0])
    return save_flow(flow_of_models(models), ports, path, spellings, Options.of(None, **options))
