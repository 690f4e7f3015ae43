"""What we write, as TVM's executor reads and calls it. There is no TVM here: a C program takes its place."""

import ctypes
import json
import subprocess

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.config import config
from graph_runtime.ir.documents.document import read_document

DRIVER = r"""
/* Calls packed functions as TVM's graph executor does: arguments made once, six of them to a call. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef struct { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t byte_offset; } tensor;
typedef union { int64_t i; double f; void *p; } value;
typedef int (*packed)(value *, int *, int, value *, int *, void *);
static char last_error[256];
const char *message(void) { return last_error; }
void TVMAPISetLastError(const char *text) { snprintf(last_error, sizeof last_error, "%s", text); }

/* calls name(args[0 .. n-1]); every argument is float32 and compact */
int call(const char *library, const char *name, int n, float **data, int64_t **shapes, int *ndims) {
  void *dl = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (!dl) { puts(dlerror()); return 100; }
  void (**set_error)(const char *) = (void (**)(const char *))dlsym(dl, "__TVMAPISetLastError");
  if (set_error) *set_error = TVMAPISetLastError;
  packed f = (packed)dlsym(dl, name);
  if (!f) return 101;
  tensor tensors[8];
  value args[8], ret;
  int codes[8], ret_code = 4;
  for (int i = 0; i < n; ++i) {
    tensors[i] = (tensor){data[i], 1, 0, ndims[i], 2, 32, 1, shapes[i], NULL, 0};
    args[i].p = &tensors[i];
    codes[i] = 7;
  }
  return f(args, codes, n, &ret, &ret_code, NULL);
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", str(folder / "driver.c"), "-o", str(folder / "driver.so"), "-ldl"],
        check=True,
    )
    return ctypes.CDLL(str(folder / "driver.so"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, kernel_cache):
    """y = softmax(relu(x @ w)) on cpu, compiled."""
    folder = tmp_path_factory.mktemp("bundle")
    builder = gr.GraphBuilder()
    x = builder.input("x", (3, 16))
    w = builder.param("w", np.random.default_rng(0).standard_normal((16, 5)).astype("f4"))
    builder.output(builder.op("softmax", builder.op("relu", builder.op("matmul", x, w))))
    with config(CACHE_DIR=kernel_cache):
        return build_bundle(builder, ["cpu:0"], folder / "net.bundle")


def run_cli(*args):
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(arg) for arg in args])
    return stopped.value.code or 0


def call(driver, library, name, arrays):
    n = len(arrays)
    shapes = [(ctypes.c_int64 * a.ndim)(*a.shape) for a in arrays]
    data = (ctypes.c_void_p * n)(*[a.ctypes.data for a in arrays])
    rows = (ctypes.c_void_p * n)(*[ctypes.addressof(s) for s in shapes])
    return driver.call(
        str(library).encode(), name.encode(), n, data, rows, (ctypes.c_int * n)(*[a.ndim for a in arrays])
    )


def test_an_exported_folder_runs_as_tvm_runs_it(bundle, driver, tmp_path, capsys):
    assert run_cli("export", bundle, "--dialect", "tvm", "-o", tmp_path / "deploy", "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert sorted(f.rsplit("/", 1)[1] for f in files) == ["graph.json", "kernels.so", "params.bin"]
    text = (tmp_path / "deploy" / "graph.json").read_bytes()
    assert b"gr." not in text
    document = read_document(text)
    assert "metadata" not in document
    assert set(document["attrs"]) == {"dltype", "shape", "storage_id", "device_index"}
    # as the executor does: a buffer a storage id, nodes in order, the functions by name
    columns = {key: column[1] for key, column in document["attrs"].items()}
    pool = {
        sid: gr.aligned_empty(
            max(
                int(np.prod(s))
                for s, k in zip(columns["shape"], columns["storage_id"], strict=True)
                if k == sid
            )
        )
        for sid in columns["storage_id"]
    }
    assert sorted(pool) == list(range(len(pool)))  # TVM refuses a gap
    row_ptr = document["node_row_ptr"]
    entries = [
        pool[sid][: int(np.prod(shape))].reshape(shape)
        for sid, shape in zip(columns["storage_id"], columns["shape"], strict=True)
    ]
    values = {"x": np.random.default_rng(1).standard_normal((3, 16)).astype("f4")}
    values |= read_params(tmp_path / "deploy" / "params.bin")
    for nid, node in enumerate(document["nodes"]):
        if node["op"] == "null":
            entries[row_ptr[nid]][...] = values[node["name"]]
            continue
        args = [entries[row_ptr[i] + k] for i, k, *_ in node["inputs"]]
        args += entries[row_ptr[nid] : row_ptr[nid + 1]]
        assert call(driver, tmp_path / "deploy" / "kernels.so", node["attrs"]["func_name"], args) == 0
    nid, index, *_ = document["heads"][0]
    ours = gr.load(bundle)
    ours.run(x=values["x"])
    np.testing.assert_array_equal(entries[row_ptr[nid] + index], ours.get_output(0).numpy())


def test_an_exported_folder_runs_here_too(bundle, tmp_path):
    assert run_cli("export", bundle, "-o", tmp_path) == 0
    x = np.random.default_rng(1).standard_normal((3, 16)).astype("f4")
    again = gr.create(tmp_path / "graph.json", tmp_path / "kernels.so", params=tmp_path / "params.bin")
    ours = gr.load(bundle)
    for module in (again, ours):
        module.run(x=x)
    np.testing.assert_array_equal(again.get_output(0).numpy(), ours.get_output(0).numpy())


def test_packed_entries_check_what_they_get(bundle, driver):
    library = gr.load_library(bundle / read_bundle(bundle).libraries[0].file)
    name = next(name for name, _ in library.kernels if "relu" in name)
    assert call(driver, library.path, name, [gr.aligned_empty((2, 2)), gr.aligned_empty((2, 2))]) not in (
        0,
        100,
        101,
    )


def test_entries_on_tt_are_refused_by_name(document, tmp_path, capsys):
    x = document.input("x", (32, 32))
    relu = document.call("relu_32", x, op="relu", shape=(32, 32), name="act")
    (tmp_path / "graph.json").write_text(document.json(relu))
    assert run_cli("plan", tmp_path / "graph.json", "--device", "tt:0", "-o", tmp_path / "planned.json") == 0
    assert run_cli("export", tmp_path / "planned.json", "-o", tmp_path / "deploy") == 2
    assert "'act'" in capsys.readouterr().err
    assert not (tmp_path / "deploy").exists()


def test_a_gap_in_storage_ids_is_closed(golden_dir, tmp_path):
    text = (golden_dir / "mlp" / "graph.json").read_text()
    document = json.loads(text)
    document["attrs"]["storage_id"][1] = [3 * sid for sid in document["attrs"]["storage_id"][1]]
    (tmp_path / "graph.json").write_text(json.dumps(document))
    assert run_cli("export", tmp_path / "graph.json", "-o", tmp_path / "deploy") == 0
    found = json.loads((tmp_path / "deploy" / "graph.json").read_text())["attrs"]["storage_id"][1]
    assert sorted(set(found)) == list(range(len(set(found))))
    assert found == json.loads(text)["attrs"]["storage_id"][1]
