"""An ONNX file -> ModelProto and typed constants, whose bytes stay in the file until they are read.

Weights inside the model file and external data are mapped, never copied. A path of external data must stay
inside the model's folder, and its links lead into that folder or into the one that the model's own link leads
to (a cache that names files by hash). Its bytes must stay inside their file. A missing file is an error
only when the values are read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, GraphError, InputError, MissingDataError, as_path
from ...base.files.mapped import map_file, name_parts
from ...ir.graph import TensorType
from ...ir.model import Constant
from .elements import BY_CODE, ELEMENTS, Strings
from .wire import Span, split

__all__ = [
    "DTYPES",
    "ModelFile",
    "check_size",
    "dims_of",
    "dtype_name",
    "element_constant",
    "external_file",
    "open_model",
    "tensor_constant",
]

# TensorProto.DataType -> canonical dtype
DTYPES = {f.onnx: dtype for dtype, f in dtypes.BY_DTYPE.items() if f.onnx}
_BYTES = 2  # UINT8
MOST_BYTES = 2**44  # of one tensor: more than any machine that will run this, less than overflows
MOST_DIMS = 32  # as many as a parameter file may say


@dataclass(eq=False)
class ModelFile:
    """A parsed model: ``proto`` lacks the raw data of large initialisers, which lie at ``spans`` (by index)
    of ``data``. ``folder`` is where external data is looked for, None for a model that is no file; ``roots``:
    real folders that it may lie in. ``replaced``: values of initialisers in place of the file's.
    ``strings``: its texts."""

    proto: Any
    name: str
    data: memoryview
    spans: Mapping[int, Span]
    folder: Path | None
    roots: tuple[str, ...] = ()
    replaced: Mapping[str, np.ndarray] = field(default_factory=dict)
    opened: dict[Path, memoryview] = field(default_factory=dict)  # files of external data
    outside: dict[Path, int] = field(default_factory=dict)  # bytes of those that are there
    strings: Strings = field(default_factory=Strings)


def open_model(
    source: str | os.PathLike[str] | bytes | Any, onnx: Any, folder: Path | None = None
) -> ModelFile:
    """A model from its path, bytes or ModelProto. ``folder``: where its external data is, or a file beside
    that; None: the path's.

    Raises InputError for a source of another kind, MissingDataError where there is no such file,
    DocumentError for bytes that are no ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        source = source.SerializeToString()
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, data = "the model", memoryview(source)
    else:
        path = as_path(source, "an ONNX model")
        name, data = path.name, _map(path)
        folder = path if folder is None else folder
    roots: tuple[str, ...] = ()
    if folder is not None:
        roots = (os.path.realpath(folder),)
        if os.path.isfile(folder):
            roots = (os.path.realpath(folder.parent), os.path.dirname(roots[0]))
            folder = folder.parent
    rest, spans = split(data)
    try:
        proto = onnx.load_model_from_string(rest)
    except Exception as error:  # protobuf's DecodeError, which is a class of whichever protobuf is there
        raise DocumentError(f"{name} is no ONNX model: {error}", got=name) from error
    if not proto.HasField("graph"):
        raise DocumentError(f"{name} is no ONNX model: it has no graph", got=name)
    tensors = proto.graph.initializer
    name_parts(
        data,
        {
            tensors[index].name: (span.offset, span.offset + span.length)
            for index, span in spans.items()
            if index < len(tensors)
        },
    )
    return ModelFile(proto, name, data, spans, folder, roots)


def _map(path: Path) -> memoryview:
    try:
        data = map_file(path)
        if not data:
            raise DocumentError(f"{path} is empty", got=str(path))
        return data
    except FileNotFoundError as error:
        raise MissingDataError(f"there is no file {path}", got=str(path)) from error
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}", got=str(path)) from error


def dtype_name(code: int, what: str) -> str:
    """The canonical dtype, or the name of the Element, of a TensorProto.DataType. Raises GraphError for one
    that is not supported."""
    if code in BY_CODE:
        return BY_CODE[code].name
    if code not in DTYPES:
        known = (*DTYPES.values(), *ELEMENTS)
        raise GraphError(
            f"{what} has element type {code}, which is not supported; those that are: {', '.join(known)}",
            got=code,
            wanted=known,
        )
    return DTYPES[code]


