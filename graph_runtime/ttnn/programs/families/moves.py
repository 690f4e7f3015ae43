"""Card programs of calls that move elements: layouts, memories, shapes, parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....base.machine.layout import TILE
from ....costs.factories import CardOperand
from ....costs.factories.movement import (
    SliceBounds,
    Steps,
    UnknownForm,
    cloned,
    joined,
    permuted,
    repeated,
    reshaped,
    sliced,
    split,
    to_memory,
    to_rows,
    to_tiles,
    transposed,
    with_padding,
)
from ...tensors.tensor import Tensor
from ..call import Call, operand
from ..stepped import stages_by


def _axis(call: Call, name: str) -> int:
    return int(call.get(name, 0)) % max(len(call.first.shape), 1)


def _placed(call: Call, steps: Steps, x: CardOperand) -> None:
    to_memory(steps, x, steps.result)


def _cloned(call: Call, steps: Steps, x: CardOperand) -> None:
    steps.run(cloned(x, steps.result, steps.board), steps.result)


def _laid_out(call: Call, steps: Steps, x: CardOperand) -> None:
    """to_layout and its relatives. Their result may have another memory and another dtype."""
    made = steps.result
    if not x.shape:
        raise UnknownForm
    if x.layout == made.layout:
        if x.format != made.format or call.name != "to_layout":
            raise UnknownForm
    elif made.layout == TILE:
        to_tiles(steps, x, made)
    else:
        to_rows(steps, x, made, direct=call.name == "untilize")


def _permuted(call: Call, steps: Steps, x: CardOperand) -> None:
    rank = len(x.shape)
    permuted(steps, x, [int(d) % rank for d in call.values["dims"]], steps.result)


def _transposed(call: Call, steps: Steps, x: CardOperand) -> None:
    transposed(steps, x, _axis(call, "dim1"), _axis(call, "dim2"), steps.result)


def _repeated(call: Call, steps: Steps, x: CardOperand) -> None:
    given = call.get("repeat_dims")
    times = [int(n) for n in (call.values["repetition_vector"] if given is None else given)]
    repeated(steps, x, times, steps.result)


def _expanded(call: Call, steps: Steps, x: CardOperand) -> None:
    shape = steps.result.shape
    before = (*(1,) * (len(shape) - len(x.shape)), *x.shape)
    repeated(steps, x, [n // m if m else 1 for n, m in zip(shape, before, strict=True)], steps.result)


def _cut(call: Call, x: CardOperand) -> SliceBounds:
    def numbers(names: Sequence[str], default: Sequence[int]) -> tuple[int, ...]:
        found = next((call.values[name] for name in names if call.values.get(name) is not None), default)
        if isinstance(found, Tensor):
            raise UnknownForm
        return tuple(int(n) for n in found)

    rank = len(x.shape)
    begin = numbers(("slice_start", "starts", "begins"), (0,) * rank)
    end = numbers(("slice_end", "ends"), x.shape)
    step = numbers(("slice_step", "steps", "step"), (1,) * rank)
    begin, end = (
        tuple(n + s if n < 0 else n for n, s in zip(at, x.shape, strict=True)) for at in (begin, end)
    )
    return SliceBounds(begin, end, step)


def _sliced(call: Call, steps: Steps, x: CardOperand) -> None:
    cut = _cut(call, x)
    if cut.shape != steps.result.shape:
        raise UnknownForm
    sliced(steps, x, cut, steps.result)


def _split(call: Call, steps: Steps, x: CardOperand) -> None:
    axis = _axis(call, "dim")
    sizes = [int(part.shape[axis]) for part in call.results]
    split(steps, x, sizes, axis, steps.result, call.grid)


def _reshaped(call: Call, steps: Steps, x: CardOperand) -> None:
    if not math.prod(x.shape):
        raise UnknownForm
    reshaped(steps, x, steps.result)


def _joined(call: Call, steps: Steps, x: CardOperand) -> None:
    joined(steps, [operand(y) for y in call.inputs], _axis(call, "dim"), steps.result)


def _padded(call: Call, steps: Steps, x: CardOperand) -> None:
    pairs = call.get("padding")
    if pairs is None or (len(pairs) and isinstance(pairs[0], int)):
        raise UnknownForm
    rank = len(x.shape)
    sides = [(0, 0)] * (rank - len(pairs)) + [(int(a), int(b)) for a, b in pairs]
    with_padding(steps, x, sides, steps.result)


TABLE: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(("to_memory_config", "interleaved_to_sharded", "reshard"), stages_by(_placed)),
    "sharded_to_interleaved": stages_by(_placed),
    **dict.fromkeys(("clone", "copy"), stages_by(_cloned)),
    **dict.fromkeys(("to_layout", "tilize", "tilize_with_val_padding", "untilize"), stages_by(_laid_out)),
    **dict.fromkeys(("tilize_with_zero_padding", "untilize_with_unpadding"), stages_by(_laid_out)),
    "permute": stages_by(_permuted),
    "transpose": stages_by(_transposed),
    "repeat": stages_by(_repeated),
    "expand": stages_by(_expanded),
    "slice": stages_by(_sliced),
    "split": stages_by(_split),
    **dict.fromkeys(("reshape", "squeeze", "unsqueeze"), stages_by(_reshaped)),
    "concat": stages_by(_joined),
    "pad": stages_by(_padded),
}
