"""What TVM's operators call of a runtime: every service, in every flavour of library."""

import threading

import numpy as np
import pytest

from graph_runtime.base.errors import KernelError, LibraryError
from graph_runtime.binding import core
from graph_runtime.compat.tvm_files.library import load_module
from graph_runtime.run.library import load_library

FLAVOURS = [("LLVM",), ("LLVM", "OLD"), ("LLVM", "FIVE"), ("CTARGET",), ("SYSTEM",)]


@pytest.fixture(params=FLAVOURS, ids="-".join)
def module(request, tvm_library):
    return load_module(tvm_library(*request.param))


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = core.pool_threads()
    core.pool_set_threads(request.param)
    yield request.param
    core.pool_set_threads(before)


def run(module, name, n=100):
    x, y = np.arange(n, dtype="f4"), np.full(n, -1, "f4")
    module[name](x, y)
    return x, y


def in_threads(work, count=4):
    """Run work() in ``count`` threads at once, to the end."""
    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_operators(module):
    x, y = run(module, "myadd")
    np.testing.assert_array_equal(y, x + 1)


def test_all_context_pointers_are_optional_and_filled_where_they_are(tvm_library):  # trap 15
    assert len(core.tvm_contexts(load_library(tvm_library("LLVM")).handle)) == 7
    assert core.tvm_contexts(load_library(tvm_library("CTARGET")).handle) == []


def test_error_text(module):
    with pytest.raises(KernelError, match="this operator always fails"):
        run(module, "always_fails")
    with pytest.raises(KernelError, match="set no message"):  # and not the text of an older failure
        run(module, "fails_silently")


def test_workspace(module):
    x, y = run(module, "uses_workspace")
    np.testing.assert_array_equal(y, x + 1)


def test_workspaces_belong_to_threads(module):
    failures = []

    def work():
        for n in (10, 5000, 100, 70000):
            x, y = run(module, "uses_workspace", n)
            if not np.array_equal(y, x + 1):
                failures.append(n)

    in_threads(work)
    assert not failures


def test_parallel_launch_gives_as_many_tasks_as_threads(module, threads):
    _, y = run(module, "counts_tasks")
    assert y[0] == threads


def test_barrier(module, threads):
    for n in (1, 3, 100, 4096):
        x, y = run(module, "uses_barrier", n)
        np.testing.assert_array_equal(y, np.full(n, x.sum()))


def test_errors_of_all_tasks_propagate(module, threads):  # trap 13: TVM drops them with one worker
    with pytest.raises(KernelError, match=rf"Task {threads - 1} error: the last task gives up"):
        run(module, "fails_in_parallel")
    run(module, "uses_barrier")


def test_nested_launch_is_a_clear_error(module, threads):
    with pytest.raises(KernelError, match="Cannot launch parallel job inside worker"):
        run(module, "launches_nested")


def test_launches_from_many_threads_at_once(module, threads):
    failures = []

    def work():
        for _ in range(30):
            x, y = run(module, "uses_barrier", 64)
            if not (y == x.sum()).all():
                failures.append(y)

    in_threads(work)
    assert not failures


def test_functions_by_name(module, tvm_library):
    with pytest.raises(KernelError, match="Cannot find function imported_add"):
        run(module, "calls_packed")
    core.tvm_import(module.library.handle, load_library(tvm_library("LLVM", "IMPORTED")).handle)
    for _ in range(2):  # the second call uses the handle that the library cached
        x, y = run(module, "calls_packed")
        np.testing.assert_array_equal(y, x + 10)


def test_set_device(module):
    x, y = run(module, "sets_device")
    np.testing.assert_array_equal(y, x)


def test_a_system_library_registers_its_functions(tvm_library):
    library = load_library(tvm_library("SYSTEM"))
    assert library.system
    assert library.has("system_add", "cpu")  # registered under this name, not exported
    assert not library.has("nowhere", "cpu")


def test_libraries_of_the_new_abi_are_recognised(tmp_path):
    import subprocess

    (tmp_path / "f.c").write_text("int __tvm_ffi_add(void *a, const void *b, int n, void *r) { return 0; }")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", str(tmp_path / "f.c"), "-o", str(tmp_path / "f.so")], check=True
    )
    with pytest.raises(LibraryError, match=r"TVM 0\.21 or later"):
        load_library(tmp_path / "f.so")
