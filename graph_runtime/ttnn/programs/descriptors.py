"""Plain descriptions that scripts make for kernels of their own, sockets and configurations of single
operations: classes with the fields of the release. What would run such a kernel is declined by name."""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ...base.errors import did_you_mean
from ..memory.cores import CoreRangeSet
from ..memory.enums import (
    NOC,
    NOC_MODE,
    CoreType,
    DataMovementProcessor,
    McastDataReady,
    McastSenderPlacement,
    TransferMode,
)
from ..memory.values import MathFidelity

_NEEDED = object()


class Record:
    """A record with named fields. ``_fields``: each field with its default; ``_by_place``: number of fields
    that may be given by their place. Two records are equal if all fields are."""

    _fields: ClassVar[dict[str, Any]] = {}
    _by_place = 0

    def __init__(self, *args: Any, **given: Any):
        name = type(self).__name__
        if len(args) > self._by_place:
            raise TypeError(f"{name}() takes {self._by_place} arguments by place, got {len(args)}")
        said = dict(zip(self._fields, args, strict=False)) | given
        for key in said:
            if key not in self._fields:
                raise TypeError(f"{name}() has no argument {key!r}{did_you_mean(key, self._fields)}")
        missing = [key for key, usual in self._fields.items() if usual is _NEEDED and key not in said]
        if missing and said:
            raise TypeError(f"{name}() misses {', '.join(missing)}")
        for key, usual in self._fields.items():
            setattr(self, key, said.get(key, None if usual is _NEEDED else copy.copy(usual)))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


# class -> its fields: those before "*" may be given by place; "!" marks a field that is needed
_FIELDS = {
    "CBDescriptor": "total_size! core_ranges! format_descriptors!",
    "CBFormatDescriptor": "buffer_index! data_format! page_size! tile",
    "ChunkGdnFusedProgramConfig": (
        "* num_producers num_receivers row_local handoff_depth unicast posted producer_pool "
        "pool_extra_share handoff_checks handoff_fault"
    ),
    "ChunkGdnMonoProgramConfig": "",
    "ChunkGdnPhasedProgramConfig": "* use_mcast scan_serial prep_serial",
    "ComputeConfigDescriptor": (
        "math_fidelity math_approx_mode fp32_dest_acc_en dst_full_sync_en bfp8_pack_precise"
    ),
    "D2DStageGateConfig": "num_gates! slot_id_offset_bytes! gate_mode_offset_bytes!",
    "DataMovementConfigDescriptor": "processor noc noc_mode",
    "FabricRouterConfig": "max_packet_payload_size_bytes",
    "FaceGeometry": "face_r_dim! num_faces!",
    "IndexerScoreProgramConfig": "* q_chunk_size k_chunk_size head_group_size",
    "KernelDescriptor": (
        "kernel_source! source_type core_ranges! compile_time_args named_compile_time_args defines "
        "runtime_args common_runtime_args opt_level config! compiler_include_paths"
    ),
    "LayerNormInputs": "input! bias recip_tensor residual_input_tensor stats weight",
    "LayerNormParams": (
        "compute_kernel_config distributed_norm_stage dtype eps norm_type output_mem_config program_config"
    ),
    "MatmulInputs": "input_tensors optional_input_tensors optional_output_tensors",
    "MatmulParams": (
        "bcast_batch compute_kernel_config output_dtype output_mem_config program_config transpose_a "
        "transpose_b untilize_out"
    ),
    "McastConfig": "* noc handshake handshake_cores data_ready irregular_receiver_set_mode",
    "McastExplicitFixedSenderConfig": "senders_per_group!",
    "McastFixedSenderConfig": "* sender_index placement",
    "McastRotatingSenderConfig": "sender_cores * sender_order",
    "MeshCoreCoord": "device_coord! core_coord!",
    "MeshProgramDescriptor": "mesh_programs",
    "OverlappedTensor": (
        "fused_tensor! tensor_shape! shard_shape! core_range_set! dtype! tile_shape! byte_offset total_size"
    ),
    "PagedCacheGeometryOverride": "* block_size num_kv_heads",
    "ProgramDescriptor": "kernels semaphores cbs",
    "ReaderConfigDescriptor": "",
    "SemaphoreDescriptor": "id! core_type core_ranges! initial_value!",
    "SliceInputs": "input! preallocated_output",
    "SliceParams": (
        "output_mem_config output_mem_config_inherited slice_end slice_start step sub_core_grids"
    ),
    "SlidingWindowParallelConfig": "* grid! shard_scheme! shard_orientation!",
    "SocketConfig": "connections! memory_config! sender_rank receiver_rank sender_mesh_id receiver_mesh_id",
    "SocketConnection": "sender_core! receiver_core!",
    "SocketMemoryConfig": (
        "socket_storage_type! fifo_size! sender_sub_device receiver_sub_device per_core_allocation"
    ),
    "TileDescriptor": "height! width! transpose",
    "WriterConfigDescriptor": "",
    "YUVCoefficients": "y! cb! cr!",
}
# defaults other than None, of all classes that have a field of the name
_DEFAULTS: dict[str, Any] = {
    "compile_time_args": [],
    "named_compile_time_args": [],
    "defines": [],
    "common_runtime_args": [],
    "runtime_args": [],
    "compiler_include_paths": [],
    "kernels": [],
    "semaphores": [],
    "cbs": [],
    "mesh_programs": {},
    "input_tensors": [],
    "optional_input_tensors": [],
    "optional_output_tensors": [],
    "unicast": True,
    "posted": False,
    "handoff_checks": False,
    "handoff_fault": 0,
    "use_mcast": True,
    "scan_serial": False,
    "prep_serial": False,
    "math_fidelity": MathFidelity.HiFi4,
    "math_approx_mode": False,
    "fp32_dest_acc_en": False,
    "dst_full_sync_en": False,
    "bfp8_pack_precise": False,
    "processor": DataMovementProcessor.RISCV_0,
    "noc": NOC.RISCV_0_default,
    "noc_mode": NOC_MODE.DM_DEDICATED_NOC,
    "q_chunk_size": 32,
    "k_chunk_size": 32,
    "head_group_size": 1,
    "handshake": True,
    "data_ready": McastDataReady.Flag,
    "irregular_receiver_set_mode": TransferMode.Multicast,
    "sender_index": 0,
    "placement": McastSenderPlacement.Uniform,
    "byte_offset": 0,
    "total_size": 0,
    "block_size": 0,
    "num_kv_heads": 0,
    "core_type": CoreType.WORKER,
    "per_core_allocation": False,
    "transpose": False,
}


