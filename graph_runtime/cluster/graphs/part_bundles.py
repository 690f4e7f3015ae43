"""The parts of a cut as bundles: files that any machine can be given, compiled where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...artifacts.libraries.judge import LibraryFile
from ...artifacts.prepare import Prepared
from ...base.options import Options
from ...ir.graph import TensorType
from ...ir.model import Constant, Model
from .cut import Cut, MachinePart, MachineStage

__all__ = ["write_parts"]


def write_parts(
    prepared: Prepared,
    cut: Cut,
    folder: Path,
    libraries: Sequence[LibraryFile] = (),
) -> dict[str, Path]:
    """{machine: its bundle}, written into ``folder``, each with the caller's ``libraries``. Raises what
    build_bundle raises."""
    from ...codegen.build import build_bundle  # where parts are compiled only

    chosen = prepared.options
    options = Options(
        fuse=False,
        compile=prepared.compiles if chosen.compile is None else chosen.compile,
        reuse=chosen.reuse,
        threads=chosen.threads,
        max_in_flight=chosen.max_in_flight,
        unset_inputs=chosen.unset_inputs,
    )
    found = {}
    for at, (machine, part) in enumerate(cut.parts.items()):
        path = folder / f"{at}_{machine or 'caller'}.bundle"
        models = {stage.program: _model(stage, prepared) for stage in part.stages}
        found[machine] = build_bundle(models, _devices(part), path, options, libraries=libraries)
    return found


def _devices(part: MachinePart) -> list[str]:
    return [device.spelling for device in part.devices]


def _model(stage: MachineStage, prepared: Prepared) -> Model:
    constants = {}
    for name, of in stage.constants.items():
        eid = int(stage.graph.input_eids[stage.graph.input_names.index(name)])
        constants[name] = _shaped(prepared.model.constants[of], stage.graph.entry_type(eid))
    return Model(stage.graph, constants)


def _shaped(constant: Constant, type_: TensorType) -> Constant:
    """The same values in another shape."""
    if constant.type == type_:
        return constant
    return replace(
        constant,
        type=type_,
        read=lambda: constant.read().reshape(type_.shape),
        key=(constant.key, "in shape", type_.shape),
    )
