"""Bytes that simulate charges are the bytes that the simulated device counts: per bank, in and out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.simulation.charges import bank_bytes, link_bytes
from graph_runtime.simulation.walks import walk_of
from graph_runtime.simulation.walks.gather import GATHERS

pytestmark = pytest.mark.core

WALKED = tuple(
    name for name in ops.all_ops() if walk_of(name) and name != "cast"
)  # its cases are pairs of types, not shapes
MATRIX_UNIT = ("matmul", "dense", "conv2d", "attention", "add", "subtract", "multiply")
ALIKE = ("int32", "uint32", "int16", "uint16", "int8")  # cases that move pages as another type does
PLACED = ("dram", "l1", "dram/row_major", "l1/height", "l1/width", "l1/row_major/block[3x4]")


def counted(module) -> dict:
    """What the devices counted up to now, by (did, memory)."""
    session = module.session
    return {
        (did, m): session.handles[did].traffic(m)
        for did, device in enumerate(session.plan.devices)
        if device.kind == "tt"
        for m in range(len(device.descriptor.memories))
    }


def assert_charged(module, inputs) -> None:
    """One run moves what is charged for its nodes, in every bank."""
    for name, value in inputs.items():
        module.set_input(name, value)
    before, program = counted(module), module.session.program
    module.run()
    plan = module.session.plan
    taken = {
        nid: inputs["x1"]
        for nid in range(plan.graph.num_nodes)
        if plan.graph.func_id[nid] >= 0 and plan.graph.funcs[plan.graph.func_id[nid]].op in GATHERS
    }
    charged = bank_bytes(plan, program.nid[: program.main].tolist(), taken)
    assert charged
    for key, after in counted(module).items():
        np.testing.assert_array_equal(after - before[key], charged.get(key, np.zeros_like(after)))


def walked():
    """Every case on tt of the first op of each walk, and one of the ops that share it; two of three in the
    slow run only. The last argument makes the values: a case that does not run needs none."""
    seen = set()
    for name in WALKED:
        cases = [
            c
            for c in draws.cases_on(ops.all_ops()[name], "tt")
            if "kernel" not in c.attrs and c.name not in ALIKE
        ]
        first = walk_of(name) not in seen or name in MATRIX_UNIT
        seen.add(walk_of(name))
        for i, case in enumerate(cases if first else cases[len(cases) // 2 :][:1]):
            yield pytest.param(
                name,
                case.inputs,
                case.attrs,
                partial(draws.draw, case),
                id=f"{name}-{case.name}",
                marks=[pytest.mark.slow] if i % 3 else [],
            )


def wide():
    """Outputs of several panels, K in several steps, rows longer than a cover."""
    for name, attrs, *shapes in (
        ("conv2d", {"pads": (1, 1, 1, 1)}, (1, 70, 40, 90), (33, 70, 3, 3), (33,)),
        ("conv2d", {"pads": (3, 3, 3, 3), "strides": (2, 2)}, (1, 3, 71, 140), (24, 3, 7, 7)),
        ("conv2d", {}, (1, 2100, 3, 35), (20, 2100, 1, 1)),
        ("conv2d", {"pads": (1, 1, 1, 1), "strides": (1, 2)}, (1, 2, 40, 90), (35, 2, 3, 3), (35,)),
        ("matmul", {}, (3, 200, 1200), (1200, 300)),
        ("matmul", {"transpose_a": True, "transpose_b": True}, (2, 300, 150), (2, 170, 300)),
        ("dense", {}, (260, 90), (200, 90), (200,)),
        ("conv2d", {"pads": (1, 1, 1, 1)}, (5, 33, 20, 20), (40, 33, 3, 3), (40,)),
        ("conv_transpose2d", {"strides": (2, 1), "group": 2}, (5, 40, 8, 9), (40, 35, 3, 3), (70,)),
        (
            "conv2d_backward_weight",
            {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
            (7, 300, 9, 9),
            (7, 40, 5, 5),
        ),
        (
            "conv_transpose2d",
            {"strides": (2, 2), "pads": (1, 1, 1, 1)},
            (2, 20, 40, 45),
            (20, 35, 3, 3),
            (35,),
        ),
        ("conv_transpose2d", {"strides": (1, 3), "dilations": (2, 1)}, (1, 3, 70, 30), (3, 2, 5, 2)),
        (
            "conv2d_backward_weight",
            {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
            (2, 130, 70, 90),
            (2, 35, 35, 45),
        ),
        (
            "max_pool2d_backward",
            {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
            (1, 2, 160, 150),
            (1, 2, 80, 75),
        ),
        (
            "max_pool2d_indices",
            {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "dtype": "int32"},
            (2, 2, 70, 1200),
        ),
        (
            "max_pool3d",
            {
                "kernel_shape": (3, 2, 3),
                "strides": (2, 1, 1),
                "pads": (1, 1, 0, 0, 0, 0),
                "dilations": (2, 1, 3),
            },
            (2, 2, 7, 40, 1100),
        ),
        ("lp_pool2d", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, (1, 2, 160, 150)),
        ("lrn", {"size": 4}, (2, 6, 40, 1100)),
        ("lrn", {"size": 5}, (2, 70, 1300)),
        ("lrn", {"size": 5}, (70, 1300)),
        ("conv3d", {"pads": (1,) * 6, "strides": (2, 1, 2)}, (2, 3, 5, 40, 150), (20, 3, 3, 3, 3), (20,)),
        ("conv3d", {"group": 2, "strides": (1, 5, 7)}, (1, 4, 3, 200, 460), (6, 2, 2, 3, 2)),
        ("attention", {}, (2, 150, 64), (300, 64), (2, 300, 70), (150, 1)),
        ("attention", {"causal": True}, (2, 300, 900), (2, 310, 900), (2, 310, 1200)),
        ("lstm", {}, (2, 40, 1200), (1, 1200, 300), (1, 40, 300), (1, 40, 300)),
        ("gru", {"direction": "bidirectional"}, (2, 40, 2700), (2, 1350, 450), (2, 40, 450)),
        ("gru", {"linear_before_reset": True}, (3, 2, 2100), (1, 2100, 700), (1, 2, 700), (1, 700)),
        ("add", {}, (3, 70, 1200), (70, 1)),
        ("multiply", {}, (70, 1200), (1, 1200)),
        ("maximum", {}, (2, 1, 1200), (1, 40, 1)),
        ("bias_add", {"axis": 1}, (2, 70, 1200), (70,)),
        ("relu", {}, (70, 2500)),
        ("sum", {"axes": (0, 2)}, (3, 70, 1200)),
        ("mean", {"axes": (1,)}, (3, 70, 1200)),
        ("max", {"axes": (-1,), "keepdims": True}, (2, 70, 600)),
        ("argmax", {"axis": 1, "dtype": "int32"}, (3, 70, 1200)),
        ("argmin", {"axis": -1, "dtype": "int32"}, (70, 1200)),
        ("cumsum", {"axis": -1, "reverse": True}, (40, 2500)),
        ("cumsum", {"axis": 0}, (70, 1100)),
        ("cumsum", {"axis": 0}, (3, 40, 1100)),
        ("mod", {}, (70, 1200), (1200,)),
        ("topk", {"k": 50, "dtype": "int32"}, (2, 70, 1200)),
        ("cast", {"to": "int32"}, (70, 2500)),
        ("max_pool2d", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, (1, 2, 160, 150)),
        ("concatenate", {"axis": 1}, (40, 1500), (40, 1100)),
        ("concatenate", {"axis": 0}, (40, 70), (45, 70)),
        ("less", {}, (70, 1200), (1200,)),
        ("where", {}, (3, 70, 1200), (70, 1), (1, 1200)),
        ("broadcast_to", {"shape": (3, 70, 2500)}, (70, 1)),
        ("tile", {"repeats": (2, 3, 2)}, (2, 50, 700)),
        ("pad", {"pads": (1, -3, 20, 0, 5, -7)}, (2, 70, 1300)),
        ("reverse", {"axes": (0, 2)}, (2, 70, 1300)),
        ("log_softmax", {}, (40, 2500)),
        ("rms_norm", {}, (70, 1100), (1100,)),
        ("rms_norm", {"axis": 1}, (2, 70, 90), (70, 90)),
        ("min", {"axes": (-1,)}, (2, 70, 600)),
        ("softmax", {}, (40, 2500)),
        ("softmax", {"axis": 0}, (70, 1100)),
        ("softmax", {"axis": 0}, (3, 40, 1100)),
        ("layer_norm", {}, (70, 1100), (1100,), (1100,)),
        ("layer_norm", {"axis": 1}, (2, 70, 90), (70, 90), (70, 90)),
        ("transpose", {"perm": (1, 0)}, (1100, 70)),
        ("transpose", {"perm": (1, 2, 0)}, (70, 2, 1100)),
        ("transpose", {"perm": (0, 1, 2)}, (2, 3, 2100)),
        ("slice", {"axes": (0, 1), "starts": (70, -1), "ends": (3, 5), "steps": (-3, -2)}, (80, 4300)),
        ("slice", {"axes": (1,), "starts": (2,), "ends": (2400,)}, (40, 2500)),
        ("slice_update", {"axes": (0, 1), "starts": (69, 1020), "steps": (-2, 3)}, (70, 2500), (9, 40)),
    ):
        types = [("bool" if name == "where" and not i else "float32", s) for i, s in enumerate(shapes)]
        yield pytest.param(name, types, attrs, partial(drawn, types), id=f"{name}-{shapes[0]}")
    for axis, data, count in ((0, (300, 1200), 50), (1, (3, 1100), 1300)):
        types = [("float32", data), ("int32", (count,))]
        yield pytest.param(
            "take", types, {"axis": axis}, partial(chosen, types, data[axis], 1), id=f"take-{data}"
        )
    for name, attrs, size, data, index, *updates in (
        ("take_along_axis", {"axis": 1}, 1200, (70, 1200), (70, 900)),
        ("gather_nd", {}, 70, (70, 1300), (50, 1)),
        ("gather_nd", {"batch_dims": 1}, 4, (3, 4, 5, 700), (3, 9, 2)),
        ("scatter_elements", {"axis": 0}, 70, (70, 1300), (40, 1100), (40, 1100)),
        ("scatter_elements", {"axis": 1}, 1300, (70, 1300), (40, 1100), (40, 1100)),
        ("scatter_nd", {}, 70, (70, 1300), (9, 1), (9, 1300)),
    ):
        types = [("float32", data), ("int32", index), *(("float32", u) for u in updates)]
        yield pytest.param(name, types, attrs, partial(chosen, types, size, 2), id=f"{name}-{attrs}")


def drawn(types) -> list[np.ndarray]:
    return [draws.draw_array(TensorType(*t), np.random.default_rng(0)) for t in types]


def chosen(types, size, seed) -> list[np.ndarray]:
    """Ones, and indices of ``size`` places, from either end."""
    index = np.random.default_rng(seed).integers(-size, size, types[1][1]).astype(np.int32)
    return [index if dtype == "int32" else np.ones(shape, np.float32) for dtype, shape in types]


def in_turn(cases, *choices):
    """Every case with every choice; in the default run with one choice, which cases take in turn."""
    asked, turn, made = list(itertools.product(*choices)), 0, []
    for case in cases:
        turn += not case.marks  # those that are slow take no turns
        for at, chosen in enumerate(asked):
            marks = case.marks or ([pytest.mark.slow] if (at - turn) % len(asked) else [])
            shown = "-".join(str(next(iter(c.values()), c) if isinstance(c, dict) else c) for c in chosen)
            made.append(pytest.param(*case.values, *chosen, id=f"{case.id}-{shown}", marks=marks))
    return made


def check(name, inputs, attrs, values, layout="dram", **options):
    """One op with all that it reads and makes in one layout; what is empty in none."""
    b = gr.GraphBuilder(device="tt:0")
    ends = [b.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(inputs)]
    made = b.op(name, *ends, name="y", **attrs)
    b.output(*(made if isinstance(made, tuple) else (made,)))
    graph = gr.load_graph(b.to_json())
    layouts = {node: layout for eid, node in enumerate(graph.names) if graph.entry_type(eid).size}
    module = gr.create(graph, None, ["tt:0"], layouts=layouts, **options)
    assert_charged(module, {f"x{i}": value for i, value in enumerate(values())})


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "inputs", "attrs", "values", "layout"), in_turn(walked(), PLACED))
def test_walks(name, inputs, attrs, values, layout):
    check(name, inputs, attrs, values, layout, formats={"tt": "bfp8_b"} if layout == "l1" else None)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "values", "layout"), in_turn(wide(), ["dram", "l1", "dram/row_major"])
)
def test_wide_walks(name, inputs, attrs, values, layout):
    check(name, inputs, attrs, values, layout)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "values", "how", "layout"),
    in_turn(
        (c for c in (*walked(), *wide()) if c.values[0] in MATRIX_UNIT),
        [{"fidelity": "HiFi3"}, {"dst": "bf16"}, {"numerics": "exact"}],
        ["dram", "dram/row_major"],
    ),
)
def test_products_as_they_are_asked_for(name, inputs, attrs, values, how, layout):
    if "exact" in how.values() and math.prod(inputs[0][1]) > 10000:
        pytest.skip("exact is slow")
    check(name, inputs, attrs, values, layout, numerics={"tt": how})


@pytest.mark.parametrize(("name", "inputs", "attrs", "values", "stored"), in_turn(wide(), ["bf16", "bfp8_b"]))
def test_walks_over_formats(name, inputs, attrs, values, stored):
    check(name, inputs, attrs, values, formats={"tt": stored})


@pytest.mark.parametrize("shape", [(300, 200), (3, 65, 97), (1, 1)])
@pytest.mark.parametrize(
    "layout",
    ["dram", "l1", "dram/row_major", "l1/height", "l1/width", "l1/block[2x3]", "l1/row_major/height"],
)
def test_copies_and_shards(layout, shape):
    """Host to device, relayout, an op, relayout, device to host; over two devices."""
    b = gr.GraphBuilder()
    x = b.input("x", shape, device="cpu:0")
    there = b.copy(b.copy(x, "tt:0", name="up"), "tt:0", name="cut")
    y = b.op("relu", b.copy(there, "tt:1", name="over"), name="y", device="tt:1")
    b.output(b.copy(y, "cpu:0", name="down"))
    module = gr.create(gr.load_graph(b.to_json()), None, ["cpu:0", "tt:0", "tt:1"], layouts={"cut": layout})
    assert_charged(module, {"x": np.ones(shape, np.float32)})
    assert_sent(module.session)


def assert_sent(session) -> None:
    """What each copy between devices sends is what its ends count: out of the one, into the other."""
    plan, program = session.plan, session.program
    for at, nid in enumerate(program.nid[: program.main].tolist()):
        for ends, sent in link_bytes(plan, [nid]).items():
            before = [ends_count(session, did) for did in ends]
            session.run_span(at, at + 1)
            after = [ends_count(session, did) for did in ends]
            out, into = after[0][1] - before[0][1], after[1][0] - before[1][0]
            assert sent == (into if plan.devices[ends[0]].kind == "cpu" else out)
    sent = link_bytes(plan, program.nid[: program.main].tolist())
    assert set(sent) == {(0, 1), (1, 2), (2, 0)}


def ends_count(session, did: int) -> tuple[int, int]:
    """Bytes into and out of all memories of a device, as it counts them; a host counts none."""
    if session.plan.devices[did].kind == "cpu":
        return 0, 0
    memories = session.plan.devices[did].descriptor.memories
    counts = [session.handles[did].stats(m) for m in range(len(memories))]
    return sum(c.bytes_in for c in counts), sum(c.bytes_out for c in counts)


def test_a_chosen_op_model_reads_as_its_blocks_say():
    """512x256 by 256x384 in blocks of 64x128: the left side thrice, the right side eight times."""
    b = gr.GraphBuilder(device="tt:0")
    b.output(b.op("matmul", b.input("x", (512, 256)), b.input("w", (256, 384)), name="y"))
    module = gr.create(gr.load_graph(b.to_json()), None, ["tt:0"])
    plan = module.session.plan
    nid = plan.graph.names.index("y")
    model = SimpleNamespace(grid=(8, 3), t=1, dir="R", mblock=(2, 4), ublock=(1, 1), u_kt=8, l1_bytes=0)
    chosen = replace(plan, models=(model,), model_id=np.where(np.arange(plan.graph.num_nodes) == nid, 0, -1))
    out = bank_bytes(chosen, [nid])[0, 0][:, 0].sum()
    assert out == (3 * 512 * 256 + 8 * 256 * 384) * 4


@pytest.mark.parametrize("policy", ["nlp", "minimize_grid"])
@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    [
        ("conv2d", {"pads": (1, 1, 1, 1)}, ((1, 64, 28, 28), (64, 64, 3, 3))),
        ("conv2d", {"pads": (3, 3, 3, 3), "strides": (2, 2)}, ((1, 3, 64, 64), (64, 3, 7, 7))),
        ("matmul", {}, ((784, 512), (512, 128))),
        ("dense", {}, ((128, 256), (320, 256), (320,))),
    ],
)
def test_what_a_balancer_chose(op, attrs, shapes, policy):
    """Blocks and steps of K of the chosen op model, smaller where L1 asks for it."""
    b = gr.GraphBuilder()
    x, *weights = (b.input(f"x{i}", shape) for i, shape in enumerate(shapes))
    y = b.op(op, b.op("relu", x, name="before"), *weights, name="y", **attrs)
    b.output(b.op("relu", y, name="after"))
    params = {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
    module = gr.create(gr.load_graph(b.to_json()), None, ["tt:0=e150"], policy=policy, formats={"tt": "bf16"})
    plan = module.session.plan
    assert plan.models[int(plan.model_id[plan.graph.names.index("y")])].grid
    assert_charged(module, params)


@pytest.mark.parametrize("l1_bytes", [60_000, 20_000])
@pytest.mark.parametrize(
    ("attrs", "shapes"),
    [
        ({"pads": (1, 1, 1, 1)}, ((1, 33, 40, 70), (34, 33, 3, 3))),
        ({"strides": (16, 16)}, ((2, 3, 112, 96), (24, 3, 16, 16))),
    ],
)
def test_a_convolution_in_little_l1_reads_its_image_in_parts(attrs, shapes, l1_bytes):
    b = gr.GraphBuilder(device="tt:0")
    b.output(b.op("conv2d", *(b.input(f"x{i}", shape) for i, shape in enumerate(shapes)), name="y", **attrs))
    plan = gr.create(gr.load_graph(b.to_json()), None, ["tt:0=e150"], formats={"tt": "bf16"}).session.plan
    chosen = np.where(np.arange(plan.graph.num_nodes) == plan.graph.names.index("y"), 0, -1)
    model = SimpleNamespace(
        grid=(2, 2), t=1, dir="R", mblock=(1, 1), ublock=(1, 1), u_kt=2, l1_bytes=l1_bytes
    )
    module = gr.create(replace(plan, models=(model,), model_id=chosen.astype(np.int32)))
    assert_charged(module, {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)})


@pytest.mark.parametrize("layout", ["dram", "dram/row_major"])
@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d"])
def test_a_pool_of_long_strides_reads_its_image_in_bands(op, layout):
    """32 rows of windows would look at 4 MB, more than a core has."""
    b = gr.GraphBuilder(device="tt:0")
    x = b.input("x", (1, 1, 1000, 1040))
    b.output(b.op(op, x, name="y", kernel_shape=(20, 40), strides=(30, 32), pads=(3, 0, 2, 5)))
    module = gr.create(gr.load_graph(b.to_json()), None, ["tt:0=e150"], layouts=dict.fromkeys("xy", layout))
    values = np.random.default_rng(0).standard_normal((1, 1, 1000, 1040)).astype(np.float32)
    assert_charged(module, {"x": values})
    whole = gr.create(
        module.session.plan.graph, None, ["cpu:0"], place={"*": "cpu:0"}, device_map={"tt": "cpu:0"}
    )
    whole.set_input("x", values)
    whole.run()
    np.testing.assert_allclose(
        module.get_output(0).numpy(), whole.get_output(0).numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("layout", ["dram", "dram/row_major"])
def test_an_update_in_place_moves_what_it_changes(layout):
    b = gr.GraphBuilder(device="tt:0")
    x = b.input("x", (3, 70, 2500))
    y = b.op("slice_update", x, b.input("u", (1, 9, 40)), name="y", starts=(1, 20, 1020))
    b.output(y)
    b.alias(y, x)
    module = gr.create(gr.load_graph(b.to_json()), None, ["tt:0"], layouts=dict.fromkeys("xuy", layout))
    plan = module.session.plan
    assert plan.sid[plan.graph.names.index("x")] == plan.sid[plan.graph.names.index("y")]
    assert_charged(module, {"x": np.ones((3, 70, 2500), np.float32), "u": np.ones((1, 9, 40), np.float32)})


@pytest.mark.parametrize("layout", ["dram", "dram/row_major"])
@pytest.mark.parametrize(
    ("op", "attrs", "chosen", "update"),
    [
        ("scatter_nd", {}, (3, 2), (3, 2500)),
        ("scatter_elements", {"axis": 1}, (2, 9, 40), (2, 9, 40)),
        ("scatter_elements", {"axis": 2}, (2, 9, 40), (2, 9, 40)),
    ],
)
def test_a_scatter_in_place_moves_the_panels_that_it_changes(op, attrs, chosen, update, layout):
    b = gr.GraphBuilder(device="tt:0")
    x = b.input("x0", (3, 70, 2500))
    y = b.op(op, x, b.input("x1", chosen, "int32"), b.input("x2", update), name="y", **attrs)
    b.output(y)
    b.alias(y, x)
    module = gr.create(
        gr.load_graph(b.to_json()), None, ["tt:0"], layouts=dict.fromkeys(("x0", "x2", "y"), layout)
    )
    index = np.random.default_rng(0).integers(-3, 3, chosen).astype(np.int32)
    assert_charged(module, {"x0": np.ones((3, 70, 2500)), "x1": index, "x2": np.ones(update)})


def test_every_op_has_a_walk():
    table = ops.all_ops()
    assert [n for n, op in table.items() if "tt" in op.bodies and walk_of(n) is None] == []
    assert [n for n, op in table.items() if op.walk and walk_of(n) is None] == []


def test_a_take_of_unknown_indices_reads_much():
    """100 rows of a long table: each needs tiles of its own, and so no indices read more in all."""
    b = gr.GraphBuilder(device="tt:0")
    b.output(b.op("take", b.input("x", (5000, 64)), b.input("i", (100,), "int32"), name="y"))
    plan = gr.create(gr.load_graph(b.to_json()), None, ["tt:0"]).session.plan
    nid = plan.graph.names.index("y")
    most, drawn = (
        bank_bytes(plan, [nid], {nid: i} if i is not None else None)[0, 0][:, 0].sum()
        for i in (None, np.random.default_rng(3).integers(0, 5000, 100))
    )
    assert most == 100 * 2 * 4096 + 5 * 400 >= drawn  # four panels read the indices, and the scan does
