"""The form that rules change: users are kept true, names stay, and the graph that comes out is valid."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import GraphBuilder, load_graph
from graph_runtime.base.errors import GraphError
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.model import Constant, Model
from graph_runtime.rewrite.net import Net


def chain() -> Model:
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    y = b.op("add", x, b.param("zero", np.zeros((), np.float32)), name="y")
    b.output(b.op("relu", y, name="z"), y)
    return Model.from_builder(b)


def test_a_net_that_nobody_changes_gives_the_model_back():
    model = chain()
    assert Net(model).model() is model


def test_an_output_keeps_its_name_when_an_input_takes_its_place():
    net = Net(chain())
    (add,) = net.nodes("add")
    net.replace(add.output, add.inputs[0])
    made = net.model()
    assert made.output_names == ("z", "y")
    assert not made.constants
    assert load_graph(graph_to_json(made.graph)).names == made.graph.names


def test_what_nobody_reads_goes_at_once_and_users_are_told():
    b = GraphBuilder()
    x = b.input("x", (4,))
    e = b.op("exp", x, name="e")
    b.output(b.op("relu", b.op("sqrt", e, name="s"), name="r"))
    net = Net(Model.from_builder(b))
    (relu,) = net.nodes("relu")
    (exp,) = net.nodes("exp")
    assert exp.output.used_once
    net.replace(relu.output, net.add("tanh", [exp.output], before=relu, origins=("s", "r")))
    assert [n.op for n in net.nodes()] == ["exp", "tanh"]
    assert [n.op for n in exp.output.users()] == ["tanh"]
    made = net.model()
    assert made.output_names == ("r",)
    assert made.origins == {"r": ("s", "r")}


def test_a_replacement_of_another_type_is_refused():
    net = Net(chain())
    (add,) = net.nodes("add")
    with pytest.raises(GraphError, match=r"float32\[4, 8\] and cannot become zero"):
        net.replace(add.output, add.inputs[1])


def test_nodes_come_out_behind_what_they_read_wherever_a_rule_put_them():
    net = Net(chain())
    (add,) = net.nodes("add")
    (relu,) = net.nodes("relu")
    late = net.add("exp", [add.inputs[0]], before=None, name="late")
    net.replace(relu.output, net.add("relu", [late], before=add, name="early"))
    graph = net.model().graph
    assert graph.names.index("late") < graph.names.index("z")
    load_graph(graph_to_json(graph))


def test_new_constants_stand_beside_the_old_and_names_are_made_unique():
    net = Net(chain())
    (add,) = net.nodes("add")
    one = net.constant(Constant.of(np.ones((), np.float32), "one"), "x")
    net.replace(add.output, net.add("add", [add.inputs[0], one], before=add))
    made = net.model()
    assert made.input_names == ("x",)
    assert list(made.constants) == ["x_1"]


def test_devices_of_the_file_are_kept_and_new_nodes_have_those_of_their_place():
    b = GraphBuilder(device="tt:1")
    x = b.input("x", (4, 8))
    b.output(b.op("relu", b.op("exp", x, name="e", device="cpu:0"), name="r", device="tt:1"))
    net = Net(Model.from_builder(b))
    (relu,) = net.nodes("relu")
    assert not net.together(net.nodes())
    net.replace(relu.output, net.add("tanh", relu.inputs, before=relu))
    graph = net.model().graph
    assert graph.hints.device_type.tolist() == [1, 1, 12]
    assert graph.hints.device_id.tolist() == [0, 0, 1]


def test_a_new_node_at_the_end_has_the_device_of_what_it_reads():
    b = GraphBuilder(device="tt:1")
    b.output(b.op("exp", b.input("x", (4, 8)), name="e", device="tt:1"))
    net = Net(Model.from_builder(b))
    (exp,) = net.nodes("exp")
    made = net.add("tanh", [net.add("relu", exp.inputs, before=None)], before=None)
    net.replace(exp.output, made)
    graph = net.model().graph
    assert graph.hints.device_type.tolist() == [12, 12, 12]
    assert graph.hints.device_id.tolist()[1] == 1
