"""graph-runtime inspect"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ..artifacts.bundles.bundle import Bundle
from ..artifacts.door import GRAPH, ONNX, Plannable, Waiting, kind_of, programs_of
from ..artifacts.libraries.manifest import find_manifest
from ..artifacts.prepare import bundle_of, prepare, read_params
from ..artifacts.trust import is_trusted
from ..base.errors import DocumentError
from ..base.files.mapped import open_file
from ..base.option_fields import READING
from ..base.options import Options
from ..compat.tvm_files.inspect import describe
from ..views import report
from . import options as opt
from .sources import is_bundle, open_given

__all__ = ["inspect"]


@opt.with_options(READING)
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="ONNX, .mlir, graph.json, bundle, library or parameters.")
    ],
    device: opt.Devices = None,
    *,
    options: Options,
    json: opt.Json = False,
) -> None:
    """Show the contents of a file: inputs, outputs and pool map of a model; parts and pool map of a bundle;
    kernels; parameters.

    Example: graph-runtime inspect net.bundle
    """
    if is_bundle(file) and file.suffix != ".npz":
        found, text = _bundle(file, device)
    elif _head(file).startswith(b"\x7fELF"):
        found, text = _library(file)
    elif file.suffix != ".json" and bundle_of(file) is not None:  # raw parameters may begin with any bytes
        found, text = _params(file)
    elif (kind := kind_of(file)) != GRAPH or _head(file).lstrip().startswith(b"{"):
        opened = open_given(file, device, options=options)
        found, text = _graph(opened) if isinstance(opened, Plannable) else _waiting(file, opened, kind)
    else:
        found, text = _params(file)
    if json:
        opt.print_json(found)
    else:
        typer.echo(text)


def _head(file: Path) -> bytes:
    with open_file(file) as opened:
        return opened.read(256)


def _memory(opened: Plannable) -> tuple[dict[str, Any], list[str]]:
    """The pool map of the opened source's plan, as values and as lines."""
    planned = prepare(opened).plan
    found = {"pool": report.pool(planned), "memories": report.memories(planned)}
    return found, ["", report.summary(planned, opt.terminal_width()), "", report.pictures(planned)]


def _waiting(file: Path, waiting: Waiting, kind: str) -> tuple[dict[str, Any], str]:
    """The description of an ONNX file that has no single program, as values and as text."""
    if kind != ONNX:
        raise waiting.why
    found, lines = _described(file)
    options = waiting.options
    if not found["open"] or options.dims or options.values:
        return found, "\n".join([*lines, "", f"it has no one program: {waiting.why}"])
    lines += ["", "its sizes are open, and with them its memory; bind each, as in:"]
    lines.append("  graph-runtime inspect " + file.name + "".join(f" --dim {name}" for name in found["open"]))
    return found, "\n".join(lines)


def _described(file: Path) -> tuple[dict[str, Any], list[str]]:
    """The metadata of an ONNX file, as values and as lines."""
    from ..frontends.onnx.describe import describe as describe_model

    try:
        found = describe_model(file)
    except DocumentError as error:
        raise DocumentError(f"{file}: {error}", **error.fields) from None
    lines = [
        f"graph {file.name}: {found['nodes']} nodes, made by {found['producer'] or 'no one who says'}",
        "opsets " + " ".join(f"{domain or 'ai.onnx'}:{n}" for domain, n in found["opsets"].items()),
        f"ops {' '.join(found['ops'])}",
        f"{found['constants']} constants, {found['constant_bytes']:,} bytes",
        *(f"input  {name}: {type_}" for name, type_ in found["inputs"].items()),
        *(f"output {name}: {type_}" for name, type_ in found["outputs"].items()),
    ]
    if found["unsupported"]:
        lines.append(f"no converter for {' '.join(found['unsupported'])}")
    return found, lines


def _graph(opened: Plannable) -> tuple[dict[str, Any], str]:
    graph, constants = opened.graph, opened.model.constants
    memory, pictures = _memory(opened)
    kinds = sorted({f.op or f.name for f in graph.funcs})
    found = {
        "kind": "graph",
        "nodes": graph.num_nodes,
        "entries": graph.num_entries,
        "ops": kinds,
        "constants": len(constants),
        "constant_bytes": sum(c.type.nbytes for c in constants.values()),
        "inputs": {
            n: str(graph.entry_type(int(e)))
            for n, e in zip(graph.input_names, graph.input_eids, strict=True)
            if n not in constants
        },
        "outputs": [str(graph.entry_type(int(e))) for e in graph.outputs],
        **memory,
    }
    lines = [
        f"graph {opened.name}: {graph.num_nodes} nodes, {graph.num_entries} entries",
        f"ops {' '.join(kinds)}",
    ]
    lines += [f"{len(constants)} constants, {found['constant_bytes']:,} bytes"] if constants else []
    lines += [f"input  {name}: {type_}" for name, type_ in found["inputs"].items()]
    lines += [f"output {i}: {type_}" for i, type_ in enumerate(found["outputs"])]
    return found, "\n".join(lines + pictures)


