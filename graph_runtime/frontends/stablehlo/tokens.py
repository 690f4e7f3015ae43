"""Tokens of an MLIR text: one regular expression finds them in a single pass, one window of tokens at a time.

Every alternative of the expression that can be long also ends at the end of the text, so that nothing is read
twice. Long hexadecimal strings, which are values of constants, are first replaced by short tokens with their
numbers and stay in the file; ``Text.blob`` returns their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NoReturn

import numpy as np

from ...base.errors import DocumentError

_LONG = 256  # least characters of a hexadecimal string that stays in the file
_BLOB = re.compile(rb'"0x([0-9A-Fa-f]{%d,})"' % _LONG)
_STANDS = "@blob"
_WINDOW = 4096  # tokens per window
_TOKEN = re.compile(
    r"""\s*+(?://[^\n]*+\s*+)*+(
      %[\w$.\-]++(?:[#:]\d++)?
    | tensor<[^<>]*+(?:<[^<>]*+>[^<>]*+)*+>
    | (?:dense|dense_resource|array)<[^>]*+(?:>|\Z)
    | @?"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)
    | ->
    | -?(?:0[xX][0-9a-fA-F]++|\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?)
    | [A-Za-z_][\w$.]*+
    | [@\#!^][\w$.\-]*[\w$]
    | \{-\# | \#-\}
    | \S | \Z)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_OPENED = re.compile(r'(?:dense|dense_resource|array)<[^>]*+|@?"[^"\\]*+(?:\\.[^"\\]*+)*+\\?', re.DOTALL)


class Text:
    """A text to be split into tokens. ``data``: bytes of the text, or a mapping of its file. ``name``: name
    of the text in errors."""

    def __init__(self, data: bytes | memoryview, name: str):
        self.data, self.name = data, name
        self._blobs: list[tuple[int, int]] = []
        self._short = self._shortened()
        self._starts: list[int] = []  # offset of each window

    def windows(self) -> Iterator[list[str]]:
        """All tokens in order, one window at a time. Raises DocumentError if a string or literal is not
        closed."""
        matches, count = _TOKEN.finditer(self._short), 0
        self._starts = []
        while found := list(islice(matches, _WINDOW)):
            self._starts.append(found[0].start())
            tokens = [match[1] for match in found]
            if found[-1].end() == len(self._short):
                self._check_end(tokens, count)
                yield [token for token in tokens if token]
                return
            count += len(tokens)
            yield tokens

    def _check_end(self, tokens: list[str], count: int) -> None:
        """Raise DocumentError if the last token is a string or literal that is not closed."""
        while tokens and not tokens[-1]:
            tokens.pop()
        if tokens and _OPENED.fullmatch(tokens[-1]):
            self.fail(f"{tokens[-1][:20]!r} is not closed", count + len(tokens) - 1)

    def _shortened(self) -> str:
        parts, last = [], 0
        for match in _BLOB.finditer(self.data):
            parts += [self.data[last : match.start()], f'"{_STANDS}{len(self._blobs)}"'.encode()]
            self._blobs.append(match.span(1))
            last = match.end()
        parts.append(self.data[last:])
        try:
            return b"".join(parts).decode()
        except UnicodeDecodeError as error:
            raise DocumentError(f"{self.name} is no text: {error.reason} at byte {error.start}") from None

    def is_blob(self, text: str) -> bool:
        """Whether a string represents hexadecimal values that stay in the file."""
        number = text[len(_STANDS) :]
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        return text.startswith(_STANDS) and is_number and int(number) < len(self._blobs)

    def blob_size(self, text: str) -> int:
        """Number of bytes of the values that a string represents."""
        begin, end = self._blobs[int(text[len(_STANDS) :])]
        return (end - begin) // 2

    def blob(self, text: str, skip: int = 0) -> np.ndarray:
        """The bytes of the values that a string represents, without the first ``skip`` bytes."""
        begin, end = self._blobs[int(text[len(_STANDS) :])]
        return np.frombuffer(bytes.fromhex(str(self.data[begin + 2 * skip : end], "ascii")), np.uint8)

    def position(self, token: int) -> tuple[int, int]:
        """Line and column of a token, both from 1; hexadecimal strings that stay in the file count as
        short."""
        at = next(self._places([token]), (0, len(self._short)))[1]
        return self._short.count("\n", 0, at) + 1, at - self._short.rfind("\n", 0, at)

    def lines(self, tokens: Iterable[int]) -> dict[int, int]:
        """{token: its line} for several token numbers."""
        found, line, last = {}, 1, 0
        for token, at in self._places(tokens):
            line += self._short.count("\n", last, at)
            last = at
            found[token] = line
        return found

    def _places(self, tokens: Iterable[int]) -> Iterator[tuple[int, int]]:
        """(token, its offset) of several token numbers in order; the windows of these tokens are scanned
        again."""
        of: dict[int, set[int]] = {}
        for token in tokens:
            of.setdefault(token // _WINDOW, set()).add(token)
        for window in sorted(of):
            begin = self._starts[window] if window < len(self._starts) else len(self._short)
            matches = _TOKEN.finditer(self._short, begin)
            for number, match in enumerate(islice(matches, _WINDOW), window * _WINDOW):
                if number in of[window]:
                    yield number, match.start(1)

    def fail(self, reason: str, token: int, **fields: object) -> NoReturn:
        """Raise DocumentError with line and column of a token."""
        line, column = self.position(token)
        raise DocumentError(
            f"{self.name}, line {line}, column {column}: {reason}", line=line, column=column, **fields
        )
