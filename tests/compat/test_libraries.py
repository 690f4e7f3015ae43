"""Several libraries in one graph (R8), and the traps of TVM's executor that concern libraries."""

import gc
import json

import numpy as np
import pytest
from graph_runtime.codegen.build import build_library

import graph_runtime as gr
from graph_runtime.base.config import config
from graph_runtime.base.errors import LibraryError
from graph_runtime.binding import core
from graph_runtime.compat.tvm_files.library import load_module
from graph_runtime.plan import plan
from graph_runtime.run.library import load_library

SIZE = 64


def document(*steps, device=1):
    """x -> step -> step ..., float32[64]; a step is (func_name, gr.op or None)."""
    nodes = [{"op": "null", "name": "x", "inputs": []}]
    for i, (name, op) in enumerate(steps):
        attrs = {"func_name": name, "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
        attrs |= {"gr.op": op} if op else {}
        nodes.append({"op": "tvm_op", "name": f"{name}_{i}", "attrs": attrs, "inputs": [[i, 0, 0]]})
    count = len(nodes)
    columns = {
        "dltype": ["list_str", ["float32"] * count],
        "shape": ["list_shape", [[SIZE]] * count],
        "storage_id": ["list_int", list(range(count))],
        "device_index": ["list_int", [device] * count],
    }
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[count - 1, 0, 0]],
            "node_row_ptr": list(range(count + 1)),
            "attrs": columns,
        }
    )


@pytest.fixture
def values():
    return np.random.default_rng(0).integers(-8, 8, SIZE).astype("f4")


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """ours(document, devices, **options) -> a compiled library of the functions with gr.op."""
    folder = tmp_path_factory.mktemp("ours")

    def build(text, devices, **options):
        with config(CACHE_DIR=str(folder)):
            return build_library(
                [plan(gr.load_graph(text), devices, **options)], folder / f"{abs(hash(text))}.so"
            )

    return build


def test_kernels_of_tvm_of_ours_and_of_tt_in_one_graph(tvm_library, ours, values):
    compiled = document(("rectify", "relu"), ("rectify_tt", "relu"))
    steps = (
        ("myadd", None),
        ("rectify", "relu"),
        ("rectify_tt", "relu"),
        ("built_in", "relu"),
        ("uses_workspace", None),
    )
    devices = ["cpu:0", "tt:0"]
    libraries = [tvm_library("LLVM"), ours(compiled, devices, place={"rectify_tt*": "tt:0"})]
    module = gr.create(document(*steps), libraries, devices, place={"rectify_tt*": "tt:0"})
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(values + 1, 0) + 1)
    origins = {kernel.name: kernel.origin for kernel in module.session.program.kernels}
    assert origins["myadd"] == str(libraries[0])
    assert origins["rectify"] == origins["rectify_tt"] == str(libraries[1])
    assert origins["built_in"].startswith("built in")


def test_a_function_in_two_libraries_is_ambiguous(tvm_library, ours):
    clash = ours(document(("myadd", "relu")), ["cpu:0"])
    for libraries in ([tvm_library("LLVM"), clash], [tvm_library("LLVM"), tvm_library("CTARGET")]):
        with pytest.raises(LibraryError, match="'myadd' for cpu is in both"):
            gr.create(document(("myadd", None)), libraries)


def test_the_device_decides_between_libraries(tvm_library, ours, values):
    on_tt = ours(document(("myadd", "relu"), device=12), ["tt:0"])  # the same name, for tt only
    module = gr.create(document(("myadd", None)), [tvm_library("LLVM"), on_tt])
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), values + 1)
    module = gr.create(document(("myadd", "relu"), device=12), [tvm_library("LLVM"), on_tt], ["tt:0"])
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(values, 0))


def test_modules_of_load_module_stand_in_lists(tvm_library, values):
    module = gr.create(document(("myadd", None)), [load_module(tvm_library("LLVM"))])
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), values + 1)


# **************** traps ****************


def test_trap_13_errors_with_one_worker_are_not_lost(tvm_library, values):
    module = gr.create(document(("fails_in_parallel", None)), tvm_library("LLVM"))
    before = core.pool_threads()
    try:
        for threads in (1, 2):
            core.pool_set_threads(threads)
            with pytest.raises(
                gr.KernelError, match=f"Task {threads - 1} error: the last task gives up"
            ) as caught:
                module.run(x=values)
            assert caught.value.node == "fails_in_parallel_0"
    finally:
        core.pool_set_threads(before)


def test_trap_14_services_are_global_for_c_target_libraries(tvm_library, values):
    library = load_library(tvm_library("CTARGET"))
    assert {"TVMBackendAllocWorkspace", "TVMAPISetLastError"} <= library.shared.undefined
    module = gr.create(document(("uses_workspace", None)), library)
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), values + 1)


