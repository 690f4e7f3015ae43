"""Lines of deployment scripts, in the shape of the names they use."""

import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
import pytest

import graph_runtime.compat.tvm as tvm
from graph_runtime.base.errors import ClusterError
from graph_runtime.compat.tvm.contrib import graph_executor
from graph_runtime.compat.tvm.contrib.debugger import debug_executor


@pytest.fixture
def graph(document):
    return document.json(document.call("myadd", document.input("x")))


def test_the_most_copied_lines_of_the_tutorials(graph, packed_library):
    dev = tvm.device("llvm", 0)
    lib = tvm.runtime.load_module(packed_library, "so")
    module = graph_executor.create(graph_json_str=graph, libmod=lib, device=dev)
    module.set_input("x", tvm.nd.array(np.arange(4, dtype="float32"), device=dev))
    module.run()
    out = module.get_output(0, tvm.nd.empty((4,), device=dev))
    assert out.numpy().tolist() == out.asnumpy().tolist() == [1, 2, 3, 4]
    timer = module.module.time_evaluator("run", dev, number=1, repeat=6)
    assert (np.array(timer().results) * 1000).shape == (6,)
    assert timer().mean > 0
    assert str(timer()).startswith("Execution time summary:")
    x, y = tvm.nd.array(np.zeros(4, "float32")), tvm.nd.empty((4,))
    assert len(lib.time_evaluator("myadd", dev, repeat=2)(x, y).results) == 2
    assert y.numpy().tolist() == [1] * 4


def test_packed_functions_of_an_executor(graph, packed_library):
    made = graph_executor.create(graph, tvm.runtime.load_module(packed_library), [tvm.cpu(0)])
    m = made.module
    m["set_input"]("x", tvm.nd.array([1.0, 2, 3, 4]).numpy().astype("float32"))
    m["run"]()
    assert m["get_output"](0).numpy().tolist() == [2, 3, 4, 5]
    assert m["get_input_info"]() == {"shape": {"x": (4,)}, "dtype": {"x": "float32"}}
    assert made.get_output(0).same_as(m["get_output"](0))
    assert m.type_key == "GraphExecutor"
    assert not m.implements_function("fly")
    made.set_input("x", [0, 0, 0, 0])  # converted, as copyfrom does
    with pytest.raises(RuntimeError, match="Could not find 'y' in graph's inputs"):
        made.set_input("y", [0])
    with pytest.raises(ValueError, match="array shape do not match"):
        made.set_input("x", [0])


def test_a_factory_gives_arrays_that_are_not_copied(tvm_library, blobs, golden_dir):
    lib = tvm.runtime.load_module(tvm_library("LLVM", blob=blobs.model("mlp")))
    params = lib["get_graph_params"]()
    kept = params["p0"].numpy()
    assert params["p0"].tensor.readonly
    params["p0"].copyfrom(kept + 1)  # the first write takes a copy
    np.testing.assert_array_equal(lib["get_graph_params"]()["p0"].numpy(), kept)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    assert "p0" in module.get_input_info()[0]
    raw = (golden_dir / "mlp" / "params.bin").read_bytes()
    loaded = tvm.runtime.load_param_dict(bytearray(raw))
    assert (loaded["p0"].shape, loaded["p0"].dtype) == (kept.shape, str(kept.dtype))
    again = tvm.runtime.load_param_dict(tvm.runtime.save_param_dict(loaded))
    np.testing.assert_array_equal(again["p0"].numpy(), kept)


def test_parameters_are_loaded_and_shared(graph, packed_library):
    lib = tvm.runtime.load_module(packed_library)
    raw = tvm.runtime.save_param_dict({"x": tvm.nd.array(np.full(4, 3, "float32"))})
    first, second = (graph_executor.create(graph, lib, tvm.cpu(0)) for _ in range(2))
    first.load_params(bytearray(raw))
    second.module["share_params"](first.module, raw)
    second.run()
    assert second.get_output("myadd_1").numpy().tolist() == [4] * 4
    assert first.get_input_info() == ({}, {})
    assert len(first.benchmark(tvm.cpu(0), repeat=2, number=1, end_to_end=True).results) == 2
    mine = tvm.nd.array(np.zeros(4, "float32"))
    first.set_input_zero_copy("x", mine)
    first.run()
    assert first.get_output(0).numpy().tolist() == [1] * 4
    assert graph_executor.get_device(lib, tvm.cpu(0)) == ([tvm.cpu(0)], 0, [1, 0])