def _record(name: str, text: str) -> type[Record]:
    by_place, _, by_name = text.partition("*")
    fields = {}
    for word in (*by_place.split(), *by_name.split()):
        field = word.removesuffix("!")
        fields[field] = _NEEDED if word.endswith("!") else _DEFAULTS.get(field)
    many = len(by_place.split())
    return type(name, (Record,), {"_fields": fields, "_by_place": many, "__module__": __name__})


_MADE: dict[str, Any] = {name: _record(name, text) for name, text in _FIELDS.items()}


class RuntimeArgs:
    """Arguments of a kernel for each core: ``args[x][y] = [1, 2]``."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, list[int]]] = {}

    def __getitem__(self, x: int) -> dict[int, list[int]]:
        return self._of.setdefault(x, {})

    def append(self, core: Any, values: Iterable[int]) -> None:
        self[core.x].setdefault(core.y, []).extend(values)

    def clear(self) -> None:
        self._of.clear()

    def to_list(self) -> list[tuple[tuple[int, int], list[int]]]:
        return [((x, y), values) for x, column in self._of.items() for y, values in column.items()]


class SubDevice:
    """Groups of cores; a device here has one sub-device only."""

    def __init__(self, cores: Iterable[CoreRangeSet]):
        self.cores = list(cores)


class _Number(int):
    """A number with a name of its own in ttnn."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


_SourceType = enum.Enum("_SourceType", "FILE_PATH SOURCE_CODE", start=0)
_MADE["KernelDescriptor"].SourceType = _SourceType
_NUMBERS = "QueueId MeshTraceId Rank Size SubcontextId SubDeviceId SubDeviceManagerId".split()
_MADE |= {name: type(name, (_Number,), {"__module__": __name__}) for name in _NUMBERS}
globals().update(_MADE)


class MeshCoordinateRangeSet:
    """Rectangles of a mesh's coordinates."""

    def __init__(self, range: Any = None):
        self._ranges = [] if range is None else [range]

    def merge(self, range: Any) -> None:
        if range not in self._ranges:
            self._ranges.append(range)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"MeshCoordinateRangeSet({self._ranges})"


__all__ = sorted({*_MADE, "MeshCoordinateRangeSet", "RuntimeArgs", "SubDevice"})
