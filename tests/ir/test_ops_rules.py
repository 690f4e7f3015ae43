"""Type rules, attributes and the case table: what is refused says why, what is accepted is what the reference
makes."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime import GraphBuilder, load_graph
from graph_runtime.base import dtypes
from graph_runtime.base.errors import GraphError, UnsupportedOpError
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops import registry
from graph_runtime.ir.ops.numerics import NAMES, STREAM_DIRS
from graph_runtime.ir.ops.rules import select

OPS = list(ops.all_ops().values())
OURS = {
    *NAMES,
    STREAM_DIRS.name,
    "layout",
    "packed",
    "levels",
    "winograd",
    "epilogue",
}  # attributes that ONNX's ops do not have


def infer(name, *types, **attrs):
    op = ops.require(name)
    return op.infer([TensorType(*t) for t in types], op.decode(attrs))


def floats(*shapes):
    return [("float32", s) for s in shapes]


def fresh(code):
    """What a new interpreter prints, in which no family was imported yet."""
    head = "import sys\nfrom graph_runtime.ir import ops\nfrom graph_runtime.ir.ops import registry\n"
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_table_of_families_says_what_each_of_them_registers():
    """It is why an op is found whose family nothing imported yet."""
    code = """
from importlib import import_module
from pkgutil import walk_packages
registered, real = {}, registry.register
def register(op):
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    registered[op.name] = frame.f_globals["__name__"]
    return real(op)
registry.register = register
for module in walk_packages(ops.__path__, f"{ops.__name__}."):
    import_module(module.name)
assert len(registered) > 100
said = {op: family for family, listed in ops._FAMILIES.items() for op in listed.split()}
print(*{(op, family) for op, family in registered.items() if family not in ops._OTHERS} ^ set(said.items()))
"""
    assert fresh(code) == []


def test_an_op_is_found_whatever_was_asked_for_before():
    names = fresh("registry.require('topk'); registry.get('relu'); print(*ops.all_ops())")
    assert names == [op.name for op in OPS]
    code = """
from dataclasses import replace
try:
    registry.register(replace(ops.require("relu"), name="topk"))
except ops.registry.UnsupportedOpError as error:
    print(error)
