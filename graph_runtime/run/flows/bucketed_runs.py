"""Runs of a flow by buckets: a bucket is a specialization of larger sizes, and serves a run if it is proven
to give the same outputs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ...base import dtypes
from ...base.options import Options
from ...frontends.onnx.dynamic import PortInfo
from ...frontends.onnx.elements import elements_of
from ...ir.model import Model
from ...rewrite.buckets import Bucket, Buckets, Choice, Crosses
from .flow import Flow, Step
from .flow_values import FlowValue, array_of
from .specializations import Specialization


@dataclass(frozen=True, eq=False)
class _Use:
    """The way in which inputs of given sizes are run. ``bucket``: the bucket that runs them; None: the flow
    itself runs them."""

    sizes: Mapping[str, int]
    bucket: Bucket | None
    step: Step | None = None


class BucketedRuns:
    """``flow``: the flow; buckets serve a flow only while it has one stage. ``choices``:
    bucket sizes by symbol. ``fill``: the value of padding, as in Bucket.pad; tests set it to NaN."""

    def __init__(self, flow: Flow, inputs: Sequence[PortInfo], choices: Mapping[str, Choice]):
        self.flow, self.inputs = flow, tuple(inputs)
        self.buckets = Buckets(choices)
        self.fill: Any = 0
        self._refused = _shares_exponents(flow.specializations.options)
        names = {size for info in inputs for size in info.shape or () if isinstance(size, str)}
        self._axes = {info.name: tuple(_symbol(size, names) for size in info.shape or ()) for info in inputs}
        self._uses: dict[Any, _Use] = {}
        # the sizes for which the masks of a bucket's specialization are set now
        self._masked: WeakKeyDictionary[Specialization, Mapping[str, int]] = WeakKeyDictionary()

    def run(self, values: Mapping[str, FlowValue], key: Any) -> list[FlowValue] | None:
        """The outputs of a run by a bucket. None if no bucket serves these sizes, so that the flow itself
        must run. ``key``: the kinds of the values. Raises the errors of making the stage at these sizes."""
        use = self._uses.get(key)
        if use is None:
            while len(self._uses) >= 4096:
                del self._uses[next(iter(self._uses))]
            with self.flow.specializations.making:
                use = self._uses[key] = self._choose(values)
        elif use.bucket is None:
            self.buckets.exact += 1
        else:
            self.buckets.count(use.bucket, use.sizes)
        return None if use.bucket is None else self._by_bucket(use, use.bucket, values)

    def _choose(self, values: Mapping[str, FlowValue]) -> _Use:
        sizes: dict[str, int] = {}
        sums: list[tuple[tuple[str | int, ...], int]] = []
        for info in self.inputs:
            shape = getattr(values[info.name], "shape", ())
            axes = list(zip(self._axes[info.name], shape, strict=False))
            own = {symbol: size for symbol, size in axes if isinstance(symbol, str)}
            if differ := [s for s, size in axes if isinstance(s, str) and {**own, **sizes}[s] != size]:
                self.buckets.say({**sizes, **own}, f"dimension {differ[0]!r} has several sizes")
                self.buckets.count(None, {**sizes, **own})
                return _Use({**sizes, **own}, None)
            sizes |= own
            sums += [(symbol, size) for symbol, size in axes if isinstance(symbol, tuple)]
        for symbol, size in sums:
            if _sum(symbol, sizes) != size:
                self.buckets.say(sizes, f"an axis of {size} is named {' + '.join(map(str, symbol))}")
                self.buckets.count(None, sizes)
                return _Use(sizes, None)
        bucket = self.buckets.serving(sizes, self._model_at, self._axes)
        return _Use(sizes, bucket, None if bucket is None else self._step_at(sizes))

    def _step_at(self, sizes: Mapping[str, int]) -> Step:
        stubs: dict[str, FlowValue] = {}
        for info in self.inputs:
            if info.shape is None or info.sequence or info.optional:
                raise Crosses(f"input {info.name!r} is {info}")
            axes = zip(self._axes[info.name], info.shape, strict=True)
            shape = [_sum(s if isinstance(s, tuple) else (s or fixed,), sizes) for s, fixed in axes]
            stubs[info.name] = elements_of(info.dtype, shape)
        return self.flow.first(stubs)

    def _model_at(self, sizes: Mapping[str, int]) -> Model:
        if self._refused:
            raise Crosses(self._refused)
        step = self._step_at(sizes)
        stage = step.stage
        if not step.last or stage.bounds or stage.loops or stage.model is None:
            raise Crosses("it has sizes, values or loops that only a run finds")
        if any(isinstance(parts, tuple) for parts in stage.makes.values()):
            raise Crosses("it makes sequences")
        if stage.has_elements:
            raise Crosses("it has strings, or elements of few bits")
        return stage.model

    def _by_bucket(self, use: _Use, bucket: Bucket, values: Mapping[str, FlowValue]) -> list[FlowValue]:
        specialization = self.flow.specializations.of(bucket.model, several=True)
        given = {name: array_of(values[name]) for name in bucket.inputs}
        feed = bucket.pad(given, use.sizes, self.fill, masks=self._masked.get(specialization) != use.sizes)
        at = dict(zip(bucket.model.input_names, specialization.inputs, strict=True))
        self._masked.pop(specialization, None)
        for name, array in feed.items():
            specialization.session.set_input(at[name], array)
        self._masked[specialization] = use.sizes
        self.flow.specializations.run(specialization.session)
        graph = bucket.model.graph
        made = [array_of(specialization.outputs[name]) for name in graph.output_names]
        found = dict(zip(graph.output_names, bucket.trim(made, use.sizes), strict=True))
        assert use.step is not None, "a bucket serves a step"
        makes = use.step.stage.makes
        own = {**values, **{name: found[part] for name, part in makes.items() if isinstance(part, str)}}
        return [self.flow.output(use.step, name, own) for name in self.flow.outputs]


def _symbol(size: int | str, names: Container[str]) -> str | tuple[str | int, ...] | None:
    """The symbol of an axis: the name of a dimension, the parts of a sum in exporters' notation ("past +
    tokens", "past + 1"), or None for a fixed size."""
    if isinstance(size, int):
        return None
    parts = tuple(int(part) if part.isdecimal() else part for part in size.split(" + "))
    known = all(isinstance(part, int) or part in names for part in parts)
    return parts if len(parts) > 1 and known else size


def _sum(parts: Sequence[str | int], sizes: Mapping[str, int]) -> int:
    return sum(part if isinstance(part, int) else sizes[part] for part in parts)


def _shares_exponents(options: Options) -> str:
    """Text: why no bucket serves a model with tensors in block formats; "" if ``options`` ask for no block
    format."""
    blocks = [name for name, format in dtypes.FORMATS.items() if format.itemsize is None]
    asked = [*options.formats.values(), *options.layouts.values()]
    found = [name for name in blocks if any(name in text for text in asked)]
    return f"in {found[0]} real elements have their exponents with padding" if found else ""
