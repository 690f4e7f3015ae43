"""Meshes, submeshes and what runs on each chip."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices.clusters import CLUSTERS

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_machine_has_its_chips(on_board, name):
    mesh = on_board(name)
    rows, cols = CLUSTERS[name].shape
    assert tuple(mesh.shape) == (rows, cols)
    assert mesh.get_num_devices() == ttnn.get_num_devices() == rows * cols
    assert mesh.get_device_ids() == list(range(rows * cols))
    assert ttnn.cluster.get_cluster_type() is CLUSTERS[name].kind


def test_lines_of_a_mesh_follow_its_cables(on_board):
    line = on_board("t3000", ttnn.MeshShape(1, 8))
    assert line.get_device_ids() == [0, 1, 2, 3, 7, 6, 5, 4]


def test_submeshes_are_the_mesh(mesh):
    left, right = mesh.create_submeshes(ttnn.MeshShape(2, 2))
    assert (left.get_device_ids(), right.get_device_ids()) == ([0, 1, 4, 5], [2, 3, 6, 7])
    assert mesh.create_submesh(ttnn.MeshShape(1, 2), ttnn.MeshCoordinate(1, 2)).get_device_ids() == [6, 7]
    assert left.get_parent_mesh() is mesh
    x = ttnn.ones((32, 32), ttnn.float32, ttnn.TILE_LAYOUT, right)
    assert [part.device().number for part in ttnn.get_device_tensors(x + x)] == [2, 3, 6, 7]


def test_an_operation_runs_on_each_chip(mesh, put, parts):
    values = np.random.default_rng(1).standard_normal((8, 1, 40, 64), np.float32)
    x = put(values, mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    weight = put(values[0, 0].T.copy(), mesh, ttnn.ReplicateTensorToMesh(mesh))
    found = parts(ttnn.relu(ttnn.matmul(x, weight)) + 1)
    for number, (row, column) in enumerate(found):
        assert (row, column) == divmod(number, 4)
        wanted = np.maximum(values[number] @ values[0, 0].T, 0) + 1
        np.testing.assert_allclose(found[row, column][0], wanted, atol=2e-3, rtol=2e-3)
    halves = ttnn.split(x, 32, 3)
    assert [tuple(half.shape) for half in halves] == [(1, 1, 40, 32)] * 2


def test_a_trace_of_a_mesh_runs_its_collectives_again(mesh, put, parts):
    values = np.arange(8 * 32 * 64, dtype=np.float32).reshape(8, 1, 32, 64) % 7
    mapper = ttnn.ShardTensorToMesh(mesh, dim=0)
    x = put(values, mesh, mapper)
    ttnn.all_reduce(x + 1, cluster_axis=1)
    trace = ttnn.begin_trace_capture(mesh, cq_id=0)
    out = ttnn.all_reduce(x + 1, cluster_axis=1)
    ttnn.end_trace_capture(mesh, trace, cq_id=0)
    fresh = ttnn.from_torch(3 * values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, mesh_mapper=mapper)
    ttnn.copy_host_to_device_tensor(fresh, x)
    ttnn.execute_trace(mesh, trace, cq_id=0, blocking=True)
    for (row, _), found in parts(out).items():
        assert (found[0] == (3 * values + 1)[4 * row : 4 * row + 4].sum(0)).all()
    ttnn.release_trace(mesh, trace)


def test_chips_that_run_one_program_count_it_once(mesh, put):
    x = put(np.ones((8, 32), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    before = mesh.num_program_cache_entries()
    for _ in range(2):
        ttnn.exp(x)
    assert mesh.num_program_cache_entries() == before + 1
    mesh.clear_program_cache()
    assert mesh.num_program_cache_entries() == 0


def test_tensors_of_a_closed_mesh_are_gone(on_board, put):
    mesh = on_board("n300")
    x = put(np.ones((2, 32), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    ttnn.close_mesh_device(mesh)
    assert not x.is_allocated()
    with pytest.raises(RuntimeError):
        ttnn.exp(x)


BAD = {
    "too many chips": (lambda m: ttnn.open_mesh_device(ttnn.MeshShape(4, 4)), "the machine is"),
    "no chips": (lambda m: ttnn.open_mesh_device(ttnn.MeshShape(0, 4)), "0 chips"),
    "a chip twice": (
        lambda m: ttnn.open_mesh_device(ttnn.MeshShape(1, 2), physical_device_ids=[3, 3]),
        "each chip once",
    ),
    "an absent chip": (
        lambda m: ttnn.open_mesh_device(ttnn.MeshShape(1, 2), physical_device_ids=[3, 8]),
        "chips are 0 to 7",
    ),
    "an offset outside": (
        lambda m: ttnn.open_mesh_device(ttnn.MeshShape(1, 1), offset=ttnn.MeshCoordinate(5, 0)),
        "outside of the machine",
    ),
    "an offset of a line": (
        lambda m: ttnn.open_mesh_device(ttnn.MeshShape(1, 8), offset=ttnn.MeshCoordinate(1, 0)),
        "outside of the machine",
    ),
    "a submesh outside": (
        lambda m: m.create_submesh(ttnn.MeshShape(2, 2), ttnn.MeshCoordinate(1, 0)),
        "does not fit within parent mesh",
    ),
    "submeshes that do not divide": (lambda m: m.create_submeshes(ttnn.MeshShape(2, 3)), "not divisible"),
    "another number of chips": (lambda m: m.reshape(ttnn.MeshShape(3, 3)), "same number of devices"),
    "a coordinate outside": (lambda m: m.get_device_id(ttnn.MeshCoordinate(2, 0)), "not found in mesh"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_a_machine_does_not_have_is_refused(mesh, what):
    call, text = BAD[what]
    with pytest.raises(RuntimeError, match=text):
        call(mesh)
