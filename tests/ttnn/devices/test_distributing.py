"""Mappers and composers against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_runtime.compat import ttnn

pytestmark = pytest.mark.core
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def cut(values, placements, sizes, where):
    """The part of a chip, by numpy."""
    for placement, size, at in zip(placements, sizes, where, strict=True):
        if isinstance(placement, ttnn.PlacementShard):
            values = np.split(values, size, placement.dim)[at]
    return values


@FEW
@given(data=st.data())
def test_parts_are_where_their_placements_say(mesh, put, parts, data):
    dims = data.draw(st.permutations(range(-3, 0)))[:2]
    placements = [
        ttnn.PlacementShard(dim) if data.draw(st.booleans()) else ttnn.PlacementReplicate() for dim in dims
    ]
    kind, layout = data.draw(
        st.sampled_from(
            [
                (ttnn.float32, ttnn.TILE_LAYOUT),
                (ttnn.bfloat16, ttnn.TILE_LAYOUT),
                (ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT),
            ]
        )
    )
    shape = [8 * data.draw(st.integers(1, 3)) for _ in range(3)]
    values = np.arange(np.prod(shape)).reshape(shape) % 251
    values = values.astype(np.int32 if kind is ttnn.uint32 else np.float32)
    x = put(values, mesh, ttnn.create_mesh_mapper(mesh, ttnn.MeshMapperConfig(placements)), kind, layout)
    found = parts(x)
    assert list(found) == [(row, column) for row in range(2) for column in range(4)]
    for where, part in found.items():
        assert (part == cut(values, placements, (2, 4), where)).all()
    assert x.tensor_topology().placements() == placements
    if all(isinstance(one, ttnn.PlacementShard) for one in placements):
        composer = ttnn.create_mesh_composer(mesh, ttnn.MeshComposerConfig(dims))
        host = ttnn.from_device(x)
        for tensor in (x, host):
            assert (composer.joined(tensor) == values).all()


def test_a_short_dimension_lies_on_the_first_chips(mesh, put, parts):
    x = put(np.ones((3, 32), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    assert list(parts(x)) == [(0, 0), (0, 1), (0, 2)]
    assert list(x.tensor_topology().distribution_shape()) == [3]


def test_a_part_of_the_mesh_may_have_the_tensor(mesh, put, parts):
    config = ttnn.MeshMapperConfig([ttnn.PlacementShard(0), ttnn.PlacementReplicate()], ttnn.MeshShape(2, 2))
    found = parts(
        put(np.arange(64, dtype=np.float32).reshape(2, 32), mesh, ttnn.create_mesh_mapper(mesh, config))
    )
    assert list(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (found[1, 1] == np.arange(32, 64)).all()


def test_parts_make_a_tensor_again(mesh, put, parts):
    values = np.random.default_rng(2).standard_normal((8, 32), np.float32)
    x = put(values, mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    again = ttnn.combine_device_tensors(ttnn.get_device_tensors(x))
    topology = again.tensor_topology()
    assert (list(topology.distribution_shape()), topology.placements()) == ([8], [ttnn.PlacementShard(0)])
    assert topology.mesh_coords() == [(0, at) for at in range(8)]  # a line, as the release says
    assert (np.concatenate(list(parts(again + 0).values())) == values).all()
    shards = [ttnn.from_torch(values[at : at + 1]) for at in range(8)]
    host = ttnn.from_host_shards(shards, mesh.shape)
    assert (ttnn.ConcatMeshToTensor(mesh, dim=0).joined(ttnn.to_device(host, mesh)) == values).all()


BAD = {
    "a dimension twice": (lambda m: ttnn.ShardTensor2dMesh(m, (2, 4), (0, -2)), (8, 8), "unique"),
    "unlike parts": (lambda m: ttnn.ShardTensorToMesh(m, dim=0), (100, 32), "Shard shape mismatch"),
    "too few parts": (lambda m: ttnn.ShardTensor2dMesh(m, (2, 4), (0, 1)), (1, 8), "number of chunks"),
    "no such dimension": (lambda m: ttnn.ShardTensorToMesh(m, dim=2), (8, 8), "out of range"),
    "a larger mesh": (
        lambda m: ttnn.create_mesh_mapper(m, ttnn.MeshMapperConfig([ttnn.PlacementReplicate()], [9])),
        (8, 8),
        "does not match the device shape",
    ),
    "too few placements": (
        lambda m: ttnn.create_mesh_mapper(m, ttnn.MeshMapperConfig([ttnn.PlacementShard(0)])),
        (8, 8),
        "number of placements",
    ),
    "another axis": (lambda m: ttnn.shard_tensor_to_mesh_mapper(m, 0, 2), (8, 8), "out of range"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_tensor_that_cannot_be_distributed_is_refused(mesh, put, what):
    mapper, shape, text = BAD[what]
    with pytest.raises(RuntimeError, match=text):
        put(np.ones(shape, np.float32), mesh, mapper(mesh))


def test_a_tensor_of_several_parts_needs_a_composer(mesh, put):
    x = put(np.ones((8, 32), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    with pytest.raises(RuntimeError, match="mesh_composer"):
        x.to_numpy()


MISTAKEN = {
    "no mesh": lambda m: ttnn.ReplicateTensorToMesh(None),
    "no configuration": lambda m: ttnn.create_mesh_mapper(m, None),
    "numbers as placements": lambda m: ttnn.MeshMapperConfig([1, 2]),
    "no dimension": lambda m: ttnn.ShardTensorToMesh(m, dim=None),
    "numbers as parts": lambda m: ttnn.combine_device_tensors([1, 2]),
    "numbers as shards": lambda m: ttnn.from_host_shards(list(range(8)), m.shape),
    "a number as mapper": lambda m: ttnn.from_torch(np.ones((8, 8)), device=m, mesh_mapper=7),
    "a number as composer": lambda m: ttnn.to_torch(ttnn.ones((8, 8), device=m), mesh_composer=7),
}


@pytest.mark.parametrize("what", MISTAKEN)
def test_a_value_of_another_type_is_told(mesh, what):
    with pytest.raises(TypeError):
        MISTAKEN[what](mesh)
