"""Inputs that setting an array copies into, and no more (run/sessions/running.py): the short way does
what the long one does, and is left where it would not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import InputError, SessionBusyError


def made(shape=(2, 3), device="cpu:0"):
    """y = x + w, and both set once."""
    b = gr.GraphBuilder()
    b.output(b.op("add", b.input("x", shape), b.input("w", shape), name="y"))
    module = gr.create(b.build(), None, device)
    module.set_input(x=np.ones(shape, np.float32), w=np.zeros(shape, np.float32))
    return module


def plain(module):
    """The inputs that are set the short way."""
    return sorted(module.session._tensors._plain)


def y_of(module):
    module.run()
    return module.get_output(0).numpy()


def test_an_input_that_was_set_is_plain_and_takes_arrays_of_any_strides():
    module = made()
    assert plain(module) == [0, 1]
    for x in (np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(3, 2).T):
        module.set_input("x", x)
        np.testing.assert_array_equal(y_of(module), x)


def test_what_does_not_fit_as_it_is_takes_the_long_way():
    module = made()
    for x in ([[1, 2, 3], [4, 5, 6]], np.arange(6.0).reshape(2, 3), np.arange(6, dtype=">f4").reshape(2, 3)):
        module.set_input("x", x)
        np.testing.assert_array_equal(y_of(module), np.asarray(x, np.float32))
    with pytest.raises(InputError, match="has shape"):
        module.set_input("x", np.zeros((3, 2), np.float32))
    with pytest.raises(InputError, match="is complex64"):
        module.set_input("x", np.zeros((2, 3), np.complex64))


def test_an_array_that_an_input_is_bound_to_is_not_written():
    module = made()
    mine = gr.aligned_empty((2, 3))
    mine[...] = 7
    module.set_input_zero_copy("x", mine)
    assert plain(module) == []
    np.testing.assert_array_equal(y_of(module), mine)
    module.set_input("x", np.full((2, 3), 2, np.float32))
    assert (mine == 7).all()
    np.testing.assert_array_equal(y_of(module), 2)


def test_a_queued_run_reads_what_was_there_before():
    module = made()
    run = module.run_async()
    module.set_input("x", np.full((2, 3), 5, np.float32))
    np.testing.assert_array_equal(run.wait().outputs[0].numpy(), 1)
    np.testing.assert_array_equal(y_of(module), 5)


def test_a_tensor_of_the_input_has_another_version():
    module = made()
    tensor = module.get_input("x")
    before = tensor.version
    module.set_input("x", np.full((2, 3), 5, np.float32))
    assert tensor.version != before
    np.testing.assert_array_equal(tensor.numpy(), 5)


def test_another_thread_that_is_in_the_session_is_told_of():
    module = made()
    with module.session._guard(), ThreadPoolExecutor(1) as other:
        told = other.submit(module.set_input, "x", np.ones((2, 3), np.float32)).exception()
    assert isinstance(told, SessionBusyError)
    module.set_input("x", np.full((2, 3), 3, np.float32))
    np.testing.assert_array_equal(y_of(module), 3)


def test_a_parameter_that_is_shared_later_is_not_plain_any_more():
    module, other = made(), made()
    other.set_input("w", np.full((2, 3), 4, np.float32))
    module.share_params(other, {"w": np.full((2, 3), 4, np.float32)})
    assert 1 not in plain(module)
    np.testing.assert_array_equal(y_of(module), 5)


def test_an_input_that_another_device_reads_is_not_plain():
    module = made(device="tt:0")
    assert plain(module) == []
    module.set_input("x", np.full((2, 3), 3, np.float32))
    np.testing.assert_array_equal(y_of(module), 3)
