"""An ONNX file -> ModelProto and typed constants, whose bytes stay in the file until they are needed.

Weights inside the model file and external data are mapped, never copied. The path of external data must stay
inside the model's folder. A link may lead into that folder, or into the folder to which the model's own path
links (as in a cache that names files by hash). The bytes must lie inside the file. A missing file is an error
only when the values are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, GraphError, InputError, MissingDataError
from ...base.files.mapped import as_path, map_file, name_parts
from ...ir.graph import TensorType
from ...ir.model import Constant
from .elements import BY_CODE, ELEMENTS, Strings
from .nodes import all_nodes
from .wire import Span, split

# TensorProto.DataType -> canonical dtype
DTYPES = {f.onnx: dtype for dtype, f in dtypes.BY_DTYPE.items() if f.onnx}
_BYTES = 2  # UINT8
MOST_BYTES = 2**44  # most bytes of one tensor: more than any machine has, but without overflow
MOST_DIMS = 32  # most dimensions, as in parameter files


@dataclass(eq=False)
class ModelFile:
    """A parsed model. ``proto``: the model without the raw data of large initialisers. ``spans``: places of
    this data in ``data``, by the initialiser's index. ``folder``: folder of external data; None if the model
    is not a file. ``roots``: resolved folders in which external data may lie. ``replaced``: the caller's
    values for initialisers. ``strings``: table of the model's texts."""

    proto: Any
    name: str
    data: memoryview
    spans: Mapping[int, Span]
    folder: Path | None
    roots: tuple[str, ...] = ()
    replaced: Mapping[str, np.ndarray] = field(default_factory=dict)
    opened: dict[Path, memoryview] = field(default_factory=dict)  # external data files that have been opened
    outside: dict[Path, int] = field(default_factory=dict)  # size in bytes of each external file
    strings: Strings = field(default_factory=Strings)


def open_model(
    source: str | os.PathLike[str] | bytes | Any, onnx: Any, folder: Path | None = None
) -> ModelFile:
    """A model from its path, bytes or ModelProto. ``folder``: folder of the model's external data, or a file
    in this folder; None: the folder of the model's path.

    Raises InputError for a source of another kind, MissingDataError if the file does not exist, DocumentError
    if the bytes are not an ONNX model.
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
    except Exception as error:  # protobuf's DecodeError, whose class depends on the installed version
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
    """The dtype, or the name of the Element, of a TensorProto.DataType. Raises GraphError for an unsupported
    type."""
    if code in BY_CODE:
        return BY_CODE[code].name
    if code not in DTYPES:
        known = (*DTYPES.values(), *ELEMENTS)
        text = f"{what} has element type {code}, which is not supported; those that are: {', '.join(known)}"
        raise GraphError(text, got=code, wanted=known)
    return DTYPES[code]


def check_size(kind: TensorType, what: str, **fields: Any) -> None:
    """Raise GraphError if a type is larger than supported. A dimension of 0 counts as 1, because numpy's
    limit applies to the product of the other dimensions."""
    if len(kind.shape) > MOST_DIMS:
        text = f"{what} has {len(kind.shape)} dimensions, at most {MOST_DIMS} are supported"
        raise GraphError(text, got=kind.shape, **fields)
    whole = TensorType(kind.dtype, tuple(n or 1 for n in kind.shape))
    if whole.nbytes > MOST_BYTES:
        raise GraphError(
            f"{what} is {kind}: {whole.nbytes} bytes are more than is supported", got=kind.shape, **fields
        )


def element_constant(file: ModelFile, tensor: Any, what: str, index: int | None = None) -> Constant:
    """Constant of the numbers that encode a tensor's Elements, unpacked when it is read; texts are added to
    the file's table. Raises the errors of tensor_constant."""
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
        reason = (
            f"{what} is string{list(kind.shape)}, {kind.size} elements, but its data has "
            f"{len(tensor.string_data)}"
        )
        raise GraphError(reason, got=len(tensor.string_data), wanted=kind.size)
    try:
        numbers = [file.strings.number(text.decode()) for text in tensor.string_data]
    except UnicodeDecodeError as error:
        raise GraphError(f"{what} has a text that is not UTF-8: {error}", got=what) from error
    array = np.array(numbers, np.int64).reshape(kind.shape)
    return Constant.of(array, f"{what.removeprefix('initializer ')} of {file.name}")


