"""Collectives against numpy: values exactly for integers held by floats, NaN and infinities among them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices import kernels

pytestmark = pytest.mark.core
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TOPOLOGIES = (None, ttnn.Topology.Linear, ttnn.Topology.Ring)


def groups(axis):
    """The chips of each group, as [coordinates]."""
    if axis == 0:
        return [[(row, column) for row in range(2)] for column in range(4)]
    return [[(row, column) for column in range(4)] for row in range(2)]


@pytest.fixture
def sample(mesh, put):
    """sample(seed, shape, dtype): values of the eight chips by coordinate, and the tensor on the mesh."""

    def make(seed, shape=(1, 2, 64, 128), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
        values = np.random.default_rng(seed).integers(-8, 9, (8 * shape[0], *shape[1:])).astype(np.float32)
        x = put(values, mesh, ttnn.ShardTensorToMesh(mesh, dim=0), dtype, layout)
        return {divmod(at, 4): part for at, part in enumerate(np.split(values, 8))}, x

    return make


@FEW
@given(
    seed=st.integers(0, 99),
    axis=st.sampled_from([0, 1]),
    dim=st.integers(-4, 3),
    topology=st.sampled_from(TOPOLOGIES),
    dtype=st.sampled_from([ttnn.float32, ttnn.bfloat16]),
    layout=st.sampled_from([ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT]),
)
def test_gathers_and_sums_are_numpys(sample, parts, seed, axis, dim, topology, dtype, layout):
    shape = (4, 4, 64, 128)
    chips, x = sample(seed, shape, dtype, layout)
    how = {"cluster_axis": axis, "topology": topology}
    gathered, summed = parts(ttnn.all_gather(x, dim, **how)), parts(ttnn.all_reduce(x, **how))
    scattered = parts(ttnn.reduce_scatter(x, dim, **how))
    for group in groups(axis):
        values = [chips[where] for where in group]
        pieces = np.split(sum(values), len(group), dim)
        for at, where in enumerate(group):
            assert (gathered[where] == np.concatenate(values, dim)).all()
            assert (summed[where] == sum(values)).all()
            assert (scattered[where] == pieces[at]).all()


def test_a_sum_goes_from_both_ends_of_the_line_to_its_keeper_and_rounds_on_the_way(sample, parts, mesh, put):
    """256 + 1 in bfloat16 is 256, 1 + 1 + 256 is 258: the order of the chips decides."""
    values = np.zeros((8, 1, 32, 128), np.float32)
    values[:4] = np.array([256, 1, 1, 0], np.float32)[:, None, None, None]
    x = put(values, mesh, ttnn.ShardTensorToMesh(mesh, dim=0), ttnn.bfloat16)
    found = parts(ttnn.reduce_scatter(x, 3, cluster_axis=1))
    assert [found[0, at].max() for at in range(4)] == [258, 256, 256, 256]


def test_extremes_go_through(mesh, put, parts):
    values = np.zeros((8, 1, 32, 128), np.float32)
    values[1, ..., 0], values[2, ..., 1], values[3, ..., 1] = np.nan, np.inf, -np.inf
    values[0, ..., 2] = np.finfo(np.float32).max
    x = put(values, mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    found = parts(ttnn.all_reduce(x, cluster_axis=1))[0, 2][0, 0]
    assert np.isnan(found[:, :2]).all()
    assert (found[:, 2] == np.finfo(np.float32).max).all()
    gathered = parts(ttnn.all_gather(x, 0, cluster_axis=1))[0, 1]
    np.testing.assert_array_equal(gathered, values[:4])


def test_a_broadcast_has_a_sender_in_each_line(sample, parts, mesh):
    chips, x = sample(3)
    found = parts(ttnn.broadcast(x, ttnn.MeshCoordinate(0, 2), cluster_axis=1))
    for row, column in found:
        assert (found[row, column] == chips[row, 2]).all()
    each = [parts(one) for one in ttnn.all_broadcast(x, cluster_axis=0)]
    assert len(each) == 2
    for sender, got in enumerate(each):
        for (_, column), values in got.items():
            assert (values == chips[sender, column]).all()


def test_a_point_gets_the_tensor_of_another(sample, parts):
    chips, x = sample(4)
    here, there = ttnn.MeshCoordinate(0, 1), ttnn.MeshCoordinate(1, 3)
    found = parts(ttnn.point_to_point(x, here, there))
    for where, values in found.items():
        assert (values == chips[(0, 1) if where == (1, 3) else where]).all()
    assert (parts(x)[1, 3] == chips[1, 3]).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_a_partition_keeps_each_chips_piece(sample, parts, axis):
    chips, x = sample(5)
    for where, values in parts(ttnn.mesh_partition(x, 3, axis)).items():
        assert (values == np.split(chips[where], (2, 4)[axis], 3)[where[axis]]).all()


def test_an_output_tensor_is_written(sample, parts):
    chips, x = sample(6)
    out = ttnn.all_gather(x, 0, cluster_axis=0)
    assert ttnn.all_gather(x * 2, 0, cluster_axis=0, output_tensor=out) is not None
    assert (parts(out)[1, 1] == 2 * np.concatenate([chips[0, 1], chips[1, 1]])).all()


def test_nothing_goes_through_the_host(sample):
    _, x = sample(7)
    ttnn.synchronize_device(x.device())
    with gr.stats() as seen:
        ttnn.synchronize_device(ttnn.all_gather(x, 0, cluster_axis=1).device())
    assert seen.count("h2d") == seen.count("d2h") == 0
    assert seen.bytes("d2d", "tt:2") == 3 * x.logical_volume() * 4


BAD = {
    "no such axis": (lambda x: ttnn.all_reduce(x, cluster_axis=2), "out of range"),
    "a negative axis": (lambda x: ttnn.all_gather(x, 0, cluster_axis=-1), "out of range"),
    "no such dimension": (lambda x: ttnn.all_gather(x, 4, cluster_axis=1), "dim 4"),
    "a dimension that does not divide": (lambda x: ttnn.reduce_scatter(x, 0, cluster_axis=1), "divisible"),
    "no axis on a mesh of two": (lambda x: ttnn.all_gather(x, 0), "cluster_axis"),
    "parts of tiles": (lambda x: ttnn.mesh_partition(x[:, :, :32], 2, 1), "tiles"),
    "an absent sender": (
        lambda x: ttnn.point_to_point(x, ttnn.MeshCoordinate(2, 0), ttnn.MeshCoordinate(0, 0)),
        "not present",
    ),
    "a point to itself": (
        lambda x: ttnn.point_to_point(x, ttnn.MeshCoordinate(0, 0), ttnn.MeshCoordinate(0, 0)),
        "one chip",
    ),
    "a broadcast over no line": (
        lambda x: ttnn.broadcast(x, ttnn.MeshCoordinate(0, 0)),
        "forwarding direction",
    ),
    "one chip's part": (lambda x: ttnn.all_reduce(ttnn.get_device_tensors(x)[0]), "num_devices > 1"),
    "a sender outside of the line": (
        lambda x: ttnn.broadcast(x, ttnn.MeshCoordinate(0, 4), cluster_axis=1),
        "outside of the mesh",
    ),
    "a result of another type": (
        lambda x: ttnn.all_gather(x, 0, cluster_axis=0, output_tensor=ttnn.typecast(x, ttnn.bfloat16)),
        "does not match",
    ),
}
MISTAKEN = {
    "a dim of text": lambda x: ttnn.all_gather(x, "0", cluster_axis=1),
    "an axis of text": lambda x: ttnn.all_reduce(x, cluster_axis="1"),
    "a topology of text": lambda x: ttnn.all_reduce(x, cluster_axis=1, topology="Ring"),
    "a number as output": lambda x: ttnn.all_gather(x, 0, cluster_axis=1, output_tensor=1),
    "one chip's output": lambda x: ttnn.all_gather(
        x, 0, cluster_axis=1, output_tensor=ttnn.get_device_tensors(x)[0]
    ),
    "a sender of text": lambda x: ttnn.broadcast(x, 3, cluster_axis=1),
}


@pytest.mark.parametrize("what", MISTAKEN)
def test_an_argument_of_another_type_is_told(sample, what):
    _, x = sample(8)
    with pytest.raises(TypeError, match=r"incompatible function arguments|wanted"):
        MISTAKEN[what](x)


def test_tensors_of_two_meshes_do_not_meet(mesh, put):
    left, right = (
        put(np.ones((4, 32), np.float32), part, ttnn.ShardTensorToMesh(part, dim=0))
        for part in mesh.create_submeshes(ttnn.MeshShape(2, 2))
    )
    with pytest.raises(RuntimeError, match="two meshes"):
        ttnn.add(left, right)


def test_a_chip_that_fails_fails_the_call_and_the_mesh_goes_on(mesh, put, parts, monkeypatch):
    """The third chip has no room for its part of the result."""
    x = put(np.ones((8, 1, 32, 64), np.float32), mesh, ttnn.ShardTensorToMesh(mesh, dim=0))
    run, calls = kernels.run, []

    def failing(op, inputs, *more):
        calls.append(op)
        if inputs[0].device.ordinal == 2:
            raise gr.KernelError("the kernel failed", op=op, device="tt:2")
        return run(op, inputs, *more)

    monkeypatch.setattr(kernels, "run", failing)
    with pytest.raises(gr.KernelError, match="the kernel failed"):
        ttnn.all_reduce(x, cluster_axis=1)
    monkeypatch.undo()
    assert calls
    assert (parts(ttnn.all_reduce(x, cluster_axis=1))[0, 2] == 4).all()


@pytest.mark.parametrize("what", BAD)
def test_a_collective_that_cannot_be_is_refused(sample, what):
    call, text = BAD[what]
    _, x = sample(8)
    with pytest.raises(RuntimeError, match=text):
        call(x)
    assert ttnn.all_reduce(x, cluster_axis=1).is_allocated()


def test_what_concerns_other_chips_is_refused_where_it_would_be_ignored(sample, mesh):
    _, x = sample(9)
    with pytest.raises(ttnn.Unsupported, match="cluster_axis"):
        ttnn.moe_routing_remap(x, 1, 1, cluster_axis=1)


def test_threads_of_two_meshes_do_not_mix(mesh, put, parts):
    left, right = mesh.create_submeshes(ttnn.MeshShape(2, 2))
    wrong = []

    def work(part, seed):
        values = np.random.default_rng(seed).integers(-8, 9, (4, 1, 32, 64)).astype(np.float32)
        x = put(values, part, ttnn.ShardTensorToMesh(part, dim=0))
        for _ in range(3):
            found = parts(ttnn.all_reduce(x, cluster_axis=1))
            if not all(
                (got == values[2 * row : 2 * row + 2].sum(0)).all() for (row, _), got in found.items()
            ):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=((left, right)[at % 2], at)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
