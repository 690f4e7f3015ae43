"""Global semaphores: a counter at one address of several cores. A model that may run on several chips makes
them for its collectives; they lie in L1, and nothing waits for them: queues are in order."""

from __future__ import annotations

from typing import Any

from ..devices.mesh_device import MeshDevice
from ..errors import mistaken
from ..memory.configs import MemoryConfig, ShardSpec
from ..memory.cores import CoreRangeSet
from ..memory.values import BufferType, DataType, TensorMemoryLayout
from ..tensors.tensor import Tensor
from .creation.filled import full
from .operation import operation

__all__ = ["GlobalSemaphore"]

_WORDS = 4  # of a core: L1 gives 16 bytes, of which the counter is the first word


class GlobalSemaphore:
    """A semaphore that create_global_semaphore made; ``counters``: its words, [cores, 4] of uint32."""

    def __init__(self, counters: Tensor):
        self.counters = counters


@operation("create_global_semaphore")
def create_global_semaphore(
    mesh_device: MeshDevice,
    cores: CoreRangeSet,
    initial_value: int,
    buffer_type: BufferType = BufferType.L1,
) -> GlobalSemaphore:
    """A counter of uint32 on each of ``cores``, at the same address of each."""
    if not isinstance(cores, CoreRangeSet):
        raise mistaken(f"cores is a {type(cores).__name__}, wanted a CoreRangeSet")
    shards = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, buffer_type, ShardSpec(cores, [1, _WORDS]))
    shape = [cores.num_cores(), _WORDS]
    made = full(shape, initial_value, DataType.UINT32, device=mesh_device, memory_config=shards)
    return GlobalSemaphore(made)


create_global_semaphore.also("global_semaphore.create_global_semaphore")


@operation("get_global_semaphore_address")
def get_global_semaphore_address(global_semaphore: Any) -> int:
    """The address of the counter on each core."""
    return _semaphore(global_semaphore).counters.buffer_address()


@operation("reset_global_semaphore_value")
def reset_global_semaphore_value(global_semaphore: Any, reset_value: int) -> None:
    """Set the counters of all cores."""
    counters = _semaphore(global_semaphore).counters
    full(list(counters.shape), reset_value, optional_tensor=counters)


def _semaphore(given: Any) -> GlobalSemaphore:
    if not isinstance(given, GlobalSemaphore):
        raise mistaken(
            f"global_semaphore is a {type(given).__name__}, wanted what create_global_semaphore made"
        )
    return given
