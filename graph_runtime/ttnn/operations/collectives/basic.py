"""ttnn's collectives: all_gather, reduce_scatter, all_reduce, all_broadcast, broadcast, point_to_point,
mesh_partition.

Arguments that choose links, workers and buffers on silicon have no effect on a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ...answers import get_fabric_config
from ...devices import kernels
from ...devices.chips import FabricConfig, MeshCoordinate, Topology
from ...errors import expect, mistaken
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE, Layout
from ...tensors.mesh_tensor import MeshTensor
from ...tensors.placements import PlacementReplicate, PlacementShard
from ...tensors.tensor import Tensor
from ..operation import of_all_chips
from ..results import target
from . import exchange
from .placing import cut_along, cut_over_all, groups, members, mesh_of, placed, replicated_along, size_along

_RINGS = (FabricConfig.FABRIC_1D_RING, FabricConfig.FABRIC_2D_TORUS_XY)
_PLANES = (
    FabricConfig.FABRIC_2D,
    FabricConfig.FABRIC_2D_TORUS_X,
    FabricConfig.FABRIC_2D_TORUS_Y,
    FabricConfig.FABRIC_2D_TORUS_XY,
)


def _axis(dim: int, x: Tensor) -> int:
    rank = len(x.shape)
    if not isinstance(dim, int):
        raise mistaken(f"dim is {dim!r}, wanted an int")
    expect(-rank <= dim < rank, f"Invalid dim {dim} for a tensor of rank {rank}")
    return dim % rank


def _is_ring(x: MeshTensor, axis: int | None, topology: Any) -> bool:
    """Whether chips of a group form a ring: if the call or the fabric asks for one, of more than two chips
    (ccl_common.cpp: get_usable_topology)."""
    if not isinstance(topology, Topology | None):
        raise mistaken(f"topology is {topology!r}, wanted a ttnn.Topology")
    asked = topology is Topology.Ring or (topology is None and get_fabric_config() in _RINGS)
    if not asked:
        return False
    shape = mesh_of(x).shape
    return bool(shape[axis] > 2) if axis is not None else all(size != 2 for size in shape)


def _reaches_all(x: MeshTensor, axis: int | None) -> bool:
    """Whether a group without an axis is a line of cables: the fabric has two dimensions, or the mesh one."""
    return axis is not None or get_fabric_config() in _PLANES or 1 in mesh_of(x).shape


def _of_several(op: str, x: Tensor, axis: int | None) -> tuple[MeshTensor, int]:
    """The operand of a collective, and the number of chips of each group."""
    count = size_along(x, axis)
    expect(count > 1, f"{op} will only work for num_devices > 1, but has {count}")
    assert isinstance(x, MeshTensor)  # others have one chip
    return x, count


def _cuts_tiles(x: Tensor, dim: int) -> bool:
    """Whether pieces of a dimension are no whole tiles: the release then broadcasts all and concatenates."""
    return x.layout is Layout.TILE and dim >= len(x.shape) - 2 and x.shape[dim] % TILE_SIZE != 0


@of_all_chips("all_gather")
def all_gather(
    input_tensor: Tensor,
    dim: int,
    *,
    cluster_axis: int | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Any = None,
    subdevice_id: Any = None,
    sub_core_grids: Any = None,
    num_links: int | None = None,
    topology: Any = None,
    chunks_per_sync: int | None = None,
    num_workers_per_link: int | None = None,
    num_buffers_per_channel: int | None = None,
    use_l1_small_for_semaphores: bool = False,
) -> Tensor:
    """The parts of the chips along an axis of the mesh, one after another along ``dim``, on each of them."""
    x, _ = _of_several("all_gather collective", input_tensor, cluster_axis)
    at = _axis(dim, x)
    text = "all_gather on a mesh of two dimensions needs a cluster_axis, or a fabric of two dimensions"
    expect(_reaches_all(x, cluster_axis) or _cuts_tiles(x, at), text)
    into = None if output_tensor is None else _output(output_tensor, x)
    made = {}
    for group in groups(x, cluster_axis):
        parts = members(x, group)
        for where, part in zip(group, parts, strict=True):
            chip: Any = part._device
            given = None if into is None else into.part(where)
            made[where] = exchange.gathered(parts, chip, at, memory_config, given)
    return placed(x, cluster_axis, replicated_along, made)


def _output(given: Any, x: Tensor) -> MeshTensor:
    """The tensor to write, of the input's dtype. Raises TypeError, RuntimeError."""
    if not isinstance(given, MeshTensor):
        raise mistaken(f"output_tensor is a {type(given).__name__}, wanted a ttnn.Tensor on the mesh")
    expect(
        given.dtype is x.dtype, f"Output tensor data_type {given.dtype.name} does not match {x.dtype.name}"
    )
    return given


