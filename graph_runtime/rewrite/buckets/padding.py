"""The padding rule of each op: the regions of its results, and the inputs that must be masked to make them
right.

A rule is ``rule(call) -> (regions of the results, masks)``; it raises ``Crosses`` with a reason if padding
affects real elements and no mask prevents it. ``RULES`` maps an op to its rule. Reductions over axes and ops
of kind "elementwise" need no entry; any other op without a rule accepts only inputs without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base import dtypes
from ...ir.ops import registry
from .lookups import LOOKUPS
from .regions import Axis, Region, is_plain, plain, reshaped, single
from .ruling import Call, Crosses, Ruling


def find_rule(op: str | None) -> Callable[[Call], Ruling]:
    """The rule of an op. ``op``: name of the op; None for a function that only a library knows."""
    if op is not None and op in RULES:
        return RULES[op]
    entry = None if op is None else registry.get(op)
    if entry is not None and entry.neutral is not None:
        return _reduce
    return _elementwise if entry is not None and entry.kind == "elementwise" else _whole


def _whole(call: Call) -> Ruling:
    for index in range(len(call.inputs)):
        call.need_plain(index)
    for made, probe in zip(call.made, call.probe, strict=True):
        if made != probe:
            raise Crosses(f"{call.op} makes {made}, a size that depends on what is padded")
    return Ruling(tuple(tuple(map(plain, made.shape)) for made in call.made))


# ---------------------------------------------------------------- element by element


def _joined(call: Call, regions: Sequence[Region], shape: Sequence[int]) -> Region:
    """The region of the result of broadcasting the inputs together."""
    found = []
    for back in range(len(shape), 0, -1):
        axes = [r[-back] for r in regions if len(r) >= back and r[-back] != ()]
        if any(axis != axes[0] for axis in axes):
            raise Crosses(f"{call.op} joins axes that are padded differently")
        found.append(axes[0] if axes else plain(shape[-back]))
    return tuple(found)


_INTEGER_TRAPS = ("divide", "mod", "power")  # integer kernels refuse some values of input 1, such as 0


def _elementwise(call: Call) -> Ruling:
    masks = []
    if call.op in _INTEGER_TRAPS and dtypes.is_integer(call.types[0].dtype):
        masks = call.over(1, range(len(call.inputs[1])), 1)
    return Ruling((_joined(call, call.inputs, call.made[0].shape),), tuple(masks))


def _bias_add(call: Call) -> Ruling:
    call.need_plain(1)
    call.need_plain(0, [call.axis()])
    return Ruling((call.inputs[0],))


# ---------------------------------------------------------------- shapes and movement


def _reshape(call: Call) -> Ruling:
    region = reshaped(call.inputs[0], call.made[0])
    if region is None:
        raise Crosses(f"{call.op} to {call.made[0]} cuts an axis that is padded")
    return Ruling((region,))


def _transpose(call: Call) -> Ruling:
    region = call.inputs[0]
    perm = call.attrs["perm"] or range(len(region))[::-1]
    return Ruling((tuple(region[at] for at in perm),))


def _broadcast_to(call: Call) -> Ruling:
    region, shape = call.inputs[0], call.made[0].shape
    region = ((),) * (len(shape) - len(region)) + region
    new = [axis if axis else call.new(0, at) for at, axis in enumerate(region)]
    return Ruling((tuple(new),))


def _tile(call: Call) -> Ruling:
    new = []
    for at, (axis, times) in enumerate(zip(call.inputs[0], call.attrs["repeats"], strict=True)):
        if not is_plain(axis) and times != 1:
            raise Crosses(f"tile repeats axis {at}, which is padded")
        new.append(call.new(0, at) if is_plain(axis) else axis)
    return Ruling((tuple(new),))


def _concatenate(call: Call) -> Ruling:
    at = call.axis()
    others = [r[:at] + r[at + 1 :] for r in call.inputs]
    if any(other != others[0] for other in others):
        raise Crosses("concatenate joins tensors that are padded differently")
    segments: list[tuple[int, str | None]] = []
    for region, kind in zip(call.inputs, call.types, strict=True):
        if is_plain(region[at]):
            segments.append((kind.shape[at], None))
        elif len(region[at]) == 1:
            segments += region[at][0]
        else:
            raise Crosses(f"concatenate along axis {at}, a product of padded axes")
    axis: Axis = (tuple(segments),)
    if is_plain(axis):
        axis = plain(call.made[0].shape[at])
    return Ruling(((*call.inputs[0][:at], axis, *call.inputs[0][at + 1 :]),))


def _pad(call: Call) -> Ruling:
    rank, pads = len(call.types[0].shape), call.attrs["pads"]
    new = []
    for at, axis in enumerate(call.inputs[0]):
        before, after = pads[at], pads[at + rank]
        if not (before or after):
            new.append(axis)
        elif is_plain(axis):
            new.append(plain(call.made[0].shape[at]))
        elif call.attrs["mode"] == "constant" and len(axis) == 1 and min(before, after) >= 0:
            ends = ((before, None),) * (before > 0), ((after, None),) * (after > 0)
            new.append((ends[0] + axis[0] + ends[1],))
        else:
            raise Crosses(f"pad {call.attrs['mode']} of axis {at}, which is padded")
    return Ruling((tuple(new),))


def _reverse(call: Call) -> Ruling:
    call.need_plain(0, [at % len(call.types[0].shape) for at in call.attrs["axes"]])
    return Ruling((call.inputs[0],))


def _slice(call: Call) -> Ruling:
    kind, made = call.types[0], call.made[0]
    axes = call.attrs["axes"] or range(len(call.attrs["starts"]))
    steps = call.attrs["steps"] or (1,) * len(call.attrs["starts"])
    new = list(call.inputs[0])
    for at, start, end, step in zip(axes, call.attrs["starts"], call.attrs["ends"], steps, strict=False):
        at %= len(kind.shape)
        axis = call.inputs[0][at]
        if is_plain(axis):
            new[at] = call.new(0, at)
        elif start == 0 and step == 1 and end >= 0 and made.shape[at] == kind.shape[at]:
            continue  # the slice takes the whole axis
        elif start >= 0 and end >= 0 and single(axis) and made.shape[at] == call.probe[0].shape[at]:
            new[at] = plain(made.shape[at])  # the slice has only real elements, as in the exact graph
        else:
            raise Crosses(f"slice of axis {at}, which is padded, from {start} to {end}")
    return Ruling((tuple(new),))


def _slice_update(call: Call) -> Ruling:
    for at, (axis, other) in enumerate(zip(*call.inputs, strict=True)):
        if axis != other and not (is_plain(axis) and is_plain(other)):
            raise Crosses(f"slice_update of axis {at}, which is padded")
    for at, start in zip(call.attrs["axes"] or range(99), call.attrs["starts"], strict=False):
        if not is_plain(call.inputs[0][at]) and start != 0:
            raise Crosses(f"slice_update from {start} of axis {at}, which is padded")
    return Ruling((call.inputs[0],))


# ---------------------------------------------------------------- over an axis


def _softmax(call: Call) -> Ruling:
    return Ruling((call.inputs[0],), tuple(call.over(0, [call.axis()], float("-inf"))))


def _norm(call: Call) -> Ruling:
    rank = len(call.types[0].shape)
    call.need_plain(0, range(call.axis(), rank))
    for index in range(1, len(call.inputs)):
        call.need_plain(index)
    return Ruling((call.inputs[0],))


def _reduce(call: Call) -> Ruling:
    region, kind = call.inputs[0], call.types[0]
    axes = range(len(region)) if call.attrs["axes"] is None else call.attrs["axes"]
    gone = sorted({at % max(len(region), 1) for at in axes}) if region else []
    kept = call.attrs["keepdims"]
    new = tuple(() if at in gone else axis for at, axis in enumerate(region) if kept or at not in gone)
    masks = call.over(0, gone, _neutral(call.op, kind.dtype) if gone else 0)
    if masks and call.op == "mean" and (dtypes.is_integer(kind.dtype) or dtypes.parse(kind.dtype).bits < 32):
        raise Crosses(f"mean of {kind.dtype}, whose sum may be too large for it, over axis {masks[0].axis}")
    return Ruling((new,), tuple(masks), "mean" if masks and call.op == "mean" else "")


def _neutral(op: str, dtype: str) -> float:
    """A fill value that does not change the result of the reduction ``op``: 0 for a sum."""
    low, high = _ends(dtype)
    value = min(max(registry.require(op).neutral or 0, low), high)
    return value if dtype in dtypes.FLOATS else int(value)


def _ends(dtype: str) -> tuple[float, float]:
    """The smallest and the largest number of a dtype."""
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtypes.to_numpy(dtype))
        return int(info.min), int(info.max)
    return (0, 1) if dtypes.to_numpy(dtype).kind == "b" else (float("-inf"), float("inf"))


def _found_along(call: Call) -> Ruling:
    """Rule of argmax, argmin and topk: their results are indices along an axis."""
    region, at = call.inputs[0], call.axis()
    most = bool(call.attrs["largest"]) if call.op == "topk" else call.op == "argmax"
    masks = call.over(0, [at], _ends(call.types[0].dtype)[0 if most else 1])
    if masks and not single(region[at]):
        raise Crosses(f"{call.op} along axis {at}, whose padding is not behind all real elements")
    if masks and call.attrs.get("total"):
        raise Crosses("topk in total order, in which a NaN may come after the padding")
    new = []
    for k, made in enumerate(call.made):
        axes = list(region)
        if len(made.shape) < len(axes):
            del axes[at]
        elif call.op == "topk":
            axes[at] = call.new(k, at)
            if not is_plain(axes[at]):
                raise Crosses(f"topk of all elements of axis {at}, which is padded")
        else:
            axes[at] = ()
        new.append(tuple(axes))
    return Ruling(tuple(new), tuple(masks))


def _cumsum(call: Call) -> Ruling:
    return Ruling((call.inputs[0],), tuple(call.over(0, [call.axis()], 0)))


# ---------------------------------------------------------------- products


def _matmul(call: Call) -> Ruling:
    a, b = call.inputs[:2]
    _no_epilogue(call, 2)
    if min(len(a), len(b)) < 2:
        return _whole(call)
    ta, tb = call.attrs["transpose_a"], call.attrs["transpose_b"]
    (m, ka), (kb, n) = (a[-2:][::-1] if ta else a[-2:]), (b[-2:][::-1] if tb else b[-2:])
    _same(call, ka, kb)
    masks = call.over(0, [len(a) - (2 if ta else 1)], 0) + call.over(1, [len(b) - (1 if tb else 2)], 0)
    batch = _joined(call, [a[:-2], b[:-2]], call.made[0].shape[:-2])
    return Ruling(((*batch, m, n),), tuple(masks))


def _dense(call: Call) -> Ruling:
    _no_epilogue(call, 2)
    x, w = call.inputs[:2]
    if call.attrs["packed"]:
        return _whole(call)
    _same(call, x[-1], w[1])
    masks = call.over(0, [len(x) - 1], 0) + call.over(1, [1], 0)
    return Ruling(((*x[:-1], w[0]),), tuple(masks))


def _no_epilogue(call: Call, inputs: int) -> None:
    """Raise Crosses if the epilogue reads inputs of its own: their regions are not analysed."""
    if call.attrs["epilogue"]:
        raise Crosses(f"{call.op} with an epilogue")
    for index in range(inputs, len(call.inputs)):
        call.need_plain(index)


def _same(call: Call, a: Axis, b: Axis) -> None:
    if a != b:
        raise Crosses(f"{call.op} goes over axes that are padded differently")


def _attention(call: Call) -> Ruling:
    q, k, v, *bias = call.inputs
    _same(call, q[-1], k[-1])
    _same(call, k[-2], v[-2])
    if not is_plain(q[-1]):
        raise Crosses("attention over a padded axis of its queries")
    batch = _joined(call, [q[:-2], k[:-2], v[:-2]], call.made[0].shape[:-2])
    if bias:
        _joined(call, [(*batch, q[-2], k[-2]), bias[0]], (*call.made[0].shape[:-1], call.types[1].shape[-2]))
    region = (*batch, q[-2], v[-1])
    if is_plain(k[-2]):
        return Ruling((region,))
    masks = (*call.over(1, [len(k) - 2], 0), *call.over(2, [len(v) - 2], 0))
    return Ruling((region,), masks, "attention")


# ---------------------------------------------------------------- images and steps: rows of a batch


def _per_image(call: Call) -> Ruling:
    """Rule of ops whose axis 0 of input 0 counts images, each computed separately."""
    call.need_plain(0, range(1, len(call.inputs[0])))
    for index in range(1, len(call.inputs)):
        call.need_plain(index)
    if call.attrs.get("epilogue"):
        raise Crosses(f"{call.op} with an epilogue")
    first = call.inputs[0][0]
    return Ruling(tuple((first, *map(plain, made.shape[1:])) for made in call.made))


def _conv(call: Call) -> Ruling:
    """Rule of convolutions. Along a padded axis the stride must be 1 and there must be as many windows as
    elements. The padding is masked with 0, so that zeros follow the real elements as they do at the exact
    size."""
    x, image = call.inputs[0], len(call.inputs[0]) - 2
    padded = [at for at in range(2, len(x)) if not is_plain(x[at])]
    if not padded or call.attrs.get("layout", "NCHW") != "NCHW":
        return _per_image(call)
    _no_epilogue(call, 1)
    call.need_plain(0, [1])
    for at in padded:
        stride, pads, dilation = (call.attrs[name] for name in ("strides", "pads", "dilations"))
        reach = (call.types[1].shape[at] - 1) * dilation[at - 2]
        if not single(x[at]) or stride[at - 2] != 1 or pads[at - 2] + pads[at - 2 + image] != reach:
            raise Crosses(f"{call.op} makes another number of elements of axis {at}, which is padded")
    new = [x[at] if at in padded else plain(size) for at, size in enumerate(call.made[0].shape)]
    return Ruling(((x[0], *new[1:]),), tuple(call.over(0, padded, 0)))


def _global_pool(call: Call) -> Ruling:
    """Rule of global pools: one element per image, computed from all its real elements."""
    x = call.inputs[0]
    if call.attrs.get("layout", "NCHW") != "NCHW":
        return _per_image(call)
    call.need_plain(0, [1])
    fill = float("-inf") if call.op == "global_max_pool2d" else 0
    masks = call.over(0, range(2, len(x)), fill)
    if masks and fill == 0 and dtypes.parse(call.types[0].dtype).bits < 32:
        raise Crosses(f"{call.op} of {call.types[0].dtype}, whose sum may be too large for it")
    how = "mean" if masks and fill == 0 else ""
    return Ruling(((x[0], *map(plain, call.made[0].shape[1:])),), tuple(masks), how)


def _recurrent(call: Call) -> Ruling:
    """Rule of recurrent ops: rows of the batch are computed separately; the batch is axis 1 of gates and
    states, and axis 2 of the results."""
    batch = call.inputs[0][1]
    for index, region in enumerate(call.inputs):
        at = 1 if index != 1 and len(region) == 3 else 0 if len(region) == 1 else -1
        call.need_plain(index, [a for a in range(len(region)) if a != at])
        if at >= 0 and region[at] != batch:
            raise Crosses(f"{call.op} of a batch that is padded differently than its states")
    y, *states = call.made
    regions: list[Region] = [(plain(y.shape[0]), plain(y.shape[1]), batch, plain(y.shape[3]))]
    regions += [(plain(s.shape[0]), batch, plain(s.shape[2])) for s in states]
    return Ruling(tuple(regions))


RULES: dict[str, Callable[[Call], Ruling]] = {
    **LOOKUPS,
    "argmax": _found_along,
    "argmin": _found_along,
    "attention": _attention,
    "bias_add": _bias_add,
    "broadcast_to": _broadcast_to,
    "concatenate": _concatenate,
    "cumsum": _cumsum,
    "dense": _dense,
    "layer_norm": _norm,
    "matmul": _matmul,
    "pad": _pad,
    "reverse": _reverse,
    "rms_norm": _norm,
    "slice": _slice,
    "slice_update": _slice_update,
    "tile": _tile,
    "topk": _found_along,
    "transpose": _transpose,
    **dict.fromkeys(("softmax", "log_softmax"), _softmax),
    **dict.fromkeys(("reshape", "flatten", "squeeze", "unsqueeze"), _reshape),
    **dict.fromkeys(("lstm", "gru", "rnn"), _recurrent),
    **dict.fromkeys(
        (
            *("conv_transpose2d", "lrn", "lp_pool2d", "max_pool2d_indices"),
            *("max_pool2d", "avg_pool2d", "max_pool3d", "avg_pool3d"),
        ),
        _per_image,
    ),
    **dict.fromkeys(("conv2d", "conv3d"), _conv),
    **dict.fromkeys(("global_max_pool2d", "global_avg_pool2d"), _global_pool),
}
