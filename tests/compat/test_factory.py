"""Single-file libraries and plain ones, as their holders run them."""

import mmap
import shutil
import tarfile

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.errors import LibraryError
from graph_runtime.compat.tvm.contrib import cc
from graph_runtime.compat.tvm_files.library import load_module


@pytest.fixture(scope="module")
def io(request):
    from pathlib import Path

    golden = Path(__file__).parents[1] / "golden" / "tvm"
    return lambda name: np.load(golden / name / "io.npz")


@pytest.fixture(scope="module")
def golden():
    from pathlib import Path

    return Path(__file__).parents[1] / "golden" / "tvm"


def answers(module, io):
    module.run(**{key[3:]: io[key] for key in io if key.startswith("in:")})
    return module.get_output(0).numpy()


@pytest.mark.parametrize(
    ("name", "flavours"),
    [
        ("mlp", ("LLVM",)),
        ("mlp", ("LLVM", "OLD")),
        ("hetero_cpu_cpu", ("LLVM",)),
        ("hetero_cpu_cpu", ("CTARGET",)),
        ("hetero_cpu_cpu", ("SYSTEM",)),
    ],
)
def test_graph_library_and_params_give_tvms_answer(tvm_library, golden, io, name, flavours):
    module = gr.create(
        golden / name / "graph.json", tvm_library(*flavours), ["cpu:0"], params=golden / name / "params.bin"
    )
    np.testing.assert_allclose(answers(module, io(name)), io(name)["output0"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", ["GraphExecutorFactory", "GraphRuntimeFactory"])
@pytest.mark.parametrize("name", ["mlp", "hetero_cpu_cpu"])
def test_a_single_file_gives_tvms_answer(tvm_library, blobs, io, name, key):
    library = load_module(tvm_library("LLVM", blob=blobs.model(name, key)))
    np.testing.assert_allclose(
        answers(library["default"](gr.cpu(0)), io(name)), io(name)["output0"], rtol=1e-5, atol=1e-6
    )


def test_parameters_that_were_copied_leave_the_memory(tvm_library, blobs, golden):
    """The file's pages, not their values."""
    library = load_module(tvm_library("LLVM", blob=blobs.model("mlp")))
    params = library.get_graph_params()
    first = params["p0"].ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE + mmap.PAGESIZE

    def resident():
        with open("/proc/self/pagemap", "rb") as pages:
            pages.seek(first // mmap.PAGESIZE * 8)
            return int.from_bytes(pages.read(8), "little") >> 63

    sums = {name: array.sum() for name, array in params.items()}
    assert resident()
    module = library["default"](gr.cpu(0))
    assert not resident()
    assert {name: array.sum() for name, array in params.items()} == sums
    np.testing.assert_array_equal(module.get_input("p0").numpy(), params["p0"])


def test_factory_functions(tvm_library, blobs, golden, io):
    library = load_module(tvm_library("LLVM", blob=blobs.model("mlp")))
    assert library.type_key == "GraphExecutorFactory"
    assert library["get_graph_json"]() == (golden / "mlp" / "graph.json").read_text()
    params = library["get_graph_params"]()
    np.testing.assert_array_equal(params["p0"], read_params(golden / "mlp" / "params.bin")["p0"])
    assert not params["p0"].flags.owndata  # trap: TVM's factory holds every parameter twice
    bare = library["remove_params"]()
    assert bare["get_graph_params"]() == {}
    module = bare["default"](gr.cpu(0))
    module.load_params((golden / "mlp" / "params.bin").read_bytes())
    np.testing.assert_allclose(answers(module, io("mlp")), io("mlp")["output0"], rtol=1e-5, atol=1e-6)
    assert library.get_function("myadd", query_imports=True)
    with pytest.raises(AttributeError, match="did you mean 'default'"):
        library["defualt"]


def test_an_executor_outlives_the_library_object(tvm_library, blobs, io):
    import gc

    library = load_module(tvm_library("LLVM", blob=blobs.model("mlp")))
    module = library["default"](gr.cpu(0))
    del library
    gc.collect()
    np.testing.assert_allclose(answers(module, io("mlp")), io("mlp")["output0"], rtol=1e-5, atol=1e-6)


def test_objects_and_tars_are_linked_first(tvm_library, tmp_path):
    module = load_module(tvm_library("LLVM", suffix=".o"))
    x, y = np.zeros(4, "f4"), np.zeros(4, "f4")
    module["myadd"](x, y)
    assert (y == 1).all()
    with tarfile.open(tmp_path / "deploy.tar", "w") as tar:
        tar.add(tvm_library("LLVM", suffix=".o"), arcname="../../lib0.o")  # names in a tar are not trusted
    load_module(tmp_path / "deploy.tar")["myadd"](x, y)
    (tmp_path / "bad.tar").write_bytes(b"no tar")
    (tmp_path / "bad.o").write_bytes(b"no object")
    for name in ("bad.tar", "bad.o"):
        with pytest.raises(LibraryError, match="cannot"):
            load_module(tmp_path / name)


def test_paths_are_those_of_the_callers_folder(tvm_library, tmp_path, monkeypatch):
    """Though linkers run in folders of their own."""
    (tmp_path / "exp").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "mycc").symlink_to(shutil.which("gcc"))
    shutil.copy(tvm_library("LLVM", suffix=".o"), tmp_path / "exp" / "-addone.o")
    with tarfile.open(tmp_path / "exp" / "a.tar", "w") as tar:
        tar.add(tmp_path / "exp" / "-addone.o", arcname="lib0.o")
    monkeypatch.chdir(tmp_path)
    cc.create_shared("out/a.so", "exp/-addone.o", cc="./mycc")
    cc.cross_compiler("./mycc", add_files=["exp/-addone.o"])("out/b.so", [], options=["-Lexp"])
    cc.cross_compiler("./mycc")("out/c.so", "exp/-addone.o")
    for path in ("exp/-addone.o", "exp/a.tar", "out/a.so", "./out/b.so", "out/c.so"):
        assert load_module(path)["myadd"]
    monkeypatch.chdir(tmp_path / "exp")
    for path in ("-addone.o", "../exp/-addone.o", "../out/a.so"):
        x, y = np.zeros(4, "f4"), np.zeros(4, "f4")
        load_module(path)["myadd"](x, y)
        assert (y == 1).all()


def test_constants_are_handed_over_before_the_first_call(blobs, tmp_path):
    import subprocess

    blob = blobs.blob(
        blobs.const_loader({"c": np.arange(3, dtype="f4")}, {"scaled": ["c"]}),
        blobs.lib(),
        blobs.tree([0, 1, 1], [1]),
    )
    (tmp_path / "blob").write_bytes(blob)
    (tmp_path / "k.c").write_text(
        r"""
        typedef struct { float *data; } tensor;   /* only the first field is looked at */
        static float *constant;
        int __init_scaled(tensor **a, int *c, int n) { constant = a[0]->data; return n != 1; }
        int scaled(tensor **a, int *c, int n) { if (!constant) return -1;
          for (int i = 0; i < 3; i++) a[1]->data[i] = a[0]->data[i] * constant[i]; return 0; }
        __asm__(".section .rodata\n.globl __tvm_dev_mblob\n.type __tvm_dev_mblob,@object\n"
                "__tvm_dev_mblob: .incbin \"BLOB\"\n"
                ".size __tvm_dev_mblob, .-__tvm_dev_mblob\n.previous");
        """.replace("BLOB", str(tmp_path / "blob"))
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", str(tmp_path / "k.c"), "-o", str(tmp_path / "k.so")], check=True
    )
    x, y = np.full(3, 2, "f4"), np.zeros(3, "f4")
    load_module(tmp_path / "k.so")["scaled"](x, y)
    np.testing.assert_array_equal(y, [0, 2, 4])


def test_a_blob_longer_than_its_file_is_refused(tvm_library, blobs):
    with pytest.raises(LibraryError, match="blob says it has 1125899906842624 bytes"):
        load_module(tvm_library("LLVM", blob=blobs.u64(1 << 50) + bytes(64)))


def test_a_failing_operator_names_node_and_text(tvm_library, golden):
    import json

    graph = json.loads((golden / "mlp" / "graph.json").read_text())
    graph["nodes"][11]["attrs"]["func_name"] = "always_fails"
    module = gr.create(
        json.dumps(graph), tvm_library("LLVM"), params=golden / "mlp" / "params.bin", unset_inputs="allow"
    )
    with pytest.raises(gr.KernelError, match="this operator always fails") as caught:
        module.run()
    assert caught.value.node == "tvmgen_default_fused_nn_softmax"


def test_an_assertion_of_an_operator_reaches_the_user(tvm_library, golden):
    text = (golden / "mlp" / "graph.json").read_text().replace("[8, 784, 16]", "[4, 784, 32]")
    module = gr.create(text, tvm_library("LLVM"), ["cpu:0"], unset_inputs="allow")
    with pytest.raises(gr.KernelError, match=r"Assert fail: .*p1\.shape\[0\] has an unsatisfied constraint"):
        module.run()
