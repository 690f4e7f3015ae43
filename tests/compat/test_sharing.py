"""Parameters that live in memory of others: share_params, linked parameters; and run_from_inputs."""

import gc
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import InputError, LibraryError
from graph_runtime.compat.tvm_files.debugger import create_debug
from graph_runtime.ir.documents.params import save_params

LARGE = 1 << 24  # elements of float32: 64 MB


def document(size, dtype="float32", function="add", device=1, **columns):
    """y = w + x, and v, a reshape of w that is an output too."""
    attrs = {"num_inputs": "2", "num_outputs": "1", "flatten_data": "0", "func_name": function}
    attrs |= {"gr.op": "add"} if function == "add" else {}
    nop = {"num_inputs": "1", "num_outputs": "1", "flatten_data": "0", "func_name": "__nop"}
    nodes = [
        {"op": "null", "name": "w", "inputs": []},
        {"op": "null", "name": "x", "inputs": []},
        {"op": "tvm_op", "name": "y", "attrs": attrs, "inputs": [[0, 0, 0], [1, 0, 0]]},
        {"op": "tvm_op", "name": "v", "attrs": nop, "inputs": [[0, 0, 0]]},
    ]
    shapes = [[size], [size], [size], [1, size]]
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0, 1],
            "heads": [[2, 0, 0], [3, 0, 0]],
            "node_row_ptr": [0, 1, 2, 3, 4],
            "attrs": {
                "dltype": ["list_str", [dtype] * 4],
                "shape": ["list_shape", shapes],
                "device_index": ["list_int", [device] * 4],
                "storage_id": ["list_int", columns.get("storage_id", [0, 1, 2, 0])],
            },
        }
    )


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def check(module, w, size):
    x = np.full(size, 0.5, "f4")
    module.run(x=x)
    np.testing.assert_array_equal(module.get_output(0).numpy(), w + x)
    np.testing.assert_array_equal(module.get_output(1).numpy()[0], w)


@pytest.mark.filterwarnings("ignore:the file's storage_id does not fit")
@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_sharing_survives_the_first_module(device):
    w = np.arange(64, dtype="f4")
    data = save_params({"w": w})
    graph = document(64, device=1 if device == "cpu:0" else 12)
    first = gr.create(graph, devices=[device], params={"w": w})
    others = [gr.create(graph, devices=[device]) for _ in range(10)]
    for other in others:
        other.share_params(first, data)
        check(other, w, 64)
        other.share_params(first, data)  # again: TVM refuses
    del first
    gc.collect()
    for other in others:
        check(other, w, 64)


def test_values_are_the_first_modules_not_those_of_the_bytes():
    graph, w = document(8), np.arange(8, dtype="f4")
    first, second = gr.create(graph, params={"w": w}), gr.create(graph)
    second.share_params(first, save_params({"w": w * 0}))
    check(second, w, 8)
    first.set_input("w", w + 1)  # one memory
    check(second, w + 1, 8)
    assert second.get_input_info()[0] == {"x": (8,)}


@pytest.mark.slow
def test_sharing_gives_the_duplicate_back():
    w = np.ones(LARGE, "f4")
    graph, data = document(LARGE), save_params({"w": np.zeros(LARGE, "f4")})
    first, second = gr.create(graph, params={"w": w}), gr.create(graph, params={"w": w})
    before = resident_bytes()
    second.share_params(first, data)
    assert before - resident_bytes() > 0.9 * w.nbytes
    assert (
        second.get_input("w").__array__(copy=False).ctypes.data
        == first.get_input("w").__array__(copy=False).ctypes.data
    )
    check(second, w, LARGE)


def test_memory_that_somebody_looks_at_is_not_given_back():
    w = np.ones(1 << 20, "f4")
    graph, data = document(1 << 20), save_params({"w": w})
    first, second = gr.create(graph, params={"w": w + 1}), gr.create(graph, params={"w": w})
    third = gr.create(graph)
    third.share_params(second, data)  # reads the memory that second is about to leave
    seen = second.get_input("w")
    view = np.from_dlpack(second.get_input("w"))
    second.share_params(first, data)
    np.testing.assert_array_equal(seen.numpy(), w)
    del seen
    np.testing.assert_array_equal(view, w)
    check(third, w, 1 << 20)
    check(second, w + 1, 1 << 20)


def test_copies_to_devices_follow():
    w = np.arange(64, dtype="f4")
    graph = document(64)
    options = {"devices": ["cpu:0", "tt:0"], "place": {"y": "tt:0"}}
    first, second = gr.create(graph, params={"w": w}, **options), gr.create(graph, **options)
    second.share_params(first, save_params({"w": w}))
    check(second, w, 64)


@pytest.mark.parametrize("make", [gr.create, create_debug])
def test_sharing_with_debug_modules(make):  # TVM wants exactly a plain executor
    w = np.arange(8, dtype="f4")
    first, second = make(document(8), params={"w": w}), create_debug(document(8))
    second.share_params(first, save_params({"w": w}))
    check(second, w, 8)


