"""fused: a group of elementwise ops as one kernel, made by rewrite/groups.py.

C contract: args are the inputs, then the output; words: the program (steps.py). An output may take the place
of any input of its type.
"""

from __future__ import annotations

import numpy as np

from ..graph import TensorType
from . import rules, steps
from .numerics import NUMERICS
from .registry import REQUIRED, Attr, Body, Case, Op, register
from .work import Work


def _infer(inputs, attrs):
    program = attrs["body"]
    made = steps.result_type("fused", program, inputs)
    read = steps.extras(program)
    if read != tuple(range(len(inputs))):
        rules.fail("fused", f"the body reads inputs {read}, there are {len(inputs)}", got=len(inputs))
    if made.shape != rules.broadcast("fused", *(t.shape for t in inputs)):
        rules.fail("fused", f"the last step makes {made}, less than the inputs broadcast to", got=made)
    return [TensorType(made.dtype, made.shape)]


def _cases():
    scale = [["multiply", [0, 1], {}], ["add", [-1, 2], {}], ["relu", [-2], {}]]
    shared = [
        ["sigmoid", [0], {}],
        ["multiply", [0, -1], {}],
        ["subtract", [-2, 1], {}],
        ["maximum", [-3, -1], {}],
    ]
    for name, body, shapes in (
        ("channels", scale, ((2, 5, 7, 9), (5, 1, 1), (5, 1, 1))),
        ("columns", scale, ((33, 70), (70,), (70,))),
        ("rows", scale, ((3, 33, 70), (33, 1), (3, 1, 1))),
        ("scalars", scale, ((40, 70), (), (1, 1))),
        ("outer", scale, ((4, 1, 33), (1, 5, 1), (4, 5, 1))),
        ("planes", scale, ((2, 3, 4, 5), (3, 1, 5), (2, 1, 4, 1))),
        ("many_planes", scale, ((2, 530, 1, 3), (530, 1, 1), (2, 530, 1, 1))),
        ("long", shared, ((3, 1031), (3, 1031))),
        ("one", shared, ((), ())),
        ("empty", scale, ((0, 3), (3,), ())),
    ):
        yield Case(name, tuple(("float32", s) for s in shapes), {"body": body}, nmse=rules.ROUNDED)
    ints = [["multiply", [0, 1], {}], ["maximum", [-1, 0], {}], ["add", [-2, 1], {}]]
    for t in steps.DTYPES[1:]:
        bound = rules.SUMMED[t] if t in rules.FLOATS else rules.ROUNDED | {"cpu": 0.0}
        yield Case(t, ((t, (9, 65)), (t, (65,))), {"body": ints}, nmse=bound)


register(
    Op(
        "fused",
        "a group of elementwise ops with broadcasting, one kernel",
        (1, steps.MOST_INPUTS),
        _infer,
        lambda arrays, attrs: [np.asarray(steps.run(attrs["body"], arrays))],
        lambda i, o, a: steps.flops(a["body"], o[0]),
        attrs=(Attr("body", "steps", REQUIRED, "the steps; input k, -1 - j the result of step j"), NUMERICS),
        words=lambda i, o, a: steps.words(a["body"], False),
        bodies={
            "cpu": Body("fused", steps.DTYPES, rules.by_dtype, prebuilt=("float32", "bfloat16")),
            "tt": Body("fused", rules.TT_FLOATS, functions=True),
        },
        inplace=tuple(range(steps.MOST_INPUTS)),
        pace={"cpu": "simple"},
        work=lambda i, o, a: Work(),  # that of its steps
        parts="program",
        program="body",
        cases=tuple(_cases()),
    )
)
