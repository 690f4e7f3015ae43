"""``utils`` of a script that tt-mlir's EmitPy wrote. tt-alchemist puts such a file beside the script; if
there is none, this module is imported. It has the const-eval wrappers of both generations of EmitPy: the
wrappers of one generation take the results of an earlier call, those of the other a dict and a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import interface as ttnn
from ...errors import Unsupported


class DeviceGetter:
    """The one device of a script. The first call of get_device opens it."""

    _instance: Any = None
    _mesh_shape: Any = None
    l1_small_size = 1 << 16

    def __init__(self) -> None:
        raise RuntimeError("This is Singleton, invoke get_device() instead.")

    @classmethod
    def get_device(cls, mesh_shape: Sequence[int], fabric_config: Any = None) -> Any:
        """A mesh of ``mesh_shape``. Raises ValueError if an earlier call asked for another shape,
        RuntimeError for more chips than the machine has. ``fabric_config`` is not set: collectives along
        an axis need none."""
        mesh_shape = tuple(mesh_shape)
        if cls._instance is None or not cls._instance.is_open:
            shape = ttnn.MeshShape(mesh_shape)
            cls._instance = ttnn.open_mesh_device(mesh_shape=shape, l1_small_size=cls.l1_small_size)
            cls._mesh_shape = mesh_shape
        if cls._mesh_shape != mesh_shape:
            text = f"mesh_shape={cls._mesh_shape}, but got mesh_shape={mesh_shape}"
            raise ValueError(f"Device already initialized with {text}")
        return cls._instance


def constEvalFuncWrapper(
    function: Callable[..., Any], inputs: Any, kept: Any, key: Any = None, device: Any = None
) -> Any:
    """The result of the first call ``function(inputs)``; later calls return it again. ``kept``: results of an
    earlier call, or, with ``key``, a dict that holds the results by key."""
    arguments = [inputs] if device is None else [inputs, device]
    return _once(function, arguments, kept, key)


def constEvalFuncWrapperZeroArg(
    function: Callable[..., Any], kept: Any, key: Any = None, device: Any = None
) -> Any:
    """constEvalFuncWrapper for a function that takes no tensors."""
    return _once(function, [] if device is None else [device], kept, key)


def _once(function: Callable[..., Any], arguments: list[Any], kept: Any, key: Any) -> Any:
    if key is None:
        return kept or function(*arguments)
    if key not in kept:
        kept[key] = function(*arguments)
    return kept[key]


def get_scalar_from_tensor(tensor: Any) -> int:
    """The number of a uint32 tensor of one element."""
    assert tensor.logical_volume() == 1, "expected scalar tensor"
    assert tensor.dtype == ttnn.DataType.UINT32, "expected uint32 tensor"
    return int(ttnn.from_device(tensor).item())


def load_tensor(file_path: str, layout: Any, dtype: Any, device: Any, memory_config: Any) -> Any:
    """A tensor from a file, in the given layout and type, on ``device`` unless that is None."""
    loaded = ttnn.load_tensor(file_path)
    if loaded.layout != layout:
        loaded = ttnn.to_layout(loaded, layout)
    if loaded.dtype != dtype:
        loaded = ttnn.to_dtype(loaded, dtype)
    return loaded if device is None else ttnn.to_device(loaded, device, memory_config)


def execute_cpu_hoisted_function(inputs: Any, function: Callable[..., Any], mesh_shape: Any = None) -> Any:
    """The results, a tensor or a tuple of tensors, of a function of torch tensors that the compiler left to
    the host."""
    found = function(*[ttnn.to_torch(tensor) for tensor in inputs])
    made = [ttnn.from_torch(x) for x in (found if isinstance(found, (list, tuple)) else [found])]
    return made[0] if len(made) == 1 else tuple(made)


def create_global_semaphore(input_tensor: Any) -> Any:
    """Raises Unsupported: only scripts with collectives, which are declined, ask for it."""
    raise Unsupported("utils.create_global_semaphore is not supported: it is for collectives", op="utils")
