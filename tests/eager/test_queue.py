"""Ops are queued: calls return before kernels run, handles know what can be known, values are right."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager
from graph_runtime.base.errors import HandleError, KernelError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.base.machine.shards import Shard

X = np.arange(8, dtype=np.float32)


def test_calls_return_before_kernels_run(gate):
    x = eager.array(X)
    gate(False)
    y = eager.exp(x)  # a copy, behind the gate
    z = (y + 1).reshape(2, 4)[:, ::2]
    assert (z.ready, z.shape, z.dtype, z.nbytes, len(z)) == (False, (2, 2), "float32", 16, 2)
    assert "float32[2, 2]" in repr(z)
    with pytest.raises(TimeoutError):
        z.wait(timeout=0.01)
    gate(True)
    np.testing.assert_array_equal(z.numpy(), (X + 1).reshape(2, 4)[:, ::2])


def test_one_tensor_in_both_inputs(gate):
    """More readers of one buffer at once than its events had room for."""
    x = eager.array(X)
    gate(False)
    made = [eager.exp(x)] + [x + x for _ in range(40)]
    gate(True)
    np.testing.assert_array_equal(gr.gather(made), [X] + [X + X] * 40)


def test_who_reads_before_a_write_reads_the_old_values(gate):
    x = eager.array(X)
    gate(False)
    old = eager.exp(x)
    x += 1
    x[0] = 50
    new = x * 2
    gate(True)
    np.testing.assert_array_equal(old.numpy(), X)
    np.testing.assert_array_equal(new.numpy()[1:], (X[1:] + 1) * 2)
    assert new.numpy()[0] == 100


def test_what_fails_is_made_again_from_the_values_it_had(sabotage):
    x = eager.array(X)
    sabotage("exp", "fails")
    made = eager.exp(x)
    x[:] = 0
    x += 5
    again = eager.exp(x)
    x.copy_from(np.zeros(8, np.float32))
    np.testing.assert_allclose(made.numpy(), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(again.numpy(), np.full(8, np.exp(np.float32(5))), rtol=1e-6)
    np.testing.assert_array_equal(x.numpy(), np.zeros(8))


def test_copies_and_aliases_of_what_fails(sabotage):
    x = eager.array(X)
    sabotage("exp", "fails")
    y = eager.exp(x)
    shaped, moved, other = y.reshape(2, 4), y.to("tt:0"), y.to("cpu:0")
    np.testing.assert_allclose(moved.numpy(), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(shaped.numpy(), np.exp(X).reshape(2, 4), rtol=1e-6)
    np.testing.assert_allclose(other.numpy(), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(gr.gather([eager.exp(x), x])[0], np.exp(X), rtol=1e-6)


def test_without_its_inputs_an_op_cannot_be_made_again(sabotage):
    x = eager.array(X, "tt:0").to("cpu:0") + 0
    moved = x.to("tt:0")
    sabotage("exp", "fails")
    y = eager.exp(x)
    x.give_up("was given up")
    with pytest.raises(KernelError, match="on purpose"):
        y.numpy()
    moved.deallocate()
    with pytest.raises(HandleError, match="was deallocated"):
        moved + 1
    with pytest.raises(HandleError):
        eager.sum(moved)


def test_a_chain_longer_than_pythons_stack(sabotage, gate):
    """All of it fails with its first op."""
    x = eager.array(X)
    gate(False)
    held = eager.exp(x)
    sabotage("tanh", "fails")
    y = eager.tanh(x)
    for _ in range(900):
        y = y + 1
    gate(True)
    np.testing.assert_allclose(y.numpy(), np.tanh(X) + 900, rtol=1e-5)
    np.testing.assert_array_equal(held.numpy(), X)
    assert [f.op for f in eager.fallbacks()] == ["tanh"]


def test_a_session_reads_and_feeds_eager_tensors(new_document):
    document = new_document()
    a = document.input("a", (8,))
    module = gr.create(document.json(document.call("relu", a, op="relu", shape=(8,))), None, "cpu:0")
    x = eager.array(X) - 4
    for step in range(5):
        module.set_input("a", x)
        module.run()
        x = module.get_output(0) - step  # queued over memory that the next run overwrites
    wanted = X - 4
    for step in range(5):
        wanted = np.maximum(wanted, 0) - step
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_the_interpreter_may_end_while_ops_are_queued():
    program = (
        "import numpy as np\n"
        "from graph_runtime import eager\n"
        "x = eager.array(np.ones((300, 300), np.float32), 'tt:0')\n"
        "kept = [x]\n"
        "for _ in range(50):\n"
        "    kept.append(kept[-1] @ x)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_await_gives_way(gate):
    async def main() -> list[str]:
        seen, x = [], eager.array(X)
        gate(False)
        y = eager.exp(x)

        async def reader() -> None:
            seen.append("waits")
            await y
            seen.append("has it")

        task = asyncio.create_task(reader())
        await asyncio.sleep(0)
        seen.append("goes on")
        gate(True)
        await task
        return seen

    assert asyncio.run(main()) == ["waits", "goes on", "has it"]


def test_gather_of_all_kinds_of_tensors(device):
    """Types, ranks and sizes in one call, some not made yet; every array is right and writable."""
    arrays = [
        np.full(shape, i, dtype)
        for i, (shape, dtype) in enumerate(
            [
                ((), "float32"),
                ((3,), "float32"),
                ((3,), "float32"),
                ((3,), "int32"),
                ((2, 40), "float32"),
                ((0, 4), "float32"),
                ((70, 33), "float32"),
                ((1,), "bool"),
                ((5, 5), "uint8"),
            ]
        )
    ]
    tensors = [eager.array(a, device) for a in arrays]
    made = [t + 1 if t.dtype == "float32" else t for t in tensors]
    wanted = [a + 1 if a.dtype == np.float32 else a for a in arrays]
    for got, array in zip(gr.gather(made), wanted, strict=True):
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)
        got[...] = 0
    assert gr.gather([]) == []


def test_gather_of_sharded_tensors():
    values = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    layout = Layout("l1", "tile", "f32", Shard("height", ((0, 0), (1, 0)), (32, 64)))
    tensors = [(eager.array(values, "tt:0") + i).to(layout=layout) for i in range(3)]
    for i, got in enumerate(gr.gather([*tensors, tensors[0] * 2])):
        np.testing.assert_array_equal(got, values + i if i < 3 else values * 2)
