"""Elementwise steps: the body of ``fused`` and the epilogues of products.

A step is [op, [input, ...], {attribute: value}]. Input k >= 0 is the node's k-th input. In the body of
``fused`` input -1 - j is the result of step j. In an epilogue input -1 is the product, and -2 - j the result
of step j; the node's inputs that the epilogue reads come after the op's own. The last step gives the result.
All tensors of the steps have one dtype.

C contract (native/kernels/steps.h), the words after the op's own:
    [0] number of instructions, 0 for no steps
    [1] number of the node's inputs that only the steps read, 0 for no steps
    then for each instruction: [0] code  [1] register of the result  [2] [3] registers of the operands
    [4] [5] the attributes, as the bits of two doubles
Code 0 loads input [2] of the call into a register. In an epilogue register 0 holds the product. The last
instruction makes the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import did_you_mean
from ..graph import TensorType
from . import registry, rules

Step = tuple[str, tuple[int, ...], dict[str, Any]]
MOST_STEPS = 24
MOST_INPUTS = 8  # most inputs of a node that only its steps read
MOST_REGISTERS = 12  # GR_STEPS_REGISTERS of native/kernels/steps.h
NO_WORDS = 0, 0  # the words if there are no steps
_LOAD = 0

DTYPES = rules.FLOATS + rules.INTS


def extras(body: Sequence[Step]) -> tuple[int, ...]:
    """Indices of the node's inputs that the steps read, ascending."""
    return tuple(sorted({k for _, inputs, _ in body for k in inputs if k >= 0}))


# ---------------------------------------------------------------- types


def result_type(
    what: str, body: Sequence[Step], inputs: Sequence[TensorType], product: TensorType | None = None
) -> TensorType:
    """The type of the last step's result. ``inputs``: all inputs of the node; ``product``: the type of the
    product before an epilogue.

    Raises GraphError for a step that is no elementwise op of one dtype, that reads an absent value, or that
    its op's rule refuses; and for too many steps, inputs or registers.
    """
    first = 1 if product is not None else 0
    made = [] if product is None else [product]
    if not body:
        rules.fail(what, "a body of no steps", got=body)
    for j, (name, reads, attrs) in enumerate(body):
        op = _elementwise(what, j, name)
        for k in reads:
            if not (0 <= k < len(inputs) or 0 <= -1 - k < j + first):
                text = f"step {j} ({name}) reads {k}, which is neither an input nor a step before"
                rules.fail(what, text, got=k)
        if not op.arity[0] <= len(reads) <= op.arity[1]:
            rules.fail(what, f"step {j} ({name}) has {len(reads)} inputs, it takes {op.arity[0]}", got=reads)
        types = [inputs[k] if k >= 0 else made[-1 - k] for k in reads]
        (t,) = op.infer(types, op.decode(attrs))
        if t.dtype != types[0].dtype:
            rules.fail(what, f"step {j} ({name}) makes {t.dtype} of {types[0].dtype}", got=t.dtype)
        made.append(t)
    _limits(what, body, made[-1].dtype, product is not None)
    return made[-1]


def _elementwise(what: str, j: int, name: str) -> registry.Op:
    if not code_of(name):
        rules.fail(what, f"step {j}: {name!r} cannot be a step{did_you_mean(name, codes())}", got=name)
    return registry.require(name)


def _limits(what: str, body: Sequence[Step], dtype: str, epilogue: bool) -> None:
    counts = all(registry.require(name).counts for name, _, _ in body)
    if dtype not in DTYPES or (dtype in rules.INTS and not counts):
        rules.fail(what, f"no body of these steps for {dtype}", got=dtype)
    inputs = len(extras(body))
    for count, most, text in (
        (len(body), MOST_STEPS, "steps"),
        (inputs, MOST_INPUTS, "inputs"),
        (_registers(body, epilogue), MOST_REGISTERS, "registers"),
    ):
        if count > most:
            rules.fail(
                what, f"a body takes at most {most} {text}, this one needs {count}", got=count, wanted=most
            )


# ---------------------------------------------------------------- numpy reference and cost


