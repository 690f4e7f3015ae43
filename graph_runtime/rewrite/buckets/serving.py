"""Buckets of a graph whose sizes change from run to run: the bucket that serves the sizes of a run, or the
reason why none does.

    buckets = Buckets({"n": [16, 64]})                  # or Buckets({"n": power_of_two})
    bucket = buckets.serving({"n": 5}, model_at, axes)  # model_at({"n": 16}) makes the Model at these sizes
    if bucket is None:                                  # buckets.reasons says why no bucket serves them
        outputs = run(model_at({"n": 5}), inputs)
    else:
        outputs = bucket.trim(run(bucket.model, bucket.pad(inputs, {"n": 5})), {"n": 5})

``axes`` gives the symbol of each axis of an input: {"ids": ("batch", "n"), "x": (None, "n")}. A bucket is
proven once, and once more for each set of sizes that it serves (which takes model_at() at these sizes, but no
run); model_at may raise Crosses if no bucket can serve a graph. base/least_recent.py caches results; both
modules serve any front-end, including torch's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import GraphRuntimeError, InputError
from ...ir.model import Model
from .bucket import Axes, Bucket, Crosses, bucketed
from .regions import Sizes

Choice = Sequence[int] | Callable[[int], int]
_MOST_SIZE = 2**31 - 1  # largest size of a bucket
_MOST_PROOFS = 4096  # number of sizes whose bucket is remembered


def power_of_two(size: int) -> int:
    """The bucket of a size: the smallest power of two that holds the size."""
    return 1 << max(size - 1, 0).bit_length()


def with_room(size: int) -> int:
    """The bucket of a size, with room for growth from run to run: the smallest product of 128 and a power of
    four that holds the size."""
    bucket = 128
    while bucket < size:
        bucket *= 4
    return bucket


@dataclass(eq=False)
class Buckets:
    """The buckets of a graph. ``choices``: {symbol: bucket sizes, or a function from a size to the size of
    its bucket}. Symbols without an entry keep their exact sizes.

    Counts: ``runs``: number of runs that a bucket served; ``padded``: number of padding elements in the
    inputs of these runs; ``exact``: number of runs without a bucket. ``reasons``: {sizes: why no bucket
    serves them}, for the latest sizes. Raises InputError for bucket sizes that are not positive integers.
    """

    choices: Mapping[str, Choice]
    runs: int = 0
    padded: int = 0
    exact: int = 0
    reasons: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _made: OrderedDict[Any, Bucket | str] = field(default_factory=OrderedDict)
    _served: OrderedDict[Any, Bucket | None] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        for symbol, choice in self.choices.items():
            if callable(choice):
                continue
            whole = all(isinstance(n, int) and not isinstance(n, bool) for n in choice)
            if not choice or not whole or not all(0 < n <= _MOST_SIZE for n in choice):
                text = f"buckets of {symbol!r} are positive sizes, as [1, 8, 32]; got {choice!r}"
                raise InputError(text, got=choice)

    def serving(self, sizes: Sizes, model_at: Callable[[Sizes], Model], axes: Axes) -> Bucket | None:
        """The bucket that serves these sizes; None if no bucket does. Raises what ``model_at`` raises for the
        exact sizes."""
        key = tuple(sorted(sizes.items()))
        if key not in self._served:
            found = self._find(sizes, model_at, axes)
            if isinstance(found, str):
                self.say(sizes, found)
            _remember(self._served, key, found if isinstance(found, Bucket) else None, _MOST_PROOFS)
        bucket = self._served[key]
        self.count(bucket, sizes)
        return bucket

    def say(self, sizes: Sizes, reason: str) -> None:
        """Add the reason why no bucket serves these sizes to ``reasons``."""
        _remember(
            self.reasons, ", ".join(f"{name}={size}" for name, size in sorted(sizes.items())), reason, 64
        )

    def count(self, bucket: Bucket | None, sizes: Sizes) -> None:
        """Count a run that ``bucket`` served (None: a run without a bucket); for callers that keep the bucket
        of their sizes."""
        if bucket is None:
            self.exact += 1
        else:
            self.runs += 1
            self.padded += bucket.padding(sizes)

    def buckets(self) -> list[Bucket]:
        """The proven buckets."""
        return [each for each in self._made.values() if isinstance(each, Bucket)]

    def _find(self, sizes: Sizes, model_at: Callable[[Sizes], Model], axes: Axes) -> Bucket | str:
        chosen = {}
        for symbol, choice in self.choices.items():
            if symbol in sizes:
                size = _bucket_size(choice, sizes[symbol])
                if size is None:
                    return f"there is no bucket of {symbol} for {sizes[symbol]}"
                chosen[symbol] = size
        if not chosen:
            return "none of its sizes has buckets"
        full = {**sizes, **chosen}
        key = tuple(sorted(full.items()))
        if key not in self._made:
            _remember(self._made, key, _bucket_at(full, chosen, model_at, axes), _MOST_PROOFS)
        bucket = self._made[key]
        if isinstance(bucket, str):
            return bucket
        try:
            exact = bucket.source if full == dict(sizes) else model_at(sizes)
        except Crosses as reason:
            return str(reason)
        return bucket.refuses(exact, sizes) or bucket


def _remember(table: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    while len(table) >= most:
        table.popitem(last=False)
    table[key] = value


def _bucket_size(choice: Choice, size: int) -> int | None:
    """The bucket size that ``choice`` gives for a size; None if no bucket is large enough, or if the size is
    0."""
    if size < 1:
        return None
    if callable(choice):
        return max(size, choice(size))
    return min((n for n in choice if n >= size), default=None)


def _bucket_at(full: Sizes, chosen: Sizes, model_at: Callable[[Sizes], Model], axes: Axes) -> Bucket | str:
    """The bucket of these sizes, or the reason why there is none."""
    others = {}
    for back, (symbol, size) in enumerate(chosen.items(), 1):
        if size == 2:  # a size of 1 would give ops other shapes
            others[symbol] = size + back
        else:
            others[symbol] = size - back if size - back > 1 else max(size - 1, 1)
    try:
        model, probe = model_at(full), model_at({**full, **others})
        return bucketed(model, axes, chosen, probe, others)
    except Crosses as reason:
        return str(reason)
    except GraphRuntimeError as error:
        sizes = ", ".join(f"{name}={size}" for name, size in sorted(full.items()))
        return f"the graph cannot have the bucket's sizes {sizes}: {error}"
