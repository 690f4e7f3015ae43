"""What breaks when a device is registered from Python, each as a test: the traps of torch, threads,
children of fork and spawn."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402


def run(code: str) -> subprocess.CompletedProcess:
    """A fresh interpreter that runs ``code`` after the imports."""
    return subprocess.run(
        [sys.executable, "-c", "import torch, graph_runtime.torch as tt\n" + code],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_read_of_data_ptr_by_the_host_faults():
    made = run(
        "import ctypes\nx = torch.ones(4).to('tt')\nprint('alive', flush=True)\n"
        "ctypes.c_float.from_address(x.data_ptr()).value\nprint('read')"
    )
    assert made.stdout == "alive\n"
    assert made.returncode == -11


def test_data_ptr_follows_views_and_is_stable():
    x = torch.rand(4, 8).to("tt")
    pointer = x.data_ptr()
    assert x[2].data_ptr() == pointer + 2 * 8 * 4
    x.add_(1)
    assert x.data_ptr() == x.detach().data_ptr() == pointer
    assert torch.empty(3, device="tt").data_ptr() != pointer


def test_memory_is_freed_while_an_exception_is_on_its_way():
    def fail():
        x = torch.rand(50, 50).to("tt")
        raise KeyError(float(x.cpu().sum()))

    gc.collect()
    before = torch.tt.memory_allocated()
    for _ in range(20):
        with pytest.raises(KeyError):
            fail()
    gc.collect()
    assert torch.tt.memory_allocated() == before


def test_storages_that_torch_would_make_in_cpp_do_not_crash():
    storage = torch.UntypedStorage(64, device="tt")
    assert storage.device == torch.device("tt:0")
    assert storage.nbytes() == 64
    assert storage.clone().nbytes() == 64
    assert storage.cpu().nbytes() == 64
    assert torch.UntypedStorage(8).device.type == "cpu"


def test_tensors_on_two_devices_are_refused_not_mixed():
    a, b, c = torch.ones(2, 2), torch.ones(2, 2).to("tt"), torch.ones(2, 2).to("tt:1")
    for function in (torch.mm, torch.add, torch.maximum, torch.special.xlog1py):
        for x, y in ((a, b), (b, a), (b, c)):
            with pytest.raises(RuntimeError, match="same device"):
                function(x, y)
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([a, b])
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(b, b, out=c)
    with pytest.raises(RuntimeError, match="same device"):
        b.add_(a)
    assert torch.equal((b + torch.tensor(2.0)).cpu(), a + 2)  # numbers are everywhere
    assert torch.equal(b[torch.tensor([1, 0])].cpu(), a)  # and so are indices


def test_optimizers_made_before_the_move_are_not_stale():
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(layer.parameters(), 1.0)
    layer.to("tt")
    before = layer.weight.detach().cpu().clone()
    layer(torch.ones(1, 3).to("tt")).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight.detach().cpu(), before - 1)


def test_a_move_that_makes_new_parameters_says_so():
    layer, before = nn.Linear(3, 2), nn.Linear(4, 3)
    weight, alive = layer.weight, layer(before(torch.ones(1, 4)))  # its graph holds the weight
    with pytest.warns(UserWarning, match="optimizers that were made before"):
        layer.to("tt")
    assert layer.weight.device == torch.device("tt:0")
    assert alive.grad_fn is not None
    assert weight.device.type == "cpu"


def test_autocast_lowers_products_and_keeps_losses_wide():
    a, b = torch.rand(4, 4).to("tt"), torch.rand(4, 4).to("tt")
    with torch.autocast("tt", dtype=torch.bfloat16):
        made = a @ b
        assert made.dtype == torch.bfloat16
        assert nn.functional.linear(a, b).dtype == torch.bfloat16
        assert torch.softmax(made, -1).dtype == torch.float32
        assert (a + b).dtype == torch.float32
        layer = nn.Linear(4, 4).to("tt")
        layer(a).float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    assert (a @ b).dtype == torch.float32
    assert torch.allclose(made.float().cpu(), (a @ b).cpu(), atol=0.1)


def test_the_library_objects_are_not_collected():
    for _ in range(3):
        gc.collect()
    assert torch.ones(2).to("tt").add(1).sum().item() == 4


def test_importing_twice_and_reloading_is_harmless():
    made = run(
        "import importlib, graph_runtime.torch\nimportlib.reload(graph_runtime.torch)\n"
        "print(torch.ones(2).to('tt').sum().item())"
    )
    assert made.stdout == "2.0\n", made.stderr


def test_another_version_of_torch_is_refused_at_import():
    made = subprocess.run(
        [sys.executable, "-c", "import torch\ntorch.__version__ = '2.12.1'\nimport graph_runtime.torch"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "needs torch 2.13 or 2.14, this is torch 2.12.1" in made.stderr
    assert made.stderr.rstrip().splitlines()[-1].startswith("ImportError")


def test_the_interpreter_ends_quietly_with_tensors_alive():
    made = run(
        "x = torch.rand(100, 100).to('tt')\ny = x @ x\nm = torch.nn.Linear(3, 3).to('tt:1')\n"
        "m(torch.ones(1, 3).to('tt:1')).sum().backward()"
    )
    assert (made.returncode, made.stderr) == (0, "")


def test_gradients_flow_over_two_devices():
    first, second = nn.Linear(3, 4).to("tt:1"), nn.Linear(4, 2).to("tt:0")
    hidden = first(torch.ones(2, 3).to("tt:1"))
    second(hidden.to("tt:0")).sum().backward()
    assert first.weight.grad.device == torch.device("tt:1")
    assert second.weight.grad.device == torch.device("tt:0")
    wanted = second.weight.detach().cpu().sum(0)[:, None].expand(4, 3) * 2
    assert torch.allclose(first.weight.grad.cpu(), wanted, rtol=1e-5)


def test_gradients_flow_on_each_device_whatever_went_backward_before_the_import():
    made = subprocess.run(
        [sys.executable, "-c", _BACKWARD], capture_output=True, text=True, timeout=100, check=False
    )
    assert made.stdout == "tt:1 [0.0, 2.0, 4.0]\n", made.stderr


_BACKWARD = """
import torch
from torch.utils.checkpoint import checkpoint
torch.ones(1, requires_grad=True).sum().backward()
import graph_runtime.torch
x = torch.arange(3.).to("tt:1").requires_grad_()
checkpoint(torch.square, x, use_reentrant=True).sum().backward()       # backward inside of backward
print(x.grad.device, x.grad.tolist())
"""


def test_a_backward_pass_runs_in_the_thread_that_asks_for_it():
    seen = []
    x = torch.ones(2, device="tt", requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(threading.get_ident()))
    y.sum().backward()
    torch.autograd.grad((x * 2).sum(), x)
    assert seen == [threading.get_ident()]
    assert torch._C._is_multithreading_enabled()  # as it was


def test_threads_share_tensors():
    weights = torch.rand(32, 32).to("tt")
    wanted = torch.relu(weights.cpu() @ weights.cpu() + 1)
    failures = []

    def work():
        for _ in range(20):
            made = torch.relu(weights @ weights + 1)
            if not torch.allclose(made.cpu(), wanted, rtol=1e-4):
                failures.append(made)
            layer = nn.Linear(4, 4).to("tt")
            layer(torch.ones(1, 4).to("tt")).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return np.full(4, at, np.float32)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_data_loader_workers_by_fork():
    torch.ones(2).to("tt").add(1).cpu()  # the device is open, its threads run
    loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=2, multiprocessing_context="fork")
    assert [batch.to("tt").sum().item() for batch in loader] == [24.0, 88.0]


def test_data_loader_workers_by_spawn():
    made = subprocess.run(
        [sys.executable, "-c", _SPAWN], capture_output=True, text=True, timeout=110, check=False
    )
    assert made.stdout == "[24.0, 88.0]\n", made.stderr


_SPAWN = """
import multiprocessing, sys, types
import numpy as np, torch
import graph_runtime.torch
source = '''
import numpy as np
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, at): return np.full(4, at, np.float32)
'''
import tempfile, os
folder = tempfile.mkdtemp()
open(os.path.join(folder, "numbers_of_spawn.py"), "w").write(source)
sys.path.insert(0, folder)
os.environ["PYTHONPATH"] = folder
from numbers_of_spawn import Numbers
loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=1, multiprocessing_context="spawn")
print([batch.to("tt").sum().item() for batch in loader])
"""


def test_a_child_of_fork_is_told_that_the_device_is_not_its_own():
    made = run(
        "import os, warnings\nwarnings.simplefilter('ignore')\nx = torch.ones(2).to('tt')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: x + 1\n"
        "    except RuntimeError as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1])"
    )
    assert "child of fork" in made.stdout, made.stderr
    assert made.stdout.endswith("\n0\n")


def test_nothing_leaks_over_many_tensors():
    from graph_runtime.binding.core import lib

    gc.collect()
    torch.tt.empty_cache()
    live, held = lib.gr_handles_live(), torch.tt.memory_allocated()
    for _ in range(300):
        x = torch.rand(8, 8).to("tt")
        (x.t() @ x)[1:].sum().item()
    del x
    gc.collect()
    torch.tt.empty_cache()
    assert lib.gr_handles_live() == live
    assert torch.tt.memory_allocated() == held


def test_a_cpu_argument_may_be_overwritten_as_soon_as_a_compiled_call_returns():
    def run(a, w):
        return (a * 2.0).to("tt") + w

    compiled = torch.compile(run, backend="tt")
    a, w = torch.ones(1024, 1024), torch.zeros(1024, 1024, device="tt")
    for i in range(8):
        a.fill_(i)
        made = compiled(a, w)
        a.fill_(-1)
        assert torch.equal(made.cpu(), torch.full((1024, 1024), 2.0 * i))