def initializer_constant(file: ModelFile, tensor: Any, index: int | None) -> Constant:
    """Constant of an initialiser, of a dtype or an Element. ``index``: position of the initialiser, as in
    tensor_constant."""
    read = element_constant if tensor.data_type in BY_CODE else tensor_constant
    return read(file, tensor, f"initializer {tensor.name!r}", index)


def dims_of(tensor: Any, what: str) -> tuple[int, ...]:
    """Shape of a TensorProto or SparseTensorProto. Raises GraphError for a negative size."""
    dims = tuple(tensor.dims)
    if min(dims, default=1) < 0:
        raise GraphError(f"{what} has the shape {list(dims)}", got=dims)
    return dims


def tensor_constant(file: ModelFile, tensor: Any, what: str, index: int | None = None) -> Constant:
    """Constant of a TensorProto. ``index``: position of the tensor among the graph's initialisers; None if it
    is none of them.

    Raises GraphError for an unknown element type, and for sizes that are contradictory or too large.
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
    """Constant of the caller's values for an initialiser. Raises InputError if their type differs."""
    made = Constant.of(array, f"{what}, as it was given")
    if made.type != kind:
        text = f"{what} is {kind}, but the value given for it is {made.type}"
        raise InputError(text, got=str(made.type), wanted=str(kind))
    return made


def _sized(kind: TensorType, length: int, what: str) -> None:
    if length != kind.nbytes:
        text = f"{what} is {kind}, {kind.nbytes} bytes, but its data has {length}"
        raise GraphError(text, got=length, wanted=kind.nbytes)


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
        text = f"{what} is {kind}, {kind.size} elements, but its data has {len(values)}"
        raise GraphError(text, got=len(values), wanted=kind.size)
    if kind.dtype in dtypes.NARROW_FLOATS:  # the file stores these floats as bit patterns
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
        raise GraphError(f"{what}: external data at the negative offset {offset}", got=offset)
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
    """Size of a file in bytes, None if it does not exist. Raises GraphError if the span does not fit into
    it."""
    size = path.stat().st_size if os.path.isfile(path) else None
    if size is not None and span.offset + span.length > size:
        text = (
            f"{what}: bytes {span.offset} to {span.offset + span.length} of {path.name}, "
            f"which has only {size}"
        )
        raise GraphError(text, got=span.offset + span.length, wanted=size)
    return size


def external_file(file: ModelFile, location: str, what: str) -> Path:
    """Path of external data. Raises GraphError if it leaves the model's folder."""
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
            f"{what}: external data in {location!r} is outside the model's folder{where}; copy the file "
            f"into {file.folder}",
            got=location,
        )
    return Path(path)


def carried_files(file: ModelFile) -> dict[str, memoryview | Path]:
    """Files to store in a bundle: the model, then its external data under the names in the model. Raises
    MissingDataError for an absent file, GraphError for one outside the model's folder."""
    found: dict[str, memoryview | Path] = {"model.onnx": file.data}
    for tensor in _tensors_of(file.proto.graph):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        path = external_file(file, location, f"initializer {tensor.name!r}")
        if not path.is_file():
            text = (
                f"external data of {tensor.name!r} cannot be put into the bundle, its file is absent: {path}"
            )
            raise MissingDataError(text, got=str(path))
        found[os.path.normpath(location)] = path
    return found


def _tensors_of(graph: Any) -> Iterator[Any]:
    """Tensors of a graph and of its subgraphs."""
    yield from graph.initializer
    for node in all_nodes(graph):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            if attribute.HasField("g"):
                yield from attribute.g.initializer
