"""Random graphs: sessions against the interpreter, run again, with zero copy on some inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.accuracy.compare import random_inputs
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base import dtypes
from graph_runtime.testing.graphs import random_graph

DEVICES = [["cpu:0"], ["cpu:0", "tt:0"], ["tt:0", "cpu:0", "tt:1"], ["cpu:0", "cpu:1"]]


def outputs(mod):
    return [mod.get_output(i).numpy() for i in range(mod.get_num_outputs())]


def assert_same(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def bind_some(mod, rng):
    """Binds about half of the inputs and outputs that live on the host; returns {index: array} of both."""
    session, graph, arrays = mod.session, mod.session.graph, ({}, {})
    sides = (0, graph.input_eids, session.bind_input), (1, graph.outputs, session.bind_output)
    for side, eids, bind in sides:
        for index, eid in enumerate(eids.tolist()):
            if rng.random() < 0.5 and session.plan.layout(eid).memory == "host":
                type_ = graph.entry_type(eid)
                arrays[side][index] = array = gr.aligned_empty(type_.shape, dtypes.to_numpy(type_.dtype))
                array[...] = 0
                bind(index, array)
    return arrays


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), devices=st.sampled_from(DEVICES), columns=st.booleans())
def test_random_graphs(seed, devices, columns):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, devices, columns=columns)
    plain, bound = gr.create(graph, None, devices), gr.create(graph, None, devices)
    into, out_of = bind_some(bound, rng)
    for turn in range(2):
        values = random_inputs(graph, seed + turn)
        plain.run(**values)
        want = outputs(plain)
        for got, reference in zip(want, heads(graph, interpret(graph, values)), strict=True):
            np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-5)
        plain.run()  # what was set stays set
        assert_same(outputs(plain), want)
        for index, name in enumerate(graph.input_names):
            if index in into:
                into[index][...] = values[name]
            else:
                bound.set_input(index, values[name])
        bound.run()
        assert_same(outputs(bound), want)
        assert_same(out_of.values(), [want[i] for i in out_of])
    bound.reset_zero_copy()
    kept = {index: array.copy() for index, array in out_of.items()}
    bound.run(**random_inputs(graph, seed))
    plain.run(**random_inputs(graph, seed))
    assert_same(outputs(bound), outputs(plain))
    assert_same(out_of.values(), kept.values())  # a run after the reset does not write there


def test_random_graphs_fail_where_they_should():
    """The comparison above would see a wrong value: a bound input that is changed between the runs."""
    graph = random_graph(np.random.default_rng(1), ["cpu:0"])
    plain = gr.create(graph)
    values = random_inputs(graph, 0)
    plain.run(**values)
    want = outputs(plain)
    plain.run(**{name: value + 1 for name, value in values.items()})
    with pytest.raises(AssertionError):
        assert_same(outputs(plain), want)
