"""A text of MLIR as tokens: one compiled expression finds all of them.

Long hexadecimal strings, the values of constants, are cut out before that and stay in the file: a token has
their number, ``Text.blob`` their bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ...base.errors import DocumentError

__all__ = ["Text"]

_LONG = 256  # characters of a hexadecimal string that stays in the file
_BLOB = re.compile(rb'"0x([0-9A-Fa-f]{%d,})"' % _LONG)
_STANDS = "@blob"
_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?://[^\n]*[ \t\r\n]*+)*+(
      %[\w$.\-]+(?:[#:]\d+)?
    | tensor<[^<>]*+(?:<[^<>]*+>[^<>]*+)*+>
    | (?:dense|dense_resource|array)<[^>]*+>
    | @?"[^"\\]*+(?:\\.[^"\\]*+)*+"
    | ->
    | -?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)
    | [A-Za-z_][\w$.]*
    | [@\#!^][\w$.\-]*[\w$]
    | \{-\# | \#-\}
    | \S | \Z)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(eq=False)
class Text:
    """``data``: bytes of the text, or its mapping. ``tokens`` end with "". ``name`` is for people."""

    data: bytes | memoryview
    name: str

    def __post_init__(self) -> None:
        self._blobs: list[tuple[int, int]] = []
        self._short = self._shortened()
        self.tokens: list[str] = _TOKEN.findall(self._short)
        while self.tokens and not self.tokens[-1]:
            self.tokens.pop()
        self.tokens.append("")

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
        """Whether a string stands for hexadecimal values in the file."""
        return text.startswith(_STANDS) and text[len(_STANDS) :].isdigit() and self._at(text) is not None

    def blob_size(self, text: str) -> int:
        """Bytes of the values that a string stands for."""
        begin, end = self._blobs[int(text[len(_STANDS) :])]
        return (end - begin) // 2

    def blob(self, text: str, skip: int = 0) -> np.ndarray:
        """The values that a string stands for, as bytes, without the first ``skip``."""
        begin, end = self._blobs[int(text[len(_STANDS) :])]
        return np.frombuffer(bytes.fromhex(str(self.data[begin + 2 * skip : end], "ascii")), np.uint8)

    def _at(self, text: str) -> tuple[int, int] | None:
        number = int(text[len(_STANDS) :])
        return self._blobs[number] if number < len(self._blobs) else None

    def position(self, token: int) -> tuple[int, int]:
        """Line and column of a token, both from 1. A column behind a long string of its line is that of the
        text without it."""
        at = len(self._short)
        for number, match in enumerate(_TOKEN.finditer(self._short)):
            if number == token:
                at = match.start(1)
                break
        return self._short.count("\n", 0, at) + 1, at - self._short.rfind("\n", 0, at)

    def lines(self, tokens: list[int]) -> dict[int, int]:
        """The line of each of several tokens."""
        wanted, found, line, last = set(tokens), {}, 1, 0
        for number, match in enumerate(_TOKEN.finditer(self._short)):
            if number in wanted:
                line += self._short.count("\n", last, match.start(1))
                last = match.start(1)
                found[number] = line
        return found

    def fail(self, reason: str, token: int, **fields: object) -> NoReturn:
        """Raise DocumentError with line and column of a token."""
        line, column = self.position(token)
        raise DocumentError(
            f"{self.name}, line {line}, column {column}: {reason}", line=line, column=column, **fields
        )
