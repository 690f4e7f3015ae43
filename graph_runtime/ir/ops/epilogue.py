"""Products with an epilogue: elementwise steps that run on each block of results while the block is in cache.

``register_product`` gives an op the attribute ``epilogue`` (steps.py) and further inputs after its own; the
steps are added to its reference, its flops and, as words after its own, its C call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from ..graph import TensorType
from . import rules, steps
from .registry import Attr, Attrs, Body, Case, Op, Types, register

ATTR = Attr("epilogue", "steps", (), "elementwise steps on the result: -1 is the product, -2 - j step j")

# function of the output's type and the attributes: (first dimension of the output's rows, first dimension of
# its columns); the dimensions before the rows are planes
Split = Callable[[TensorType, Attrs], tuple[int, int]]


def own_inputs(count: int, attrs: Attrs) -> int:
    """Number of the op's own inputs, out of ``count`` inputs in total. The epilogue reads the other
    inputs."""
    return count - len(steps.extras(attrs["epilogue"])) if attrs["epilogue"] else count


def register_product(op: Op, split: Split, cases: tuple[Case, ...] = ()) -> Op:
    """Register the op with an epilogue.

    ``split``: how kernels divide the output's dimensions into rows and columns. An input of the epilogue must
    have the output's sizes in all dimensions of the rows, or 1 in all of them; likewise for the columns.
    ``cases``: further cases, with an epilogue.
    """

    @wraps(op.infer)  # wraps keeps the op's module, which tells its family
    def infer(inputs: Types, attrs: Attrs) -> list[TensorType]:
        epilogue, own = attrs["epilogue"], own_inputs(len(inputs), attrs)
        fits = op.arity[0] <= own <= op.arity[1]
        if not fits or (epilogue and any(k < own for k in steps.extras(epilogue))):
            rules.fail(
                op.name,
                f"the epilogue's inputs come after the op's own {op.arity[0]} to "
                f"{op.arity[1]}, it reads {steps.extras(epilogue)} of {len(inputs)}",
                got=len(inputs),
            )
        made = op.infer(inputs[:own], attrs)
        if epilogue:
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
        return [*own, *(steps.words(attrs["epilogue"], True) if attrs["epilogue"] else steps.NO_WORDS)]

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
    """The body, with an ``accepts`` that is asked about the op's own inputs only and refuses an epilogue that
    the body cannot run."""

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
        text = f"the product is {made}, its epilogue makes {got}: they must be equal"
        rules.fail(what, text, got=got, wanted=made)
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
