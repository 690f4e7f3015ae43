"""What fails is told without keeping the frames that heard of it: what is in them goes at once, and not when
Python looks for circles."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager

BAD = np.array([1, 99], np.int32)  # of 4 rows


class Mark:
    """What a caller's frame has."""


def mark_after(action, wanted) -> object:
    """What is left of a caller's frame that heard of a failure, without the collector."""

    def call(mark):
        with pytest.raises(wanted):
            action()

    gc.collect()
    gc.disable()
    try:
        mark = Mark()
        left = weakref.ref(mark)
        call(mark)
        del mark
        return left()
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def session():
    b = gr.GraphBuilder(device="tt:0")
    b.output(b.op("take", b.input("a", (4, 8)), b.input("i", (2,), "int32"), axis=0))
    return gr.create(b.build(), devices=("tt:0", "cpu:0")).session


def submitted(session):
    return session.submit({"a": np.ones((4, 8), np.float32), "i": BAD})


TOLD = {
    "a run is waited for": lambda session: submitted(session).wait(),
    "its output is read": lambda session: submitted(session).forget()[0].numpy(),
    "several are waited for": lambda session: gr.wait_all([submitted(session), submitted(session)]),
    "several are read": lambda session: gr.gather(submitted(session).forget() * 2),
}


@pytest.mark.parametrize("told", TOLD)
def test_a_run_that_failed_keeps_no_frame(session, told):
    assert mark_after(lambda: TOLD[told](session), gr.KernelError) is None


EAGER = {
    "a kernel fails": (lambda x, i: eager.call("take", x, i, axis=0).numpy(), IndexError),
    "its reader is read": (lambda x, i: (eager.call("take", x, i, axis=0) + 1).numpy(), IndexError),
    "strictly": (lambda x, i: strictly(eager.call, "take", x, i, axis=0), gr.KernelError),
    "no kernel": (lambda x, i: strictly(np.spacing, x), gr.UnsupportedOpError),
    "the op does not take it": (lambda x, i: strictly(eager.call, "conv2d", x, x), gr.GraphError),
    "a handle is gone": (lambda x, i: [(y := x + 1).deallocate(), y.numpy()], gr.HandleError),
    "memory": (
        lambda x, i: strictly(eager.call, "broadcast_to", x[0, 0], shape=(1 << 16, 1 << 16)),
        gr.DeviceMemoryError,
    ),
}


def strictly(function, *args, **attrs):
    with eager.strict():
        function(*args, **attrs).numpy()


@pytest.mark.parametrize("told", EAGER)
def test_an_op_that_failed_keeps_no_frame(told):
    action, wanted = EAGER[told]
    x, i = eager.array(np.ones((4, 8), np.float32), "tt:0"), eager.array(BAD, "tt:0")
    assert mark_after(lambda: action(x, i), wanted) is None
    assert mark_after(lambda: action(x, i), wanted) is None  # by what was kept of the first


def test_a_kept_refusal_is_told_the_same_again():
    x = eager.array(np.ones((4, 8), np.float32), "tt:0")
    texts = []
    for _ in range(3):
        with pytest.raises(gr.GraphError) as found:
            strictly(eager.call, "conv2d", x, x)
        texts.append((str(found.value), found.value.__notes__))
    assert texts == [texts[0]] * 3
    assert len(texts[0][1]) == 1