def check_size(kind: TensorType, what: str, **fields: Any) -> None:
    """Raise GraphError for a type that is larger than is supported. A dimension of 0 does not make the others
    small: numpy refuses arrays by the product of those, too."""
    if len(kind.shape) > MOST_DIMS:
        raise GraphError(
            f"{what} has {len(kind.shape)} dimensions, at most {MOST_DIMS} are supported",
            got=kind.shape,
            **fields,
        )
    whole = TensorType(kind.dtype, tuple(n or 1 for n in kind.shape))
    if whole.nbytes > MOST_BYTES:
        raise GraphError(
            f"{what} is {kind}: {whole.nbytes} bytes are more than is supported", got=kind.shape, **fields
        )


def element_constant(file: ModelFile, tensor: Any, what: str, index: int | None = None) -> Constant:
    """What stands for the values of a tensor of an Element in a graph, unpacked when it is read; the texts of
    one of strings are in the file's table then. Raises as tensor_constant."""
    element, dims = BY_CODE[tensor.data_type], dims_of(tensor, what)
    kind = TensorType(element.stored, dims)
    check_size(kind, what)
    if element.is_text:
        return _texts(file, tensor, kind, what)
    bytes_ = type(tensor)()
    bytes_.CopyFrom(tensor)
    bytes_.data_type, count = _BYTES, -(-kind.size * element.bits // 8)
    del bytes_.dims[:]
    bytes_.dims.append(count)
    data = tensor_constant(file, bytes_, what, index)

    def unpack(packed: np.ndarray) -> np.ndarray:
        return element.unpacked(packed, kind.size).reshape(dims)

    return Constant.derived(kind, unpack, data, source=f"{data.source}, {element.bits} bits each")


def _texts(file: ModelFile, tensor: Any, kind: TensorType, what: str) -> Constant:
    if tensor.HasField("raw_data") or tensor.data_location == tensor.EXTERNAL:
        raise GraphError(f"{what} is of strings, which have no raw or external data", got=what)
    if len(tensor.string_data) != kind.size:
        raise GraphError(
            f"{what} is string{list(kind.shape)}, {kind.size} elements, but its data has "
            f"{len(tensor.string_data)}",
            got=len(tensor.string_data),
            wanted=kind.size,
        )
    try:
        numbers = [file.strings.number(text.decode()) for text in tensor.string_data]
    except UnicodeDecodeError as error:
        raise GraphError(f"{what} has a text that is no UTF-8: {error}", got=what) from error
    array = np.array(numbers, np.int64).reshape(kind.shape)
    return Constant.of(array, f"{what.removeprefix('initializer ')} of {file.name}")


def dims_of(tensor: Any, what: str) -> tuple[int, ...]:
    """The shape of a TensorProto, or of a sparse one. Raises GraphError for a negative size."""
    dims = tuple(tensor.dims)
    if min(dims, default=1) < 0:
        raise GraphError(f"{what} has the shape {list(dims)}", got=dims)
    return dims


def tensor_constant(file: ModelFile, tensor: Any, what: str, index: int | None = None) -> Constant:
    """The constant that a TensorProto says. ``index``: its position among the graph's initialisers.

    Raises GraphError for an unknown element type or sizes that contradict each other or are beyond reason.
    """
    dtype, dims = dtype_name(tensor.data_type, what), dims_of(tensor, what)
    kind = TensorType(dtype, dims)
    check_size(kind, what)
    source = f"{what.removeprefix('initializer ')} of {file.name}"
    if index is not None and tensor.name in file.replaced:
        return _replaced(file.replaced[tensor.name], kind, what)
    if tensor.HasField("segment"):
        raise GraphError(f"{what} is stored in segments, which is not supported", got=what)
    if tensor.data_location == tensor.EXTERNAL:
        return _external(file, tensor, kind, what, source)
    span = file.spans.get(index) if index is not None else None
    if span is not None:
        _sized(kind, span.length, what)
        return Constant(kind, lambda: _view(file.data, span, kind), source)
    array = _inline(tensor, kind, what)
    return Constant(kind, lambda: array, source)


def _replaced(array: np.ndarray, kind: TensorType, what: str) -> Constant:
    """The caller's values of an initialiser. Raises InputError for another type."""
    made = Constant.of(array, f"{what}, as it was given")
    if made.type != kind:
        text = f"{what} is {kind}, what is given in its place is {made.type}"
        raise InputError(text, got=str(made.type), wanted=str(kind))
    return made


def _sized(kind: TensorType, length: int, what: str) -> None:
    if length != kind.nbytes:
        raise GraphError(
            f"{what} is {kind}, {kind.nbytes} bytes, but its data has {length}",
            got=length,
            wanted=kind.nbytes,
        )


def _view(data: memoryview, span: Span, kind: TensorType) -> np.ndarray:
    dtype = dtypes.to_numpy(kind.dtype)
    array = np.frombuffer(data, np.uint8, span.length, span.offset).view(dtype).reshape(kind.shape)
    return array if array.flags.aligned else array.copy()


def _inline(tensor: Any, kind: TensorType, what: str) -> np.ndarray:
    dtype = dtypes.to_numpy(kind.dtype)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        _sized(kind, len(raw), what)
        return np.frombuffer(raw, np.uint8).view(dtype).reshape(kind.shape)
    values = getattr(tensor, dtypes.BY_DTYPE[kind.dtype].onnx_field)
    if len(values) != kind.size:
        raise GraphError(
            f"{what} is {kind}, {kind.size} elements, but its data has {len(values)}",
            got=len(values),
            wanted=kind.size,
        )
    if kind.dtype in dtypes.NARROW_FLOATS:  # their bits
        return np.array(values, np.int64).astype(np.uint16).view(dtype).reshape(kind.shape)
    wide = np.array(values, np.uint64 if dtype.kind == "u" and dtype.itemsize > 2 else None)
    return (wide if len(values) else np.zeros(0)).astype(dtype).reshape(kind.shape)


def _external(file: ModelFile, tensor: Any, kind: TensorType, what: str, source: str) -> Constant:
    said = {entry.key: entry.value for entry in tensor.external_data}
    path = external_file(file, said.get("location", ""), what)
    try:
        offset, length = int(said.get("offset", 0)), int(said.get("length", kind.nbytes))
    except ValueError as error:
        raise GraphError(
            f"{what}: offset and length of external data must be integers, got {said}", got=said
        ) from error
    _sized(kind, length, what)
    if offset < 0:
        raise GraphError(f"{what}: external data at offset {offset}", got=offset)
    span = Span(offset, length)
    if (size := _within(path, span, what)) is not None:
        file.outside[path] = size

    def read() -> np.ndarray:
        if not kind.size:
            return np.zeros(kind.shape, dtypes.to_numpy(kind.dtype))
        if path not in file.opened:
            if not os.path.exists(path):
                raise MissingDataError(
                    f"the values of {source} are needed and their file is absent: {path}", got=str(path)
                )
            file.opened[path] = _map(path)
        _within(path, span, what)
        return _view(file.opened[path], span, kind)

    return Constant(kind, read, source)


def _within(path: Path, span: Span, what: str) -> int | None:
    """The bytes of a file, None if it is not there. Raises GraphError where it is shorter than the span
    says."""
    size = path.stat().st_size if os.path.isfile(path) else None
    if size is not None and span.offset + span.length > size:
        raise GraphError(
            f"{what}: bytes {span.offset} to {span.offset + span.length} of {path.name}, which has {size}",
            got=span.offset + span.length,
            wanted=size,
        )
    return size


def external_file(file: ModelFile, location: str, what: str) -> Path:
    """The file of external data. Raises GraphError where it does not stay in the model's folder."""
    if not location or "\0" in location:
        raise GraphError(f"{what}: external data has no location", got=location)
    if file.folder is None:
        raise GraphError(
            f"{what} is external data in {location!r}, and a model in memory has no folder: give the model's "
            "path, or its folder (gr.load_model(model, folder=...); of compat.onnxruntime the entry "
            "session.model_external_initializers_file_folder_path)",
            got=location,
        )
    inside = os.path.normpath(location)
    path = os.path.realpath(os.path.join(file.folder, location))
    leaves = os.path.isabs(location) or inside.split(os.sep)[0] == os.pardir
    if leaves or not any(os.path.commonpath([root, path]) == root for root in file.roots):
        where = f": it leads to {path}" if path != os.path.join(file.roots[0], inside) else ""
        raise GraphError(
            f"{what}: external data in {location!r}, which leaves the model's folder{where}; copy the file "
            f"into {file.folder}",
            got=location,
        )
    return Path(path)