"""
    assert fresh(code) == "op topk is registered twice".split()


@pytest.mark.parametrize("name", registry.aliases())
def test_an_alias_makes_the_graph_that_its_op_makes(name):
    op, attrs = registry.aliases()[name]

    def graph(called, given):
        b = GraphBuilder()
        inputs = [b.input(f"x{i}", (2, 3)) for i in range(ops.require(op).arity[0])]
        b.output(b.op(called, *inputs, name="y", **given))
        return b.to_json()

    wanted = graph(op, attrs)
    assert graph(name, {}) == wanted
    text = wanted.replace(f'"gr.op":"{op}"', f'"gr.op":"{name}"')
    for key in attrs:
        text = re.sub(f',?"gr.{key}":"[^"]*"', "", text)
    assert text != wanted
    read, plain = load_graph(text), load_graph(wanted)
    assert [(f.op, f.attrs) for f in read.funcs] == [(f.op, f.attrs) for f in plain.funcs]


def test_an_attribute_that_is_given_goes_before_the_alias():
    b = GraphBuilder()
    b.output(b.op("hardtanh", b.input("x", (2,)), min=None, max=2.0))
    (func,) = b.build().funcs
    assert (func.op, func.attrs["min"], func.attrs["max"]) == ("clip", -1.0, 2.0)


@pytest.mark.parametrize(("given", "low", "high"), [("null", 0.0, 6.0), ("-1.0", -1.0, 6.0)])
def test_a_file_s_null_leaves_what_goes_with_the_alias(given, low, high):
    b = GraphBuilder()
    b.output(b.op("clip", b.input("x", (2,)), min=2.0))
    text = b.to_json().replace('"gr.op":"clip"', '"gr.op":"relu6"').replace('"2.0"', f'"{given}"')
    (func,) = load_graph(text).funcs
    assert (func.op, func.attrs["min"], func.attrs["max"]) == ("clip", low, high)


def test_names_are_taken_once_and_known_to_did_you_mean():
    for name in ("relu6", "relu"):
        with pytest.raises(UnsupportedOpError, match="registered twice"):
            registry.alias(name, "clip")
    with pytest.raises(UnsupportedOpError, match="did you mean 'hardtanh'"):
        registry.resolve("hardtan", {})


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_rule_and_reference_agree_on_every_case(op):
    for case in op.cases:
        types = [TensorType(*i) for i in case.inputs]
        attrs = op.decode(case.attrs)
        outputs = op.infer(types, attrs)
        with np.errstate(all="raise", under="ignore"):
            made = op.reference(draws.draw(case), attrs)
        assert [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in made] == outputs, case.name
        assert op.flops(types, outputs, attrs) >= 0
        assert op.bytes_moved(types, outputs) == sum(a.nbytes for a in (*draws.draw(case), *made))
        assert op.arity[0] <= len(types) <= op.arity[1]
        on_tt = {"tt/f32", "tt/bf16", "tt/bfp8_b"} if "tt" in op.bodies else case.nmse.keys() - {"cpu"}
        assert case.nmse.keys() == {"cpu", *on_tt}


@pytest.mark.parametrize("op", [op for op in OPS if not op.is_nop], ids=lambda op: op.name)
def test_every_kind_has_a_body_for_every_case_it_says(op):
    for case in op.cases:
        types, attrs = [TensorType(*i) for i in case.inputs], op.decode(case.attrs)
        outputs = op.infer(types, attrs)
        words = op.words(types, outputs, attrs) if op.words else []
        assert all(-(2**63) <= w < 2**63 for w in words)
        assert select(op, attrs, "cpu", types, outputs).scratch >= 0
        tt = op.bodies.get("tt")
        refused = tt is None or types[0].dtype not in tt.dtypes
        if not refused and not (tt.accepts or (lambda *a: None))(types, outputs, attrs):
            assert select(op, attrs, "tt", types, outputs).generic == f"tt/{tt.name}"


def test_cases_cover_what_they_should():
    """More than one 32 x 32 tile in both dimensions, ragged edges, and names that are unique."""
    for op in OPS:
        names = [case.name for case in op.cases]
        assert len(set(names)) == len(names), op.name
        dims = {n for case in op.cases for _, shape in case.inputs for n in shape}
        assert any(n > 32 for n in dims), op.name
        assert any(n % 32 for n in dims), op.name


def test_draws_repeat_and_are_what_they_say():
    case = next(c for c in ops.require("take").cases if c.name == "rows")
    first, again, other = draws.draw(case, 1), draws.draw(case, 1), draws.draw(case, 2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert first[1].min() >= -65
    assert first[1].max() < 65


def test_nmse():
    one = np.ones(4, np.float32)
    assert draws.nmse(one, one) == 0.0
    assert draws.nmse(one * 1.5, one) == 0.25
    assert draws.nmse(np.full(2, np.nan), np.full(2, np.nan)) == 0.0
    assert draws.nmse(np.array([np.nan, 1.0]), np.array([1.0, 1.0])) == np.inf
    assert draws.nmse(np.array([np.inf]), np.array([-np.inf])) == np.inf
    assert draws.nmse(np.full(2, 1e-3), np.zeros(2)) == np.inf
    assert draws.nmse(np.full(2, 2e300), np.full(2, 1e300)) == 1.0
    assert draws.nmse(np.array([2**63 - 1]), np.array([2**63 - 2])) > 0.0
    assert draws.nmse(np.zeros((0, 3)), np.zeros((0, 3))) == 0.0


# ---------------------------------------------------------------- attributes


def test_attributes_are_checked():
    conv, cast = ops.require("conv2d"), ops.require("cast")
    with pytest.raises(GraphError, match=r"no attribute 'stride' \(did you mean 'strides'\?\)"):
        conv.decode({"stride": [1, 1]})
    with pytest.raises(GraphError, match="needs attribute 'to'"):
        cast.decode({})
    with pytest.raises(GraphError, match="'group' must be int, got 'x'"):
        conv.decode({"group": "x"})
    with pytest.raises(GraphError, match="must be one of"):
        ops.require("gelu").decode({"approximate": "fast"})
    with pytest.raises(UnsupportedOpError, match=r"did you mean 'softmax'\?"):
        ops.require("softmx")
    assert conv.decode({"pads": [1, 2, 3, 4]})["pads"] == (1, 2, 3, 4)


def test_defaults_are_onnx():
    assert ops.require("softmax").decode({}) == {"axis": -1}
    assert ops.require("flatten").decode({}) == {"axis": 1}
    assert ops.require("layer_norm").decode({}) == {"axis": -1, "epsilon": 1e-5}
    assert {k: v for k, v in ops.require("conv2d").decode({}).items() if k not in OURS} == {
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "group": 1,
        "kernel_shape": None,
    }
    assert ops.require("sum").decode({}) == {"axes": None, "keepdims": True}


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "types", "attrs", "text"),
    [
        (
            "add",
            [("float32", (2,)), ("int32", (2,))],
            {},
            "input 0 is float32 and input 1 is int32; add a cast",
        ),
        (
            "add",
            floats((2, 3), (4, 3)),
            {},
            r"shapes \[2, 3\] and \[4, 3\] do not broadcast: dimension -2 is 2 and 4",
        ),
        ("exp", [("int32", (2,))], {}, "does not take int32; it takes float32"),
        ("relu", [("float32", (1,) * 17)], {}, "17 dimensions, at most 16"),
        ("cast", floats((2,)), {"to": "int4"}, "cannot cast to 'int4'"),
        ("dense", floats((2, 3), (4, 5)), {}, r"K is 3, but the weight \[N,K\] is float32\[4, 5\]"),
        ("dense", floats((2, 3), (4, 3), (5,)), {}, r"bias must have shape \[4\]"),
        ("matmul", floats((2, 3), (4, 5)), {}, "inner dimensions differ"),
        ("matmul", floats((3,), (3, 5)), {}, "at least 2 dimensions"),
        ("matmul", floats((2, 4, 3), (3, 3, 5)), {}, "do not broadcast"),
        ("bias_add", floats((2, 3), (2,)), {}, r"bias must have shape \[3\] \(axis 1"),
        ("conv2d", floats((1, 3, 8), (4, 3, 3, 3)), {}, r"must have 4 dimensions \[N,C,H,W\]"),
        ("conv2d", floats((1, 3, 8, 8), (4, 2, 3, 3)), {}, "needs 2"),
        ("conv2d", floats((1, 4, 8, 8), (3, 2, 3, 3)), {"group": 2}, "cannot be split into 2 groups"),
        ("conv2d", floats((1, 1, 2, 8), (4, 1, 3, 3)), {}, "a window of 3 does not fit into 2"),
        ("conv2d", floats((1, 1, 8, 8), (4, 1, 3, 3)), {"strides": [1, 0]}, "each must be in 1"),
        ("conv2d", floats((1, 1, 8, 8), (4, 1, 3, 3)), {"pads": [1, 1]}, "must have 4 integers"),
        ("conv2d", floats((1, 1, 8, 8), (4, 1, 3, 3)), {"dilations": [2**31, 1]}, "each must be in 1"),
        ("conv2d", floats((1, 1, 0, 8), (4, 1, 3, 3)), {"pads": [2, 2, 2, 2]}, "has no pixels"),
        (
            "max_pool2d",
            floats((1, 1, 8, 8)),
            {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]},
            "must be less than kernel_shape",
        ),
        ("global_avg_pool2d", floats((1, 1, 0, 8)), {}, "no elements to pool"),
        ("max", floats((2, 0)), {"axes": [1]}, "there are no elements"),
        ("sum", floats((2, 3)), {"axes": [0, -2]}, "name an axis twice"),
        ("softmax", floats((2, 3)), {"axis": 2}, "axis 2 is out of range for 2 dimensions"),
        ("softmax", floats(()), {}, "axis -1 is out of range"),
        ("layer_norm", floats((2, 3), (2,), (3,)), {}, r"scale must have shape \[3\]"),
        ("layer_norm", floats((2, 3), (3,), (3,)), {"epsilon": -1.0}, "epsilon must be at least 0"),
        ("reshape", floats((2, 3)), {"shape": [4]}, "6 elements, shape .4. has 4"),
        ("reshape", floats((2, 3)), {"shape": [-1, -1]}, "cannot be worked out"),
        ("reshape", floats((2, 3)), {"shape": [4, -1]}, "cannot be worked out"),
        ("reshape", floats((2, 3)), {"shape": [2, 3, 0]}, "keeps dimension 2"),
        ("squeeze", floats((2, 1)), {"axes": [0]}, "axis 0 of float32.2, 1. is 2, not 1"),
        ("unsqueeze", floats((2,)), {"axes": [0, 0]}, "name an axis twice"),
        ("unsqueeze", floats((2,)), {"axes": [0, -3]}, "name an axis twice"),
        ("squeeze", floats((1, 2)), {"axes": [0, -2]}, "name an axis twice"),
        ("reverse", floats((2, 3)), {"axes": [0, 0]}, "name an axis twice"),
        ("reverse", floats((2, 3)), {"axes": [1, -1]}, "name an axis twice"),
        ("slice", floats((2, 3)), {"starts": [0, 0], "ends": [1, 1], "axes": [0, -2]}, "name an axis twice"),
        ("transpose", floats((2, 3)), {"perm": [0, 0]}, "no permutation"),
        ("concatenate", floats((2, 3), (2, 4)), {"axis": 0}, "may differ along axis 0 only"),
        ("slice", floats((2, 3)), {"starts": [0], "ends": [1, 2]}, "must have equal lengths"),
        ("slice", floats((2, 3)), {"starts": [0], "ends": [1], "steps": [0]}, "steps must not be 0"),
        ("slice_update", floats((2, 3), (1, 2)), {"starts": [0]}, "dimension 1 has no start"),
        ("slice_update", floats((2, 3), (2, 3)), {"starts": [1]}, "leaves dimension 0"),
        ("take", floats((2, 3), (2,)), {}, "must be int32 or int64"),
        ("where", floats((2,), (2,), (2,)), {}, "cond. must be bool, got float32"),
        ("where", [("bool", (2,)), ("float32", (2,)), ("int32", (2,))], {}, "add a cast"),
        ("logical_and", floats((2,), (2,)), {}, "does not take float32; it takes bool"),
        ("shift_left", floats((2,), (2,)), {}, "does not take float32"),
        ("isnan", [("int32", (2,))], {}, "does not take int32"),
        ("broadcast_to", floats((2, 3)), {"shape": [3, 3]}, r"do not broadcast|cannot be broadcast"),
        ("broadcast_to", floats((2, 3)), {"shape": [3]}, r"cannot be broadcast to \[3\]"),
        ("tile", floats((2, 3)), {"repeats": [2]}, "must have 2 integers"),
        ("pad", floats((2, 3)), {"pads": [0, -2, 0, -2]}, "leave -1 of dimension 1"),
        ("pad", floats((0, 3)), {"pads": [1, 0, 0, 0], "mode": "edge"}, "has nothing to pad dimension 0"),
        ("take_along_axis", [("float32", (2, 3)), ("int64", (3, 1))], {"axis": 1}, "leave dimension 0"),
        ("take_along_axis", floats((2, 3), (2, 3)), {}, "must be int32 or int64"),
        ("gather_nd", [("float32", (2, 3)), ("int64", (4, 3))], {}, "have 3 numbers each, but .* 2 dim"),
        ("gather_nd", [("float32", (2, 3)), ("int64", (3, 1))], {"batch_dims": 1}, "do not share 1 batch"),
        ("scatter_nd", [("float32", (2, 3)), ("int64", (4, 1)), ("float32", (4, 2))], {}, r"shape \[4, 3\]"),
        ("scatter_elements", [("float32", (2,)), ("int64", (2,)), ("int32", (2,))], {}, "must be float32"),
        ("argmax", floats((2, 0)), {"axis": 1}, "axis 1 of .* has no elements"),
        ("topk", floats((2, 3)), {"k": 4}, "k is 4, but axis 1 of .* has 3"),
        ("cumsum", floats((2, 3)), {"axis": 2}, "axis 2 is out of range"),
        ("prod", [("bool", (2,))], {}, "does not take bool"),
        ("rms_norm", floats((2, 3), (2,)), {}, r"scale must have shape \[3\]"),
        ("lrn", floats((3,)), {"size": 3}, "at least 2 dimensions"),
        ("attention", floats((2, 3), (4, 5), (4, 6)), {}, r"k must be \[..,4,3\]"),
        ("attention", floats((2, 3), (4, 3), (4, 6), (3, 4)), {}, "broadcast"),
        ("conv3d", floats((1, 2, 4, 4, 4), (3, 3, 2, 2, 2)), {}, "has 2 channels"),
        ("conv_transpose2d", floats((1, 2, 4, 4), (3, 3, 2, 2)), {}, "has 2 channels"),
        ("conv_transpose2d", floats((1, 2, 1, 1), (2, 3, 2, 2)), {"pads": [1, 1, 1, 1]}, "leave 0 of dim"),
        (
            "conv2d_backward_weight",
            floats((1, 2, 4, 4), (1, 3, 4, 4)),
            {"kernel_shape": [2, 2]},
            r"must be \[1,O,3,3\]",
        ),
        ("max_pool2d", floats((1, 1, 8, 8)), {"kernel_shape": [2, 2], "dilations": [9, 1]}, "does not fit"),
        (
            "max_pool2d_backward",
            floats((1, 1, 8, 8), (1, 1, 8, 8)),
            {"kernel_shape": [2, 2]},
            r"must have shape \[1, 1, 7, 7\] \(the pool's shape\)",
        ),
    ],
)
def test_refusals_say_what_is_wrong(name, types, attrs, text):
    with pytest.raises(GraphError, match=text) as caught:
        infer(name, *types, **attrs)
    assert caught.value.op == name


# ---------------------------------------------------------------- any shapes

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@settings(max_examples=80, deadline=None)
@given(shapes, shapes)
def test_broadcasting_is_numpys(a, b):
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(GraphError, match="do not broadcast"):
            infer("add", *floats(a, b))
    else:
        assert infer("add", *floats(a, b))[0].shape == wanted


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        ["reshape", "flatten", "squeeze", "unsqueeze", "transpose", "slice", "sum", "softmax", "take"]
    ),
    shapes,
    st.data(),
)
def test_rule_and_reference_agree_on_any_shape(name, shape, data):
    """Whatever the rule accepts, the reference makes, with that type; what it refuses is a GraphError."""
    ints = st.lists(st.integers(-6, 6), max_size=4).map(tuple)
    axis = st.integers(-5, 5)
    given_attrs = {
        "reshape": {"shape": ints},
        "flatten": {"axis": axis},
        "squeeze": {"axes": ints},
        "unsqueeze": {"axes": ints},
        "transpose": {"perm": ints},
        "slice": {"starts": ints, "ends": ints, "axes": ints, "steps": ints},
        "sum": {"axes": ints, "keepdims": st.booleans()},
        "softmax": {"axis": axis},
        "take": {"axis": axis},
    }[name]
    op = ops.require(name)
    attrs = op.decode({k: data.draw(v) for k, v in given_attrs.items()})
    types = [TensorType("float32", shape)] + ([TensorType("int32", (0, 2))] if name == "take" else [])
    try:
        wanted = op.infer(types, attrs)
    except GraphError:
        return
    made = op.reference([np.zeros(t.shape, dtypes.to_numpy(t.dtype)) for t in types], attrs)
    assert [a.shape for a in made] == [t.shape for t in wanted]
    if op.words:
        assert all(isinstance(w, int) for w in op.words(types, wanted, attrs))


@settings(max_examples=80, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.booleans(),
)
def test_pooled_shapes(size, kernel, strides, pads, ceil_mode):
    """Every window of every accepted pool holds an element of the image."""
    op = ops.require("avg_pool2d")
    attrs = op.decode({"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil_mode})
    try:
        (wanted,) = op.infer([TensorType("float32", (1, 1, *size))], attrs)
    except GraphError:
        return
    (result,) = op.reference([np.ones((1, 1, *size), np.float32)], attrs)
    assert result.shape == wanted.shape
    np.testing.assert_array_equal(result, 1)


def test_support_table_names_every_op():
    table = ops.support_table()
    assert [row["op"] for row in table] == [op.name for op in OPS]
    assert all(row["doc"] and row["cpu"] for row in table)
    assert next(row for row in table if row["op"] == "dense")["family"] == "dense"


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_null_and_numbers_that_no_float_holds_are_no_values_of_an_attribute(op):
    for attr in op.attrs:
        for value in (10**400,) if attr.default is None else (None, 10**400):
            with pytest.raises(GraphError) as caught:
                op.decode({**op.cases[0].attrs, attr.name: value})
            assert caught.value.fields["attribute"] == attr.name
