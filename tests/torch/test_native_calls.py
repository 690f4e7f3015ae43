"""Calls that repeat, by Python and by C++: the same results, counts and lifetimes.

Most tests here hold for either way: the last one runs them, and others of this folder, by C++.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graph_runtime.base.config import config
from graph_runtime.base.errors import CompileError, InputError

torch = pytest.importorskip("torch")
HERE = Path(__file__).parent
# files whose tests look at what the two ways do: values, views, writes, lifetimes, counters, errors, threads
FILES = ("native_calls", "eager", "tensors", "journal", "plumbing", "integers", "compile")


@pytest.fixture
def ways():
    from graph_runtime.torch import native_calls

    return native_calls


@pytest.fixture
def in_python(monkeypatch):
    """Names of the operations that Python did."""
    from graph_runtime.torch.operations import repeats

    done = []
    call = repeats.Repeating.__call__

    def noted(self, *args, **kwargs):
        done.append(self.op._schema.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(repeats.Repeating, "__call__", noted)
    return done


def test_calls_that_repeat_are_done_without_python(tt, ways, in_python, same):
    if ways.which() != "C++":
        pytest.skip(ways.which())
    host = torch.rand(4, 5)
    x, out = host.to("tt"), torch.empty(4, 5, device="tt")
    calls = {
        "add": lambda t, o: t + t,
        "mul": lambda t, o: t * 2.5,
        "relu": lambda t, o: t.relu(),
        "sub": lambda t, o: torch.sub(t, 1.0, out=o),
        "add_": lambda t, o: o.add_(t),
        "add_ of a keyword": lambda t, o: o.add_(t, alpha=0.5),
        "several launches": lambda t, o: torch.nn.functional.layer_norm(t, (5,)),
        "a view": lambda t, o: t @ t.t(),
        "tensors": lambda t, o: torch.cat([t, t]),
        "indices": lambda t, o: torch.nn.functional.embedding(torch.tensor([[1, 2]]).to("tt"), t),
        "clone": lambda t, o: t.clone(),
        "a cast": lambda t, o: t.to(torch.bfloat16),
        "zeros": lambda t, o: torch.zeros(3, 4, device=t.device),
        "full": lambda t, o: torch.full((3,), 2.5, device=t.device),
        "empty": lambda t, o: torch.empty(3, 4, device=t.device).zero_(),
    }
    for name, call in calls.items():
        for _ in range(3):
            call(x, out)
        in_python.clear()
        tt.stats(clear=True)
        made = call(x, out)
        assert [one for one in in_python if one != "aten::_copy_from"] == [], name  # of an upload
        assert tt.stats()["device"] == (name != "clone")
        assert tt.stats().on_host == 0
        if name == "indices":
            same(made, host[torch.tensor([[1, 2]])])
        elif not name.startswith(("sub", "add_")):
            same(made, call(host, None), 1e-4)


def test_what_differs_by_an_argument_is_another_call(tt, same):
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    x, y = a.to("tt"), b.to("tt")
    for _ in range(4):
        for p, q, u, v in ((x, y, a, b), (y, x, b, a), (x, x, a, a), (y, y, b, b)):
            same(p - q, u - v)
            same(torch.sub(p, q, alpha=2), torch.sub(u, v, alpha=2))
        for number in (2, 2.0, 3, -1.5, True, 0.0, -0.0):
            same(x * number, a * number)
        for zero in (0.0, -0.0):  # told apart by what they divide
            same(1.0 / (x * 0.0).abs().copysign(zero), 1.0 / (a * 0.0).abs().copysign(zero))
        for alpha in (0.1, 0.5):
            same(torch.nn.functional.leaky_relu(x, alpha), torch.nn.functional.leaky_relu(a, alpha))
        for how in ("none", "tanh"):
            same(
                torch.nn.functional.gelu(x, approximate=how),
                torch.nn.functional.gelu(a, approximate=how),
                1e-3,
            )
        same(x.t().contiguous() + y.t().contiguous(), a.t() + b.t())
        same(x.view(4, 3) + y.view(4, 3), a.view(4, 3) + b.view(4, 3))
        same(x[:2] + y[1:], a[:2] + b[1:])
        same(x.bfloat16() + y.bfloat16(), (a.bfloat16() + b.bfloat16()), 1e-2)


def test_writes_reach_all_that_share_the_storage(tt, same):
    host = torch.rand(6)
    x = host.to("tt")
    copy, row, shared = x.clone(), x[1:4], x.detach()
    for _ in range(4):
        x.mul_(2.0)
        host.mul_(2.0)
    same(x, host)
    same(shared, host)
    same(row, host[1:4])
    same(copy, host / 16)
    for _ in range(4):  # its own argument, and the argument of a write
        x.add_(x)
        host.add_(host)
        torch.mul(x, 0.5, out=x)
        torch.mul(host, 0.5, out=host)
    same(x, host)


def test_gradients_and_modes(tt, same):
    host = torch.rand(3, 3, requires_grad=True)
    x = host.detach().to("tt").requires_grad_()
    for _ in range(4):
        for leaf in (x, host):
            leaf.grad = None
            (leaf.relu() @ leaf + leaf).sum().backward()
        same(x.grad, host.grad)
        with torch.no_grad():
            assert not (x + x).requires_grad
        with torch.inference_mode():
            assert (x + x).is_inference()


def test_memory_is_given_back(tt, settle):
    x = torch.rand(64, 64).to("tt")
    for _ in range(4):
        x + x
    settle("tt:0")
    before = torch.tt.memory_allocated()
    for _ in range(300):
        x + x
        x.mul_(1.0)
    x + x  # the last but one goes
    settle("tt:0")
    assert torch.tt.memory_allocated() == before


def test_what_fails_is_made_again_by_the_host(tt, sabotage, same):
    host = torch.rand(8)
    x = host.to("tt")
    for _ in range(4):
        x.exp()
    sabotage("exp", "fails")
    for _ in range(4):
        same(x.exp() + 1.0, host.exp() + 1.0)
    assert tt.stats().on_host
    sabotage("exp", None)
    tt.stats(clear=True)
    for _ in range(4):
        same(x.exp(), host.exp())
    assert not tt.stats().on_host


def test_the_clock_goes_on(tt):
    x = torch.rand(64, 64).to("tt")
    took = []
    for _ in range(6):
        begin, end = torch.tt.Event(enable_timing=True), torch.tt.Event(enable_timing=True)
        begin.record()
        x + x
        end.record()
        took.append(begin.elapsed_time(end))
    assert took[0] > 0
    assert took == pytest.approx([took[0]] * 6)


def test_threads(tt, same):
    host = torch.rand(16)
    failed = []

    def work(number):
        try:
            x = host.to("tt")
            for _ in range(200):
                y = (x + x) * float(number)
                x.mul_(1.0)
            same(y, 2 * host * number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_compiled_programs(tt, same):
    host = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4))
    there = copy.deepcopy(host)
    run = torch.compile(there.to("tt"), backend="tt", options={"fidelity": "HiFi4"})
    values = torch.rand(3, 6)
    x, wide = values.to("tt"), torch.cat([values, values], 1).to("tt")
    optimizers = [torch.optim.SGD(module.parameters(), 0.05) for module in (host, there)]
    with torch.no_grad():
        run(x)
    for step in range(3):
        with torch.no_grad():
            tt.stats(clear=True)
            made = [run(x) for _ in range(20)]  # more than may be in flight
            for one in made:
                same(one, host(values), 1e-2)
            assert len({one.data_ptr() for one in made}) == 20
            same(run(wide[:, 6:]), host(values), 1e-2)  # a view is not stored as the program reads it
            assert tt.stats()["programs"] == 21
            assert tt.stats().on_host == 0
        for module, given, optimizer in zip((host, run), (values, x), optimizers, strict=True):
            optimizer.zero_grad()
            module(given).square().sum().backward()
            optimizer.step()
        assert step or not torch.allclose(made[0].cpu(), host(values))  # weights are read where they are


def test_pinned_memory_of_torch(ways):
    if ways.which() != "C++":
        with pytest.raises(RuntimeError):
            torch.empty(3, pin_memory=True)
        return
    x = torch.empty(5, 7, pin_memory=True).fill_(2.0)
    assert x.is_pinned()
    assert x.data_ptr() % 64 == 0
    assert torch.equal(x.to("tt").cpu(), torch.full((5, 7), 2.0))
    assert torch.zeros(3, pin_memory=True).is_pinned()
    assert not torch.zeros(3).is_pinned()


def test_a_wrong_setting_is_named(ways):
    with config(TORCH_NATIVE="buidl"), pytest.raises(InputError, match=r"'buidl'.*build"):
        ways.load()


def test_off_is_off(ways):
    with config(TORCH_NATIVE="off"), pytest.raises(CompileError, match="GR_TORCH_NATIVE=off"):
        ways.build()


def test_without_a_compiler_calls_stay_pythons(tt, ways, monkeypatch, tmp_path, same):
    if ways.which() == "C++":
        pytest.skip("it is in use")
    tmp_path.chmod(0o700)
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    monkeypatch.setattr(ways._way, "left", 1)
    monkeypatch.setattr(ways._way, "why", "")
    x = torch.ones(3, device="tt")
    with config(TORCH_NATIVE="build", CACHE_DIR=str(tmp_path)):
        with pytest.raises(CompileError, match=r"no C\+\+ compiler.*install g\+\+"):
            ways.build()
        for _ in range(4):
            same(x + 1.0, torch.full((3,), 2.0))
    assert ways.which().startswith("Python: no C++ compiler found")


_BESIDE = """
import time, torch, graph_runtime.torch
from graph_runtime.torch import native_calls
x = torch.rand(8).to("tt")
native_calls._way.left = native_calls._ENOUGH = 5
end = time.monotonic() + 500
while native_calls.which() != "C++" and time.monotonic() < end:
    y = x + 1.0
    time.sleep(0.01)
assert native_calls.which() == "C++", native_calls.which()
for _ in range(4):
    y = x + 1.0
assert torch.equal(y.cpu(), x.cpu() + 1.0)
print("adopted")
"""


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_cpp_way_does_the_same(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    folder.chmod(0o700)
    environ = {**os.environ, "GR_CACHE_DIR": str(folder)}

    def run(*command, **more):
        done = subprocess.run(
            [sys.executable, *command],
            env={**environ, **more},
            capture_output=True,
            text=True,
            cwd=HERE.parents[1],
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout

    assert run("-c", _BESIDE, GR_TORCH_NATIVE="auto") == "adopted\n"
    which = "from graph_runtime.torch import native_calls; print(native_calls.which())"
    assert run("-c", which, GR_TORCH_NATIVE="auto") == "C++\n"
    assert run("-c", which, GR_TORCH_NATIVE="off").startswith("Python: ")
    files = [str(HERE / f"test_{name}.py") for name in FILES]
    said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-rN", *files, GR_TORCH_NATIVE="auto")
    assert " passed" in said.splitlines()[-1]
