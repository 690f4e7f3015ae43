"""A graph of larger sizes that serves smaller ones: padding is masked where an op reduces over it, and a
proof shows that the real elements of its results equal those of the exact graph.

    bucket = bucketed(model, axes, sizes, probe, probe_sizes)  # model at ``sizes``, probe at ``probe_sizes``
    reason = bucket.refuses(exact, {"n": 5})                   # None if the bucket serves these sizes
    feed = bucket.pad({"x": x}, {"n": 5})                      # inputs for a run of bucket.model
    outputs = bucket.trim(run(bucket.model, feed), {"n": 5})
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.graph import COPY, NOP, TensorType
from ...ir.model import Constant, Model
from ..net import Net, NetNode, NetValue
from .padding import find_rule
from .proof import difference
from .regions import (
    Axis,
    Region,
    Sizes,
    at_real,
    axis_size,
    labels_of,
    plain,
    real_mask,
    real_places,
    real_shape,
    reshaped,
)
from .ruling import Call, Crosses, Lookup, Mask, Ruling

_MASK = dtypes.from_numpy(np.dtype(np.bool_))
# axes of an input: for each axis a symbol, None if its size is fixed, or the terms of a sum, as ("n", 1)
Axes = Mapping[str, Sequence[str | tuple[str | int, ...] | None]]


@dataclass(frozen=True, eq=False)
class Bucket:
    """A model at the bucket's ``sizes`` whose real elements do not depend on its padding.

    ``model``: the masked model, whose inputs are the source's inputs and then the masks. ``inputs``: regions
    of the inputs, by name. ``outputs``: regions of the outputs, in order. ``masks``: {mask input: axis whose
    real elements are True in it}. ``places``: {input: axis whose real elements' indices it holds}. ``least``:
    smallest sizes that the bucket serves. ``source``: the model before masking. ``regions``: regions of the
    source's entries.
    """

    model: Model
    sizes: Sizes
    inputs: Mapping[str, Region]
    outputs: tuple[Region, ...]
    masks: Mapping[str, Axis]
    places: Mapping[str, Axis]
    least: Sizes
    source: Model
    regions: tuple[Region, ...]

    def refuses(self, exact: Model, sizes: Sizes) -> str | None:
        """The reason why the bucket does not serve these sizes. None if the bucket serves them: a proof, node
        by node, shows that its real elements equal the elements of ``exact``, the model at these sizes."""
        for label, size in self.least.items():
            if sizes[label] < size:
                return f"an element is read that is there from {label} = {size} on"
        return difference(self.source, exact, self.regions, sizes)

    def padding(self, sizes: Sizes) -> int:
        """Number of padding elements in the inputs at these sizes."""
        return sum(
            math.prod(map(axis_size, region)) - math.prod(real_shape(region, sizes))
            for region in self.inputs.values()
        )

    def pad(
        self, inputs: Mapping[str, np.ndarray], sizes: Sizes, fill: Any = 0, masks: bool = True
    ) -> dict[str, np.ndarray]:
        """The inputs padded to the bucket's sizes, and, if ``masks`` is true, the mask inputs. ``fill``:
        value of padding, a number or a function of the dtype; no result depends on it."""
        found = {}
        for name, region in self.inputs.items():
            array = np.asarray(inputs[name])
            shape = tuple(map(axis_size, region))
            if shape != array.shape:
                padded = np.full(shape, fill(array.dtype) if callable(fill) else fill, array.dtype)
                padded[at_real(region, sizes)] = array
                array = padded
            found[name] = array
        return found | self.said(sizes) if masks else found

    def said(self, sizes: Sizes) -> dict[str, np.ndarray]:
        """The inputs that the bucket adds: the masks, and the indices of the real elements."""
        masks = {name: real_mask(axis, sizes) for name, axis in self.masks.items()}
        return masks | {name: real_places(axis, sizes) for name, axis in self.places.items()}

    def trim(self, outputs: Sequence[np.ndarray], sizes: Sizes) -> list[np.ndarray]:
        """The real elements of the bucket's outputs: views if these elements come first along each axis."""
        return [
            array[at_real(region, sizes)] if labels_of(region) else array
            for array, region in zip(outputs, self.outputs, strict=True)
        ]


def bucketed(model: Model, axes: Axes, sizes: Sizes, probe: Model, probe_sizes: Sizes) -> Bucket:
    """The bucket of a model at ``sizes``. ``axes``: the symbols of its inputs' axes; ``probe``: the same
    model at the smaller ``probe_sizes``; its differences show which constants depend on which sizes.

    Models are as front-ends make them, before rewriting. Raises Crosses, with the node, if padding would
    affect a real element.
    """
    return _Bucketing(model, axes, sizes, probe, probe_sizes).run()


class _Bucketing:
    def __init__(self, model: Model, axes: Axes, sizes: Sizes, probe: Model, probe_sizes: Sizes):
        self.source, self.axes, self.sizes, self.probe_sizes = model, axes, dict(sizes), dict(probe_sizes)
        self.net = Net(model)
        self.probe = Net(probe)
        self.regions: dict[NetValue, Region] = {}
        self.masks: dict[Axis, NetValue] = {}
        self.places: dict[Axis, NetValue] = {}
        self.least: dict[str, int] = {}
        self.zeros: dict[NetValue, set[int]] = {}  # axes along which rows at padded places are 0

    def run(self) -> Bucket:
        if len(self.net) != len(self.probe) or len(self.net.inputs) != len(self.probe.inputs):
            raise Crosses("the graph has other nodes at other sizes")
        inputs, heads = list(self.net.inputs), list(self.net.outputs)
        for value, other in zip(inputs, self.probe.inputs, strict=True):
            self.regions[value] = self._input(value, other)
        order = list(self.net.nodes())
        entries = list(inputs)
        for node, probed in zip(order, self.probe.nodes(), strict=True):
            entries += node.outputs
            self._node(node, probed)
        regions = tuple(self.regions[value] for value in entries)
        outputs = tuple(self.regions[value] for value in heads)
        graph = self.source.graph
        made = self.net.model()
        names = {name: graph.input_names.index(name) for name in self.source.input_names}
        masks, places = ({v.name: axis for axis, v in all.items()} for all in (self.masks, self.places))
        ours = {name: regions[at] for name, at in names.items()}
        return Bucket(made, self.sizes, ours, outputs, masks, places, self.least, self.source, regions)

    # ---------------------------------------------------------------- values

    def _input(self, value: NetValue, other: NetValue) -> Region:
        symbols = self.axes.get(value.name, ())
        if value.constant is None and symbols:
            return tuple(self._axis(size, symbol) for size, symbol in zip(value.shape, symbols, strict=True))
        if len(value.shape) != len(other.shape):
            raise Crosses(f"{value.name} has another rank at other sizes")
        return tuple(self._fresh(a, b) for a, b in zip(value.shape, other.shape, strict=True))

    def _axis(self, size: int, symbol: str | tuple[str | int, ...] | None) -> Axis:
        """The region of an input's axis whose size is a symbol, or a sum of symbols and numbers."""
        if symbol is None or size == 1:
            return plain(size)
        parts = symbol if isinstance(symbol, tuple) else (symbol,)
        known = [part in self.sizes for part in parts if isinstance(part, str)]
        if not any(known):
            return plain(size)
        if not all(known):
            raise Crosses(
                f"an axis of {' + '.join(map(str, parts))} has buckets for some of these symbols only"
            )
        if len(parts) == 1:
            return (((size, str(parts[0])),),)
        sized = [(part, self.sizes[part]) if isinstance(part, str) else (None, part) for part in parts]
        return (tuple((size, None if size == 1 else part) for part, size in sized),)

    def _fresh(self, size: int, probed: int) -> Axis:
        """The region of an axis whose size is ``size`` in this graph and ``probed`` in the probe. Sizes that
        differ are explained by a symbol, else by a sum among the inputs' axes, else by a symbol plus a
        number; in each case only one explanation may fit."""
        if size == probed:
            return plain(size)
        sums = {symbol for axes in self.axes.values() for symbol in axes if isinstance(symbol, tuple)}
        more = [(s, size - n) for s, n in self.sizes.items() if size > n]
        for named in ([(symbol,) for symbol in self.sizes], sums, more):
            fit = [parts for parts in named if self._sizes_of(parts) == (size, probed)]
            if len(fit) == 1:
                return self._axis(size, fit[0])
            if fit:
                break
        raise Crosses(
            f"an axis has {size} elements, and {probed} at other sizes: no single dimension explains that"
        )

    def _sizes_of(self, parts: Sequence[str | int]) -> tuple[int, int] | None:
        """(size in this graph, size in the probe) of a sum of symbols and numbers; None if a symbol in it has
        no buckets."""
        if not all(part in self.sizes for part in parts if isinstance(part, str)):
            return None
        here, there = (
            sum(part if isinstance(part, int) else sizes[part] for part in parts)
            for sizes in (self.sizes, self.probe_sizes)
        )
        return here, there

    def _mask(self, axis: Axis) -> NetValue:
        """The graph's input that is the mask of an axis' real elements; the input is added if it is
        missing."""
        if axis not in self.masks:
            self.masks[axis] = self._said(
                "real", axis, TensorType(_MASK, (axis_size(axis),)), len(self.masks)
            )
        return self.masks[axis]

    def _places(self, axis: Axis) -> NetValue:
        """The graph's input that holds the indices of an axis' real elements; the input is added if it is
        missing."""
        if axis not in self.places:
            kind = TensorType("int32", (2 * axis_size(axis),))
            self.places[axis] = self._said("places", axis, kind, len(self.places))
        return self.places[axis]

    def _said(self, what: str, axis: Axis, kind: TensorType, number: int) -> NetValue:
        labels = "_".join(sorted(labels_of((axis,))))
        value = NetValue(kind, None, 0, f"{what}_{labels}_{number}")
        self.net.inputs.append(value)
        return value

    # ---------------------------------------------------------------- nodes

    def _node(self, node: NetNode, other: NetNode) -> None:
        if (node.op, len(node.outputs)) != (other.op, len(other.outputs)):
            raise Crosses(f"node {node.name!r} is a different node at other sizes")
        regions = tuple(self.regions[value] for value in node.inputs)
        try:
            ruling = self._ruling(node, other, regions)
        except Crosses as reason:
            raise Crosses(f"node {node.name!r}: {reason}") from None
        self.regions |= zip(node.outputs, ruling.regions, strict=True)
        if ruling.masks or ruling.lookups:
            made = self._masked(node, ruling)
            self.regions |= zip(made, ruling.regions, strict=True)
            if node.op == "softmax":  # padding becomes exp(-inf) = 0
                self.zeros[made[0]] = {mask.axis for mask in ruling.masks}
            self.net.replace_all(node, made)

    def _ruling(self, node: NetNode, other: NetNode, regions: tuple[Region, ...]) -> Ruling:
        if node.op is None and node.func.name in (COPY, NOP) and len(regions) == 1:
            region = reshaped(regions[0], node.output.type)
            if region is None:
                raise Crosses(f"its shape {node.output.type} cuts an axis that is padded")
            return Ruling((region,))
        call = Call(
            node.op or node.func.name,
            node.attrs,
            regions,
            tuple(node.input_types),
            tuple(node.output_types),
            tuple(other.output_types),
            self._fresh,
            lambda at: node.inputs[at].look(),
        )
        ruling = find_rule(node.op)(call)
        for region, probe in zip(ruling.regions, other.output_types, strict=True):
            if real_shape(region, self.probe_sizes) != probe.shape:  # the rule is wrong, or a size is fixed
                raise Crosses(
                    f"{call.op} makes {probe} at other sizes, which does not follow from its inputs"
                )
        for label, size in ruling.least:
            self.least[label] = max(size, self.least.get(label, 1))
        return ruling

    def _masked(self, node: NetNode, ruling: Ruling) -> list[NetValue]:
        """The results of the node, or of its replacement, on masked inputs. ``ruling``: the padding rule's
        result, which names the masks."""
        inputs = list(node.inputs)
        for mask in ruling.masks:
            inputs[mask.index] = self._where(inputs[mask.index], mask, node)
        for lookup in ruling.lookups:
            inputs[lookup.index] = self._looked_up(inputs[lookup.index], lookup, node)
        if ruling.how == "mean":
            return [self._mean(node, inputs[0], ruling)]
        if ruling.how == "attention":
            inputs = [*inputs[:3], self._bias(node, ruling.masks)]
        made = self.net.add(node.op_name, inputs, before=node, **node.attrs)
        return list(made) if isinstance(made, tuple) else [made]

    def _where(self, value: NetValue, mask: Mask, node: NetNode) -> NetValue:
        region = self.regions[value]
        if mask.fill == 0 and mask.axis in self.zeros.get(value, ()):
            return value
        real = self._along(region[mask.axis], len(region) - mask.axis, node)
        fill = self._number(mask.fill, value.dtype)
        made = self.net.add("where", [real, value, fill], before=node)
        self.regions[made] = region
        return made

    def _looked_up(self, indices: NetValue, lookup: Lookup, node: NetNode) -> NetValue:
        """Indices into the exact axis, converted by a lookup to indices into the padded axis."""
        places = self._places(lookup.axis)
        if lookup.column is None:
            return self.net.add("take", [places, indices], before=node, axis=0)
        last, columns = len(indices.shape) - 1, []
        for at in range(indices.shape[-1]):
            ends = (at + 1,)
            column = self.net.add("slice", [indices], before=node, starts=(at,), ends=ends, axes=(last,))
            if at == lookup.column:
                column = self.net.add("take", [places, column], before=node, axis=0)
            elif column.dtype != places.dtype:
                column = self.net.add("cast", [column], before=node, to=places.dtype)
            columns.append(column)
        return (
            columns[0] if len(columns) == 1 else self.net.add("concatenate", columns, before=node, axis=last)
        )

    def _along(self, axis: Axis, back: int, node: NetNode) -> NetValue:
        """The mask of an axis, with ``back - 1`` dimensions of 1 added at its end to broadcast over the axes
        that follow."""
        real = self._mask(axis)
        if back == 1:
            return real
        return self.net.add("reshape", [real], before=node, shape=(axis_size(axis), *(1,) * (back - 1)))

    def _number(self, number: float, dtype: str) -> NetValue:
        array = np.array(number, dtypes.to_numpy(dtype))
        return self.net.constant(Constant.of(array, "what padding is masked with"), "padding")

    def _mean(self, node: NetNode, masked: NetValue, ruling: Ruling) -> NetValue:
        """The sum of the real elements, divided by their number."""
        attrs = node.attrs if node.op == "mean" else {"axes": (2, 3), "keepdims": True}  # as a global pool
        total = self.net.add("sum", [masked], before=node, **attrs)
        count = None
        size = masked.type.size // max(total.type.size, 1)
        for mask in ruling.masks:
            axis = self.regions[node.inputs[0]][mask.axis]
            ones = self.net.add("cast", [self._mask(axis)], before=node, to=masked.dtype)
            own = self.net.add("sum", [ones], before=node, axes=(0,), keepdims=bool(total.shape))
            count = own if count is None else self.net.add("multiply", [count, own], before=node)
            size //= axis_size(axis)
        assert count is not None, "a mean is masked along an axis"
        count = self.net.add("multiply", [count, self._number(size, masked.dtype)], before=node)
        return self.net.add("divide", [total, count], before=node)

    def _bias(self, node: NetNode, masks: Sequence[Mask]) -> NetValue:
        """The bias of an attention, with -inf added for padded keys."""
        keys, dtype = masks[0], node.output.dtype
        real = self._mask(self.regions[node.inputs[1]][keys.axis])
        own = node.inputs[3] if len(node.inputs) == 4 else self._number(0, dtype)
        made = self.net.add("where", [real, own, self._number(float("-inf"), dtype)], before=node)
        return made
