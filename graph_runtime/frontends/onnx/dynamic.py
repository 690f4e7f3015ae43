"""An ONNX file whose sizes are not bound: opened once, checked for each size that a run brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import (
    DocumentError,
    GraphError,
    GraphRuntimeError,
    InputError,
    UnsupportedOpError,
    did_you_mean,
)
from ...base.exact import exactly
from ...ir.graph import TensorType
from ...ir.model import Constant
from . import require_onnx
from .context import UnknownValueError, no_converter, table
from .control_checks import check_control
from .elements import BY_CODE, ELEMENTS
from .host_ops import check_host_ops
from .importer import Importer
from .parse import ParsedFile, all_nodes
from .read import DTYPES, ModelFile, dtype_name
from .stages import Known
from .tape import TapeValue
from .validate import Size, UnboundDimsError, opsets, own_inputs, symbolic_shape

__all__ = ["DynamicFile", "PortInfo", "found_by_runs", "open_dynamic"]


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input or output. ``shape``: sizes, and names of those that are open; None: the file does not say.
    ``dtype``: "" where the file does not say. ``sequence``: it is a list of tensors. ``optional``: it may
    be None."""

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
    """``file``: for the importer. ``known``: constants by name. ``dims``: sizes that the caller bound;
    ``buckets``: of a dimension, several."""

    file: ParsedFile
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    known: Mapping[str, Known]
    dims: Mapping[str, Size]
    buckets: Mapping[str, Sequence[int]]

    def check(self, types: Mapping[str, TensorType]) -> str:
        """Which dimensions have several sizes in these inputs, "" where none has: as in ONNX Runtime that is
        for ops to take (a size of 1 is broadcast) or to refuse. Raises InputError where a size is not the
        file's, or not the one that the caller bound."""
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
        """Raise InputError where an input's sizes are not those that are known."""
        known = [self.dims.get(size, size) if isinstance(size, str) else size for size in said]
        wrong = [
            f"axis {axis}" if isinstance(size, int) else f"dimension {size!r} (axis {axis})"
            for axis, (size, wanted, has) in enumerate(zip(said, known, got, strict=False))
            if isinstance(wanted, int) and wanted != has
        ]
        if wrong or len(said) != len(got):
            text = f"input {port.name!r} is {port.dtype}{known}; its value is {port.dtype}{list(got)}"
            raise InputError(
                text + (f": {wrong[0]} has another size" if wrong else ""),
                got=tuple(got),
                wanted=tuple(known),
            )


def found_by_runs(error: GraphRuntimeError) -> bool:
    """Whether what load_model lacks is only what a run of the model finds: sizes, values, how often a loop
    runs."""
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
    """A file for runs that bring the sizes. ``dims``: sizes that are bound already; ``values``: inputs that
    become constants. Raises as load_model, but for
    what depends on sizes; UnsupportedOpError lists all ops that have no converter."""
    from . import families  # noqa: F401  (it fills the table of converters)

    onnx = require_onnx()
    graph = file.proto.graph
    versions = opsets(file.proto, onnx)
    _check_ops(graph, file.name)
    check_control(graph, versions.get("", 1))
    check_host_ops(ParsedFile(file, versions, {}, {}, None, {}), graph)
    given = {name: np.asarray(value) for name, value in values.items()}
    parsed = ParsedFile(file, versions, {}, {}, None, {})
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
        ParsedFile(file, versions, {}, {}, None, given),
        tuple(info for info in inputs if info.name not in given),
        outputs,
        known,
        {name: size for name, size in dims.items() if name not in buckets},
        buckets,
    )


def _given(file: ModelFile, info: PortInfo, value: np.ndarray) -> TapeValue:
    """The constant that an input's value makes of it."""
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
    """Sizes of dimensions that are given several; of an input without a shape these are its shape. Raises
    InputError for a name that is neither."""
    names = {size for info in inputs for size in info.shape or () if isinstance(size, str)}
    shapeless = {info.name for info in inputs if info.shape is None}
    for name in dims:
        if name not in names | shapeless:
            text = f"the model has no dimension {name!r}{did_you_mean(name, names | shapeless)}"
            raise InputError(text, got=name)
    return {name: list(d) for name, d in dims.items() if name in names and isinstance(d, (tuple, list))}


def _check_ops(graph: Any, name: str) -> None:
    ops = {("" if node.domain == "ai.onnx" else node.domain, node.op_type) for node in all_nodes(graph)}
    if unknown := ops - table().keys():
        missing = sorted(".".join(filter(None, op)) for op in unknown)
        text = f"there is no converter for {', '.join(missing)}, which {name} has"
        why = no_converter(domain for domain, _ in unknown)
        raise UnsupportedOpError(text + why, op=missing[0], wanted=missing)


def _port(info: Any, path: str) -> PortInfo:
    kind, optional, sequence = info.type, info.type.HasField("optional_type"), False
    if optional:
        kind = kind.optional_type.elem_type
    if kind.HasField("sequence_type"):
        kind, sequence = kind.sequence_type.elem_type, True
    which = kind.WhichOneof("value")
    if which == "map_type":  # of a ZipMap, which makes the tensor that it was given
        return PortInfo(info.name, "", None)
    if which not in (None, "tensor_type"):
        raise GraphError(f"{info.name!r} is no tensor but {which}", path=path, got=which)
    code = kind.tensor_type.elem_type
    if code and code not in DTYPES and code not in BY_CODE:
        text = f"{info.name!r} has element type {code}, which is not supported"
        raise DocumentError(text, path=path, got=code)
    dtype = dtype_name(code, repr(info.name)) if code else ""
    if sequence or optional or not which:
        return PortInfo(info.name, dtype, None, sequence, optional)
    shape = symbolic_shape(info, path)
    return PortInfo(info.name, dtype, None if shape is None else tuple(shape))
