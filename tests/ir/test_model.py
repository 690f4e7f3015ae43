"""A model: a graph with constants that are typed now and read later."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from graph_runtime import GraphBuilder
from graph_runtime.base.errors import GraphError, InputError
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.model import Constant, Model


def built() -> GraphBuilder:
    b = GraphBuilder()
    b.output(b.op("matmul", b.input("x", (4, 8)), b.param("w", np.ones((8, 3), np.float32)), name="y"))
    return b


def test_params_of_a_builder_are_constants_and_the_rest_are_inputs():
    model = Model.from_builder(built())
    assert (model.input_names, model.output_names, list(model.constants)) == (("x",), ("y",), ["w"])
    np.testing.assert_array_equal(model.constants["w"].read(), np.ones((8, 3)))


def test_a_constant_must_be_of_an_input_and_of_its_type():
    graph = built().build()
    with pytest.raises(InputError, match="did you mean 'w'"):
        Model.of(graph, {"ww": np.ones((8, 3), np.float32)})
    with pytest.raises(InputError, match=r"float64\[8, 3\].*float32\[8, 3\]"):
        Model.of(graph, {"w": np.ones((8, 3))})


def test_a_derived_constant_is_computed_when_read_and_kept_only_while_held():
    calls = []
    base = Constant.of(np.arange(4.0), "base")

    def twice(array):
        calls.append(1)
        return array * 2

    derived = Constant.derived(base.type, twice, base, source="twice base")
    assert not calls
    held = derived.read()
    assert derived.read() is held
    del held
    gc.collect()
    np.testing.assert_array_equal(derived.read(), np.arange(4.0) * 2)
    assert len(calls) == 2


def test_constants_derived_alike_of_the_same_ones_are_known_to_be_equal():
    base, other = (Constant.of(np.arange(32.0), "base") for _ in range(2))

    def derived(*of, recipe="twice", type=base.type):
        return Constant.derived(type, lambda array: array * 2, *of, source="twice", recipe=recipe)

    assert derived(base).identity == derived(base).identity
    assert derived(derived(base)).identity == derived(derived(base)).identity
    for unlike in (
        derived(other),
        derived(base, recipe="thrice"),
        derived(base, recipe=None),
        derived(base, type=TensorType("float64", (4, 8))),
        base,
    ):
        assert unlike.identity != derived(base).identity
    two, again, three = (Constant.of(np.array(n), "a number") for n in (2, 2, 3))
    assert two.identity == again.identity != three.identity


def test_a_chain_of_constants_that_each_read_the_one_before_twice_is_hashed_link_by_link():
    """Spelled out, the last of 40 names the first 2**40 times."""
    base = Constant.of(np.arange(32.0), "base")

    def last_of_chain():
        last = base
        for _ in range(40):
            last = Constant.derived(
                base.type, lambda a, b: (a + b) / 2, last, last, source="mean", recipe="mean"
            )
        return last

    one, other = last_of_chain(), last_of_chain()
    assert {one.identity: 1} == {other.identity: 1}
    np.testing.assert_array_equal(one.read(), np.arange(32.0))


def test_an_identity_keeps_no_constant_alive():
    base = Constant.of(np.arange(32.0), "base")
    folded = Constant.folded(base.read() * 2, "twice", {}, base, source="twice")
    identity, gone = folded.identity, weakref.ref(base)
    del base
    gc.collect()
    assert gone() is None
    assert {identity: 1}[folded.identity] == 1
    assert identity != Constant.of(np.arange(32.0), "base").identity


def test_a_derivation_of_another_type_is_an_error():
    wrong = Constant.derived(TensorType("float32", (3,)), lambda: np.ones(4, np.float32), source="a mistake")
    with pytest.raises(GraphError, match=r"a mistake: derived float32\[4\]"):
        wrong.read()