@of_all_chips("reduce_scatter")
def reduce_scatter(
    input_tensor: Tensor,
    dim: int,
    *,
    cluster_axis: int | None = None,
    subdevice_id: Any = None,
    memory_config: MemoryConfig | None = None,
    intermediate_memory_config: MemoryConfig | None = None,
    output_tensor: Any = None,
    num_links: int | None = None,
    topology: Any = None,
    chunks_per_sync: int | None = None,
    num_workers_per_link: int | None = None,
    num_buffers_per_channel: int | None = None,
    compute_kernel_config: Any = None,
    use_l1_small_for_semaphores: bool = False,
) -> Tensor:
    """The sum of the chips' tensors along an axis of the mesh, of which each chip keeps a part of ``dim``."""
    x, count = _of_several("reduce_scatter op", input_tensor, cluster_axis)
    at = _axis(dim, x)
    text = f"Dimension {at} must be divisible by ring_size {count}, it is {x.shape[at]}"
    expect(x.shape[at] % count == 0, text)
    made = _scattered(x, cluster_axis, at, topology, memory_config)
    if output_tensor is not None:
        into = _output(output_tensor, x)
        made = {where: _written(one, into, where) for where, one in made.items()}
    if cluster_axis is None:
        return cut_over_all(x, at, made)
    return placed(x, cluster_axis, cut_along(at), made)


def _scattered(
    x: Any, axis: int | None, dim: int, topology: Any, config: MemoryConfig | None
) -> dict[MeshCoordinate, Tensor]:
    made: dict[MeshCoordinate, Tensor] = {}
    ring = _is_ring(x, axis, topology)
    for group in groups(x, axis):
        made.update(zip(group, exchange.scattered(members(x, group), dim, ring, config), strict=True))
    return made


@of_all_chips("all_reduce")
def all_reduce(
    input_tensor: Tensor,
    *,
    cluster_axis: int | None = None,
    subdevice_id: Any = None,
    memory_config: MemoryConfig | None = None,
    num_links: int | None = None,
    topology: Any = None,
) -> Tensor:
    """The sum of the chips' tensors along an axis of the mesh, on each of them: a reduce_scatter and an
    all_gather over a dimension that can be cut into whole tiles, else the sum of all on each chip."""
    x, count = _of_several("all_reduce op", input_tensor, cluster_axis)
    dim = _cut_dim(x, count)
    sums = {} if dim is None else _scattered(x, cluster_axis, dim, topology, None)
    made = {}
    for group in groups(x, cluster_axis):
        parts = members(x, group)
        for where, part in zip(group, parts, strict=True):
            chip: Any = part._device
            if dim is not None:
                pieces = [sums[at] for at in group]
                made[where] = exchange.gathered(pieces, chip, dim, memory_config or x._config)
            else:
                made[where] = exchange.total_on(chip, parts, memory_config)
    return placed(x, cluster_axis, replicated_along, made)


def _cut_dim(x: Tensor, count: int) -> int | None:
    """The last dimension that ``count`` chips can cut evenly, in tiles if the tensor is."""
    rank = len(x.shape)
    for dim in reversed(range(rank)):
        unit = TILE_SIZE if x.layout is Layout.TILE and dim >= rank - 2 else 1
        if x.shape[dim] % (unit * count) == 0 and x.shape[dim]:
            return dim
    return None


@of_all_chips("all_broadcast")
def all_broadcast(
    input_tensor: Tensor,
    *,
    cluster_axis: int | None = None,
    subdevice_id: Any = None,
    memory_config: MemoryConfig | None = None,
    num_links: int | None = 1,
    topology: Any = Topology.Linear,
    use_l1_small_for_semaphores: bool = False,
) -> list[Tensor]:
    """Each chip's tensor on all chips along an axis of the mesh: a list with a tensor a chip."""
    x, count = _of_several("all_broadcast op", input_tensor, cluster_axis)
    made: list[dict[MeshCoordinate, Tensor]] = [{} for _ in range(count)]
    for group in groups(x, cluster_axis):
        parts = members(x, group)
        for source, part in enumerate(parts):
            for where, own in zip(group, parts, strict=True):
                made[source][where] = _on(part, own._device, memory_config)
    return [placed(x, cluster_axis, replicated_along, one) for one in made]


def _on(part: Tensor, chip: Any, config: MemoryConfig | None) -> Tensor:
    """A copy of a part on a chip, its own included."""
    here = exchange.sent(part, chip)
    if here is part or config is not None:
        here = target(here, config).wrap(kernels.copied(here._handle))
    return here


@of_all_chips("broadcast")
def broadcast(
    input_tensor: Tensor,
    sender_coord: Any,
    *,
    num_links: int | None = None,
    memory_config: MemoryConfig | None = None,
    topology: Any = Topology.Linear,
    cluster_axis: int | None = None,
    subdevice_id: Any = None,
) -> Tensor:
    """One chip's tensor on all chips along an axis of the mesh. The sender is a coordinate; along an axis
    each line has a sender of its own, at the coordinate's place on that axis."""
    (x, _), sender = _of_several("broadcast op", input_tensor, cluster_axis), _coordinate(sender_coord)
    lines = [x.coordinates] if cluster_axis is None else groups(x, cluster_axis)
    if cluster_axis is None:
        shape, count = x.tensor_topology().distribution_shape(), len(x.coordinates)
        line = sum(size > 1 for size in shape) <= 1
        expect(line, "broadcast op is only supported for a linear tensor topology shape")
        expect(count > 1, f"broadcast op will only work for num_devices > 1, but has {count}")
    made: dict[MeshCoordinate, Tensor] = {}
    for group in lines:
        _check_cabled(group)
        number = _number(group, sender, cluster_axis)
        parts = members(x, group)
        for where, own in zip(group, parts, strict=True):
            made[where] = _on(parts[number], own._device, memory_config)
    return placed(x, cluster_axis, replicated_along, made)


