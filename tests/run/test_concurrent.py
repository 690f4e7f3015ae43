"""create(..., concurrent=N): threads that run one module at the same time, with one thread's bits, over
constants that are in memory once. InferenceSession.run is anybody's at any time."""

from __future__ import annotations

import random
import subprocess
import threading

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.run.concurrent import ModulePool

SIZE, ROWS = 48, 6

# returns when as many threads are in it as its input says, or 20 s have passed
TOGETHER = r"""
#include <stdint.h>
#include <stdatomic.h>
#include <unistd.h>
typedef struct { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t byte_offset; } tensor;
typedef union { int64_t i; double f; void *p; } value;
static _Atomic int32_t inside;
int32_t together(value *a, int *codes, int n, value *ret, int *ret_code, void *resource)
{
  const float *wanted = ((tensor *)a[0].p)->data;
  float *met = ((tensor *)a[1].p)->data;
  atomic_fetch_add(&inside, 1);
  for (int i = 0; i < 20000 && atomic_load(&inside) < (int32_t)wanted[0]; i++)
    usleep(1000);
  met[0] = (float)atomic_load(&inside);
  return 0;
}
"""


def network() -> gr.GraphBuilder:
    rng = np.random.default_rng(0)
    builder = gr.GraphBuilder()
    x = builder.input("x", (ROWS, SIZE))
    for at in range(3):
        w = builder.param(f"w{at}", rng.standard_normal((SIZE, SIZE)).astype(np.float32) / 7)
        x = builder.op("tanh", builder.op("matmul", x, w))
    builder.output(x)
    return builder


def in_threads(count, work):
    """Run work(number) in threads; what they raised."""
    errors = []

    def caught(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=caught, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_threads_get_the_bits_of_one(device):
    one, many = (gr.create(network(), devices=device, **words) for words in ({}, {"concurrent": 3}))
    values = [np.random.default_rng(at).standard_normal((ROWS, SIZE)).astype(np.float32) for at in range(5)]
    wanted = []
    for value in values:
        one.run(x=value)
        wanted.append(one.get_output(0).numpy().copy())

    def work(number):
        rng = random.Random(number)
        for _ in range(20):
            at = rng.randrange(len(values))
            if number % 2:
                many.run(x=values[at])
            else:
                many.set_input("x", values[at])
                many.run()
            np.testing.assert_array_equal(many.get_output(0).numpy(), wanted[at], strict=True)

    assert in_threads(6, work) == []
    assert len(many.modules) == 3


def test_runs_overlap(tmp_path, document):
    (tmp_path / "together.c").write_text(TOGETHER)
    library = tmp_path / "together.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "together.c"], check=True)
    x = document.input("x")
    many = gr.create(document.json(document.call("together", x)), str(library), concurrent=3)
    met = []

    def work(number):
        many.run(x=np.full(4, 3, np.float32))
        met.append(float(many.get_output(0).numpy()[0]))

    assert in_threads(3, work) == []
    assert met == [3.0] * 3


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_constants_are_in_memory_once(device):
    many = gr.create(network(), devices=device, concurrent=3)
    homes = [
        {module.session.home(int(eid))[0] for eid in module.session.graph.input_eids[1:]}
        for module in many.modules
    ]
    assert homes[0] == homes[1] == homes[2]
    assert len(homes[0]) == 3


def test_a_thread_sees_its_own_inputs_and_outputs():
    many = gr.create(network(), concurrent=2)
    value = np.ones((ROWS, SIZE), np.float32)
    many.set_input("x", value)
    value[:] = 0
    many.run()
    own = many.get_output("tanh_2" if "tanh_2" in many.get_output_info()[0] else 0)
    kept = own.numpy().copy()
    assert kept.any()

    def other(_):
        with pytest.raises(gr.InputError, match="has run nothing"):
            many.get_output(0)
        with pytest.raises(gr.InputError, match="this thread has not set x"):
            many.run()
        many.run(x=value)
        assert not many.get_output(0, out=np.empty((ROWS, SIZE), np.float32)).any()

    assert in_threads(1, other) == []
    np.testing.assert_array_equal(own.numpy(), kept)
    many.run()
    np.testing.assert_array_equal(many.get_output(0).numpy(), kept)


def test_what_does_not_fit_is_said():
    many = gr.create(network(), concurrent=2)
    with pytest.raises(gr.InputError, match="no input 'y'"):
        many.set_input(y=1)
    with pytest.raises(gr.InputError, match="no output 'z'"):
        many.get_output("z")
    with pytest.raises(AttributeError, match=r"has no 'run_async': .*module.modules"):
        _ = many.run_async
    for count in (0, True, 1.5):
        with pytest.raises(gr.InputError, match="from 1"):
            gr.create(network(), concurrent=count)
    for wrong in (np.zeros((1, SIZE), np.float32), None):  # and its member is free again
        for _ in range(3):
            with pytest.raises(gr.InputError):
                many.run(x=wrong)
    many.run(x=np.zeros((ROWS, SIZE), np.float32))


def test_a_pool_makes_what_is_needed_at_once():
    made = []
    pool = ModulePool("first", lambda: made.append(0) or f"more {len(made)}", 3)
    with pool.member() as one, pool.member() as two:
        assert (one, two) == ("first", "more 1")
    with pool.member(), pool.member():
        assert len(made) == 1

    def fails():
        raise gr.DeviceMemoryError("full")

    pool = ModulePool("first", fails, 2)
    with pool.member():
        for _ in range(2):
            with pytest.raises(gr.DeviceMemoryError), pool.member():
                pass
    with pool.member() as one:
        assert one == "first"
