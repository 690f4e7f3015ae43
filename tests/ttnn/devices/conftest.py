"""Meshes of simulated chips, opened for a test and closed after it."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices.mesh_device import use_board


@pytest.fixture
def on_board():
    """on_board(name, shape): a mesh of the machine ``name``, of all its chips without a shape."""
    opened = []

    def make(name, shape=None):
        use_board(name)
        ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
        opened.append(ttnn.open_mesh_device(shape, trace_region_size=1 << 20))
        return opened[-1]

    yield make
    for mesh in opened:
        ttnn.close_mesh_device(mesh)
    ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
    use_board("")


@pytest.fixture
def mesh(on_board):
    """The 2x4 chips of a T3000."""
    return on_board("t3000")


@pytest.fixture
def put():
    """put(values, mesh, mapper, dtype, layout): a tensor on the mesh."""

    def make(values, mesh, mapper, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
        return ttnn.from_torch(values, dtype=dtype, layout=layout, device=mesh, mesh_mapper=mapper)

    return make


@pytest.fixture
def parts():
    """parts(tensor): {coordinate: values} of the chips' parts."""

    def make(tensor):
        places = tensor.tensor_topology().mesh_coords()
        found = [part.to_numpy() for part in ttnn.get_device_tensors(tensor)]
        return {tuple(place): np.asarray(values) for place, values in zip(places, found, strict=True)}

    return make
