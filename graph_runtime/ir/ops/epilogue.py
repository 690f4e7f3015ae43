"""Products with an epilogue: elementwise steps on each block of results while it is in cache.

``register_product`` gives an op the attribute ``epilogue`` (steps.py) and further inputs behind its own; the
steps follow its result in the reference, in the flops and, as a program of words behind its own, in C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from ..graph import TensorType
from . import rules, steps
from .registry import Attr, Attrs, Body, Case, Op, Types, register

__all__ = ["ATTR", "Split", "own_inputs", "register_product"]

ATTR = Attr("epilogue", "steps", (), "elementwise steps on the result: -1 is the product, -2 - j step j")

# where the dimensions of the output are cut into planes, rows and columns: (first of rows, first of columns)
Split = Callable[[TensorType, Attrs], tuple[int, int]]


def own_inputs(count: int, attrs: Attrs) -> int:
    """How many of ``count`` inputs are the op's own: those that the epilogue does not read."""
    return count - len(steps.extras(attrs["epilogue"]))


def register_product(op: Op, split: Split, cases: tuple[Case, ...] = ()) -> Op:
    """Register the op with an epilogue.

    ``split``: how its kernels see the output; an input of the epilogue must be as the output or of size 1 in
    all rows' dimensions, and so in all columns'. ``cases``: further rows of the table, with an epilogue.
    """

    @wraps(op.infer)  # its module is the op's family
    def infer(inputs: Types, attrs: Attrs) -> list[TensorType]:
        program, own = attrs["epilogue"], own_inputs(len(inputs), attrs)
        if not op.arity[0] <= own <= op.arity[1] or any(k < own for k in steps.extras(program)):
            rules.fail(
                op.name,
                f"the epilogue's inputs come after the op's own {op.arity[0]} to "
                f"{op.arity[1]}, it reads {steps.extras(program)} of {len(inputs)}",
                got=len(inputs),
            )
        made = op.infer(inputs[:own], attrs)
        if program:
            _check(op.name, inputs, attrs, made[0], split(made[0], attrs))
        return made

    def reference(arrays, attrs):
        own = own_inputs(len(arrays), attrs)
        (product,) = op.reference(arrays[:own], attrs)
        return [steps.run(attrs["epilogue"], arrays, product) if attrs["epilogue"] else product]

    def flops(inputs, outputs, attrs):
        own = op.flops(inputs[: own_inputs(len(inputs), attrs)], outputs, attrs)
        return own + steps.flops(attrs["epilogue"], outputs[0])

    def words(inputs, outputs, attrs):
        own = op.words(inputs, outputs, attrs) if op.words else []
        return [*own, *steps.words(attrs["epilogue"], True)]

    return register(
        replace(
            op,
            arity=(op.arity[0], op.arity[1] + steps.MOST_INPUTS),
            infer=infer,
            reference=reference,
            flops=flops,
            words=words,
            attrs=(*op.attrs, ATTR),
            program=ATTR.name,
            cases=(*op.cases, *cases),
            bodies={kind: _own_body(body) for kind, body in op.bodies.items()},
            variants={kind: tuple(map(_own_body, bodies)) for kind, bodies in op.variants.items()},
        )
    )


def _own_body(body: Body) -> Body:
    """What a body says of the op's own inputs, and whether it runs an epilogue."""

    def own(ask):
        return ask and (lambda i, o, a: ask(i[: own_inputs(len(i), a)], o, a))

    def accepts(inputs, outputs, attrs):
        if attrs["epilogue"] and not body.epilogue:
            return f"the kernel {body.name} runs no epilogue"
        return own(body.accepts)(inputs, outputs, attrs) if body.accepts else None

    return replace(body, scratch=own(body.scratch), accepts=accepts)


def _check(what: str, inputs: Types, attrs: Attrs, made: TensorType, split: tuple[int, int]) -> None:
    got = steps.result_type(what, attrs["epilogue"], inputs, made)
    if got != made:
        rules.fail(
            what, f"the product is {made}, its epilogue makes {got}: they must be equal", got=got, wanted=made
        )
    for k in steps.extras(attrs["epilogue"]):
        shape = (1,) * (len(made.shape) - len(inputs[k].shape)) + inputs[k].shape
        for first, last in ((split[0], split[1]), (split[1], len(made.shape))):
            if not _is_whole(shape[first:last], made.shape[first:last]):
                rules.fail(
                    what,
                    f"input {k}, {inputs[k]}, of the epilogue is neither as the output {made} "
                    f"nor of size 1 in dimensions {first} to {last - 1}",
                    got=inputs[k].shape,
                )


def _is_whole(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return shape == wanted or all(n == 1 for n in shape)
