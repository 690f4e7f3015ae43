"""Regular expressions as ONNX defines them, in RE2's syntax: a pattern that needs more than one pass over a
text is refused.

Python's parser reads the pattern. A match keeps the set of all states that can be reached, without
backtracking, so that it never takes more steps than states times characters.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...base.errors import GraphError

_MOST_STATES = 10_000  # states of a pattern with its repeats expanded
_MOST_REMEMBERED = 20_000  # steps that are cached
_POSIX = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": " \\t\\n\\r\\f\\v",
    "blank": " \\t",
    "xdigit": "0-9a-fA-F",
    "word": "a-zA-Z0-9_",
    "punct": "!-/:-@\\[-`{-~",
    "cntrl": "\\x00-\\x1f\\x7f",
    "print": " -~",
    "graph": "!-~",
    "ascii": "\\x00-\\x7f",
}
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: lambda c: c in "0123456789",
    sre.CATEGORY_WORD: lambda c: c in _WORD,
    sre.CATEGORY_SPACE: lambda c: c in " \t\n\r\f\v",
}
_CATEGORIES |= {
    sre.CATEGORY_NOT_DIGIT: lambda c: c not in "0123456789",
    sre.CATEGORY_NOT_WORD: lambda c: c not in _WORD,
    sre.CATEGORY_NOT_SPACE: lambda c: c not in " \t\n\r\f\v",
}
_Test = Callable[[str], bool]
_ACCEPT = 0


class Pattern:
    """A compiled pattern. ``fits(text)``: whether the pattern matches the whole text. ``tokens(text)``:
    matches in the text, one after another, each as long as possible. Raises GraphError for a pattern that is
    invalid or that RE2 refuses."""

    def __init__(self, text: str):
        self.text = text
        # for each state: a test of the next character or a condition on the position, or neither; and the
        # states that follow
        self._tests: list[_Test | None] = [None]
        self._holds: list[Any] = [None]
        self._next: list[list[int]] = [[]]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)
                parsed = parser.parse(_without_classes(text), re.ASCII)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            raise self._wrong(str(error)) from error
        self._multiline = bool(parsed.state.flags & re.MULTILINE)
        try:
            start = self._sequence(parsed, _ACCEPT, parsed.state.flags)
        except RecursionError as error:
            raise self._wrong("it is nested too deep") from error
        self._start = frozenset([start])
        self._memo: dict[tuple[frozenset[int], Any, str], frozenset[int]] = {}
        self._ended: dict[tuple[frozenset[int], Any, Any], bool] = {}

    def _wrong(self, why: str) -> GraphError:
        return GraphError(
            f"the regular expression {self.text[:200]!r} is not supported: {why}", got=self.text
        )

    # ---------------------------------------------------------------- states

    def _state(self, goes: list[int], test: _Test | None = None, holds: Any = None) -> int:
        if len(self._next) >= _MOST_STATES:
            raise self._wrong(f"it has more than {_MOST_STATES} states once its repeats are written out")
        self._next.append(goes)
        self._tests.append(test)
        self._holds.append(holds)
        return len(self._next) - 1

    def _sequence(self, items: Any, goes: int, flags: int) -> int:
        """The state at which the match of a sequence of items starts. ``goes``: state at which the match
        continues after the items."""
        for op, argument in reversed(list(items)):
            goes = self._item(op, argument, goes, flags)
        return goes

    def _item(self, op: Any, argument: Any, goes: int, flags: int) -> int:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._state([goes], _test(op, argument, flags))
        if op is sre.BRANCH:
            return self._state([self._sequence(each, goes, flags) for each in argument[1]])
        if op is sre.SUBPATTERN:
            _, add, drop, body = argument
            return self._sequence(body, goes, (flags | add) & ~drop)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(argument, goes, flags)
        if op is sre.AT and argument in _PLACES:
            return self._state([goes], holds=argument)
        raise self._wrong(f"{str(op).lower().replace('_', ' ')} needs more than one pass over a text")

    def _repeat(self, argument: Any, goes: int, flags: int) -> int:
        least, most, body = argument
        if most is sre.MAXREPEAT:
            again = self._state([goes])
            self._next[again].append(self._sequence(body, again, flags))
            goes = again
        else:
            if most > _MOST_STATES:
                raise self._wrong(f"it repeats {most} times")
            end = goes
            for _ in range(most - least):
                goes = self._state([end, self._sequence(body, goes, flags)])
        for _ in range(least):
            goes = self._sequence(body, goes, flags)
        return goes

    # ---------------------------------------------------------------- matching

    def _closure(self, states: frozenset[int], before: str | None, after: str | None) -> set[int]:
        """All states that can be reached without consuming a character."""
        seen, stack = set(states), list(states)
        while stack:
            at = stack.pop()
            if self._tests[at] is not None:
                continue
            holds = self._holds[at]
            if holds is not None and not _PLACES[holds](before, after, self._multiline):
                continue
            for each in self._next[at]:
                if each not in seen:
                    seen.add(each)
                    stack.append(each)
        return seen

    def _step(self, states: frozenset[int], before: str | None, character: str) -> frozenset[int]:
        key = states, _kind(before), character
        found = self._memo.get(key)
        if found is None:
            if len(self._memo) >= _MOST_REMEMBERED:
                self._memo.clear()
            reached = self._closure(states, before, character)
            found = frozenset(
                self._next[at][0] for at in reached if (test := self._tests[at]) and test(character)
            )
            self._memo[key] = found
        return found

    def fits(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        states, before = self._start, None
        for character in text:
            states = self._step(states, before, character)
            if not states:
                return False
            before = character
        return self._ends(states, before, None)

    def _ends(self, states: frozenset[int], before: str | None, after: str | None) -> bool:
        """Whether the end state can be reached from ``states`` at the position between the characters
        ``before`` and ``after``."""
        key = states, _kind(before), _kind(after)
        found = self._ended.get(key)
        if found is None:
            if len(self._ended) >= _MOST_REMEMBERED:
                self._ended.clear()
            found = self._ended[key] = _ACCEPT in self._closure(states, before, after)
        return found

    def tokens(self, text: str, most_steps: int) -> Iterator[str]:
        """Longest matches from left to right, without empty ones. Raises GraphError after ``most_steps``
        steps."""
        at = steps = 0
        while at < len(text):
            states, end = self._start, at
            for i in range(at, len(text)):
                states = self._step(states, text[i - 1] if i else None, text[i])
                steps += 1
                if not states:
                    break
                if self._ends(states, text[i], text[i + 1] if i + 1 < len(text) else None):
                    end = i + 1
            if steps > most_steps:
                raise self._wrong(f"a text of {len(text)} characters takes more than {most_steps} steps")
            if end > at:
                yield text[at:end]
            at = max(end, at + 1)


def _kind(character: str | None) -> int:
    """Kind of a character next to a position: 0 none, 1 other, 2 part of a word, 3 newline."""
    return 0 if character is None else 2 if character in _WORD else 3 if character == "\n" else 1


def _without_classes(text: str) -> str:
    """The text with classes such as [[:alpha:]] in the form that Python's parser reads."""
    return re.sub(r"\[:(\^?)(\w+):\]", lambda m: _POSIX.get(m[2], m[0]) if not m[1] else m[0], text)


