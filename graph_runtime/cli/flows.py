"""`run` and `compile` of a model whose sizes or values are found in a run: it has no single program to
inspect."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..artifacts.door import Plannable, Waiting, bound
from ..base.errors import InputError, did_you_mean
from ..base.options import Options
from ..base.progress import Tell
from ..frontends.onnx.dynamic import PortInfo
from ..frontends.onnx.elements import ELEMENTS
from ..ir.graph import TensorType
from ..run.factory import create_flow
from ..run.flows.flow_module import FlowModule
from ..run.loading import open_saved_flow
from .sources import read_input, read_texts

_HOST = ("cpu:0",)
FlowRun = tuple[list[str], list[np.ndarray], float]  # names of outputs, their values, seconds


def flow_of(found: Plannable | Waiting, options: Options, asked: Mapping[str, Any]) -> FlowModule:
    """The flow of a source that has no single program. ``asked`` {flag: value}: the flags that need a single
    program. Raises InputError if one of these flags was given."""
    saved = found.bundle
    why = found.why if isinstance(found, Waiting) and saved is None else "it is a bundle with a flow"
    for flag, value in asked.items():
        if value:
            raise InputError(
                f"--{flag} looks at one program, and this model finds sizes or values while it runs ({why}): "
                "leave the flag out, or bind all of them (--dim, --value)",
                got=f"--{flag}",
            )
    if isinstance(found, Waiting) and saved is None:
        return create_flow(found, found.devices, options)
    assert saved is not None, "else it has a program, and no flow"
    return open_saved_flow(saved, found.devices)


def bind_inputs(
    waiting: Waiting, options: Options, given: Mapping[str, str]
) -> tuple[Plannable | Waiting, Options]:
    """(model, options). Open dimensions are set in both to the sizes of the files given by --input, so that
    the model has one program."""
    if waiting.bundle is not None:
        return waiting, options
    options = replace(options, dims=dims_of_inputs(create_flow(waiting, _HOST, options), options, given))
    return bound(waiting, options), options


def compile_flow(
    waiting: Waiting, output: Path, options: Options, given: Mapping[str, str], closed: bool, tell: Tell
) -> FlowModule:
    """Write a model of open sizes as a bundle. The model is run at all sizes of --dim, with the inputs of
    --input and random values for the others, and the bundle contains the specializations of these runs. If
    sizes are missing, the bundle contains no specialization. ``closed``: whether the model itself is left out
    of the bundle. Raises ``waiting.why``, the reason why the model has no single program, if sizes are
    missing and ``closed`` or --input is given."""
    several = {name: list(d) for name, d in options.dims.items() if isinstance(d, (tuple, list))}
    plain = {name: d for name, d in options.dims.items() if name not in several}
    where = list(waiting.devices)
    module = create_flow(waiting, where, replace(options, dims={}))
    for port in (*module.inputs, *module.outputs):
        if port.dtype in ELEMENTS:
            raise InputError(
                f"{port.name!r} is of {port.dtype}, which bundles do not have yet; "
                f"graph-runtime run and gr.create take {waiting.name} itself",
                got=port.dtype,
            )
    random = [port for port in module.inputs if given.get(port.name, "random") == "random"]
    missing = any(
        isinstance(size, str) and size not in options.dims for port in random for size in port.shape or ()
    )
    missing |= any(port.shape is None and port.name not in options.dims for port in random)
    if missing and (closed or given):
        raise waiting.why
    if missing:
        module = create_flow(waiting, where, options)  # raises for invalid dims
        module.save(output, where, options, tell=tell)
        return module
    shapeless = {port.name for port in module.inputs if port.shape is None}
    plain |= {name: tuple(several.pop(name)) for name in shapeless & several.keys()}
    for sizes in itertools.product(*several.values()):
        dims = {**plain, **dict(zip(several, sizes, strict=True))}
        rng = np.random.default_rng(0)
        for port in module.inputs:
            module.set_input(port.name, _read(given.get(port.name, "random"), port, dims, rng))
        module.run()
    module.save(output, where, options, closed=closed, tell=tell)
    return module


def dims_of_inputs(module: FlowModule, options: Options, given: Mapping[str, str]) -> dict[str, Any]:
    """The dims of the options, and the sizes that files of --input give to open dimensions."""
    found = dict(options.dims)
    for port in module.inputs:
        text = given.get(port.name, "random")
        if text == "random" or port.sequence or port.optional:
            continue
        shape = _read(text, port, found, np.random.default_rng(0)).shape
        if port.shape is None:
            found.setdefault(port.name, shape)
            continue
        for name, size in zip(port.shape, shape, strict=False):
            if isinstance(name, str) and not isinstance(found.get(name), int):
                found[name] = size
    return found


def run_flow(
    module: FlowModule,
    given: Mapping[str, str],
    expected: Mapping[str, np.ndarray],
    dims: Mapping[str, Any],
    seed: int,
) -> FlowRun:
    """Set inputs from --input and --expect, run once to make the specializations, and run again for the
    result. Values of a sequence are named name[0], name[1], ..."""
    rng = np.random.default_rng(seed)
    ports = {port.name: port for port in module.inputs}
    for name in given:
        if name not in ports:
            text = f"--input {name}: the model has no such input{did_you_mean(name, ports)}"
            raise InputError(text, got=name)
    for name, port in ports.items():
        if name in given:
            module.set_input(name, _read(given[name], port, dims, rng))
        elif f"in:{name}" in expected:
            module.set_input(name, expected[f"in:{name}"])
    module.run()
    start = time.perf_counter()
    module.run()
    seconds = time.perf_counter() - start
    sizes = [size for each in module.modules for size in each.programs.sizes]
    typer.echo(f"{len(sizes)} specializations: {'; '.join(sizes)}", err=True)
    names, values = [], []
    for port in module.outputs:
        found = module.get_output(port.name)
        parts = found if isinstance(found, list) else [] if found is None else [found]
        names += [f"{port.name}[{i}]" for i in range(len(parts))] if isinstance(found, list) else [port.name]
        values += [part.numpy() for part in parts]
    return names, values, seconds


def _read(text: str, port: PortInfo, dims: Mapping[str, Any], rng: np.random.Generator) -> np.ndarray:
    """The value of an input. ``text``: value of --input for this input; "random" is possible only if all
    sizes are known."""
    shape = dims.get(port.name, port.shape)
    sizes = [dims.get(size, size) if isinstance(size, str) else size for size in shape or ()]
    sizes = [size[0] if isinstance(size, (tuple, list)) else size for size in sizes]  # else the first bucket
    open_ = [size for size in sizes if isinstance(size, str)]
    if text == "random" and (open_ or shape is None):
        name = open_[0] if open_ else port.name
        raise InputError(f"--input {port.name}=random needs sizes: --dim {name}=1", wanted=name)
    known = tuple(size for size in sizes if isinstance(size, int))
    if (element := ELEMENTS.get(port.dtype)) is None:
        return read_input(text, TensorType(port.dtype, known), rng)
    if element.is_text:
        if text == "random":
            raise InputError(
                f"random strings are not made: give a file, as in --input {port.name}=texts.npy",
                got=port.name,
            )
        return read_texts(text)
    like = TensorType("int8" if element.kind == "int" else "float32", known)
    found = read_input(text, like, rng)
    return found.astype(element.numpy()) if text == "random" else found
