"""ONNX files whose conversion is completed by runs: files with open sizes, which are opened once and checked
against the sizes of each run, and files that become either a Model or a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import (
    DocumentError,
    GraphError,
    GraphRuntimeError,
    InputError,
    UnsupportedOpError,
    afresh,
    did_you_mean,
)
from ...base.exact import exactly
from ...base.progress import gc_paused
from ...ir.graph import TensorType
from ...ir.model import Constant, Model
from . import require_onnx
from .context import UnknownValueError, no_converter, table
from .control_checks import check_control
from .elements import BY_CODE, ELEMENTS
from .host_ops import check_host_ops
from .importer import Importer
from .nodes import all_nodes, op_key
from .parse import ParsedFile, checked_file, parse_file
from .read import DTYPES, ModelFile, dtype_name
from .stages import Known
from .tape import TapeValue
from .validate import Size, UnboundDimsError, opsets, own_inputs, symbolic_shape


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input or output. ``shape``: a size or a name for each dimension; None if the file gives no shape.
    ``dtype``: name of the element type; "" if the file gives none. ``sequence``: whether the value is a list
    of tensors. ``optional``: whether the value may be None."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    sequence: bool = False
    optional: bool = False

    def __str__(self) -> str:
        sizes = "any" if self.shape is None else ", ".join(map(str, self.shape))
        text = f"{self.dtype or 'any'}[{sizes}]"
        text = f"sequence of {text}" if self.sequence else text
        return f"optional {text}" if self.optional else text


@dataclass(frozen=True, eq=False)
class DynamicFile:
    """A file that has been opened without its sizes. ``file``: the parsed file, as the importer reads it.
    ``known``: constants by name. ``dims``: sizes to which the caller bound dimensions. ``buckets``:
    {dimension: list of sizes that the caller allows}."""

    file: ParsedFile
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    known: Mapping[str, Known]
    dims: Mapping[str, Size]
    buckets: Mapping[str, Sequence[int]]

    def check(self, types: Mapping[str, TensorType]) -> str:
        """Check the types of a run's inputs. Returns a text that names the dimensions to which these inputs
        give different sizes; "" if there are none. As in ONNX Runtime, such sizes are left to the ops, which
        broadcast a size of 1 or refuse the inputs. Raises InputError if a size differs from the file's, or
        from the caller's."""
        found: dict[str, dict[int, str]] = {}
        shapes = {name: kind.shape for name, kind in types.items()}
        shapes |= {name: value.shape for name, value in self.file.given.items()}
        ports = [_port(info, path) for path, info in own_inputs(self.file.file.proto.graph)]
        for port in ports:
            said = self.dims.get(port.name) if port.shape is None else port.shape
            if port.name not in shapes or not isinstance(said, (tuple, list)):
                continue
            if port.name in types:
                self._require(port, said, shapes[port.name])
            for size, got in zip(said, shapes[port.name], strict=False):
                if isinstance(size, str) and size not in self.dims:
                    found.setdefault(size, {}).setdefault(got, port.name)
        several = {name: sizes for name, sizes in found.items() if len(sizes) > 1}
        return "; ".join(
            f"dimension {name!r} is {' and '.join(f'{n} in {of!r}' for n, of in sizes.items())}"
            for name, sizes in several.items()
        )

    def _require(self, port: PortInfo, said: Sequence[int | str], got: Sequence[int]) -> None:
        """Raise InputError if the shape of an input contradicts the known sizes."""
        known = [self.dims.get(size, size) if isinstance(size, str) else size for size in said]
        wrong = [
            f"axis {axis}" if isinstance(size, int) else f"dimension {size!r} (axis {axis})"
            for axis, (size, wanted, has) in enumerate(zip(said, known, got, strict=False))
            if isinstance(wanted, int) and wanted != has
        ]
        if wrong or len(said) != len(got):
            text = f"input {port.name!r} is {port.dtype}{known}, but its value is {port.dtype}{list(got)}"
            reason = text + (f": {wrong[0]} has another size" if wrong else "")
            raise InputError(reason, got=tuple(got), wanted=tuple(known))


def found_by_runs(error: GraphRuntimeError) -> bool:
    """Whether load_model failed only for lack of sizes, values or iteration counts, which a run provides."""
    if error.fields.get("got") in ("sequence_type", "optional_type"):
        return True
    failures = error.fields.get("failures", ())
    waits = [
        isinstance(f.error, UnknownValueError)
        or (f.op in ("Loop", "Scan") and isinstance(f.error, UnsupportedOpError))
        for f in failures
    ]
    return isinstance(error, (UnboundDimsError, UnknownValueError)) or (any(waits) and all(waits))


