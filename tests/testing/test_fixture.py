"""The check_graph fixture: right graphs pass in every arrangement; the public names beside it."""

import pytest

from graph_runtime import testing
from graph_runtime.ir.graph import TensorType
from graph_runtime.testing.graphs import GraphMaker

pytestmark = pytest.mark.core


@pytest.fixture
def network():
    """A product and an activation."""
    g = GraphMaker()
    x, w = (g.input(TensorType("float32", shape)) for shape in ((3, 8), (5, 8)))
    return g.graph([g.op("relu", [g.op("dense", [x, w])])])


def test_every_arrangement_is_as_numpy(network, check_graph):
    reports = check_graph(network, devices=["cpu:0", "cpu:1"], seed=3)
    assert list(reports) == ["as given", "storage planned anew", "cpu:0 as cpu:1, cpu:1 as cpu:0"]
    moved = reports["cpu:0 as cpu:1, cpu:1 as cpu:0"]
    assert {d.device for d in moved.outputs} == {"cpu:1"}


def test_the_fixture_fails_with_the_differences(network, check_graph):
    with pytest.raises(pytest.fail.Exception, match=r"DIFFERS from numpy(.|\n)*seed=5 replays"):
        check_graph(network, bound=-1.0, seed=5)


def test_the_fixture_fails_with_one_line_for_a_wrong_graph(check_graph):
    with pytest.raises(pytest.fail.Exception, match=r"^DocumentError: graph.json") as caught:
        check_graph('{"nodes": []}')
    assert not caught.value.pytrace


def test_public_names_are_no_modules():
    """A module of a function's name takes its place in the package once it is imported."""
    for name in testing.__all__:
        assert name == "oracle" or callable(getattr(testing, name)), name
    for name in testing.__all__:  # again: all modules are imported now
        assert name == "oracle" or callable(getattr(testing, name)), name