def _bundle(file: Path, devices: list[str] | None) -> tuple[dict[str, Any], str]:
    opened = open_given(file, devices)
    bundle = opened.bundle
    assert bundle is not None, "the caller saw that it is one"
    memory = [_memory(one) for one in programs_of(opened)] if isinstance(opened, Plannable) else []
    rows: list[dict[str, Any]] = [
        {
            "name": p.name,
            "graph": p.graph,
            "inputs": p.inputs,
            "outputs": p.outputs,
            "params": len(p.params),
            "const": p.const,
        }
        for p in bundle.programs
    ]
    trusted = {x.file: is_trusted(bundle.files[x.file], x.signature) for x in bundle.libraries}
    libraries: list[dict[str, Any]] = [
        {"file": x.file, "kinds": x.kinds, "isa": x.isa, "trusted": trusted[x.file]} for x in bundle.libraries
    ]
    found = {
        "kind": "bundle",
        "devices": list(bundle.devices),
        "options": bundle.options.as_json(),
        "files": dict(bundle.files),
        "sizes": dict(bundle.sizes),
        "programs": rows,
        "libraries": libraries,
        **(memory[0][0] if memory else {}),
    }
    lines = [f"bundle {file.name} for {', '.join(bundle.devices)}"]
    lines += [
        f"program {p['name']}: {p['graph']}, inputs {', '.join(p['inputs']) or 'none'}, outputs "
        f"{', '.join(p['outputs']) or 'none'}, {p['params']} parameters"
        for p in rows
    ]
    lines += [
        f"library {x['file']}: {', '.join(x['kinds'])} ({x['isa']})"
        f"{'' if x['trusted'] else ', not trusted: it would not run'}"
        for x in libraries
    ]
    lines += [
        f"sha256 {digest[:16]}  {bundle.sizes[name]:>13,} B  {name}" for name, digest in bundle.files.items()
    ]
    lines += _flow(bundle, found)
    for row, (of_program, pictures) in zip(rows, memory, strict=True):
        row.update(of_program if len(rows) > 1 else {})
        lines += [*(["", f"program {row['name']}"] if len(rows) > 1 else []), *pictures]
    return found, "\n".join(lines)


def _flow(bundle: Bundle, found: dict[str, Any]) -> list[str]:
    """Lines about a bundle's flow. ``found``: dict to which the flow is added."""
    if bundle.flow is None:
        return []
    from ..artifacts.bundles.flow_text import flow_text
    from ..run.flows.loaded import flow_of_bundle  # needs onnx, unlike most commands

    found["flow"] = flow_of_bundle(bundle)
    lines = ["", f"{bundle.flow}: which program a run takes", flow_text(found["flow"])]
    if bundle.source is not None:
        found["source"] = {"model": bundle.source.model, "data": list(bundle.source.data)}
        inputs = ", ".join(
            f"{port['name']} {port['dtype']}{_sizes(port)}" for port in found["flow"]["inputs"]
        )
        lines += ["", f"{bundle.source.model}: programs of other sizes and values are made of it: {inputs}"]
    return lines


def _sizes(port: dict[str, Any]) -> str:
    return "[any]" if port["shape"] is None else f"[{', '.join(map(str, port['shape']))}]"


def _library(file: Path) -> tuple[dict[str, Any], str]:
    manifest = find_manifest(file)
    if manifest is None:
        return _foreign_library(file)
    found = {"kind": "library", "flavour": "module", **orjson.loads(manifest.to_bytes()[24:])}
    lines = [f"library {file.name}: ABI {manifest.abi}, {manifest.arch} {manifest.isa}, {manifest.compiler}"]
    for k in manifest.kernels:
        needs = [*(f"inplace {i}" for i in k.inplace), *([f"scratch {k.scratch}"] if k.scratch else [])]
        lines.append(f"{k.kind:4} {k.name}: {k}{'; ' * bool(needs)}{', '.join(needs)}")
    return found, "\n".join(lines)


def _foreign_library(file: Path) -> tuple[dict[str, Any], str]:
    made = describe(file)
    lines = [f"library {file.name}: {made['kind']}", f"made by TVM {made['releases']}"]
    lines += [f"  because {mark}" for mark in made["marks"]]
    lines += [f"devices {' '.join(made['devices'])}"]
    if made["problem"]:
        lines.append(f"cannot be loaded: {made['problem']}")
    lines += [f"asks for {name}" for name in made["asks"]]
    lines += [f"missing {sentence}" for sentence in made["missing"]]
    lines += [f"import {key}" for key in made["imports"]]
    lines += [f"param  {name}: {type_}" for name, type_ in made["params"].items()]
    lines += [f"function {name}" for name in made["functions"]]
    return {"kind": "library", "flavour": "packed", "made": made.pop("kind"), **made}, "\n".join(lines)


def _params(file: Path) -> tuple[dict[str, Any], str]:
    arrays = read_params(file)
    rows = [
        {"name": name, "dtype": a.dtype.name, "shape": list(a.shape), "bytes": a.nbytes}
        for name, a in arrays.items()
    ]
    total = sum(a.nbytes for a in arrays.values())
    table = report.table(rows, ("name", "dtype", "shape", "bytes"), opt.terminal_width())
    found = {"kind": "params", "arrays": rows, "bytes": total}
    return found, f"{len(rows)} parameters, {total} bytes\n{table}"
