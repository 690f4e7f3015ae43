"""Tensors from torch, numpy, files and lists, and their conversion back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....base import dtypes
from ...devices.chip_mesh import ChipMesh
from ...errors import called, expect, failed, mistaken
from ...memory.configs import MemoryConfig
from ...memory.values import DEFAULT_TILE, DataType, Layout, Tile
from ...tensors.distributed import TensorToMesh
from ...tensors.mesh_tensor import MeshTensor
from ...tensors.tensor import Tensor, on_device, on_host
from ...tensors.tensorbin import TensorFile, read_tensor, write_tensor
from ..bodies import AnyTensor
from ..movement.moves import to_device
from ..operation import of_all_chips, operation

# numpy's dtype -> the tensor's dtype if the caller names none
OF_NUMPY = {
    "float32": DataType.FLOAT32,
    "bfloat16": DataType.BFLOAT16,
    "float16": DataType.BFLOAT16,
    "int32": DataType.INT32,
    "uint32": DataType.UINT32,
    "int64": DataType.UINT32,
    "uint16": DataType.UINT16,
    "int16": DataType.UINT16,
    "uint8": DataType.UINT8,
    "bool": DataType.UINT8,
}


def as_numpy(value: Any) -> np.ndarray:
    """An array of a torch tensor (for bfloat16 with the dtype of ml_dtypes), or of anything that numpy
    converts."""
    if isinstance(value, np.ndarray) or not hasattr(value, "detach"):
        return np.asarray(value)
    value = value.detach().cpu().contiguous()
    if str(value.dtype) == "torch.bfloat16":
        import torch

        return value.view(torch.int16).numpy().view(dtypes.to_numpy("bfloat16"))
    return value.numpy()


def as_torch(values: np.ndarray, dtype: DataType) -> Any:
    """A torch tensor of the values of a tensor of ``dtype``: bfloat16 for bfloat16, float32 for other floats,
    the same type for integers."""
    import torch

    made = torch.from_numpy(np.ascontiguousarray(values)).reshape(values.shape)
    return made.to(torch.bfloat16) if dtype is DataType.BFLOAT16 else made


def _cast(values: np.ndarray, dtype: DataType) -> np.ndarray:
    """The values in another dtype, as C casts them: integers wrap."""
    to = dtypes.to_numpy(dtype.stored[0])
    if dtype.is_float:
        if dtype.is_block:  # blocks are made of bfloat16 values, as in ttnn
            values = values.astype(dtypes.to_numpy("bfloat16"))
        return values.astype(to)
    if values.dtype.kind not in "iub":
        values = values.astype(np.float64).astype(np.int64)
    return values.astype(to)


def build(
    values: np.ndarray,
    dtype: DataType | None,
    layout: Layout | None,
    device: Any = None,
    config: MemoryConfig | None = None,
    padding: float | None = None,
    tile: Tile | None = None,
) -> Tensor:
    """A tensor with the values of an array, on a device if one is given. Raises RuntimeError for types that
    do not fit."""
    if dtype is None:
        found = OF_NUMPY.get(values.dtype.name)
        expect(found is not None, f"Unsupported data type {values.dtype.name}: give dtype=")
        dtype = found
    if not isinstance(dtype, DataType):
        raise mistaken(f"{dtype!r} is no ttnn.DataType")
    expect(dtype is not DataType.INVALID, "DataType.INVALID is no data type")
    if layout is None:
        layout = Layout.TILE if dtype.is_block else Layout.ROW_MAJOR
    if dtype.is_block and layout is Layout.ROW_MAJOR:
        raise failed("Layout must be Layout::TILE for bfloat8_b or bfloat4_b!")
    values = _cast(values, dtype)
    padding, tile = 0 if padding is None else padding, tile or DEFAULT_TILE
    if device is None:
        made = on_host(values, dtype, layout, padding, tile=tile)
        made._config = config
        return made
    device.refuse_in_capture("Writes are")
    return on_device(called(), values, dtype, layout, device, config, padding, tile)


def _check_columns(tensor: Any, dtype: DataType | None, layout: Layout | None, spec: Any) -> None:
    """Raise RuntimeError for a tensor that cannot be packed by columns."""
    for held, text in (
        (spec is None, "is not supported with spec"),
        (dtype is not None and dtype.is_block, "requires BFP dtype (bfloat8_b or bfloat4_b)"),
        (tensor.ndim >= 2, "requires tensor.ndim >= 2"),
        (layout in (None, Layout.TILE), "requires layout to be None or ttnn.TILE_LAYOUT"),
    ):
        if not held:
            raise RuntimeError(f"ttnn.from_torch: col_tilize=True {text}")


@operation("from_torch")
def from_torch(
    tensor: Any,
    dtype: DataType | None = None,
    *,
    spec: Any = None,
    tile: Tile | None = None,
    pad_value: float | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    preserve_nan_values: bool = False,
    col_tilize: bool = False,
    enable_bfloat_opt: bool = False,
) -> Tensor | None:
    """A tensor with the values of a torch tensor or an array, on the host unless ``device`` is given."""
    if tensor is None:
        return None
    if col_tilize:
        _check_columns(tensor, dtype, layout, spec)
        tensor = tensor.swapaxes(-1, -2)
    if spec is not None:
        given = (dtype, layout, memory_config, tile)
        expect(not any(x is not None for x in given), "spec excludes dtype, layout, memory_config and tile")
        expect(
            spec.shape == list(tensor.shape),
            f"the shape of spec is {spec.shape}, of the tensor {list(tensor.shape)}",
        )
        dtype, layout, memory_config, tile = spec.dtype, spec.layout, spec.memory_config, spec.tile
    if memory_config is not None and memory_config.is_sharded():
        named = memory_config.shard_spec is not None or memory_config.nd_shard_spec is not None
        if not named:
            raise RuntimeError("ttnn.from_torch: Shard spec must not be None for sharded tensors")
    values = as_numpy(tensor)
    return build(values, dtype, layout, device, memory_config, pad_value, tile)


@operation("to_torch")
def to_torch(
    tensor: AnyTensor, dtype: Any = None, *, torch_rank: int | None = None, device: Any = None
) -> Any:
    """A torch tensor of the tensor's values, without padding."""
    made = as_torch(tensor._values(), tensor.dtype)
    if torch_rank is not None:
        while made.dim() > torch_rank:
            if made.shape[0] != 1:
                raise RuntimeError("ttnn: Unable to squeeze to desired rank!")
            made = made.squeeze(0)
    return made if dtype is None else made.to(dtype)