def test_what_cannot_be_shared():
    w = np.arange(8, dtype="f4")
    data = save_params({"w": w, "zz": w})
    first, second = gr.create(document(8), params={"w": w}), gr.create(document(8))
    with pytest.warns(UserWarning, match="'zz'"):
        second.share_params(first, data)
    data = save_params({"w": w})
    with pytest.raises(InputError, match="no input 'w'"):
        second.share_params(gr.create(document(8).replace('"w"', '"u"')), data)
    for other in (document(9), document(8, dtype="int32")):
        with pytest.raises(InputError, match="type, device and layout must be equal"):
            second.share_params(gr.create(other), data)
    with pytest.raises(InputError, match="cpu:1"):
        second.share_params(gr.create(document(8), devices="cpu:1"), data)
    with pytest.raises(InputError, match="with itself"):
        second.share_params(second, data)
    third = gr.create(document(8))
    third.set_input_zero_copy("w", gr.aligned_empty(8))
    for a, b in ((third, first), (second, third)):
        with pytest.raises(InputError, match="zero copy"):
            a.share_params(b, data)
    check(second, w, 8)


def test_zero_copy_ends_in_the_shared_memory():
    w, mine = np.arange(8, dtype="f4"), gr.aligned_empty(8)
    first, second = gr.create(document(8), params={"w": w}), gr.create(document(8))
    second.share_params(first, save_params({"w": w}))
    mine[:] = 5
    second.set_input_zero_copy("w", mine)
    check(second, mine, 8)
    second.reset_zero_copy()
    check(second, w, 8)


def test_run_from_inputs():
    module = gr.create(document(8))
    w, x = np.arange(8, dtype="f4"), np.ones(8, "f4")
    y, v = module["run_from_inputs"](1, 0, "w", w, "x", x)
    np.testing.assert_array_equal(y.numpy(), w + x)
    module.run(w=w * 0)
    np.testing.assert_array_equal(v.numpy()[0], w)  # copies: a later run leaves them alone
    with pytest.raises(InputError, match="zz is not a valid input name"):
        module.run_from_inputs(1, 0, "zz", w)
    with pytest.raises(InputError, match="in turn"):
        module.run_from_inputs(1, 0, "w")
    with pytest.raises(gr.DeviceError):
        module.run_from_inputs(2, 0, "w", w)


# **************** linked parameters: TVM 0.8 ****************

LINKED = r"""
#include <stdint.h>
typedef union { int64_t i; void *p; } value;
typedef struct { float *data; } tensor;              /* only the first field is looked at */
static const float w[8] __attribute__((aligned(64))) = {0, 1, 2, 3, 4, 5, 6, 7};
int _lookup_linked_param(value *args, int *codes, int n, value *ret, int *code, void *resource) {
  if (args[0].i == 3) { ret->p = (void *)w; *code = CODE; } else { ret->p = 0; *code = 4; }
  return 0;
}
int plus(value *args) {
  tensor *a = args[0].p, *b = args[1].p, *c = args[2].p;
  for (int i = 0; i < 8; ++i) c->data[i] = a->data[i] + b->data[i];
  return 0;
}
"""


@pytest.fixture
def linked(tmp_path):
    def build(code=3):
        (tmp_path / "l.c").write_text(LINKED.replace("CODE", str(code)))
        subprocess.run(
            ["gcc", "-shared", "-fPIC", str(tmp_path / "l.c"), "-o", str(tmp_path / f"l{code}.so")],
            check=True,
        )
        return tmp_path / f"l{code}.so"

    return build


def test_linked_params_are_read_where_they_are(linked):
    module = gr.create(document(8, function="plus", storage_id=[3, 1, 2, 3]), linked())
    check(module, np.arange(8, dtype="f4"), 8)
    with pytest.raises(InputError, match="constant"):  # TVM writes to read-only memory
        module.set_input("w", np.zeros(8, "f4"))
    assert not module.get_input("w").__array__(copy=False).flags.writeable
    mine = gr.aligned_empty(8)
    mine[:] = 1
    module.set_input_zero_copy("w", mine)
    check(module, mine, 8)
    module.reset_zero_copy()
    check(module, np.arange(8, dtype="f4"), 8)


def test_linked_params_go_to_other_devices(linked):
    graph = document(8, storage_id=[3, 1, 2, 3])
    module = gr.create(graph, linked(), ["cpu:0", "tt:0"], place={"y": "tt:0"})
    check(module, np.arange(8, dtype="f4"), 8)
    module = gr.create(graph, linked(), ["tt:0"], device_map={"cpu": "tt:0"})
    check(module, np.arange(8, dtype="f4"), 8)


def test_a_lookup_that_returns_no_pointer_is_refused(linked):
    with pytest.raises(LibraryError, match="type code 0"):
        gr.create(document(8, function="plus", storage_id=[3, 1, 2, 3]), linked(0))


def test_an_empty_parameter_can_be_shared():
    w = np.zeros(0, "f4")
    first, second = gr.create(document(0), params={"w": w}), gr.create(document(0))
    second.share_params(first, save_params({"w": w}))
    check(second, w, 0)
