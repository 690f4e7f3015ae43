"""Exported programs of torch as bundles, which run without torch.

export(torch.export.export(model.cpu().eval(), (x,)), "model.bundle", devices=("tt:0", "cpu:0"))
export(program, "model.bundle", sizes={"batch": [1, 8, 32]})      with dynamic sizes
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

__all__ = ["export", "to_model"]

_KIND = torch.export.graph_signature.InputKind


def to_model(
    program: torch.export.ExportedProgram,
    device: str | Device = "cpu:0",
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """The Model of an exported program: its parameters are constants, its inputs have the names of
    forward()'s arguments. 64-bit integers are int64 on a CPU; for tt they are int32 where they are proven to
    fit, else int64 on the host. ``sizes`` {dynamic dimension: its size}, by the name of its Dim.

    Raises InputError for what is no exported program, one that changes its buffers (a model in training), or
    sizes that it has not; UnsupportedOpError where an operation cannot be lowered.
    """
    return _model_at(_decomposed(program), str(device), sizes)


def _model_at(
    program: torch.export.ExportedProgram, device: str, sizes: Mapping[str, int] | None = None
) -> Model:
    """The Model of a decomposed program."""
    dims = Dims.of(program)
    if dims is None and sizes:
        raise InputError(f"the exported program has no dynamic sizes, got {dict(sizes)}", got=dict(sizes))
    chosen = {} if dims is None else dims.complete(sizes or {})
    values = _values(program) if dims is None else dims.arguments_at(chosen)
    return _model(program, device, values, _whole(program, device, chosen))


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    if not isinstance(program, torch.export.ExportedProgram):
        raise InputError(
            f"export takes what torch.export.export(model, args) gives, got {type(program).__name__}",
            got=type(program).__name__,
        )
    program = program.run_decompositions(table())
    if program.graph_signature.buffers_to_mutate:
        changed = ", ".join(program.graph_signature.buffers_to_mutate.values())
        raise InputError(
            f"the exported program changes its buffers ({changed}): call model.eval() before "
            "torch.export.export",
            got=changed,
        )
    return program


def _values(program: torch.export.ExportedProgram) -> list[Any]:
    return [node.meta["val"] for node in program.graph_module.graph.nodes if node.op == "placeholder"]


def _whole(program: torch.export.ExportedProgram, device: str, sizes: Mapping[str, int]) -> Set[Node]:
    """The nodes, arguments among them, whose 64-bit integers are int64: on a CPU all. ``sizes`` {symbol: the
    greatest size}."""
    gm, signature = program.graph_module, program.graph_signature
    if parse(device).kind == "cpu":
        return frozenset(gm.graph.nodes)
    arguments = [node for node in gm.graph.nodes if node.op == "placeholder"]
    limits: dict[str | int, int] = dict(sizes.items())
    free = {}  # arguments that may be int64, as the others are refused where they do not fit
    kept: set[Node] = set()
    for number, (node, spec) in enumerate(zip(arguments, signature.input_specs, strict=True)):
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor) or meta.dtype != torch.int64:
            continue
        limits[number] = 2**31
        if spec.kind == _KIND.USER_INPUT:
            free[number] = node
        else:
            limits[number] = bound_of(_tensor(program, spec.target)) or 0
            if limits[number] > MOST:
                limits[number] += 1  # which is of int64, whatever it is
                kept.add(node)
    ranges = Ranges.of(gm)
    if ranges is None:
        return kept
    wide = ranges.within(limits)
    alone = {number: node for number, node in free.items() if wide.issuperset(node.users)}
    return kept.union(alone.values(), ranges.within(limits | dict.fromkeys(alone, ANY)))


def _model(
    program: torch.export.ExportedProgram, device: str, values: Sequence[Any], whole: Set[Node]
) -> Model:
    specs = program.graph_signature.input_specs
    arguments = [node for node in program.graph_module.graph.nodes if node.op == "placeholder"]
    names = {
        number: spec.arg.name if spec.kind == _KIND.USER_INPUT else spec.target
        for number, spec in enumerate(specs)
    }
    try:
        lowered = lower(program.graph_module, values, device=device, names=names, whole=whole)
    except Unsupported as refused:
        raise UnsupportedOpError(f"the exported program cannot be lowered: {refused.args[0]}") from refused
    if any(output.number is None for output in lowered.outputs):
        raise InputError("an output of the exported program is one of its inputs, or a constant")
    for number, key in lowered.inputs:
        if specs[number].kind != _KIND.USER_INPUT:
            lowered.builder.params[key] = _array(
                _tensor(program, specs[number].target), arguments[number] in whole
            )
    return Model.from_builder(lowered.builder)


def _tensor(program: torch.export.ExportedProgram, name: str) -> torch.Tensor:
    return program.state_dict.get(name, program.constants.get(name)).detach().cpu()


def _array(tensor: torch.Tensor, whole: bool) -> Any:
    return values_of(tensor.to(torch.int32) if tensor.dtype == torch.int64 and not whole else tensor)


def export(
    program: torch.export.ExportedProgram,
    path: str | os.PathLike[str],
    devices: str | Device | Sequence[str | Device] = ("tt:0", "cpu:0"),
    sizes: Mapping[str, Sequence[int]] | None = None,
    **options: Any,
) -> Path:
    """Write an exported program as a bundle, for ``graph-runtime run`` and graph_runtime.load. It goes onto
    the first of ``devices``, onto the others where that has no kernel. ``options``: as build_bundle's.

    Where the program has dynamic sizes, the bundle has a program for each combination of ``sizes``
    {dimension: sizes}, by the names of their Dims; by default each dimension has the size of the example and
    powers of two up to 64, as its range allows, and a warning says them. Raises as to_model, InputError for
    more than 64 combinations, and what compiling raises.
    """
    from ...codegen.build import build_bundle

    found = parse_list(devices)
    spellings = [d.spelling for d in found]
    program = _decomposed(program)
    dims = Dims.of(program)
    if dims is None:
        return build_bundle(_model_at(program, str(found[0])), spellings, path, **options)
    combinations = dims.combinations(sizes)
    greatest = {symbol: max(each[symbol] for each in combinations) for symbol in dims.names}
    whole = _whole(program, str(found[0]), greatest)
    models = [_model(program, str(found[0]), dims.arguments_at(chosen), whole) for chosen in combinations]
    ports = dims.ports(models[0])
    return save_flow(flow_of_models(models), ports, path, spellings, Options.of(None, **options))
