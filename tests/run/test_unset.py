"""Inputs that were never set: runs name them instead of computing with what the memory holds."""

from __future__ import annotations

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime.compat.tvm.contrib import graph_executor
from graph_runtime.ir.model import Model

F32 = np.float32
X = np.ones((4, 4), F32)


def builder(*, state: bool = False) -> gr.GraphBuilder:
    b = gr.GraphBuilder()
    x, y, w = b.input("x", (4, 4)), b.input("y", (4, 4)), b.param("w", X)
    b.input("never read", (4, 4))
    made = b.op("add", b.op("add", x, y), w)
    b.output(made)
    if state:
        cache = b.input("cache", (4, 4))
        after = b.op("add", cache, x)
        b.output(after)
        b.alias(after, cache)
    return b


@pytest.fixture(params=["inline", "threads"])
def mod(request):
    return gr.create(builder(), None, "cpu:0", queues=request.param)


def value(mod, index=0) -> float:
    return float(mod.get_output(index).numpy()[0, 0])


def test_every_way_to_run_names_all_that_is_missing(mod):
    for call in (
        mod.run,
        mod.run_async,
        mod.session.submit,
        lambda: mod.session.run_span(0, 1),
        lambda: mod.benchmark(number=1, repeat=1),
    ):
        with pytest.raises(gr.InputError, match=r"has no values of 'x', 'y': .*unset_inputs=\"allow\""):
            call()
    mod.set_input("x", X)
    with pytest.raises(gr.InputError, match="no values of 'y':"):
        mod.run()
    assert mod.run_async(y=X).wait().outputs[0].numpy()[0, 0] == 3  # given to this run only
    with pytest.raises(gr.InputError, match="no values of 'y':"):
        mod.run_async()
    mod.run(y=X)
    assert value(mod) == 3
    mod.run()
    assert mod.run_async().wait().outputs[0].numpy()[0, 0] == 3


def test_once_all_are_set_a_run_is_one_call(mod):
    mod.run(x=X, y=X)
    assert mod.session._around == (mod.session._queued)


@pytest.mark.parametrize(
    "write",
    [
        lambda tensor: tensor.copy_from(X),
        lambda tensor: X.copy() is not None and gr.array(X).copyto(tensor),
        lambda tensor: np.from_dlpack(tensor).__setitem__(..., 1),
    ],
    ids=["copy_from", "copyto", "a view"],
)
def test_what_is_written_through_the_live_tensor_is_set(mod, write):
    mod.set_input("x", X)
    tensor = mod.get_input("y")
    assert tensor.shape == (4, 4)
    with pytest.raises(gr.InputError):
        mod.run()  # looking at it sets nothing
    write(tensor)
    mod.run()
    assert value(mod) == 3


def test_arrays_that_inputs_are_bound_to_count_while_they_are(mod):
    array = gr.aligned_empty((4, 4))
    array[...] = 5
    mod.set_input("x", X)
    mod.set_input_zero_copy("y", array)
    mod.run()
    assert value(mod) == 7
    mod.reset_zero_copy("y")
    with pytest.raises(gr.InputError, match="no values of 'y'"):
        mod.run()


def test_a_value_that_is_refused_sets_nothing(mod):
    mod.set_input("x", X)
    with pytest.raises(gr.InputError, match="shape"):
        mod.set_input("y", np.ones(3, F32))
    with pytest.raises(gr.InputError, match="no values of 'y'"):
        mod.run()


def test_state_needs_a_first_value():
    mod = gr.create(builder(state=True), None, "cpu:0")
    mod.set_input(x=X, y=X)
    for call in (mod.run, mod.run_async):
        with pytest.raises(gr.InputError, match=r"no values of 'cache' .*state that runs update"):
            call()
    mod.set_input("cache", 0 * X)
    for turn in range(1, 4):
        mod.run()
        assert value(mod, 1) == turn


def test_parameters_that_are_shared_are_set():
    first, second = (gr.create(builder().build(), None, "cpu:0") for _ in range(2))
    first.load_params({"w": X})
    second.share_params(first, {"w": X})
    second.run(x=X, y=X)
    assert value(second) == 3


def test_models_have_their_parameters():
    mod = gr.create(Model.from_builder(builder()), None, "cpu:0")
    with pytest.raises(gr.InputError, match=r"no values of 'x', 'y':"):
        mod.run()
    mod.run(x=X, y=X)
    assert value(mod) == 3


def test_a_bundle_is_loaded_with_either_way(tmp_path):
    path = build_bundle(builder(), "cpu:0", tmp_path / "unset.bundle", compile=False)
    with pytest.raises(gr.InputError, match=r"no values of 'x', 'y':"):
        gr.load(path).run()
    gr.load(path, unset_inputs="allow").run()
    with pytest.raises(gr.InputError, match="unset_inputs is"):
        gr.load(path, unset_inputs="maybe")


def test_tvm_s_way_is_an_option_which_compat_tvm_takes():
    for mod in (
        gr.create(builder(), None, "cpu:0", unset_inputs="allow"),
        graph_executor.create(builder(), None, gr.cpu(0)),
    ):
        mod.run()
        mod.run_async().wait()
    with pytest.raises(gr.InputError, match="unset_inputs is"):
        gr.create(builder(), None, "cpu:0", unset_inputs="maybe")
