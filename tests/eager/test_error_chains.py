"""Errors about what a device refuses: no cause or context leads back to one, and none keeps tensors."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager
from graph_runtime.base.errors import DeviceError, DeviceMemoryError, KernelError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.compat import ttnn
from graph_runtime.run.single import call
from graph_runtime.run.single.apply import Refused, apply
from graph_runtime.run.single.host import on_host

SHAPE = (64, 1024, 1024)  # no L1 has room for it
L1 = Layout("l1", "tile", "f32")


def ring(error, before=()):
    """The errors of a ring that can be walked from an error, () where there is none."""
    if any(error is other for other in before):
        return before
    found = (at for at in (error.__cause__, error.__context__) if at is not None)
    return next((r for r in (ring(at, (*before, error)) for at in found) if r), ())


@contextmanager
def no_collector():
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def to_l1_by_ttnn():
    x = ttnn.zeros(SHAPE, ttnn.float32, ttnn.TILE_LAYOUT, ttnn.open_device(device_id=0))
    return lambda: ttnn.neg(x, memory_config=ttnn.L1_MEMORY_CONFIG), weakref.ref(x._handle)


def to_l1():
    x = gr.empty(SHAPE, "float32", "tt:0")

    def negative():
        try:
            apply("negative", (), x, to=L1)
        except Refused as refused:  # as a numpy-like function does
            on_host("negative", np.negative, (x,), {}, refused.reason, refused.error)

    return negative, weakref.ref(x)


def to_a_memory_that_there_is_not():
    x = eager.array(np.ones(4, np.float32), "tt:0")

    def negative():
        try:
            apply("negative", (), x, to=Layout("l3", "tile", "f32"))
        except Refused as refused:
            on_host("negative", np.negative, (x,), {}, refused.reason, refused.error)

    return negative, weakref.ref(x)


def out_of_range():
    x, at = eager.array(np.ones(4, np.float32), "tt:0"), eager.array(np.array([9], np.int32), "tt:0")
    return lambda: eager.take(x, at).numpy(), weakref.ref(x)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (to_l1_by_ttnn, RuntimeError),
        (to_l1, DeviceMemoryError),
        (to_a_memory_that_there_is_not, DeviceError),
        (out_of_range, KernelError),
    ],
)
def test_no_error_leads_back_to_itself_or_keeps_tensors(case, kind):
    call.forget()
    with no_collector(), eager.strict():
        refused, kept = case()
        for _ in range(2):
            with pytest.raises(kind) as caught:
                refused()
            assert ring(caught.value) == ()
            assert len(getattr(caught.value, "__notes__", ())) <= 1
        del refused, caught
        assert kept() is None


def test_what_the_host_has_done_is_not_kept():
    with no_collector():
        x = eager.array(np.ones(4, np.float32), "tt:0")
        made, kept = eager.sort(x), weakref.ref(x)
        del x
        assert kept() is None
        assert (made.numpy() == 1).all()
