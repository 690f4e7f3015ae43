"""Programs of a graph with open sizes: one program for a range of sizes if padding is proven harmless, else
one for each set of sizes. The most recently used programs are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.least_recent import LeastRecent
from ...ir.model import Model
from ...rewrite.buckets import Bucket, Buckets, Crosses
from ..counters import Unsupported, count, note_exact
from .compiled_graph import CompiledGraph
from .emitter import Lowered
from .fitting import Fit
from .open_sizes import OpenSizes

_Lower = Callable[[Sequence[Any]], Lowered]
_Make = Callable[[Lowered, Bucket | None], CompiledGraph | None]
_MOST_FITS = 256  # maximum number of sets of sizes whose Fit is kept
_MOST_LOWERED = 8  # maximum number of lowered graphs that are kept


class SizedGraphs:
    """The programs of one graph. ``lower(arguments)``: function that lowers the graph for the sizes of the
    arguments, which may be tensors without values; ``make(lowered, bucket)``: function that makes the program
    of a lowered graph. ``open_sizes``: the graph's OpenSizes; None if its sizes have no buckets.
    """

    def __init__(self, open_sizes: OpenSizes | None, most: int, lower: _Lower, make: _Make):
        self._open, self._lower, self._make = open_sizes, lower, make
        self.buckets = Buckets(open_sizes.choices if open_sizes else {})
        self.programs: LeastRecent[tuple[CompiledGraph | None, Any]] = LeastRecent(most)
        self._fits: LeastRecent[Fit | None] = LeastRecent(_MOST_FITS)
        self._lowered: LeastRecent[tuple[Lowered, Model]] = LeastRecent(_MOST_LOWERED)

    def program(self, args: Sequence[Any]) -> tuple[CompiledGraph | None, Fit | None]:
        """(program, Fit) for a call. The program is None if the graph has none; the Fit is None if the
        program is for exactly these sizes. Raises what lowering and making a program raise."""
        fit = self._fit(args)
        if fit is not None:
            bucket = fit.bucket
            return self._kept(id(bucket), lambda: self._make(self._at(bucket.sizes)[0], bucket), bucket), fit
        key = tuple(tuple(x.shape) if hasattr(x, "shape") else x for x in args)
        return self._kept(key, lambda: self._make(self._lower(args), None), None), None

    def _kept(self, key: Any, make: Callable[[], CompiledGraph | None], bucket: Bucket | None) -> Any:
        held = self.programs.get(key)
        if held is None:
            try:
                made = make()
            except Exception:
                self.programs.put(key, (None, bucket))  # the next call finds None, and does not try again
                raise
            held = self.programs.put(key, (made, bucket))  # keeps the bucket alive, because its id is the key
        return held[0]

    def _fit(self, args: Sequence[Any]) -> Fit | None:
        """The Fit of a bucket that serves the sizes of a call; None if no bucket does."""
        if self._open is None:
            return None
        sizes = self._open.of_call(args)
        key = tuple(sizes.values())
        if key in self._fits:
            fit = self._fits.get(key)
            self.buckets.count(None if fit is None else fit.bucket, sizes)
        else:
            fit = self._fits.put(key, self._new_fit(sizes))
        if fit is not None:
            count("bucketed")
        return fit

    def _new_fit(self, sizes: Mapping[str, int]) -> Fit | None:
        assert self._open is not None, "only graphs of open sizes have buckets"
        try:
            names = dict(self._at(sizes)[0].inputs)
            bucket = self.buckets.serving(sizes, lambda at: self._at(at)[1], self._open.axes(names))
            if bucket is None:
                note_exact(next(reversed(self.buckets.reasons.values())))
                return None
            return Fit.of(bucket, sizes, self._at(sizes)[0])
        except Crosses:  # the program for these exact sizes raises the error
            return None

    def _at(self, sizes: Mapping[str, int]) -> tuple[Lowered, Model]:
        """(lowered graph, its model) at given sizes. The model has no weights, because they are arguments of
        the graph."""
        assert self._open is not None, "only graphs of open sizes have buckets"
        key = tuple(sorted(sizes.items()))
        held = self._lowered.get(key)
        if held is None:
            try:
                lowered = self._lower(self._open.arguments_at(sizes))
            except Unsupported as refused:
                raise Crosses(refused.args[0]) from refused
            held = self._lowered.put(key, (lowered, Model.from_builder(lowered.builder)))
        return held