def test_devices():
    assert str(tvm.cpu(0)) == repr(tvm.device("cpu:0")) == "cpu(0)"
    assert tvm.cpu(0) == tvm.runtime.Device(1, 0) == tvm.context("llvm")
    assert tvm.cpu().exist
    assert not tvm.cuda(0).exist
    assert tvm.cpu().max_threads_per_block is None
    with pytest.raises(ValueError, match="Unknown device type: qpu"):
        tvm.device("qpu")
    with pytest.raises(ValueError, match=r"did you mean 'opencl'\?\); there are: .*\bext_dev\b"):
        tvm.device("opencll:1")
    with pytest.raises(tvm.TVMError, match="no cuda device here"):
        tvm.nd.array([1.0], tvm.cuda(0))


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        (tvm, "devic", "device"),
        (tvm.runtime, "load_modul", "load_module"),
        (tvm.nd, "aray", "array"),
        (tvm.contrib, "graph_executo", "graph_executor"),
        (tvm.error, "OpEror", "OpError"),
        (tvm.testing, "assert_allclos", "assert_allclose"),
    ],
)
def test_an_unknown_name_is_answered_by_the_one_that_was_meant_and_all_that_there_are(module, name, meant):
    with pytest.raises(AttributeError, match=rf"did you mean '{meant}'\?\); there are: .*\b{meant}\b"):
        getattr(module, name)


def test_what_is_no_device_is_an_error_of_tvms(graph):
    for made in (graph_executor.create, debug_executor.create):
        with pytest.raises(ValueError, match="dev has to be the type of Device or a list of Device"):
            made(graph, None, "cpu:0")


def test_arrays():
    a = tvm.nd.array(np.ones((2, 2), "float32"))
    assert repr(a).startswith("<tvm.nd.NDArray shape=(2, 2), cpu(0)>\narray(")
    a[:] = np.zeros((2, 2), "float32")
    b = a.copyto(tvm.cpu(0))
    assert b.numpy().sum() == 0
    assert a != b
    assert isinstance(tvm.nd.from_dlpack(a.to_dlpack()), tvm.nd.NDArray)
    assert a.ctx == a.device == tvm.cpu(0)
    with pytest.raises(ValueError, match="only support set"):
        a[0] = b


def test_the_compiler_is_named():
    with pytest.raises(AttributeError, match="compile with TVM elsewhere"):
        _ = tvm.relay
    with pytest.raises(ImportError, match="compile with TVM elsewhere"):
        import graph_runtime.compat.tvm.relay  # noqa: F401
    with pytest.raises(ImportError, match="virtual machine is not here"):
        from graph_runtime.compat.tvm.runtime import vm  # noqa: F401


def test_a_remote_device_is_refused_where_it_is_used():
    with pytest.raises(ClusterError, match="token authentication and TLS"):
        tvm.rpc.connect("board", 9090)
    with pytest.raises(NotImplementedError, match="no RPC server or tracker"):
        tvm.rpc.connect_tracker("board", 9190)


def test_unchanged_debugger_lines(graph, packed_library, tmp_path):
    lib = tvm.module.load(packed_library)
    mod = debug_executor.create(graph, lib, tvm.context("cpu", 0), dump_root=str(tmp_path))
    mod.set_input(x=np.zeros(4, "float32"))
    mod.run(number=1)
    assert mod._dump_path == str(tmp_path / "_tvmdbg_device_CPU_0")
    assert mod.debug_datum.get_debug_result().split("\n")[0].endswith("Measurements(us)  ")
    out = mod.debug_get_output(1, tvm.nd.empty((4,)))
    mod._execute_node(1)
    assert out.numpy().tolist() == mod._get_node_output(1, 0).numpy().tolist() == [1] * 4
    assert "Total" in str(mod.profile())