def test_trap_16_unknown_blob_records_end_the_reading(tvm_library, blobs):
    path = tvm_library("LLVM", blob=blobs.blob(blobs.text("opencl") + bytes(8), blobs.lib()))
    with pytest.raises(LibraryError, match="record 0 of its import blob is an OpenCL module") as caught:
        load_module(path)
    assert caught.value.record == 0


def test_trap_17_cached_handles_outlive_the_first_loader(tvm_library):
    path, imported = tvm_library("LLVM", "CACHES"), tvm_library("LLVM", "IMPORTED")
    for _ in range(3):
        module = load_module(path)
        core.tvm_import(module.library.handle, load_library(imported).handle)
        x, y = np.arange(4, dtype="f4"), np.zeros(4, "f4")
        module["calls_packed"](x, y)  # the second time with the first loader's handle
        np.testing.assert_array_equal(y, x + 10)
        del module
        gc.collect()


def test_trap_18_19_a_view_with_an_offset_is_folded_into_its_address(tvm_library, golden_dir):
    """Operators refuse or ignore byte_offset: the LLVM ones of this library assert that it is 0."""
    folder = golden_dir / "mlp"
    io = np.load(folder / "io.npz")
    module = gr.create(folder / "graph.json", tvm_library("LLVM"), params=folder / "params.bin")
    ((name, value),) = [(key[3:], io[key]) for key in io if key.startswith("in:")]
    whole = gr.aligned_empty((2, *value.shape))
    view = whole[1:].reshape(value.shape)  # starts in the middle of its buffer
    view[...] = value
    module.set_input_zero_copy(name, view)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), io["output0"], rtol=1e-5, atol=1e-6)


def test_trap_20_one_path_is_one_mapping(tvm_library):
    path = tvm_library("LLVM")
    assert load_library(path).handle == load_library(path).handle


def test_trap_21_a_device_that_has_no_such_function_is_an_error_at_load(tvm_library, values):
    text = document(("myadd", None), device=12)
    with pytest.raises(LibraryError, match="myadd"):
        gr.create(text, tvm_library("LLVM"), ["tt:0"])
    with pytest.warns(UserWarning, match="falls back to the first, cpu:0"):
        module = gr.create(text, tvm_library("LLVM"), ["cpu:0"])
    assert "cpu:0" in module.session.plan.warnings[0]  # fallback: operators see the device they run on
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), values + 1)
    module = gr.create(document(("myadd", None)), tvm_library("LLVM"), ["cpu:1"])
    module.run(x=values)  # device ids of all arguments agree
    np.testing.assert_array_equal(module.get_output(0).numpy(), values + 1)


def test_sessions_that_run_at_once_share_the_pool(tvm_library, values):
    """counts_tasks tells how many tasks a parallel loop got."""
    import threading

    before = core.pool_threads()
    core.pool_set_threads(2)
    try:
        alone = gr.create(document(("counts_tasks", None)), tvm_library("LLVM"))
        alone.run(x=values)
        assert alone.get_output(0).numpy()[0] == 2
        steps = [("counts_tasks", None)] * 400
        modules = [gr.create(document(*steps), tvm_library("LLVM")) for _ in range(2)]
        for module in modules:
            module.set_input("x", values)
        seen = [set() for _ in modules]
        start = threading.Barrier(2)

        def work(i):
            start.wait()
            for _ in range(200):
                modules[i].run()
                seen[i].add(float(modules[i].get_output(0).numpy()[0]))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen[0] | seen[1] <= {1.0, 2.0}
        alone.run(x=values)
        assert alone.get_output(0).numpy()[0] == 2  # and all of it again when the others are done
    finally:
        core.pool_set_threads(before)


def test_conversions_of_halves_that_operators_call(tvm_library):
    """And the entry function, which the library names by a text."""
    library = load_module(tvm_library("LLVM", "HALVES"))
    assert library.entry == "to_half_and_back"
    rng = np.random.default_rng(0)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        65504,
        65519.9,
        65520,
        2**-24,
        2**-25,
        2**-25 * 1.01,
        1 + 2**-11,
        -5e-8,
    ]
    x = np.concatenate([special, rng.standard_normal(1000) * 10.0 ** rng.integers(-9, 6, 1000)]).astype("f4")
    half, back = np.empty(len(x), "u2"), np.empty(len(x), "f4")
    library["__tvm_main__"](x, half, back)
    with np.errstate(over="ignore"):
        want = x.astype("f2")
    np.testing.assert_array_equal(half, want.view("u2"))
    np.testing.assert_array_equal(back, want.astype("f4"))
    with pytest.raises(LibraryError, match="takes arrays, numbers and texts, not None"):
        library["to_half_and_back"](x, None, back)


def test_a_function_that_is_nowhere_is_told_when_the_library_is_loaded(tvm_library):
    """Found when it is called, it would end the process."""
    with pytest.raises(LibraryError, match="a_function_of_another_library"):
        load_module(tvm_library("LLVM", "ABSENT"))
