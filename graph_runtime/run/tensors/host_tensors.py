"""Tensors made from a caller's host memory, plain copies between tensors and host memory, and tensors in
files.

tt-mlir's functions take addresses. The functions here take arrays (or DLPack owners or buffers), which know
their length, so that a wrong shape is an error and no crash."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...artifacts.prepare import read_params
from ...base import dtypes
from ...base.errors import DocumentError, InputError, ParamsError
from ...base.exact import exactly
from ...base.files.mapped import as_path, read_file
from ...base.json_text import parse_json
from ...base.machine.devices import Device, cpu, parse
from ...base.machine.layout import HOST, Layout, pages
from ...base.machine.shards import Shard
from ...ir.documents.params import save_params
from . import arrays
from .dlpack import viewed
from .tensor import Tensor
from .transfers import to

# dtype that no tt device stores -> dtype of an owned tensor with its values (tt-mlir's rule)
ALIASES = {dtype: f.narrower[-1] for dtype, f in dtypes.BY_DTYPE.items() if f.narrower}


class TensorDesc(NamedTuple):
    """Description of a tensor. ``stride``: in elements, of the dense row-major form. ``volume``: number of
    elements; ``physical_volume``: number of elements for which the layout has room (tiles are padded)."""

    shape: tuple[int, ...]
    dtype: str
    item_size: int
    stride: tuple[int, ...]
    volume: int
    physical_volume: int


def describe(tensor: Tensor) -> TensorDesc:
    """Description of a tensor without its values."""
    shape, stored = tensor.shape, dtypes.FORMATS.get(tensor.layout.format)
    stride = tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))
    physical = tensor.size
    if tensor.layout.memory != HOST and stored is not None:
        page = pages(tensor.layout, shape)
        tiled = tensor.layout.layout == "tile"  # block formats are always tiled
        physical = page.count * (1024 if tiled or not stored.itemsize else page.nbytes // stored.itemsize)
    itemsize = dtypes.parse(tensor.dtype).itemsize
    return TensorDesc(shape, tensor.dtype, itemsize, stride, tensor.size, physical)


# **************** owned tensors ****************


def owned(value: Any, dtype: str | None = None) -> Tensor:
    """A host tensor with a dense copy of ``value``, whatever its strides.

    ``dtype``: the dtype to cast to; None: the dtype of the value. If no device stores that dtype (float64,
    float16, int64, uint64), None means the nearest stored dtype, which must hold all values. Raises
    InputError, DocumentError for an unknown dtype."""
    plain = isinstance(value, (list, tuple, int, float, bool, Tensor))
    array = np.asarray(value) if plain else viewed(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    name = dtypes.from_numpy(array.dtype)
    if dtype is None:
        wanted = ALIASES.get(name, name)
        values = exactly(array, dtypes.to_numpy(wanted), "the value")
    else:
        wanted = dtypes.canonical(dtype)
        values = cast(array, wanted)
    made = arrays.empty(array.shape, wanted)
    made.copy_from(values)
    return made


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """The values in another dtype. For integers, values are clipped to the dtype's range and NaN becomes 0;
    for bool, all values but zero become true."""
    wanted = dtypes.to_numpy(dtype)
    if array.dtype == wanted:
        return array
    if wanted.kind not in "iu":
        return array != 0 if wanted == np.bool_ else array.astype(wanted)
    if array.dtype == np.bool_:
        return array.astype(wanted)
    info = np.iinfo(wanted)
    if array.dtype.kind in "iu":
        mine = np.iinfo(array.dtype)
        low, high = max(info.min, mine.min), min(info.max, mine.max)
        return np.clip(array, array.dtype.type(low), array.dtype.type(high)).astype(wanted)
    whole = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = np.clip(whole, float(info.min), np.nextafter(float(info.max) + 1, 0))
    return inside.astype(wanted)


# **************** copies ****************


def memcpy(target: Any, source: Tensor, dtype: str | None = None) -> None:
    """Copy all values of ``source`` into ``target``, a Tensor or writable host memory, and wait.

    Types must be equal. ``dtype``: the target's dtype, to which the values are cast as ``owned`` does. Device
    tensors arrive row-major in their logical dtype. Raises InputError, HandleError."""
    if not isinstance(source, Tensor):
        text = f"memcpy copies from a Tensor, got {type(source).__name__}"
        raise InputError(text, got=type(source).__name__)
    if isinstance(target, Tensor) and dtype is None:
        target.copy_from(source, "the source")
        return
    into = target if isinstance(target, Tensor) else viewed(target)
    name = into.dtype if isinstance(into, Tensor) else dtypes.from_numpy(into.dtype)
    if name != (dtypes.canonical(dtype) if dtype is not None else source.dtype):
        text = f"the target is {name}, the source {source.dtype}: pass dtype={name!r} to cast"
        raise InputError(text, got=source.dtype, wanted=name)
    if into.shape != source.shape:
        text = f"the target has shape {into.shape}, the source {source.shape}"
        raise InputError(text, got=source.shape, wanted=into.shape)
    values = cast(source.numpy(), name)
    if isinstance(into, Tensor):
        into.copy_from(values)
        return
    if not into.flags.writeable:
        raise InputError("the target is read-only")
    np.copyto(into, values)


# **************** files ****************


def dump(tensor: Tensor, path: str | os.PathLike[str]) -> None:
    """Write a tensor's values, device and layout to a file: TVM's parameter binary with one entry, whose name
    is the device and layout as JSON. Raises ParamsError for a dtype that has no array form, OSError."""
    layout = tensor.layout
    where = {"device": str(tensor.device), **asdict(layout)}
    save_params({orjson.dumps(where).decode(): tensor.numpy()}, as_path(path, "a tensor's file"))


def _shard(said: dict[str, Any] | None) -> Shard | None:
    if said is None:
        return None
    (top, left), (bottom, right) = said["grid"]
    rows, cols = said["shape"]
    return Shard(said["kind"], ((top, left), (bottom, right)), (rows, cols), said["orientation"])


def load(path: str | os.PathLike[str], device: Device | str | None = None) -> Tensor:
    """The tensor that ``dump`` wrote: on ``device`` in its former layout, or on the host if no device is
    given. Raises ParamsError or DocumentError for another kind of file, DeviceError if the device cannot hold
    the tensor."""
    file = Path(as_path(path, "a tensor's file"))
    try:
        found = read_params(read_file(file))
    except OSError as error:
        raise ParamsError(f"cannot read {file}: {error.strerror}", got=str(file)) from None
    try:
        ((text, values),) = found.items()
        where = parse_json(text.encode(), "the place of a tensor")
        layout = Layout(where["memory"], where["layout"], where["format"], _shard(where["shard"]))
    except (DocumentError, ValueError, KeyError, TypeError):
        text = f"{file} is a parameter file that dump_tensor did not write"
        raise DocumentError(text, got=str(file)) from None
    made = arrays.array(values, cpu(0))
    if device is None:
        return made
    device = parse(device)
    keeps = layout.memory != HOST and layout.memory in [m.name for m in device.descriptor.memories]
    return to(made, device, layout if keeps else None)
