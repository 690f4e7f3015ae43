"""The runtime's own packed functions against numpy, and functions of the user's, called by name."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graph_runtime as gr
from graph_runtime.artifacts.libraries.asked import asked
from graph_runtime.artifacts.libraries.elf import SharedObject
from graph_runtime.base.errors import InputError, KernelError, LibraryError
from graph_runtime.binding import core
from graph_runtime.compat.tvm_files import packed_functions as tvm
from graph_runtime.compat.tvm_files.inspect import describe
from graph_runtime.compat.tvm_files.library import load_module
from graph_runtime.compat.tvm_files.packed_functions import (
    PackedFunction,
    list_global_func_names,
    remove_global_func,
)
from graph_runtime.run.tensors.arrays import array

SORTED = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
INDICES = ("i4", "i8", "f4", "f8")
sort, argsort, topk, argsort_nms = (
    tvm.get_global_func(f"tvm.contrib.sort.{name}") for name in ("sort", "argsort", "topk", "argsort_nms")
)
shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9)


def stable(x, axis, ascend):
    """Indices by a stable sort; descending, equal elements stay in their order, too."""
    if ascend:
        return np.argsort(x, axis=axis, kind="stable")
    back = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - back


@st.composite
def arrays(draw):
    """An array of few distinct values, so that many are equal, and an axis."""
    dtype, shape = draw(st.sampled_from(SORTED)), draw(shapes)
    x = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, 5, shape)
    x = x - 2 if dtype[0] in "fi" else x
    return x.astype(dtype), draw(st.integers(-len(shape), len(shape) - 1))


@settings(max_examples=150, deadline=None)
@given(arrays(), st.booleans(), st.sampled_from(INDICES))
def test_sort_and_argsort(drawn, ascend, index):
    x, axis = drawn
    want, out, at = stable(x, axis, ascend), np.empty_like(x), np.empty(x.shape, index)
    sort(x, out, axis, ascend)
    argsort(x, at, axis, ascend)
    np.testing.assert_array_equal(at, want)
    np.testing.assert_array_equal(out, np.take_along_axis(x, want, axis))
    sort(x, x, axis, ascend)  # in place
    np.testing.assert_array_equal(x, out)


@settings(max_examples=150, deadline=None)
@given(
    arrays(),
    st.booleans(),
    st.sampled_from(INDICES),
    st.integers(-1, 9),
    st.sampled_from(["both", "values", "indices"]),
)
def test_topk(drawn, ascend, index, k, wanted):
    x, axis = drawn
    count = x.shape[axis] if k < 1 else min(k, x.shape[axis])
    shape = list(x.shape)
    shape[axis] = count
    values, at = np.empty(shape, x.dtype), np.empty(shape, index)
    outputs = {"both": (values, at), "values": (values,), "indices": (at,)}[wanted]
    topk(x, *outputs, count if k >= 1 else k, axis, wanted, ascend)
    want = np.take(stable(x, axis, ascend), range(count), axis)
    if wanted != "values":
        np.testing.assert_array_equal(at, want)
    if wanted != "indices":
        np.testing.assert_array_equal(values, np.take_along_axis(x, want, axis))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), shapes, st.booleans())
def test_the_first_of_each_line_are_sorted_for_suppression(seed, shape, ascend):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, shape).astype("f4")
    valid = rng.integers(0, shape[-1] + 1, shape[:-1]).astype("i4")
    out = np.full(shape, -1, "i4")
    argsort_nms(x, valid, out, -1, ascend)
    for line in np.ndindex(*shape[:-1]):
        n = int(valid[line])
        want = np.append(stable(x[line][:n], 0, ascend), np.arange(n, shape[-1]))
        np.testing.assert_array_equal(out[line], want)


def test_ties_are_ordered_as_tvm_orders_them(golden_dir):
    """By answers of TVM 0.14 itself."""
    said = np.load(golden_dir / "sorts.npz")
    cases = [name[:-1] for name in said if name.endswith("|x")]
    assert len(cases) == 27
    for case in cases:
        name, _, _, axis, ascend, _ = case.split("|")
        x, want = said[f"{case}x"], said[f"{case}o"]
        out, args = np.empty_like(want), (int(axis), *(["both"] if name == "topk" else []), ascend == "True")
        if name == "topk":
            at = np.empty(want.shape, "i8")
            topk(x, out, at, 2, *args)
            np.testing.assert_array_equal(at, said[f"{case}i"])
        else:
            {"sort": sort, "argsort": argsort}[name](x, out, *args)
        np.testing.assert_array_equal(out, want)


def test_halves_are_ordered_as_the_numbers_that_they_are():
    x = np.arange(1 << 16, dtype="u2").view("f2")
    x = np.random.default_rng(0).permutation(x[~np.isnan(x)])
    out = np.empty_like(x)
    sort(x, out, 0, True)
    np.testing.assert_array_equal(out, np.sort(x))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, i: argsort(x, i, 2, True), "axis 2 is out of range for 2 dimensions"),
        (lambda x, i: argsort(x, i[:1], 0, True), "an output has 3 elements, wanted 6"),
        (lambda x, i: sort(x, i, 0, True), "another dtype than the input"),
        (lambda x, i: argsort(x, np.empty((2, 3), "f2"), 0, True), "cannot write indices"),
        (lambda x, i: topk(x, i, 2, 0, "none", True), "both, values or indices, not none"),
        (lambda x, i: topk(x), "is missing"),
        (lambda x, i: argsort(x, i, "0", True), "is not an integer"),
        (lambda x, i: argsort(1, i, 0, True), "is not a tensor"),
        (lambda x, i: argsort_nms(x, i, i, 1, True), "an output has 6 elements, wanted 2"),
    ],
)
def test_what_cannot_be_sorted_is_told(call, text):
    with pytest.raises(Exception, match=text) as caught:
        call(np.zeros((2, 3), "f4"), np.zeros((2, 3), "i4"))
    assert isinstance(caught.value, KernelError)


# **************** random ****************


def test_numbers_are_those_of_the_twister():
    seed, randint = (tvm.get_global_func(f"tvm.contrib.random.{name}") for name in ("seed", "randint"))
    seed(1234)
    drawn = np.empty(2000, "u4")
    randint(0, 2**32, drawn)
    want = np.random.RandomState(1234).randint(0, 2**32, 2000, dtype=np.uint64).astype("u4")
    assert len(set(drawn.tolist())) > 1990
    raw = np.random.MT19937()
    raw._legacy_seeding(1234)
    np.testing.assert_array_equal(drawn, raw.random_raw(2000).astype("u4"))
    assert want.shape == drawn.shape


def test_draws_have_the_distributions_that_they_are_named_for():
    for name, args, mean, deviation in (
        ("uniform", (-2, 4), 1, 6 / 12**0.5),
        ("normal", (3, 2), 3, 2),
    ):
        x = np.empty((50, 1000), "f4")
        tvm.get_global_func("tvm.contrib.random.seed")(7)
        tvm.get_global_func(f"tvm.contrib.random.{name}")(*args, x)
        assert abs(x.mean() - mean) < 0.05
        assert abs(x.std() - deviation) < 0.05
    for dtype in ("f2", "f4", "f8", "u1", "i1"):
        x = np.zeros(999, dtype)
        tvm.get_global_func("tvm.contrib.random.random_fill")(x)
        assert (x >= 1).all()
        assert (x <= 10).all()
        assert len(np.unique(x)) >= 8
    for low, high, dtype in ((-3, 4, "i1"), (5, 9, "u2"), (-1000, 1000, "i1")):
        x = np.zeros(9999, dtype)
        tvm.get_global_func("tvm.contrib.random.randint")(low, high, x)
        assert x.min() == max(low, np.iinfo(dtype).min)
        assert x.max() == min(high - 1, np.iinfo(dtype).max)
    with pytest.raises(KernelError, match="high must be bigger than low"):
        tvm.get_global_func("tvm.contrib.random.uniform")(1, 1, np.zeros(3, "f4"))


# what std::mt19937 seeded with 1234 gives through libstdc++'s distributions, which TVM draws from, one after
# the other; float16 by the conversion that rounds to even
DRAWN = (
    ("uniform", (-2.5, 4.25), "f4", (0xBF9A86F6, 0x3F5BF67C, 0x3FD98080, 0x40414E64, 0x3EE8C980)),
    ("normal", (3.0, 1.7), "f4", (0x40A6D1D5, 0x4077A5B8, 0x4086F666, 0x4085C374, 0x4011AE5A)),
    ("random_fill", (), "f4", (0x405F3E50, 0x41037837, 0x4119F8D9, 0x410E2261, 0x40870D27)),
    (
        "random_fill",
        (),
        "f8",
        (0x4016092BCBC076F5, 0x401C9ACB5DC586A8, 0x401DA843084FEAA4, 0x4011543B22B4E520, 0x401833FBEC9F897D),
    ),
    ("random_fill", (), "f2", (0x4587, 0x3C7F, 0x47F5, 0x4879, 0x4449)),
    ("random_fill", (), "u1", (6, 1, 4, 9, 6)),
)


def test_draws_are_those_of_the_library_that_tvm_draws_with():
    tvm.get_global_func("tvm.contrib.random.seed")(1234)
    for name, args, dtype, bits in DRAWN:
        x = np.zeros(len(bits), dtype)
        tvm.get_global_func(f"tvm.contrib.random.{name}")(*args, x)
        assert tuple(x.view(f"u{x.itemsize}").tolist()) == bits, (name, dtype)


# **************** caches ****************


def test_the_caches_are_emptied_of_all_but_the_first_argument():
    flush = tvm.get_global_func("cache_flush_cpu_non_first_arg")
    x = np.arange(100000, dtype="f4")
    flush(x, x[:0], x, np.array(1, "f4"))
    flush()
    np.testing.assert_array_equal(x, np.arange(100000))
    with pytest.raises(KernelError, match="is not a tensor"):
        flush(x, 1)


# **************** products ****************


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["cblas", "mkl"]),
    st.sampled_from(["f4", "f8"]),
    st.tuples(*[st.integers(0, 12)] * 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (2.0,), (0.5, 1.0)]),
)
def test_products(seed, library, dtype, sizes, ta, tb, scale):
    rng, (m, n, k) = np.random.default_rng(seed), sizes
    for batches in ((), (1,), (3,)):
        a, b = (
            rng.standard_normal((*batches, m, k)).astype(dtype),
            rng.standard_normal((3,) * len(batches) + (k, n)).astype(dtype),
        )
        c = rng.standard_normal((3,) * len(batches) + (m, n)).astype(dtype)
        alpha, beta = (*scale, *(1.0, 0.0)[len(scale) :])
        want = alpha * (a @ b) + beta * c
        given_a = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if ta else a
        given_b = np.ascontiguousarray(np.swapaxes(b, -1, -2)) if tb else b
        name = f"tvm.contrib.{library}.{'batch_' if batches else ''}matmul"
        tvm.get_global_func(name)(given_a, given_b, c, ta, tb, *scale)
        np.testing.assert_allclose(c, want, rtol=2e-5, atol=2e-5)


def test_products_of_bytes_and_of_what_does_not_fit():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (5, 7)).astype("u1"), rng.integers(-128, 128, (7, 3)).astype("i1")
    c = np.zeros((5, 3), "i4")
    tvm.get_global_func("tvm.contrib.mkl.matmul_u8s8s32")(a, b, c, False, False)
    np.testing.assert_array_equal(c, a.astype("i4") @ b.astype("i4"))
    matmul = tvm.get_global_func("tvm.contrib.dnnl.matmul")
    x = np.zeros((4, 5), "f4")
    with pytest.raises(KernelError, match=r"\[4, 5\] by \[4, 5\] is not \[4, 5\]"):
        matmul(x, x, x, False, False)
    with pytest.raises(KernelError, match="cannot multiply these dtypes"):
        matmul(x, np.zeros((5, 5), "f8"), x, False, False)


# **************** functions of the user's ****************


@pytest.fixture
def named():
    """register(f) -> name, taken away again."""
    names = []

    def register(f, **more):
        names.append(f"tests.function{len(names)}")
        tvm.register_func(names[-1], f, **more)
        return names[-1]

    yield register
    for name in names:
        if name in list_global_func_names():
            remove_global_func(name)


def test_values_go_through_both_ways(named):
    f = tvm.get_global_func(named(lambda *args: args[0] if args else None))
    for value in (0, -(2**63), 2**63 - 1, 0.5, -1e300, "", "text ö", True):
        assert f(value) == value
    assert f() is None
    assert f(None) is None


def test_tensors_are_the_callers_memory(named):
    seen = []

    def fill(x, y):
        seen.append((x.shape, x.dtype, x.numpy().copy()))
        y.copy_from(x.numpy() * 2)

    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    f = tvm.get_global_func(named(fill))
    f(x, y)
    np.testing.assert_array_equal(y, x * 2)
    mine = array(np.zeros((2, 3), "f4"))
    f(array(x), mine)
    np.testing.assert_array_equal(mine.numpy(), x * 2)
    assert [row[:2] for row in seen] == [((2, 3), "float32")] * 2


def test_errors_of_a_function_are_the_callers(named):
    def fails():
        raise ValueError("no luck")

    with pytest.raises(KernelError, match="ValueError: no luck"):
        tvm.get_global_func(named(fails))()
    with pytest.raises(KernelError, match=r"what .* returned is a list"):
        tvm.get_global_func(named(lambda: []))()
    with pytest.raises(InputError, match="argument 1 of a packed function is a dict"):
        tvm.get_global_func(named(print))(1, {})


def test_names(named):
    name = named(lambda: 1)
    with pytest.raises(InputError, match="override=True takes its place"):
        tvm.register_func(name, lambda: 2)
    f = tvm.get_global_func(name)
    tvm.register_func(name, lambda: 3, override=True)
    assert f() == 3

    @tvm.register_func("tests.decorated")
    def decorated(x):
        return x + 1

    assert decorated(1) == tvm.get_global_func("tests.decorated")(1) == 2
    remove_global_func("tests.decorated")
    assert tvm.get_global_func("tests.decorated", True) is None
    with pytest.raises(InputError, match=r"did you mean 'tvm.contrib.sort.sort'"):
        tvm.get_global_func("tvm.contrib.sort.sor")
    with pytest.raises(InputError):
        tvm.register_func("tests.none", 3)
    assert isinstance(f, PackedFunction)
    assert repr(f) == f"PackedFunction({name})"


def test_functions_that_are_replaced_while_others_call_them(named):
    name, stop, wrong = named(lambda x: x), threading.Event(), []
    f = tvm.get_global_func(name)

    def call():
        while not stop.is_set():
            if f(7) not in (7, 8):
                wrong.append(1)

    workers = [threading.Thread(target=call) for _ in range(3)]
    for worker in workers:
        worker.start()
    for i in range(200):
        tvm.register_func(name, (lambda x: x + 1) if i % 2 else (lambda x: x), override=True)
        gc.collect(0)
    stop.set()
    for worker in workers:
        worker.join()
    assert not wrong


# **************** libraries ****************


@pytest.mark.parametrize("flavour", [("LLVM",), ("LLVM", "OLD"), ("CTARGET",)], ids="-".join)
def test_an_operator_calls_the_sort_of_the_runtime(tvm_library, flavour):
    module = load_module(tvm_library(*flavour))
    x, at = np.array([3, 1, 3, 2], "f4"), np.zeros(4, "i4")
    for _ in range(2):
        module["argsorts"](x, at)
        np.testing.assert_array_equal(at, [0, 2, 3, 1])
    assert "tvm.contrib.sort.argsort" in describe(tvm_library(*flavour))["asks"]
    assert describe(tvm_library(*flavour))["missing"] == []


def test_what_a_library_asks_for_is_named_when_it_is_loaded(tvm_library):
    name, path = "tvm.contrib.cudnn.tests.double", tvm_library("LLVM", "ASKS")
    (sentence,) = describe(path)["missing"]
    assert sentence.startswith(f"{name}, a function of cuDNN")
    assert "register_func" in sentence
    with pytest.warns(UserWarning, match="asks for functions that are not here.*cuDNN"):
        module = load_module(path)
    x, y = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    with pytest.raises(KernelError, match=f"Cannot find function {name}"):
        module["asks_user"](x, y)
    tvm.register_func(name, lambda a, b: b.copy_from(a.numpy() * 2))
    try:
        assert describe(path)["missing"] == []
        module["asks_user"](x, y)
        np.testing.assert_array_equal(y, x * 2)
        tvm.register_func(name, lambda a, b: b.copy_from(a.numpy() * 3), override=True)
        module["asks_user"](x, y)  # the handle that it keeps calls the new one
        np.testing.assert_array_equal(y, x * 3)
    finally:
        remove_global_func(name)
    with pytest.raises(KernelError, match="was taken away"):
        module["asks_user"](x, y)


def test_an_executor_of_such_a_library_is_refused_before_it_runs(tvm_library, blobs):
    name = "tvm.contrib.cudnn.tests.double"
    with pytest.warns(UserWarning, match="asks for functions"):
        module = load_module(tvm_library("LLVM", "ASKS", blob=blobs.model("mlp", "GraphExecutorFactory")))
    for make in (lambda: module["default"]("cpu:0"), lambda: module["debug_create"]("default", "cpu:0")):
        with pytest.raises(LibraryError, match="asks for functions that are not here") as caught:
            make()
        assert caught.value.fields["got"] == [name]
    tvm.register_func(name, lambda a, b: None)
    try:
        assert module["default"]("cpu:0").get_num_outputs() == 1
    finally:
        remove_global_func(name)


def test_the_pool_has_as_many_threads_as_it_is_told():
    before, config = core.pool_threads(), tvm.get_global_func("runtime.config_threadpool")
    try:
        config(1, 3)
        assert core.pool_threads() == 3
        config(-1, 0)
        assert core.pool_threads() == 3
    finally:
        core.pool_set_threads(before)


def test_a_graph_with_such_a_library_is_refused_by_create_and_verify(tvm_library, document, tmp_path):
    name, library = "tvm.contrib.cudnn.tests.double", tvm_library("LLVM", "ASKS")
    text = document.json(document.call("asks_user", document.input("x")))
    with pytest.raises(LibraryError, match="a function of cuDNN"):
        gr.create(text, library)
    (tmp_path / "net.json").write_text(text)
    command = [
        sys.executable,
        "-P",
        "-m",
        "graph_runtime.cli",
        "verify",
        tmp_path / "net.json",
        "--library",
        library,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "a function of cuDNN" in done.stderr
    tvm.register_func(name, lambda a, b: b.copy_from(a.numpy() * 2))
    try:
        module = gr.create(text, library)
        module.run(x=np.arange(4, dtype="f4"))
        assert module.get_output(0).numpy().tolist() == [0, 2, 4, 6]
    finally:
        remove_global_func(name)


def test_an_operator_takes_scalars_and_returns_a_number(tvm_library):
    module = load_module(tvm_library("LLVM"))
    x, y = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    assert module["scales"](x, y, 3, 0.5) == 3.5
    np.testing.assert_array_equal(y, x * 3 + 0.5)
    with pytest.raises(InputError, match="argument 3 of a packed function is a list"):
        module["scales"](x, y, 3, [])
    with pytest.raises(LibraryError, match="C-contiguous arrays on the host, got list"):
        module["scales"](x, [])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"tvm.a.b", b"runtime.x", b"xtvm.a.b", b"tvm.", b"tvm.a b", b"\0", b".", b"z", b"vm.f"]
        )
    )
)
def test_names_are_whole_texts_outside_of_the_blob(parts):
    data, asks = b"".join(parts), {"__TVMBackendGetFuncFromEnv": (0, 8)}
    want = set(re.findall(rb"(?<![\w.])((?:tvm|runtime|vm)(?:\.[A-Za-z_]\w*)+)\x00", data))
    for held in (memoryview(data), memoryview(b"__" + data + b"\0\0")[2:-2]):
        shared = SharedObject("x86_64", frozenset(), asks, (), frozenset())
        assert set(asked(shared, held)) == {name.decode() for name in want}
    blob = {**asks, "__tvm_dev_mblob": (64, len(data) + 1)}
    shared = SharedObject("x86_64", frozenset(), blob, ((60, 5 + len(data), 10),), frozenset())
    assert asked(shared, memoryview(b"\0" * 14 + data + b"\0tvm.last\0")) == ["tvm.last"]