def _test(op: Any, argument: Any, flags: int) -> _Test:
    if op is sre.ANY:
        return (lambda c: True) if flags & re.DOTALL else (lambda c: c != "\n")
    if op is sre.LITERAL:
        plain: _Test = chr(argument).__eq__
    elif op is sre.NOT_LITERAL:
        same = _test(sre.LITERAL, argument, flags)
        return lambda c: not same(c)
    else:
        return _set_test(argument, flags)
    return _any_case(plain) if flags & re.IGNORECASE else plain


def _any_case(test: _Test) -> _Test:
    return lambda c: test(c) or test(c.lower()) or test(c.upper())


def _set_test(items: Sequence[Any], flags: int) -> _Test:
    negated = bool(items) and items[0][0] is sre.NEGATE
    literals = {chr(value) for op, value in items if op is sre.LITERAL}
    ranges = [value for op, value in items if op is sre.RANGE]
    tests = [_CATEGORIES[value] for op, value in items if op is sre.CATEGORY]

    def within(c: str) -> bool:
        return c in literals or any(a <= ord(c) <= b for a, b in ranges) or any(test(c) for test in tests)

    test = _any_case(within) if flags & re.IGNORECASE else within
    return (lambda c: not test(c)) if negated else test


def _boundary(before: str | None, after: str | None) -> bool:
    return (before is not None and before in _WORD) != (after is not None and after in _WORD)


# {position code: whether it holds, given the characters before and after it (None at the ends) and whether
# each line has a beginning and an end}
_PLACES: dict[Any, Callable[[str | None, str | None, bool], bool]] = {
    sre.AT_BEGINNING: lambda a, b, lines: a is None or (lines and a == "\n"),
    sre.AT_BEGINNING_STRING: lambda a, b, lines: a is None,
    sre.AT_END: lambda a, b, lines: b is None or (lines and b == "\n"),
    sre.AT_END_STRING: lambda a, b, lines: b is None,
    sre.AT_BOUNDARY: lambda a, b, lines: _boundary(a, b),
    sre.AT_NON_BOUNDARY: lambda a, b, lines: not _boundary(a, b),
}
