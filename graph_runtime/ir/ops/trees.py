"""trees: for each row, the sums of the weights of the leaves that the row reaches in decision trees.

C contract: args are x [rows, features], splits [nodes], links int32 [nodes, 4], roots int32 [trees], targets
int32 [weights], weights [weights], out [rows, targets]. A node's row of links is
    [0] the feature that the node compares with its split
    [1] the next node if the comparison holds [2] the next node if not
    [3] the comparison: its place in COMPARISONS, plus 8 if a NaN passes
A leaf is its own next node both ways; its row is the place of its first weight, the leaf's number twice, and
its number of weights. Attribute words:
    [0] depth
    [1] the comparison of all nodes, as its place in COMPARISONS; len(COMPARISONS) if nodes differ
    [2] missing
    [3] aggregate

The op refuses no values: an index out of range counts as 0, a walk ends after ``depth`` nodes, and a walk
that does not end at a leaf adds nothing. The front-end checks the tables of a file
(frontends/onnx/families/ml/trees.py).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..graph import TensorType
from . import rules
from .cases import case
from .registry import REQUIRED, Attr, Case, define

COMPARISONS = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_EVERY = (*COMPARISONS, "each")
AGGREGATES = ("sum", "mean", "least", "greatest")
MISSING = 8  # added to the place of a comparison that a NaN passes
_FLOATS = ("float32", "float64")


def _infer(inputs, attrs):
    x, splits, links, roots, targets, weights = inputs
    rules.one_dtype("trees", (x, splits, weights), _FLOATS)
    rules.one_dtype("trees", (links, roots, targets), ("int32",))
    rules.rank("trees", "x", x, 2, "rows, features")
    fits = (
        len(splits.shape) == 1
        and links.shape == (*splits.shape, 4)
        and len(roots.shape) == 1
        and len(targets.shape) == 1
        and weights.shape == targets.shape
    )
    if not fits:
        wanted = "splits [n], links [n, 4], roots [t], targets [w] and weights [w]"
        rules.fail("trees", f"it takes {wanted}, got {', '.join(map(str, inputs[1:]))}", got=links.shape)
    if not x.shape[1] or not splits.shape[0]:
        rules.fail("trees", f"it needs a feature and a node, got {x} and {splits}", got=x.shape)
    (count,) = rules.limit("trees", "targets", (attrs["targets"],), 1, 1)
    rules.limit("trees", "depth", (attrs["depth"],), 1, 0)
    return [TensorType(x.dtype, (x.shape[0], count))]


def _in_range(indices: np.ndarray, count: int) -> np.ndarray:
    return np.where((indices >= 0) & (indices < count), indices, 0)


def _holds(seen: np.ndarray, split: np.ndarray, how: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    every = list(COMPARISONS) if attrs["comparison"] == "each" else [attrs["comparison"]]
    code = how % MISSING if len(every) > 1 else np.zeros_like(how)
    found = np.zeros(seen.shape, bool)
    for i, name in enumerate(every):
        found |= (code == i) & COMPARISONS[name](seen, split)
    return found | (np.isnan(seen) & (how // MISSING % 2 == 1)) if attrs["missing"] else found


def _reached(arrays, attrs) -> np.ndarray:
    """[rows, trees]: the node at which the walk of each row through each tree ends."""
    x, splits, links, roots = arrays[:4]
    at = np.tile(_in_range(roots, len(splits)), (len(x), 1))
    for _ in range(attrs["depth"]):
        feature = _in_range(links[at, 0], x.shape[1])
        seen = np.take_along_axis(x, feature, axis=1)
        yes = _holds(seen, splits[at], links[at, 3], attrs)
        at = _in_range(np.where(yes, links[at, 1], links[at, 2]), len(splits))
    return at


def _span(start: int, count: int, most: int) -> tuple[int, int]:
    """(first, end) of a leaf's weights, clamped to the ``most`` weights that exist."""
    first = min(max(start, 0), most)
    return first, first + min(max(count, 0), most - first)


def _trees(arrays, attrs):
    x, _, links, roots, targets, weights = arrays
    at, how = _reached(arrays, attrs), attrs["aggregate"]
    none = {"least": np.inf, "greatest": -np.inf}.get(how, 0.0)
    out = np.full((len(x), attrs["targets"]), none, x.dtype)
    fold = {"least": np.minimum, "greatest": np.maximum}.get(how, np.add)
    targets = _in_range(targets, attrs["targets"])
    for row, tree in np.ndindex(at.shape):
        node = at[row, tree]
        start, *ways, count = map(int, links[node])
        if ways == [node, node]:
            for k in range(*_span(start, count, len(weights))):
                out[row, targets[k]] = fold(out[row, targets[k]], weights[k])
    if how == "mean" and len(roots):
        out /= out.dtype.type(len(roots))
    return [np.where(np.isinf(out), 0, out).astype(x.dtype) if how in AGGREGATES[2:] else out]


def _words(inputs, outputs, attrs):
    return [
        attrs["depth"],
        _EVERY.index(attrs["comparison"]),
        int(attrs["missing"]),
        AGGREGATES.index(attrs["aggregate"]),
    ]


def _case(name: str, dtype: str = "float32", rows: int = 21, **attrs: Any) -> Case:
    """A case with random links, in which most walks end because of their depth."""
    nodes, trees, weights, count = 40, 11, 60, attrs.get("targets", 3)
    links = ("int32", (nodes, 4)), ("int32", (trees,)), ("int32", (weights,))
    row = (rows, 5), (nodes,), *links, (weights,), {"targets": count, "depth": 6, **attrs}
    make = ("normal", "normal", "index:40", "index:40", f"index:{count}", "normal")
    return case(name, *row, make=make, nmse=rules.ROUNDED, dtype=dtype)


define(
    "trees",
    "weights of the leaves that each row reaches in decision trees, ai.onnx.ml's TreeEnsemble",
    (6, 6),
    _infer,
    _trees,
    lambda i, o, a: i[0].shape[0] * i[3].shape[0] * (2 * min(a["depth"], i[1].shape[0]) + 1),
    attrs=(
        Attr("targets", "int", REQUIRED, "columns of the result"),
        Attr("depth", "int", REQUIRED, "most nodes of a walk"),
        Attr("comparison", "str", "each", "that of all nodes; each: that of their links", _EVERY),
        Attr("missing", "bool", True, "a comparison may hold for NaN; False if no link says so"),
        Attr("aggregate", "str", "sum", "how a target's weights are put together", AGGREGATES),
    ),
    words=_words,
    bodies=rules.bodies("trees", _FLOATS),
    kind="windows",
    gathers=True,
    cases=(
        *(_case(f"{how}_{dtype}", dtype, aggregate=how) for how in AGGREGATES for dtype in _FLOATS),
        *(_case(f"comparison_{i}", comparison=how, missing=i % 2 == 1) for i, how in enumerate(COMPARISONS)),
        _case("one_row", rows=1, comparison="<=", missing=False, targets=1),
        _case("roots_alone", depth=0),
        _case("no_rows", rows=0),
    ),
)