def test_an_unchanged_script_runs(graph, packed_library, tmp_path):
    script = tmp_path / "deploy.py"
    script.write_text(
        """
import sys
import numpy as np
import tvm
import tvm.testing
from tvm import runtime
from tvm.contrib import graph_executor, utils
from tvm.contrib.debugger import debug_executor
assert sys.argv[0].endswith("deploy.py")
folder = utils.tempdir()
open(folder.relpath("deploy.json"), "w").write(sys.argv[2])
graph = open(folder.relpath("deploy.json")).read()
module = graph_executor.create(graph, runtime.load_module(sys.argv[1]), tvm.cpu(0))
module.run(x=np.zeros(4, "float32"))
tvm.testing.assert_allclose(module.get_output(0).numpy(), np.ones(4))
try:
    from tvm import relay
except ImportError as error:
    print(error)
"""
    )
    command = [sys.executable, "-W", "error", "-m", "graph_runtime.compat.tvm", script, packed_library, graph]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "tvm.relay is a part of TVM's compiler" in done.stdout


def test_functions_by_name_take_and_get_ndarrays():
    x, at = tvm.nd.array(np.array([3, 1, 2], "float32")), tvm.nd.empty((3,), "int32")
    tvm.get_global_func("tvm.contrib.sort.argsort")(x, at, 0, True)
    assert at.numpy().tolist() == [1, 2, 0]
    seen = []

    @tvm.register_func("tests.names.double")
    def double(a, b):
        seen.append(type(a))
        b.copyfrom(a.asnumpy() * 2)

    try:
        y = tvm.nd.empty((3,))
        tvm.get_global_func("tests.names.double")(x, y)
        assert y.numpy().tolist() == [6, 2, 4]
        assert seen == [tvm.nd.NDArray]
        with pytest.raises(ValueError, match="override=True"):
            tvm.register_func("tests.names.double", double)
        tvm.register_func("tests.names.double", lambda a, b: 7, override=True)
        assert tvm.get_global_func("tests.names.double")(x, y) == 7
    finally:
        tvm.runtime.global_functions.remove_global_func("tests.names.double")
    assert tvm.get_global_func("tests.names.double", allow_missing=True) is None
    with pytest.raises(ValueError, match="Cannot find global function"):
        tvm.get_global_func("tests.names.double")


def test_functions_of_modules_by_name(graph, packed_library):
    make = tvm.get_global_func("tvm.graph_executor.create")
    load = tvm.get_global_func("runtime.ModuleLoadFromFile")
    module = graph_executor.GraphModule(make(graph, load(packed_library, "so"), 1, 0))
    module.run(x=[1, 2, 3, 4])
    assert module.get_output(0).numpy().tolist() == [2, 3, 4, 5]
    assert "tvm.graph_executor.create" in tvm._ffi.list_global_func_names()
    with pytest.raises(ValueError, match="type, id, type, id"):
        make(graph, load(packed_library), 1)
    raw = tvm.get_global_func("tvm.graph_executor_debug.create")(graph, load(packed_library), 1, 0)
    assert raw.type_key == "GraphExecutorDebug"
    assert tvm.runtime.convert([3, len])[1]("four") == 4


def test_a_module_of_python_functions(graph):
    proxy = tvm.support.FrontendTestModule()
    seen = []

    def add(x, y):
        seen.append(x)
        y.copyfrom(x.numpy() + 1)

    proxy["myadd"] = add
    module = debug_executor.create(graph, proxy, tvm.cpu(0))
    module.set_input(x=np.zeros(4, "float32"))
    assert module.run_individual_node(1, repeat=3).mean > 0
    assert module.run_individual_node(0).mean == 0
    assert module.get_output(0).numpy().tolist() == [1] * 4
    assert isinstance(seen[0], tvm.nd.NDArray)
    assert proxy["myadd"] is not None
    with pytest.raises(AttributeError, match="no function 'fly'"):
        proxy["fly"]
    with pytest.raises(ValueError, match="'f' is a int, not a function"):
        proxy["f"] = 1
    with pytest.raises(tvm._ffi.base.TVMError):
        module.run_individual_node(2)

    def fails(x, y):
        raise KeyError("oh")

    proxy["myadd"] = fails
    with pytest.raises(tvm.TVMError, match=r"node 'myadd_1' .* KeyError: 'oh'"):
        graph_executor.create(graph, proxy, tvm.cpu(0)).run()
    assert module.run() is None  # as it was made
    with pytest.raises(tvm.TVMError, match="takes no imports"):
        proxy.import_module(proxy)


