"""The rule that expands decision trees for devices without a kernel for them: all rows descend all trees at
once, level by level. A level takes a few gathers from tables of nodes, a comparison and a choice."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from ..ir.graph import TensorType
from ..ir.model import Constant
from ..ir.ops.trees import MISSING
from ..ir.value import where
from .net import Net, NetNode, NetValue
from .part_value import PartValue

_COMPARISONS: dict[str, Callable[[PartValue, PartValue], PartValue]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": PartValue.equal,
    "!=": PartValue.not_equal,
}
_MOST_LEVELS = 1024  # most levels to expand


def descend(net: Net) -> None:
    """Expand a node that evaluates trees into a few ops per level if no allowed device has a kernel for the
    node."""
    done = []
    for node in net.nodes("trees"):
        kinds = [node.device.partition(":")[0]] if node.device else net.kinds
        apart = node.attrs["depth"] <= _MOST_LEVELS and all(v.constant for v in node.inputs[1:])
        if apart and not any(map(node.supported_on, kinds)):
            done.append(node)
            net.replace_all(node, _Levels(net, node).result())
    if done:
        net.note("descend", f"{len(done)} nodes of trees have no kernel where they run: by levels", done)


class _Levels:
    """One node being expanded."""

    def __init__(self, net: Net, node: NetNode):
        self.net, self.node, self.attrs = net, node, node.attrs
        self.x, self.splits, self.links, self.roots, *self.given = node.inputs
        self.rows, self.trees = self.x.shape[0], self.roots.shape[0]

    def value(self, held: NetValue) -> PartValue:
        return PartValue(self.net, self.node, held)

    def column(self, index: int) -> PartValue:
        """One column of the links, int32 [nodes]. Leaves have 0 in columns 0 and 3."""
        assert self.links.constant is not None

        def part(links: np.ndarray) -> np.ndarray:
            node = np.arange(len(links))
            leaf = (links[:, 1] == node) & (links[:, 2] == node)
            return np.where(leaf & (index in (0, 3)), 0, links[:, index]).astype(np.int32)

        kind, source = TensorType("int32", self.splits.shape), f"{self.links.name}, part"
        made = Constant.derived(kind, part, self.links.constant, source=source, recipe=("part", index))
        return self.value(self.net.constant(made, f"{self.links.name}.{index}"))

    # ---------------------------------------------------------------- levels

    def result(self) -> NetValue:
        """The aggregated outputs of the leaves that the rows reach, [rows, targets]."""
        x, splits = self.value(self.x), self.value(self.splits)
        roots = self.value(self.roots).op("unsqueeze", axes=[0])
        at = roots.op("broadcast_to", shape=(self.rows, self.trees))
        tables = [self.column(i) for i in range(4)]
        for _ in range(self.attrs["depth"]):
            feature, true, false, how = (table.op("take", at, axis=0) for table in tables)
            seen = x.op("take_along_axis", feature, axis=1)
            yes = self.holds(seen, splits.op("take", at, axis=0), how)
            at = where(yes, true, false)
        table = self.value(self.net.constant(self.table(), f"{self.node.name}.leaves"))
        aggregate = self.attrs["aggregate"]
        fold = {"least": PartValue.min, "greatest": PartValue.max}.get(aggregate, PartValue.sum)
        found = fold(table.op("take", at, axis=0), [1]).op("reshape", shape=self.node.outputs[0].shape)
        if aggregate == "mean":
            found = found / max(1, self.trees)
        elif aggregate != "sum":
            found = where(found.isinf(), 0, found)
        return found.held

    def holds(self, seen: PartValue, split: PartValue, how: PartValue) -> PartValue:
        one, missing = self.attrs["comparison"], self.attrs["missing"]
        tracks = how >= MISSING if missing else None
        yes = _COMPARISONS["<=" if one == "each" else one](seen, split)
        if one == "each":
            code = how if tracks is None else where(tracks, how - MISSING, how)
            for k, compare in enumerate(list(_COMPARISONS.values())[1:], 1):
                yes = where(code.equal(k), compare(seen, split), yes)
        return yes if tracks is None else yes | (seen.isnan() & tracks)

    def table(self) -> Constant:
        """The output of each node, [nodes, targets]."""
        how, count = self.attrs["aggregate"], self.attrs["targets"]
        none = {"least": np.inf, "greatest": -np.inf}.get(how, 0.0)
        fold = {"least": np.minimum, "greatest": np.maximum}.get(how, np.add)
        kind = TensorType(self.x.dtype, (self.splits.shape[0], count))

        def dense(links: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
            made, node = np.full(kind.shape, none, weights.dtype), np.arange(len(links))
            leaves = np.flatnonzero((links[:, 1] == node) & (links[:, 2] == node) & (links[:, 3] > 0))
            counts = links[leaves, 3]
            behind = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            at = np.repeat(links[leaves, 0], counts) + behind
            fold.at(made, (np.repeat(leaves, counts), targets[at]), weights[at])
            return made

        given = [v.constant for v in (self.links, *self.given) if v.constant is not None]
        source, recipe = f"leaves of {self.node.name}", ("leaves", how)
        return Constant.derived(kind, dense, *given, source=source, recipe=recipe)
