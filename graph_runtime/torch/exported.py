"""Exported programs of torch as bundles, which run without torch.

export(torch.export.export(model.cpu().eval(), (x,)), "model.bundle", devices=("tt:0", "cpu:0"))
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..base.errors import InputError, UnsupportedOpError
from ..base.machine.devices import Device, parse_list
from ..ir.model import Model
from .counters import Unsupported
from .decompositions import table
from .emitter import Lowered
from .graphs import lower
from .kinds import array_of

__all__ = ["export", "to_model"]

_KIND = torch.export.graph_signature.InputKind


def to_model(program: torch.export.ExportedProgram, device: str | Device = "cpu:0") -> Model:
    """The Model of an exported program: its parameters are constants, its inputs have the names of
    forward()'s arguments. 64-bit integers are 32-bit ones.

    Raises InputError for what is no exported program, or one that changes its buffers (a model in training);
    UnsupportedOpError where an operation cannot be lowered.
    """
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
    return Model.from_builder(_lowered(program, str(device)).builder)


def _lowered(program: torch.export.ExportedProgram, device: str) -> Lowered:
    gm = program.graph_module
    values = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    if any(not isinstance(n, int) for v in values if isinstance(v, torch.Tensor) for n in v.shape):
        raise InputError("the exported program has dynamic sizes: export it for the sizes that it shall have")
    specs = program.graph_signature.input_specs
    names = {
        number: spec.arg.name if spec.kind == _KIND.USER_INPUT else spec.target
        for number, spec in enumerate(specs)
    }
    try:
        lowered = lower(gm, values, device=device, names=names)
    except Unsupported as refused:
        raise UnsupportedOpError(f"the exported program cannot be lowered: {refused.args[0]}") from refused
    if any(output.number is None for output in lowered.outputs):
        raise InputError("an output of the exported program is one of its inputs, or a constant")
    for number, key in lowered.inputs:
        if specs[number].kind != _KIND.USER_INPUT:
            lowered.builder.params[key] = _array(program, specs[number].target)
    return lowered


def _array(program: torch.export.ExportedProgram, name: str) -> Any:
    tensor = program.state_dict.get(name, program.constants.get(name))
    tensor = tensor.detach().cpu()
    array = array_of(tensor.to(torch.int32) if tensor.dtype == torch.int64 else tensor)
    return array.reshape(tuple(tensor.shape))


def export(
    program: torch.export.ExportedProgram,
    path: str | os.PathLike[str],
    devices: str | Device | Sequence[str | Device] = ("tt:0", "cpu:0"),
    **options: Any,
) -> Path:
    """Write an exported program as a bundle, for ``graph-runtime run`` and graph_runtime.load. It goes onto
    the first of ``devices``, onto the others where that has no kernel. ``options``: as build_bundle's.

    Raises as to_model, and what compiling raises.
    """
    from ..codegen.build import build_bundle

    found = parse_list(devices)
    return build_bundle(to_model(program, found[0]), [d.spelling for d in found], path, **options)