def run(body: Sequence[Step], arrays: Sequence[np.ndarray], product: np.ndarray | None = None) -> np.ndarray:
    """The result of the last step, with each step computed by its op's reference. 16-bit floats are rounded
    once, at the end."""
    dtype = (arrays[0] if product is None else product).dtype
    narrow = dtype.name in dtypes.NARROW_FLOATS
    arrays = [a.astype(np.float32) if narrow and a.dtype == dtype else a for a in arrays]
    made = [] if product is None else [product.astype(np.float32) if narrow else product]
    for name, reads, attrs in body:
        op = registry.require(name)
        (value,) = op.reference([arrays[k] if k >= 0 else made[-1 - k] for k in reads], op.decode(attrs))
        made.append(value)
    return rules.narrow(made[-1], dtype.name)


def flops(body: Sequence[Step], out: TensorType) -> int:
    """Flops of the steps, each of which runs on all elements of the result."""
    total = 0
    for name, reads, attrs in body:
        op = registry.require(name)
        total += op.flops([out] * len(reads), [out], op.decode(attrs))
    return total


# ---------------------------------------------------------------- words


def code_of(name: str | None) -> int:
    """The code of an op as a step; 0 if the op cannot be a step."""
    op = registry.get(name or "")
    return 0 if op is None else op.step


def codes() -> dict[str, int]:
    """{name of an op that can be a step: its code}."""
    return {name: op.step for name, op in registry.all_ops().items() if op.step}


def codes_of(body: Sequence[Step]) -> tuple[int, ...]:
    """Codes of the steps, ascending, as they occur in the words of ``body``; without loads."""
    return tuple(sorted({_code(name, attrs) for name, _, attrs in body}))


def _code(name: str, attrs: dict[str, Any]) -> int:
    op = registry.require(name)
    return op.step + int(op.decode(attrs).get("approximate") == "tanh")


def _parameters(op: registry.Op, attrs: dict[str, Any]) -> list[int]:
    """The attribute words of a step: those that its op has for floats, because only ops of floats have
    attributes. "approximate" has no word, because it is part of the code."""
    one = TensorType("float32", ())
    return [] if op.words is None or "approximate" in attrs else op.words([one], [one], attrs)


def words(body: Sequence[Step], epilogue: bool) -> list[int]:
    """The words of steps that ``result_type`` accepts; NO_WORDS for no steps."""
    if not body:
        return [*NO_WORDS]
    found: list[int] = []
    for code, target, a, b, parameters in _instructions(body, epilogue):
        found += [code, target, a, b, *(*parameters, 0, 0)[:2]]
    return [len(found) // 6, len(extras(body)), *found]


def _registers(body: Sequence[Step], epilogue: bool) -> int:
    return 1 + max(row[1] for row in _instructions(body, epilogue))


def _instructions(body: Sequence[Step], epilogue: bool) -> list[tuple[int, int, int, int, list[int]]]:
    """Rows (code, result, operand, operand, parameters); result and operands are registers. An input is
    loaded before the first step that reads it; a register is free after the last step that reads it."""
    shift = 1 if epilogue else 0
    read = [
        (("input", k) if k >= 0 else ("step", -1 - k - shift), j)
        for j, (_, reads, _) in enumerate(body)
        for k in reads
    ]
    last = dict(read)
    register: dict[tuple[str, int], int] = {("step", -1): 0} if epilogue else {}
    free: list[int] = []
    rows: list[tuple[int, int, int, int, list[int]]] = []
    used = len(register)

    def take() -> int:
        nonlocal used
        if free:
            return free.pop()
        used += 1
        return used - 1

    for j, (name, reads, attrs) in enumerate(body):
        keys = [("input", k) if k >= 0 else ("step", -1 - k - shift) for k in reads]
        for key in keys:
            if key not in register:
                register[key] = take()
                rows.append((_LOAD, register[key], key[1], 0, []))
        at = [register[key] for key in keys]
        free += [register[key] for key in dict.fromkeys(keys) if last[key] == j]
        register["step", j] = take()
        op = registry.require(name)
        parameters = _parameters(op, op.decode(attrs))
        rows.append((_code(name, attrs), register["step", j], at[0], at[-1], parameters))
        if ("step", j) not in last:
            free.append(register["step", j])
    return rows
