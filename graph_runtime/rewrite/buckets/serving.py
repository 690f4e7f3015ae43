"""Buckets of a graph whose sizes change: which of them serves the sizes of a run, and why none does.

    buckets = Buckets({"n": [16, 64]})                  or {"n": power_of_two}
    bucket = buckets.serving({"n": 5}, model_at, axes)  model_at({"n": 16}) -> the Model at these sizes
    if bucket is None:                                  buckets.reasons says why: run model_at({"n": 5})
        ...
    else:                                               a program of bucket.model, kept by id(bucket.model)
        outputs = bucket.trim(run(program, bucket.pad(inputs, {"n": 5})), {"n": 5})

``axes`` says which symbol each axis of an input is: {"ids": ("batch", "n"), "x": (None, "n")}. A bucket is
proven once, and once more for each set of sizes that it is asked to serve (that needs model_at of these, no
program); model_at may raise Crosses where no bucket can serve a graph. base/least_recent.py keeps the
programs; both are for any front-end, torch's too.
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

__all__ = ["Buckets", "Choice", "power_of_two", "with_room"]

Choice = Sequence[int] | Callable[[int], int]
_MOST_SIZE = 2**31 - 1  # of a bucket
_MOST_PROOFS = 4096  # sizes of which it is remembered what serves them


def power_of_two(size: int) -> int:
    """The bucket of a size: the next power of two."""
    return 1 << max(size - 1, 0).bit_length()


def with_room(size: int) -> int:
    """The bucket of a size that grows from run to run: 128 times the next power of four."""
    bucket = 128
    while bucket < size:
        bucket *= 4
    return bucket


@dataclass(eq=False)
class Buckets:
    """``choices``: {symbol: bucket sizes, or a function from a size to that of its bucket}. Symbols that it
    does not name have their exact sizes.

    Counted: ``runs`` that a bucket served, ``padded`` elements of inputs that were not real in these, and
    ``exact`` runs. ``reasons``: {sizes: why no bucket serves them}, of the last of them. Raises InputError
    for bucket sizes that are no positive integers.
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
        """The bucket that serves these sizes, None where none does. Raises what ``model_at`` raises for the
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
        """Add to ``reasons``."""
        _remember(
            self.reasons, ", ".join(f"{name}={size}" for name, size in sorted(sizes.items())), reason, 64
        )

    def count(self, bucket: Bucket | None, sizes: Sizes) -> None:
        """Count a run that a bucket served, or none: of a caller that remembers which it was."""
        if bucket is None:
            self.exact += 1
        else:
            self.runs += 1
            self.padded += bucket.padding(sizes)

    def buckets(self) -> list[Bucket]:
        """Those that were proven."""
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
    """The bucket of a size; None: it has none. Of no elements there is no padding to speak of."""
    if size < 1:
        return None
    if callable(choice):
        return max(size, choice(size))
    return min((n for n in choice if n >= size), default=None)


def _bucket_at(full: Sizes, chosen: Sizes, model_at: Callable[[Sizes], Model], axes: Axes) -> Bucket | str:
    """The bucket of these sizes, or why it cannot be."""
    others = {}
    for back, (symbol, size) in enumerate(chosen.items(), 1):
        if size == 2:  # of one element ops have other shapes
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
