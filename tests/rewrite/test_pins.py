"""Pins follow nodes to what they become: only nodes that were asked onto one device are joined."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import GraphBuilder
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.errors import PlanError
from graph_runtime.ir.model import Model
from graph_runtime.rewrite import fuse, simplify

DEVICES = ["cpu:0", "tt:0"]


def two_products() -> Model:
    b = GraphBuilder()
    x = b.input("x", (32, 32))
    for name in ("a", "b"):
        x = b.op("matmul", x, b.param(f"w_{name}", np.ones((32, 32), np.float32)), name=name)
        x = b.op("relu", x)  # named relu and relu_1, as their op
    b.output(x)
    return Model.from_builder(b)


def ops_of(model: Model) -> list[str]:
    return [model.graph.node(nid).op for nid in range(model.graph.num_nodes) if model.graph.func_id[nid] >= 0]


def test_nodes_that_are_pinned_alike_are_joined_and_keep_their_pin():
    made = fuse(simplify(two_products(), DEVICES, {"a": "tt:0", "node:relu": "tt:0"}), DEVICES)
    assert ops_of(made) == ["matmul", "matmul"]
    assert made.pins == {"relu": "tt:0"}
    assert made.origins["relu"] == ("a", "relu")


def test_nodes_that_are_pinned_apart_stay_apart():
    made = fuse(simplify(two_products(), DEVICES, {"matmul": "tt:0", "relu": "cpu:0"}), DEVICES)
    assert ops_of(made) == ["matmul", "relu", "matmul", "relu"]


@pytest.mark.core
def test_a_plan_follows_the_pins_of_what_was_joined_and_of_nothing_else():
    placed = prepare(two_products(), DEVICES, place={"a": "tt:0", "node:relu": "tt:0"}).plan
    where = {name: str(placed.devices[did]) for name, did in zip(placed.graph.names, placed.did, strict=True)}
    assert (where["relu"], where["relu_1"]) == ("tt:0", "cpu:0")


def test_a_pin_that_names_nothing_is_told():
    with pytest.raises(PlanError, match="pin 'conv' matches no node"):
        simplify(two_products(), DEVICES, {"conv": "tt:0"})
