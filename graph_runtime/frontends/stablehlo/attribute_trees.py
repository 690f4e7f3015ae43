"""Reads attributes and types from the tokens of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from ...ir.graph import TensorType
from .syntax import Dense, ForeignType, FuncType, Opaque, OpRegion, Type
from .tokens import Text

T = TypeVar("T")
_MOST_NESTED = 64
_MOST_DIGITS = 400  # most digits of a number in a text
_MOST_SAID = 64  # most tokens kept of a skipped part, and most characters of each
# Most values, types and attributes of a text: an allowance, plus one per 10 bytes. An op of 40 bytes has
# four.
_PARTS = 1 << 17, 10
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}
_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i1": "bool",
    **{
        f"{sign}{bits}": f"{name}{bits}"
        for sign, name in (("i", "int"), ("si", "int"), ("ui", "uint"))
        for bits in (8, 16, 32, 64)
    },
}
_TENSOR = re.compile(r"tensor<\s*+((?:\d{1,19}+\s*+x\s*+){0,64}+)([a-z]++\d{1,2}+)\s*+>", re.ASCII)
_MOST_KNOWN = 1024  # most characters of a cached type
_SCALAR = re.compile(r"(?:[su]?i|b?f|tf)\d+\w*|index|none|complex|tuple|vector|memref")


class Attributes:
    """A position in the tokens, with methods that read from there. ``tokens``: list of tokens around the
    position; ``tokens[i]`` is the next one, and the list also has the token before it and the two tokens
    after it. ``names``: names of values that may be read at this position.
    """

    def __init__(self, text: Text):
        self.text, self.i = text, 0
        self.aliases: dict[str, Any] = {}
        self.type_aliases: dict[str, Type] = {}
        self.blobs: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.bare = False  # a ": type" after a number is not part of the number
        self._depth = 0
        self._parts = _PARTS[0] + len(text.data) // _PARTS[1]
        self._windows, self._before, self._edge = text.windows(), 0, 0
        self.tokens: list[str] = []
        self._more()

    # ---------------------------------------------------------------- tokens

    @property
    def at(self) -> int:
        """Number of the next token."""
        return self._before + self.i

    def _more(self) -> None:
        """Append the next window of tokens; of the old tokens, keep only the token before the next one."""
        kept = max(self.i - 1, 0)
        new = next(self._windows, None)
        self.tokens = self.tokens[kept:] + (["", "", ""] if new is None else new)
        self._before, self.i = self._before + kept, self.i - kept
        if new is not None and len(self.tokens) < self.i + 3:
            self._more()
            return
        self._edge = len(self.tokens) - (3 if new is not None else 1)

    def skip(self) -> None:
        """Skip a token."""
        self.i += 1
        if self.i > self._edge:
            self._more()

    def peek(self) -> str:
        return self.tokens[self.i]

    def next(self) -> str:
        """The next token, which is consumed."""
        token = self.tokens[self.i]
        if not token:
            self.fail("the text ends here")
        self.i += 1
        if self.i > self._edge:
            self._more()
        return token

    def accept(self, token: str) -> bool:
        """Consume the next token if it equals ``token``; returns whether it did."""
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
        """Count ``count`` more values, types or attributes. Raises DocumentError if there are more than any
        writer produces in a text of this size."""
        self._parts -= count
        if self._parts < 0:
            self.fail(f"a text of {len(self.text.data)} bytes has too many values, types and attributes here")

    def several(self, end: str, read: Callable[[], T]) -> list[T]:
        """Read items separated by commas, up to the token ``end``. ``read``: reads one item."""
        found: list[T] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(read())
        return found

    def define(self, name: str) -> str:
        """Define the name of a value; it must not be defined here yet."""
        if name in self.names:
            self.fail(f"{name} is defined twice", self.at - 1)
        self.names[name] = name
        return name

    def fail(self, reason: str, at: int | None = None, **fields: Any) -> NoReturn:
        """Raise DocumentError with line and column of a token. ``at``: number of the token; None: the next
        token."""
        self.text.fail(reason, self.at if at is None else at, **fields)

    def value(self) -> str:
        """Consume the name of a value."""
        token = self.next()
        if not token.startswith("%") or ":" in token:
            self.fail(f"a value is expected, got {token[:60]!r}", self.at - 1)
        self.part()
        return self.names.get(token) or token.removesuffix("#0")

    def symbol(self) -> str:
        """Read a symbol, @name."""
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
        """Skip from this bracket to its partner; returns the text of the first tokens that were skipped."""
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
        """Read a region { one block } whose ops can read ``args``; descent.py implements it."""
        raise NotImplementedError

    # ---------------------------------------------------------------- types

    def type(self) -> Type:
        """Read the type of a value."""
        at = self.at
        token = self.next()
        self.part()
        if token.startswith("tensor<"):
            return _type_of(token)
        if token in self.type_aliases:
            return self.type_aliases[token]
        if not _is_type(token):
            self.fail(f"a type is expected, got {token[:60]!r}", at)
        return ForeignType(token[:_MOST_SAID] + (self.skip_balanced() if self.peek() == "<" else ""))

    def types(self) -> list[Type]:
        """Read types (t, t); the first parenthesis has been consumed."""
        return self.several(")", self.type)

    def function_type(self) -> FuncType:
        """Read the type (t, t) -> t of a function."""
        self.expect("(")
        inputs = self.types()
        self.expect("->")
        results = self.types() if self.accept("(") else [self.type()]
        return FuncType(tuple(inputs), tuple(results))

    # ---------------------------------------------------------------- attributes

    def dictionary(self) -> dict[str, Any]:
        """Read a dictionary {name = attribute, name}."""
        self.expect("{")
        return dict(self.several("}", self._named_attribute))

    def _named_attribute(self) -> tuple[str, Any]:
        name = self.next().strip('"')
        return name, self.attribute() if self.accept("=") else True

    def attribute(self) -> Any:
        """Read an attribute of any kind."""
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
            kind, _, text = self.next()[:-1].partition("<")
            return Dense(kind, text.strip(), self._typed())
        if token.startswith("array<"):
            return self._array()
        if first == "#":
            return self._hash()
        if first == "@":
            found = self.symbol()
            while self.accept(":"):  # as in @a::@b
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
        if _is_type(token):
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
        return self.several("]", self.attribute)

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
        """Read the type after a ":"; None if there is no ":"."""
        return self.type() if not self.bare and self.accept(":") else None

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
            self.fail(f"{body[:60]!r} is not an array of {kind.strip()[:20]}", at)

    def _hash(self) -> Any:
        """Read an attribute #stablehlo.gather<...>, #stablehlo<comparison_direction LT> or #alias."""
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
        """Read <name = attribute, ...> as a dict, or <name word> as the word."""
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
        """Read [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f] as three lists."""
        lhs = self._list()
        self.expect("x")
        rhs = self._list()
        self.expect("->")
        return [lhs, rhs, self._list()]

    def resources(self) -> None:
        """Read {-# dialect_resources: {builtin: {name: "0x..."}} #-}; the strings are stored by name."""
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


def _is_type(token: str) -> bool:
    """Whether a type may begin with this token."""
    return token.startswith(("tensor<", "!")) or _SCALAR.fullmatch(token) is not None


def _type_of(token: str) -> Type:
    """The type that a token stands for; a tensor type that graphs lack becomes a ForeignType."""
    return _short_type(token) if len(token) <= _MOST_KNOWN else ForeignType(token[:_MOST_KNOWN] + "...")


@lru_cache(maxsize=4096)
def _short_type(token: str) -> Type:
    match = _TENSOR.fullmatch(token)
    if match is None or match[2] not in _DTYPES:
        return ForeignType(token)
    sizes = [int(size) for size in match[1].split("x") if size.strip()]
    return TensorType(_DTYPES[match[2]], tuple(sizes))
