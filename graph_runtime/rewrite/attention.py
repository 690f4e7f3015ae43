"""softmax(q k^T scale + bias) v -> the op attention, also if keys are hidden by where(seen, scores, -inf)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.model import Constant
from ..ir.ops import registry
from ..ir.ops.numerics import Numerics
from .matching import closed, with_number
from .net import Net, NetNode, NetValue
from .neutral import permutation
from .ranges import keeps_range


@dataclass
class _Scores:
    """The scores scale q k^T (+ bias) that the softmax reads. ``k`` is [.., t, d] if ``k_is_rows``, else [..,
    d, t]. ``seen``: mask of the keys that are not hidden, [.., 1, t]."""

    q: NetValue
    k: NetValue
    k_is_rows: bool
    scale: float
    numerics: Numerics
    bias: NetValue | None
    nodes: list[NetNode] = field(default_factory=list)
    seen: NetValue | None = None


def attentions(net: Net) -> None:
    """Fuse matmul(softmax(matmul(q, k^T) * scale + bias), v), with the scale on either side of the product,
    into the op attention. Conditions: every device that runs these nodes has an attention kernel, k is a
    transpose of rows, and both products have the same numerics."""
    if registry.get("attention") is None:
        return
    for node in net.nodes("matmul"):
        weights = node.inputs[0]
        if (
            weights.op != "softmax"
            or not weights.used_once
            or len(node.inputs) != 2
            or node.attrs["transpose_a"]
            or node.attrs["transpose_b"]
            or node.attrs["epilogue"]
        ):
            continue
        softmax = weights.maker
        if softmax.attrs["axis"] % len(weights.shape) != len(weights.shape) - 1:
            continue
        found = _scores(softmax.inputs[0])
        if found is not None and found.numerics == Numerics.of(node.attrs):
            _replace(net, node, found, softmax)


def _scores(value: NetValue) -> _Scores | None:
    """The scores that a softmax reads, split into their parts; None if ``value`` is computed in another
    way."""
    if value.op == "where" and value.used_once:
        seen, scores, hidden = value.maker.inputs
        found = _biased(scores) if scores.type == value.type else None
        keys = len(seen.shape) < 2 or seen.shape[-2] == 1
        if found is None or not keys or hidden.scalar() != -math.inf:
            return None
        found.seen = seen
        found.nodes.append(value.maker)
        return found
    return _biased(value)


def _biased(value: NetValue) -> _Scores | None:
    """The parts of scores: a product of queries and keys, and the bias added to it; None for any other
    value."""
    plain = _product(value)
    if plain is not None or value.op != "add" or not value.used_once:
        return plain
    a, b = value.maker.inputs
    for x, bias in ((a, b), (b, a)):
        found = _product(x) if x.type == value.type else None
        if found is not None:
            found.bias = bias
            found.nodes.append(value.maker)
            return found
    return None


def _product(value: NetValue) -> _Scores | None:
    value, scale, nodes = _unscaled(value)
    node = value.producer
    if (
        node is None
        or node.op != "matmul"
        or not value.used_once
        or len(node.inputs) != 2
        or node.attrs["transpose_a"]
        or node.attrs["epilogue"]
    ):
        return None
    q, of_q, more = _unscaled(node.inputs[0])
    k, of_k, others = _unscaled(node.inputs[1])
    if not keeps_range(value.dtype, scale, of_q, of_k):
        return None
    return _Scores(
        q,
        k,
        node.attrs["transpose_b"],
        scale * of_q * of_k,
        Numerics.of(node.attrs),
        None,
        [*nodes, node, *more, *others],
    )


def _unscaled(value: NetValue) -> tuple[NetValue, float, list[NetNode]]:
    """(value before it was multiplied and divided by numbers, product of these factors, the nodes that
    multiply and divide). The product is NaN if a factor may not be moved (ranges.py)."""
    scale, nodes = 1.0, list[NetNode]()
    while value.used_once:
        found = with_number(value, "multiply") or with_number(value, "divide")
        if found is None or (value.op == "divide" and found[1] == 0):
            break
        if not keeps_range(value.dtype, found[1]):
            return value, math.nan, nodes
        scale = scale * found[1] if value.op == "multiply" else scale / found[1]
        nodes.append(value.maker)
        value = found[0]
    return value, scale, nodes


def _replace(net: Net, root: NetNode, found: _Scores, softmax: NetNode) -> None:
    nodes = [*found.nodes, softmax, root]
    if not closed(nodes, root) or not net.together(nodes):
        return
    k = found.k
    if not found.k_is_rows:
        if k.op != "transpose":
            return
        ndim = len(k.shape)
        perm = [*range(ndim - 2), ndim - 1, ndim - 2]
        if permutation(k.maker) == tuple(perm):
            k = k.maker.inputs[0]
        else:
            k = net.add(
                "transpose", [k], before=root, name=f"{k.name}_rows", perm=perm, origins=k.maker.origins
            )
    bias = found.bias
    if found.seen is not None:
        rows = _rows(found.seen, k)
        if rows is None:
            return
        bias = _hidden(net, root, found.seen, bias, -math.inf, k.dtype)
        seen = net.add("reshape", [found.seen], before=root, shape=rows)
        k = _hidden(net, root, seen, k, 0, k.dtype)
    inputs = [found.q, k, root.inputs[1], *([bias] if bias is not None else [])]
    attrs: dict[str, Any] = {"scale": found.scale, **found.numerics.as_dict()}
    if not net.keeps_support(nodes, "attention", inputs, **attrs):
        return
    net.note(
        "attentions",
        f"{len(nodes)} nodes up to {root.name} are attention of {found.q.name}, {k.name} "
        f"and {root.inputs[1].name}",
        nodes,
    )
    net.replace(
        root.output,
        net.add("attention", inputs, before=root, origins=[o for n in nodes for o in n.origins], **attrs),
    )


def _rows(seen: NetValue, k: NetValue) -> tuple[int, ...] | None:
    """The shape in which a mask of keys matches the rows of k; None if k would need several masks."""
    shape = (*seen.shape[:-2], seen.shape[-1] if seen.shape else 1, 1)
    fits = len(shape) <= len(k.shape) and np.broadcast_shapes(shape, k.shape) == k.shape
    return shape if fits else None


def _hidden(
    net: Net, root: NetNode, seen: NetValue, value: NetValue | None, fill: float, dtype: str
) -> NetValue:
    """The tensor that is ``value`` (None: 0) where ``seen`` is true, and ``fill`` at the hidden keys."""
    own, number = (
        net.constant(Constant.of(np.array(n, dtypes.to_numpy(dtype)), "what hides keys"), "hidden")
        for n in (0, fill)
    )
    return net.add("where", [seen, own if value is None else value, number], before=root)