def _number(group: list[MeshCoordinate], sender: MeshCoordinate, axis: int | None) -> int:
    """The sender's number in a group."""
    if axis is None:
        expect(sender in group, f"the sender {tuple(sender)} has no part of the tensor")
        return group.index(sender)
    inside = len(sender) == len(group[0]) and 0 <= sender[axis] < len(group)
    expect(inside, f"the sender {tuple(sender)} is outside of the mesh")
    return int(sender[axis])


def _check_cabled(group: list[MeshCoordinate]) -> None:
    """Raise RuntimeError for a line in which two chips that follow each other are no neighbours."""
    for a, b in pairwise(group):
        apart = sum(abs(p - q) for p, q in zip(a, b, strict=True))
        text = f"Could not find any forwarding direction from src {tuple(a)} to dst {tuple(b)}"
        expect(apart == 1, text)


def _coordinate(given: Any) -> MeshCoordinate:
    if not isinstance(given, Sequence):
        raise mistaken(f"{given!r} is no ttnn.MeshCoordinate")
    return MeshCoordinate(given)


@of_all_chips("point_to_point")
def point_to_point(
    input_tensor: Tensor,
    sender_coord: Any,
    receiver_coord: Any,
    *,
    output_tensor: Any = None,
    intermediate_tensor: Any = None,
    topology: Any = Topology.Linear,
) -> Tensor:
    """A tensor like the input, or ``output_tensor``, in which the receiver has the sender's part."""
    x, sender, receiver = input_tensor, _coordinate(sender_coord), _coordinate(receiver_coord)
    expect(isinstance(x, MeshTensor), "point_to_point needs a tensor on a mesh of devices")
    assert isinstance(x, MeshTensor)
    expect(sender != receiver, f"the sender and the receiver are one chip, {tuple(sender)}")
    page = x.parts[0].buffer_page_size()
    step = 16
    text = f"the size of a page, {page} B, must be a multiple of the alignment of L1, {step} B"
    expect(page % step == 0, text)
    for where in (sender, receiver):
        x.part(where)
    if output_tensor is not None:
        into = _output(output_tensor, x)
        made = dict(into._parts)
        made[receiver] = _written(_on(x.part(sender), mesh_of(x).at(receiver), None), into, receiver)
    else:
        sources = {where: x.part(sender) if where == receiver else part for where, part in x._parts.items()}
        made = {where: _on(source, mesh_of(x).at(where), None) for where, source in sources.items()}
    return MeshTensor(made, mesh_of(x), x.tensor_topology())


def _written(part: Tensor, into: MeshTensor, where: MeshCoordinate) -> Tensor:
    return target(part, None, into.part(where)).wrap(part._handle)


@of_all_chips("mesh_partition")
def mesh_partition(
    input_tensor: Tensor,
    dim: int,
    cluster_axis: int | None = None,
    *,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Of each chip's tensor the part of ``dim`` that has the chip's number along an axis of the mesh."""
    x, count = input_tensor, size_along(input_tensor, cluster_axis)
    at = _axis(dim, x)
    text = f"input_shape[dim] must be divisible by cluster_axis_size: {x.shape[at]} % {count}"
    expect(x.shape[at] % count == 0, text)
    size = x.shape[at] // count
    whole = all(extent % TILE_SIZE == 0 for extent in x.shape[-2:])  # others are cut in rows
    tiled = x.layout is Layout.TILE and whole and at >= len(x.shape) - 2
    expect(
        not tiled or count == 1 or size % TILE_SIZE == 0,
        f"a part of {size} elements of dimension {at} is no whole number of tiles",
    )
    if not isinstance(x, MeshTensor):
        return exchange.piece(x, at, 0, 1, memory_config)
    order = mesh_of(x).coordinates()
    made = {
        where: exchange.piece(
            part,
            at,
            order.index(where) if cluster_axis is None else where[cluster_axis],
            count,
            memory_config,
        )
        for where, part in x._parts.items()
    }
    topology, shape = x.tensor_topology(), mesh_of(x).shape
    if cluster_axis is None:
        cut = topology.is_replicated()
        return cut_over_all(x, at, made) if cut else MeshTensor(made, mesh_of(x), topology)
    if count > 1 and (topology.is_replicated() or len(topology.placements()) > 1 or 1 in shape):
        return placed(x, cluster_axis, _cut_if_whole(at) if 1 not in shape else cut_along(at), made)
    return MeshTensor(made, mesh_of(x), x.tensor_topology())


def _cut_if_whole(dim: int) -> Callable[[Any], Any]:
    return lambda one: PlacementShard(dim) if isinstance(one, PlacementReplicate) else one
