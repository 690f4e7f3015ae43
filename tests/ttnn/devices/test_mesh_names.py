"""What ttnn answers about meshes, and the forms of what it takes, as the release 0.81.1 has them."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices.mesh_device import use_board

pytestmark = pytest.mark.core
R, S, C = ttnn.PlacementReplicate, ttnn.PlacementShard, ttnn.MeshCoordinate
SHAPE = ttnn.MeshShape(1, 2)

MACHINES = {
    "n150": ((1, 1), "N150", 1),
    "n300": ((2, 1), "N300", 1),
    "t3000": ((2, 4), "T3K", 4),
    "galaxy": ((8, 4), "GALAXY", 32),
    "p150x4": ((2, 2), "P150_X4", 4),
    "p150x8": ((2, 4), "P150_X8", 8),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_says_its_chips(on_board, name):
    shape, kind, on_pcie = MACHINES[name]
    mesh = on_board(name)
    system = ttnn._ttnn.multi_device.SystemMeshDescriptor()
    assert system.shape() == system.local_shape() == mesh.shape == shape
    assert system.all_local()
    last = C([size - 1 for size in shape])
    assert system.is_local(last)
    assert system.get_device_id(last) == mesh.get_device_id(last) == np.prod(shape) - 1
    with pytest.raises(RuntimeError, match=r"MeshCoordinate\(\[9, 0\]\) is out of bounds"):
        system.get_device_id(C(9, 0))
    assert ttnn.cluster.get_cluster_type().name == kind
    assert ttnn.get_num_devices() == ttnn.GetNumAvailableDevices() == np.prod(shape)
    assert ttnn.GetNumPCIeDevices() == ttnn.distributed.get_num_pcie_devices() == on_pcie
    assert ttnn.get_pcie_device_ids() == list(range(on_pcie))


def test_a_view_and_the_fabric_know_each_chip(mesh):
    view = mesh.get_view()
    assert (view.shape(), view.num_devices()) == ((2, 4), 8)
    assert list(view.get_local_mesh_coord_range()) == mesh.coordinates()
    assert all(view.is_local(at) for at in mesh.coordinates())
    with pytest.raises(RuntimeError, match=r"\[9, 9\]\) not found in mesh MeshShape\(\[2, 4\]\)"):
        view.is_local(C(9, 9))
    assert [mesh.get_fabric_node_id(at).chip_id for at in mesh.coordinates()] == list(range(8))
    part = mesh.create_submesh(SHAPE, C(1, 1))
    node = part.get_fabric_node_id(C(0, 1))
    assert (repr(node), node) == ("FabricNodeId(M0, D6)", ttnn.FabricNodeId(ttnn.MeshId(0), 6))
    with pytest.raises(RuntimeError, match="not found in mesh"):
        part.get_fabric_node_id(C(1, 1))


M, P = ttnn.MeshMapperConfig, ttnn.MeshComposerConfig
WRITTEN = {
    "MeshShape([2, 4])": ttnn.MeshShape(2, 4),
    "MeshCoordinate([1, 2])": C(1, 2),
    "MeshMapperConfig(placements: [PlacementReplicate(), PlacementShard(1)])": M([R(), S(1)]),
    "MeshMapperConfig(placements: [PlacementShard(0), PlacementShard(1)])": M(0, 1),
    "MeshMapperConfig(placements: [PlacementShard(0), PlacementReplicate()])": M(row_dim=0),
    "MeshMapperConfig(placements: [PlacementReplicate(), PlacementShard(-1)])": M(row_dim=None, col_dim=-1),
    "MeshMapperConfig(placements: [PlacementReplicate(), PlacementReplicate()])": M(),
    "MeshMapperConfig(placements: [PlacementReplicate()], mesh_shape_override=MeshShape([8]))": M(
        [R()], ttnn.MeshShape([8])
    ),
    (
        "MeshMapperConfig(placements: [PlacementShard(1), PlacementReplicate()], "
        "mesh_shape_override=MeshShape([1, 2]), mesh_offset_override=MeshCoordinate([1, 1]))"
    ): M([S(1), R()], SHAPE, C(1, 1)),
    "MeshComposerConfig(dims: [0, 1])": P(row_dim=0, col_dim=1),
    "MeshComposerConfig(dims: [0], mesh_shape_override=MeshShape([8]))": P([0], ttnn.MeshShape([8])),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_values_are_written_as_the_release_writes_them(text):
    assert repr(WRITTEN[text]) == text


BAD = {
    "a number as a placement": lambda: M([1]),
    "both forms": lambda: M([R()], row_dim=0),
    "an argument twice": lambda: M(0, row_dim=0),
    "no dimension": lambda: P(),
    "a dimension of two": lambda: P(0),
    "another name": lambda: P([0], offset=C(0, 0)),
}


@pytest.mark.parametrize("what", BAD)
def test_forms_that_the_release_does_not_take_are_refused(what):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        BAD[what]()


def test_a_range_has_its_first_corner_first():
    with pytest.raises(RuntimeError, match="Start coordinate is greater"):
        ttnn.MeshCoordinateRange(C(1, 1), C(0, 0))
    assert C([1]) not in ttnn.MeshCoordinateRange(ttnn.MeshShape(2, 4))
    assert len({ttnn.MeshShape(2, 4), ttnn.MeshShape([2, 4])}) == 1


def test_a_mapper_may_begin_at_another_chip(mesh, put, parts):
    values = np.arange(64, dtype=np.float32).reshape(2, 32)
    config = M([R(), S(0)], SHAPE, C(1, 1))
    x = put(values, mesh, ttnn.create_mesh_mapper(mesh, config), layout=ttnn.ROW_MAJOR_LAYOUT)
    found = parts(x)
    assert list(found) == [(1, 1), (1, 2)]
    assert (found[1, 2] == values[1]).all()
    composer = ttnn.create_mesh_composer(mesh, P([1, 0], SHAPE, C(1, 1)))
    assert (ttnn.aggregate_tensor(x, composer).to_numpy() == values).all()
    for offset, shape, text in (
        (C(1, 3), SHAPE, "does not fit within the mesh device shape"),
        (C([1]), SHAPE, "does not fit within the mesh device shape"),
        (C(0, 1), ttnn.MeshShape(4, 2), "mesh_offset_override"),
    ):
        with pytest.raises(RuntimeError, match=text):
            ttnn.create_mesh_mapper(mesh, M([S(0), R()], shape, offset))


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b])
@pytest.mark.parametrize("on_chips", [True, False])
def test_a_tensor_is_distributed_and_put_together(mesh, dtype, on_chips):
    values = np.random.default_rng(8).normal(size=(64, 256)).astype(np.float32)
    x = ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, memory_config=ttnn.L1_MEMORY_CONFIG)
    mapper = ttnn.ShardTensor2dMesh(mesh, (2, 4), (0, 1))
    made = ttnn.distribute_tensor(x, mapper, mesh if on_chips else None)
    assert made.storage_type() is (ttnn.StorageType.DEVICE if on_chips else ttnn.StorageType.HOST)
    assert (made.shape, made.memory_config()) == ([32, 64], ttnn.L1_MEMORY_CONFIG)
    assert made.tensor_topology().placements() == [S(0), S(1)]
    again = ttnn.aggregate_tensor(made, ttnn.ConcatMesh2dToTensor(mesh, (2, 4), (0, 1)))
    assert (again.shape, again.dtype, again.layout) == (x.shape, x.dtype, x.layout)
    assert (again.to_numpy() == x.to_numpy()).all()
    with pytest.raises(RuntimeError, match="only supports host" if on_chips else "single buffer"):
        ttnn.distribute_tensor(made, mapper)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]\) is out of bounds"):
        ttnn.aggregate_tensor(x, ttnn.ConcatMesh2dToTensor(mesh, (2, 4), (0, 1)))
    with pytest.raises(TypeError):
        ttnn.aggregate_tensor(made, mapper)


def test_parts_of_a_host_tensor_are_tensors_by_themselves(mesh):
    x = ttnn.from_torch(np.ones((8, 32), np.float32), mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
    assert ttnn.get_device_tensors(x)[3].tensor_topology().placements() == [R()]
    one = ttnn.from_torch(np.ones((8, 32), np.float32))
    line = ttnn.from_host_shards([one], ttnn.MeshShape(1, 1)).tensor_topology()
    assert (line.placements(), one.tensor_topology().placements()) == ([S(0)], [R()])


def test_the_place_of_a_distribution_is_told():
    told = ttnn.compute_distribution_to_mesh_mapping
    assert told(ttnn.MeshShape(2, 2), ttnn.MeshShape(2, 4)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert told(ttnn.MeshShape([5]), ttnn.MeshShape(2, 4)) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


def test_a_tensor_on_a_mesh_is_drawn(mesh, put, capsys):
    x = put(np.ones((64, 8), np.float32), mesh, ttnn.create_mesh_mapper(mesh, M([R(), S(0)], SHAPE, C(1, 1))))
    ttnn.visualize_tensor(x)
    rows = capsys.readouterr().out.splitlines()
    assert rows[:2] == [
        "Placement Configuration: [PlacementReplicate(), PlacementShard(0)]",
        "Tensor(storage: StorageType.DEVICE)",
    ]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")]
    assert ["(1, 0)", "(1, 1)", "(1, 2)", "(1, 3)"] in cells
    assert ["-", "[0:32, :]", "[32:64, :]", "-"] in cells
    assert ["", "Shape: [32, 8]", "Shape: [32, 8]", ""] in cells
    ttnn.visualize_mesh_device(mesh.create_submesh(SHAPE, C(1, 1)))
    assert "| Dev. ID: 5 | Dev. ID: 6 |" in capsys.readouterr().out
    use_board("n150")
    ttnn.visualize_system_mesh()
    ttnn.visualize_tensor(ttnn.from_torch(np.ones((2, 3), np.float32)))
    drawn = capsys.readouterr().out
    assert "SystemMesh Global Shape: MeshShape([1, 1])" in drawn
    assert "[:, :]" in drawn


def test_a_cache_is_written_on_the_chips_that_a_call_names(mesh, put, parts):
    zeros, ones = np.zeros((1, 1, 32, 32), np.float32), np.ones((1, 1, 1, 32), np.float32)
    mapper = ttnn.ReplicateTensorToMesh(mesh)
    cache, row = put(zeros, mesh, mapper), put(ones, mesh, mapper)
    named = {C(0, 1), C(1, 3)}
    ttnn.experimental.paged_update_cache(cache, row, update_idxs=[5], mesh_coords=named)
    assert {at for at, part in parts(cache).items() if part[0, 0, 5].all()} == {(0, 1), (1, 3)}
    ttnn.experimental.paged_update_cache(cache, row, update_idxs=[6])
    assert all(part[0, 0, 6].all() for part in parts(cache).values())