def test_libraries_import_each_other(tvm_library, document, tmp_path):
    first, second = (tvm.runtime.load_module(tvm_library("LLVM", *more)) for more in ((), ("IMPORTED",)))
    assert not first.implements_function("imported_only", True)
    first.import_module(second)
    assert first.imported_modules == [second]
    copied = first.library.path.read_bytes()
    with pytest.raises(tvm.TVMError, match="imports in a circle"):
        second.import_module(first)
    with pytest.raises(tvm.TVMError, match="export_library can copy"):
        first.export_library(tmp_path / "copy.so")
    path = second.export_library(tmp_path / "copy.so")
    assert Path(path).read_bytes() == second.library.path.read_bytes() != copied
    with pytest.raises(tvm.TVMError, match="does not support SaveToFile"):
        second.save(tmp_path / "x.o")


def test_a_session_with_this_machine(graph, packed_library, tmp_path):
    remote = tvm.rpc.LocalSession()
    remote.upload(packed_library, "ops.so")
    remote.upload(b"abc", "text")
    assert (remote.listdir(), bytes(remote.download("text"))) == ("ops.so,text", b"abc")
    module = graph_executor.create(graph, remote.load_module("ops.so"), remote.cpu(0))
    module.run(x=np.zeros(4, "float32"))
    assert module.get_output(0).numpy().tolist() == [1] * 4
    remote.remove("text")
    assert remote.listdir() == "ops.so"
    assert remote.device("cuda", 1) == remote.cuda(1) == tvm.cuda(1)


def test_names_that_the_graph_has_not_are_left_out(graph, packed_library):
    module = graph_executor.create(graph, tvm.runtime.load_module(packed_library), tvm.cpu(0))
    with pytest.warns(UserWarning, match="no inputs for 'X': they were left out"):
        module.set_input("x", [1, 1, 1, 1], X=np.zeros(3))
    module.run()
    assert module.get_output(0).numpy().tolist() == [2] * 4


def test_marks_of_tests():
    def test():
        return 1

    assert tvm.testing.uses_gpu(test)() == tvm.testing.requires_llvm(test)() == 1
    assert tvm.testing.requires_package("numpy")(test)() == 1
    for mark in (tvm.testing.requires_cuda, tvm.testing.requires_package("no_such_package")):
        with pytest.raises(unittest.SkipTest):
            mark(test)()
    assert tvm.testing.enabled_targets() == [("llvm", tvm.cpu(0))]
    assert tvm.testing.device_enabled("llvm -mcpu=x")
    assert not tvm.testing.device_enabled("cuda")


def test_a_system_library_that_ctypes_opened(tvm_library, document, tmp_path):
    """In a process of its own: libraries register once."""
    text = document.json(document.call("system_add", document.input("x")))
    (tmp_path / "net.json").write_text(text)
    code = f"""
import ctypes
import numpy as np
import graph_runtime.compat.tvm as tvm
from graph_runtime.compat.tvm.contrib import graph_executor

lib = tvm.runtime.system_lib()
try:
    lib["system_add"]
except AttributeError:
    print("none")
ctypes.CDLL({str(tvm_library("SYSTEM"))!r}, ctypes.RTLD_GLOBAL)
x, y = tvm.nd.array(np.arange(4, dtype="float32")), tvm.nd.empty((4,))
lib["system_add"](x, y)
module = graph_executor.create(open({str(tmp_path / "net.json")!r}).read(), lib, tvm.cpu(0))
module.run(x=x)
print(y.numpy().tolist(), module.get_output(0).numpy().tolist())
print(tvm.runtime.system_lib("system_").implements_function("add"))
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == f"none\n{[1.0, 2.0, 3.0, 4.0]} {[1.0, 2.0, 3.0, 4.0]}\nTrue\n", done.stderr[-1500:]