def open_dynamic(file: ModelFile, dims: Mapping[str, Size], values: Mapping[str, Any]) -> DynamicFile:
    """Open a file whose sizes each run provides. ``dims``: sizes to which the caller binds dimensions.
    ``values``: values of inputs that become constants. Raises the errors of load_model, except those that
    depend on sizes; UnsupportedOpError lists all ops without a converter."""
    from . import families  # noqa: F401  (it fills the table of converters)

    onnx = require_onnx()
    graph = file.proto.graph
    versions = opsets(file.proto, onnx)
    if unknown := set(map(op_key, all_nodes(graph))) - table().keys():
        missing = sorted(".".join(filter(None, op)) for op in unknown)
        text = f"there is no converter for {', '.join(missing)}, which {file.name} has{no_converter(unknown)}"
        raise UnsupportedOpError(text, op=missing[0], wanted=missing)
    check_control(graph, versions.get("", 1))
    parsed = ParsedFile(file, versions)
    check_host_ops(parsed, graph)
    given = {name: np.asarray(value) for name, value in values.items()}
    known: dict[str, Known] = dict(Importer(parsed).initializers(graph))
    inputs = [_port(info, path) for path, info in own_inputs(graph)]
    for name in given.keys() - {info.name for info in inputs}:
        text = f"the model has no input {name!r}{did_you_mean(name, [info.name for info in inputs])}"
        raise InputError(text, got=name)
    for info in inputs:
        if info.name in given:
            known[info.name] = _given(file, info, given[info.name])
    buckets = _buckets(inputs, dims)
    outputs = tuple(_port(info, f"$.graph.output[{i}]") for i, info in enumerate(graph.output))
    return DynamicFile(
        ParsedFile(file, versions, given=given),
        tuple(info for info in inputs if info.name not in given),
        outputs,
        known,
        {name: size for name, size in dims.items() if name not in buckets},
        buckets,
    )


def _given(file: ModelFile, info: PortInfo, value: np.ndarray) -> TapeValue:
    """Constant for the value that the caller gave to an input."""
    element, source = ELEMENTS.get(info.dtype), f"input {info.name}"
    if element is None:
        array = exactly(value, dtypes.to_numpy(info.dtype), f"input {info.name!r} is {info}; its value")
    elif element.is_text:
        array = file.strings.encoded(np.asarray(value, object), source)
    else:
        array = element.encoded(value.astype(element.numpy()))
    kind = TensorType(dtypes.from_numpy(array.dtype), array.shape)
    return TapeValue(kind, info.name, Constant.of(array, source), element=element)


def _buckets(inputs: Sequence[PortInfo], dims: Mapping[str, Size]) -> dict[str, Sequence[int]]:
    """{dimension: its sizes} of the dimensions for which the caller gave several sizes. An input without a
    shape is listed by its own name. Raises InputError for any other name."""
    names = {size for info in inputs for size in info.shape or () if isinstance(size, str)}
    shapeless = {info.name for info in inputs if info.shape is None}
    for name in dims:
        if name not in names | shapeless:
            text = f"the model has no dimension {name!r}{did_you_mean(name, names | shapeless)}"
            raise InputError(text, got=name)
    return {name: list(d) for name, d in dims.items() if name in names and isinstance(d, (tuple, list))}


def _port(info: Any, path: str) -> PortInfo:
    kind, optional, sequence = info.type, info.type.HasField("optional_type"), False
    if optional:
        kind = kind.optional_type.elem_type
    if kind.HasField("sequence_type"):
        kind, sequence = kind.sequence_type.elem_type, True
    which = kind.WhichOneof("value")
    if which == "map_type":  # the result of ZipMap, whose converter returns its tensor instead of maps
        return PortInfo(info.name, "", None)
    if which not in (None, "tensor_type"):
        raise GraphError(f"{info.name!r} is not a tensor but {which}", path=path, got=which)
    code = kind.tensor_type.elem_type
    if code and code not in DTYPES and code not in BY_CODE:
        text = f"{info.name!r} has element type {code}, which is not supported"
        raise DocumentError(text, path=path, got=code)
    dtype = dtype_name(code, repr(info.name)) if code else ""
    if sequence or optional or not which:
        return PortInfo(info.name, dtype, None, sequence, optional)
    shape = symbolic_shape(info, path)
    return PortInfo(info.name, dtype, None if shape is None else tuple(shape))


@dataclass(frozen=True, eq=False)
class Begun:
    """A model that has to be completed by runs. ``why``: the error that says what is missing before a run;
    None if conversion was not tried. ``importer``: the importer, which has converted all nodes that it could;
    None if sizes or inputs were missing. ``scope``: the importer's values by name."""

    file: ModelFile
    why: GraphRuntimeError | None = None
    importer: Importer | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)

    def anew(self) -> Begun:
        """The same file, with nothing converted."""
        return Begun(self.file, self.why)


def begin_file(source: Any, folder: Path | None = None) -> Begun:
    """An ONNX file that has been read and checked, but not converted. Raises the errors of load_model."""
    return Begun(checked_file(source, require_onnx(), folder))


def begin_model(
    source: Any, dims: Mapping[str, Any], values: Mapping[str, Any], batch: int | None = None
) -> Model | Begun:
    """The Model that load_model makes of an ONNX file, or a Begun if nothing but values that runs compute is
    missing. ``source``: a source as in load_model, or a Begun. Raises the errors of load_model; if
    ``batch`` is given, missing values are an error, too."""
    onnx = require_onnx()
    from . import families  # noqa: F401  (it fills the table of converters)

    given = {name: np.asarray(value) for name, value in values.items()}
    file = source.file if isinstance(source, Begun) else checked_file(source, onnx, None)
    importer: Importer | None = None
    try:
        importer = Importer(parse_file(file, onnx, dict(dims), batch, given, None))
        with gc_paused():
            return importer.model()
    except GraphRuntimeError as error:
        if batch or not found_by_runs(error):
            raise
        why = afresh(error)
    return Begun(file, why, importer, importer.scope) if importer and importer.scope else Begun(file, why)
