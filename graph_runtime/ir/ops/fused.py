"""fused: a group of elementwise ops as one kernel, made by rewrite/groups.py.

C contract: args are the inputs, then the output; words: the steps (steps.py). The output may be written over
any input of its type.
"""

from __future__ import annotations

import numpy as np

from ..graph import TensorType
from . import rules, steps
from .cases import case, per_dtype
from .numerics import NUMERICS
from .registry import REQUIRED, Attr, Body, define
from .work import Work


def _infer(inputs, attrs):
    body = attrs["body"]
    made = steps.result_type("fused", body, inputs)
    read = steps.extras(body)
    if read != tuple(range(len(inputs))):
        rules.fail("fused", f"the body reads inputs {read}, there are {len(inputs)}", got=len(inputs))
    if made.shape != rules.broadcast("fused", *(t.shape for t in inputs)):
        rules.fail(
            "fused",
            f"the last step makes {made}, which is smaller than the shape to which the inputs broadcast",
            got=made,
        )
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
        yield case(name, *shapes, {"body": body}, nmse=rules.ROUNDED)
    ints = [["multiply", [0, 1], {}], ["maximum", [-1, 0], {}], ["add", [-2, 1], {}]]
    bounds = dict.fromkeys(steps.DTYPES, rules.ROUNDED | {"cpu": 0.0}) | rules.SUMMED
    yield from per_dtype(steps.DTYPES[1:], (9, 65), (65,), {"body": ints}, nmse=bounds)


define(
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
    work=lambda i, o, a: Work(),  # the work of the steps counts instead
    parts="steps",
    program="body",
    cases=tuple(_cases()),
)
