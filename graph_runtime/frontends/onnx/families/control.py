"""If, Loop and Scan with conditions and counts that are known before a run. An If is replaced by the branch
that is taken, a loop by its unrolled body."""

from __future__ import annotations

from typing import Any

from ..context import Context, Results, converter
from ..nodes import subgraphs
from ..tape import TapeValue

MOST_TRIPS = 10_000  # iterations of one loop; the budget bounds the total of all loops


@converter("If", limits="the condition must be known before a run")
def _if(ctx: Context) -> Results:
    taken = "then_branch" if bool(ctx.single(0)) else "else_branch"
    ctx.ignore("then_branch", "else_branch")
    return tuple(ctx.subgraph(ctx.attr(taken), {}, taken))


@converter("Loop", limits="unrolled; trip count and conditions must be known before a run")
def _loop(ctx: Context) -> Results:
    body, state = ctx.attr("body"), [ctx.input(i) for i in range(2, len(ctx.inputs))]
    limit, go = ctx.single(0, None), bool(ctx.single(1, True))
    if limit is None and not ctx.has(1):
        ctx.fail("it has neither trip count nor condition: it never ends")
    if limit is not None and limit > MOST_TRIPS and not _may_end_early(body):
        ctx.fail(f"it has {limit} iterations and no condition to end them; at most {MOST_TRIPS} are unrolled")
    scanned: list[list[TapeValue]] = []
    i = 0
    while go and (limit is None or i < limit):
        if i >= MOST_TRIPS:
            ctx.fail(f"it has more than {MOST_TRIPS} iterations")
        given = [ctx.const(i, "int64"), ctx.const(True, "bool"), *state]
        names = [info.name for info in body.input]
        out = ctx.subgraph(body, dict(zip(names, given, strict=True)), f"body[{i}]")
        if limit is None or out[0].known() is not None or i + 1 < limit:
            go = bool(ctx.values_of(out[0], "the body's condition").reshape(-1)[0])
        state = out[1 : len(state) + 1]
        scanned.append(out[len(state) + 1 :])
        i += 1
    if not scanned and len(body.output) > len(state) + 1:
        ctx.fail("it has no iteration, so the shape of its scan outputs is unknown")
    return (*state, *(ctx.stack(list(column), 0) for column in zip(*scanned, strict=True)))


def _may_end_early(body: Any) -> bool:
    """Whether the condition that a loop's body computes depends on the iteration or on carried values."""
    makers = {name: node for node in body.node for name in node.output}
    changing = {info.name for i, info in enumerate(body.input) if i != 1}  # input 1 is the condition itself
    wanted, seen = [body.output[0].name], set()
    while wanted:
        name = wanted.pop()
        if name in changing:
            return True
        if name in makers and name not in seen:
            seen.add(name)
            if subgraphs(makers[name]):
                return True  # a subgraph may read anything
            wanted += makers[name].input
    return False


@converter("Scan", limits="unrolled; opset 8: no sequence_lens")
def _scan(ctx: Context) -> Results:
    if ctx.opset < 9:
        return _batched_scan(ctx)
    body, count = ctx.attr("body"), ctx.attr("num_scan_inputs")
    inputs = [ctx.input(i) for i in range(len(ctx.inputs))]
    state, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = [
        ctx.axis(a, v.rank, "scan_input_axes")
        for a, v in zip(ctx.attr("scan_input_axes", [0] * count), scanned, strict=True)
    ]
    state, columns = _scanned(ctx, body, state, scanned, axes, ctx.attr("scan_input_directions", [0] * count))
    out_axes = ctx.attr("scan_output_axes", [0] * len(columns))
    turned = ctx.attr("scan_output_directions", [0] * len(columns))
    made = [
        ctx.stack(column[::-1] if back else column, axis % (column[0].rank + 1))
        for column, axis, back in zip(columns, out_axes, turned, strict=True)
    ]
    return (*state, *made)


def _batched_scan(ctx: Context) -> Results:
    """Results of a Scan of opset 8: input 0 gives lengths; the other inputs begin with a batch dimension,
    followed by the steps."""
    body, count = ctx.attr("body"), ctx.attr("num_scan_inputs")
    if ctx.has(0):
        ctx.fail("opset 8's sequence_lens is not supported")
    inputs = [ctx.input(i) for i in range(1, len(ctx.inputs))]
    first = len(inputs) - count
    batch = inputs[0].shape[0] if inputs and inputs[0].rank else 0
    if not 0 < count <= len(inputs) or not 0 < batch <= MOST_TRIPS:
        ctx.fail(
            f"num_scan_inputs is {count} of {len(inputs)} inputs, which must begin with a "
            f"batch of 1 to {MOST_TRIPS}"
        )
    if any(value.shape[:1] != (batch,) for value in inputs):
        ctx.fail("its inputs have batches of several sizes")
    rows = []
    for b in range(batch):
        one = [ctx.reshape(ctx.slice(value, 0, b, b + 1), value.shape[1:]) for value in inputs]
        backward = ctx.attr("directions", [0] * count)
        state, columns = _scanned(ctx, body, one[:first], one[first:], [0] * count, backward, f"{b}, ")
        rows.append([*state, *(ctx.stack(column, 0) for column in columns)])
    return tuple(ctx.stack(list(column), 0) for column in zip(*rows, strict=True))


def _scanned(
    ctx: Context,
    body: Any,
    state: list[TapeValue],
    scanned: list[TapeValue],
    axes: list[int],
    backward: list[int],
    of: str = "",
) -> tuple[list[TapeValue], list[list[TapeValue]]]:
    """(the last state, [values of one further output of the body, step by step; for each such output])."""
    steps = scanned[0].shape[axes[0]] if scanned and scanned[0].rank else 0
    if not 0 < steps <= MOST_TRIPS or any(
        v.shape[a : a + 1] != (steps,) for v, a in zip(scanned, axes, strict=True)
    ):
        ctx.fail(f"scan inputs of {steps} steps; all must have the same number, from 1 to {MOST_TRIPS}")
    results = []
    for t in range(steps):
        parts = []
        for value, axis, back in zip(scanned, axes, backward, strict=True):
            at = steps - 1 - t if back else t
            part = ctx.slice(value, axis, at, at + 1)
            parts.append(ctx.reshape(part, value.shape[:axis] + value.shape[axis + 1 :]))
        names = [info.name for info in body.input]
        out = ctx.subgraph(body, dict(zip(names, [*state, *parts], strict=True)), f"body[{of}{t}]")
        state = out[: len(state)]
        results.append(out[len(state) :])
    return state, [list(column) for column in zip(*results, strict=True)]