def _cached(name: str, made: Callable[[], Tensor], device: Any, config: Any) -> Tensor:
    if not Path(name).exists():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        dump_tensor.function(name, made())
    read: Tensor = load_tensor.function(name)
    if device is None:
        return read
    moved: Tensor = to_device(read, device, memory_config=config)
    return moved


@of_all_chips("as_tensor")
def as_tensor(
    tensor: Any,
    dtype: DataType | None = None,
    *,
    layout: Layout | None = Layout.ROW_MAJOR,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    cache_file_name: Any = None,
    preprocess: Callable[[Any], Any] | None = None,
    mesh_mapper: Any = None,
) -> Tensor:
    """from_torch(preprocess(tensor)); a file keeps the result if ``cache_file_name`` is given. A tensor that
    each chip of a mesh has whole is kept once, so that it can go to any mesh."""
    if device is not None and memory_config is None:
        raise RuntimeError("memory_config must be specified when device is specified")

    how: dict[str, Any] = {"layout": layout, "memory_config": memory_config}

    def made(device: Any, mapper: Any) -> Tensor:
        value = tensor if preprocess is None else preprocess(tensor)
        found: Tensor = from_torch(value, dtype, device=device, mesh_mapper=mapper, **how)
        return found

    if cache_file_name is None:
        return made(device, mesh_mapper)
    kind = "None" if dtype is None else dtype.name
    name = f"{cache_file_name}_dtype_{kind}_layout_{layout.name if layout else None}.tensorbin"
    mapper = None if isinstance(mesh_mapper, TensorToMesh) and mesh_mapper.copies() else mesh_mapper
    return _cached(name, lambda: made(None, mapper), device, memory_config)


_SUFFIX = ".tensorbin"


def _named(file_name: Any) -> Path:
    if not str(file_name).endswith(_SUFFIX):
        raise RuntimeError(f"file name {file_name} must have {_SUFFIX} extension")
    return Path(file_name)


@of_all_chips("dump_tensor", limits="a sharded tensor is written as an interleaved one")
def dump_tensor(file_name: Any, tensor: AnyTensor, mode: Any = None) -> None:
    """Write a tensor to a .tensorbin file, as tt-metal does. ``mode`` concerns several hosts, and there is
    one."""
    write_tensor(_named(file_name), tensor)


@of_all_chips("load_tensor", limits="no ND shards")
def load_tensor(file_name: Any, *, device: Any = None) -> Tensor:
    """The tensor in a .tensorbin file, on the host, or, with ``device``, in the memory of ``device`` that the
    file names."""
    path = _named(file_name)
    if not path.exists():
        raise RuntimeError(f"Unable to load the tensor from {file_name}. The file does not exist.")
    if not path.is_file():
        raise RuntimeError(f"Unable to load the tensor from {file_name}. The path is not a file.")
    read = read_tensor(path)
    if len(read.parts) == math.prod(read.mesh_shape) == 1 and not isinstance(device, ChipMesh):
        (values,) = read.parts.values()
        config = None if device is None else read.config
        return build(values, read.dtype, read.layout, device, config, tile=read.tile)
    return _several(read, device)


def _several(read: TensorFile, device: Any) -> Tensor:
    """A tensor of several chips from its file, copies in one array; or one for each chip of a mesh."""
    made: dict[int, Tensor] = {}
    parts = {}
    for where, values in read.parts.items():
        if id(values) not in made:
            made[id(values)] = parts[where] = build(values, read.dtype, read.layout, tile=read.tile)
        else:
            parts[where] = made[id(values)]._shared()
    whole: Tensor = MeshTensor(parts, None, read.topology, read.mesh_shape)
    if math.prod(read.mesh_shape) == 1:
        (whole,) = parts.values()
    return whole if device is None else to_device(whole, device, memory_config=read.config)


@operation("from_buffer")
def from_buffer(
    buffer: Sequence[Any],
    shape: Sequence[int],
    dtype: DataType,
    device: Any = None,
    layout: Layout | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor with the values of a list of numbers."""
    text = f"the buffer has {len(buffer)} elements, the shape {list(shape)} {math.prod(shape)}"
    expect(len(buffer) == math.prod(shape), text)
    kind = np.float32 if dtype.is_float else np.int64
    values = np.asarray(buffer, kind).reshape(tuple(shape))
    return build(values, dtype, layout, device, memory_config)
