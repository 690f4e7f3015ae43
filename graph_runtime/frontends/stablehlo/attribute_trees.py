"""Attributes and types over the tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from .mlir_types import is_type, type_of
from .syntax import Dense, ForeignType, FuncType, Opaque, OpRegion, Type
from .tokens import Text

__all__ = ["Attributes"]

_MOST_NESTED = 64
_MOST_DIGITS = 400  # of a number
_MOST_SAID = 64  # tokens of what is left out, and characters of each
# Values, types and attributes: an allowance, and one for so many bytes. An op of 40 has four.
_PARTS = 1 << 17, 10
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Attributes:
    """A place in the tokens, and what can be read there. ``tokens[i]`` is next; the one before it and two
    behind it are there, too. ``names`` are values that can be read here."""

    def __init__(self, text: Text):
        self.text, self.i = text, 0
        self.aliases: dict[str, Any] = {}
        self.type_aliases: dict[str, Type] = {}
        self.blobs: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.bare = False  # whether ": type" behind a number is not the number's
        self._depth = 0
        self._parts = _PARTS[0] + len(text.data) // _PARTS[1]
        self._windows, self._before, self._edge = text.windows(), 0, 0
        self.tokens: list[str] = []
        self._more()

    # ---------------------------------------------------------------- tokens

    @property
    def at(self) -> int:
        """The number of the token that is next."""
        return self._before + self.i

    def _more(self) -> None:
        """Take the next window, behind the token before the next one."""
        kept = max(self.i - 1, 0)
        new = next(self._windows, None)
        self.tokens = self.tokens[kept:] + (["", "", ""] if new is None else new)
        self._before, self.i = self._before + kept, self.i - kept
        if new is not None and len(self.tokens) < self.i + 3:
            self._more()
            return
        self._edge = len(self.tokens) - (3 if new is not None else 1)

    def skip(self) -> None:
        """Leave out a token."""
        self.i += 1
        if self.i > self._edge:
            self._more()

    def peek(self) -> str:
        return self.tokens[self.i]

    def next(self) -> str:
        """The next token, which is gone then."""
        token = self.tokens[self.i]
        if not token:
            self.fail("the text ends here")
        self.i += 1
        if self.i > self._edge:
            self._more()
        return token

    def accept(self, token: str) -> bool:
        """Whether this token is next; it is gone then."""
        if self.tokens[self.i] != token:
            return False
        self.i += 1
        if self.i > self._edge:
            self._more()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"{token!r} is expected, got {self.tokens[self.i][:60]!r}")

    def part(self, count: int = 1) -> None:
        """Count what the tree of the text gets. Raises DocumentError where a text has too much of that for
        its size, which no program writes."""
        self._parts -= count
        if self._parts < 0:
            self.fail(f"a text of {len(self.text.data)} bytes has too many values, types and attributes here")

    def define(self, name: str) -> str:
        """A name of a value, which must be new here."""
        if name in self.names:
            self.fail(f"{name} is defined twice", self.at - 1)
        self.names[name] = name
        return name

    def fail(self, reason: str, at: int | None = None, **fields: Any) -> NoReturn:
        """Raise DocumentError with line and column of a token, the next one by default."""
        self.text.fail(reason, self.at if at is None else at, **fields)

    def value(self) -> str:
        """The name of a value that is read."""
        token = self.next()
        if not token.startswith("%") or ":" in token:
            self.fail(f"a value is expected, got {token[:60]!r}", self.at - 1)
        self.part()
        return self.names.get(token) or token.removesuffix("#0")

    def symbol(self) -> str:
        """@name."""
        token = self.next()
        if not token.startswith("@") or len(token) < 2:
            self.fail(f"a @symbol is expected, got {token[:60]!r}", self.at - 1)
        return "@" + token[1:].strip('"')

    def location(self) -> None:
        """Skip loc(...)."""
        if self.peek() == "loc" and self.tokens[self.i + 1] == "(":
            self.skip()
            self.skip_balanced()

    def skip_balanced(self) -> str:
        """Skip what is between this bracket and its partner; its first tokens."""
        begin, stack, said = self.at, list[str](), list[str]()
        while True:
            token = self.next() if self.peek() else self.fail("a bracket is not closed", begin)
            if len(said) < _MOST_SAID:
                said.append(token[:_MOST_SAID])
            if token in _CLOSES:
                stack.append(_CLOSES[token])
                if len(stack) > _MOST_NESTED:
                    self.fail(f"brackets are nested more than {_MOST_NESTED} deep", begin)
            elif token in (")", "]", "}", ">"):
                if not stack or stack.pop() != token:
                    self.fail(f"{token!r} closes no bracket", self.at - 1)
            if not stack:
                return "".join(said)

    def region(self, args: Sequence[str] = ()) -> OpRegion:
        """{ one block } that can read ``args``; descent.py reads it."""
        raise NotImplementedError

    # ---------------------------------------------------------------- types

    def type(self) -> Type:
        """A type of a value."""
        at = self.at
        token = self.next()
        self.part()
        if token.startswith("tensor<"):
            return type_of(token)
        if token in self.type_aliases:
            return self.type_aliases[token]
        if not is_type(token):
            self.fail(f"a type is expected, got {token[:60]!r}", at)
        return ForeignType(token[:_MOST_SAID] + (self.skip_balanced() if self.peek() == "<" else ""))

    def types(self) -> list[Type]:
        """(t, t), behind the first parenthesis."""
        found: list[Type] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
            found.append(self.type())
        return found

    def function_type(self) -> FuncType:
        """(t, t) -> t."""
        self.expect("(")
        inputs = self.types()
        self.expect("->")
        results = self.types() if self.accept("(") else [self.type()]
        return FuncType(tuple(inputs), tuple(results))

    # ---------------------------------------------------------------- attributes

    def dictionary(self) -> dict[str, Any]:
        """{name = attribute, name}."""
        self.expect("{")
        found: dict[str, Any] = {}
        first = True
        while not self.accept("}"):
            if not first:
                self.expect(",")
            first = False
            name = self.next().strip('"')
            found[name] = self.attribute() if self.accept("=") else True
        return found

    def attribute(self) -> Any:
        """Any attribute."""
        self._depth += 1
        self.part()
        if self._depth > _MOST_NESTED:
            self.fail(f"attributes are nested more than {_MOST_NESTED} deep")
        found = self._attribute()
        self._depth -= 1
        return found

    def _attribute(self) -> Any:
        token = self.peek()
        first = token[:1]
        if first == "[":
            return self._list()
        if first == "{":
            return self.dictionary()
        if first == '"':
            self.skip()
            self._typed()
            return token[1:-1]
        if first.isdigit() or (first == "-" and token[1:2].isdigit()):
            return self._number()
        if token.startswith(("dense<", "dense_resource<")):
            return self._dense()
        if token.startswith("array<"):
            return self._array()
        if first == "#":
            return self._hash()
        if first == "@":
            found = self.symbol()
            while self.accept(":"):  # @a::@b
                self.expect(":")
                self.symbol()
            return found
        if first == "(":
            return self.function_type()
        if first == "<":
            return self.fields()
        if token == "loc":
            self.location()
            return Opaque("loc")
        if is_type(token):
            return self.type()
        return self._word()

    def _word(self) -> Any:
        token = self.next()
        if not token[:1].isalpha() and token[:1] != "_":
            self.fail(f"an attribute is expected, got {token[:60]!r}", self.at - 1)
        if token in ("true", "false"):
            return token == "true"
        if self.peek() == "<":
            self.skip_balanced()
            return Opaque(token)
        return token

    def _list(self) -> list[Any]:
        self.expect("[")
        found: list[Any] = []
        while not self.accept("]"):
            if found:
                self.expect(",")
            found.append(self.attribute())
        return found

    def _number(self) -> int | float:
        at, token = self.at, self.next()
        kind = self._typed()
        if len(token) > _MOST_DIGITS:
            self.fail("a number has too many digits", at)
        if token.lower().startswith(("0x", "-0x")):
            return int(token, 16)
        floats = isinstance(kind, ForeignType) and kind.text.lstrip("b").startswith("f")
        return float(token) if floats or not token.removeprefix("-").isdigit() else int(token)

    def _typed(self) -> Type | None:
        """: type, where it is there."""
        return self.type() if not self.bare and self.accept(":") else None

    def _dense(self) -> Dense:
        kind, _, text = self.next()[:-1].partition("<")
        return Dense(kind, text.strip(), self._typed())

    def _array(self) -> list[Any]:
        at = self.at
        body = self.next()[len("array<") : -1]
        self.part(body.count(","))
        kind, _, values = body.partition(":")
        try:
            if kind.strip() == "i1":
                return [{"true": True, "false": False}[value.strip()] for value in values.split(",")]
            number = float if kind.strip().lstrip("b").startswith("f") else int
            return [number(value) for value in values.split(",") if value.strip()]
        except (ValueError, KeyError):
            self.fail(f"{body[:60]!r} is no array of {kind.strip()[:20]}", at)

    def _hash(self) -> Any:
        """#stablehlo.gather<...>, #stablehlo<comparison_direction LT>, #alias."""
        token = self.next()
        if self.peek() != "<":
            return self.aliases.get(token, Opaque(token))
        if not token.startswith(("#stablehlo", "#mhlo", "#chlo")):
            self.skip_balanced()
            return Opaque(token)
        if token.endswith(".conv"):
            self.expect("<")
            found = self.conv_dims()
            self.expect(">")
            return found
        return self.fields()

    def fields(self) -> Any:
        """<name = attribute, ...> as a dict, <name word> as the word."""
        self.expect("<")
        found: dict[str, Any] = {}
        while not self.accept(">"):
            if found:
                self.expect(",")
            name = self.next()
            if self.accept("="):
                found[name] = self.attribute()
            elif self.peek() not in (">", ","):
                word = self.attribute()
                self.expect(">")
                return word
            else:
                found[name] = True
        return found

    def conv_dims(self) -> list[list[Any]]:
        """[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f] as three lists."""
        lhs = self._list()
        self.expect("x")
        rhs = self._list()
        self.expect("->")
        return [lhs, rhs, self._list()]

    def resources(self) -> None:
        """{-# dialect_resources: {builtin: {name: "0x..."}} #-}; blobs are kept by name."""
        self.skip()
        stack: list[str] = []
        while not self.accept("#-}"):
            token = self.next()
            if token == "{":
                stack.append("")
                self.part()
            elif token == "}":
                if not stack:
                    self.fail("'}' closes no bracket", self.at - 1)
                stack.pop()
            elif self.accept(":") and self.peek().startswith('"'):
                self.part()
                self.blobs[token.strip('"')] = self.next()[1:-1]
