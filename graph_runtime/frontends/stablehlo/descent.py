"""Recursive descent over the tokens of a text: modules, functions, ops in generic form, regions.

Pretty forms of ops are in pretty.py, attributes in attribute_trees.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .attribute_trees import Attributes
from .pretty import arguments, pretty
from .syntax import FuncType, HloOp, Module, OpRegion, TextFunc, Type
from .tokens import Text

_MOST_NESTED = 64  # depth of nested regions
_MOST_DIGITS = 6  # most digits in an op's number of results
_OPS = 1 << 15, 36  # most ops of a text: an allowance, plus one per 36 bytes
_NONE: dict[str, Any] = {}  # shared by all ops without attributes
_NO_REGIONS: list[OpRegion] = []
_NO_WORDS: list[str] = []
_FUNCS = ("func.func", "func")


def parse(text: Text) -> Module:
    """The module of a text. Raises DocumentError with line and column."""
    return Parser(text).module()


class Parser(Attributes):
    """A recursive descent parser. ``i``: index of the next token."""

    def __init__(self, text: Text):
        super().__init__(text)
        self.funcs: dict[str, TextFunc] = {}
        self.module_name = ""
        self.module_attrs: dict[str, Any] = {}
        self.nested = 0
        self._ops = _OPS[0] + len(text.data) // _OPS[1]
        self._known_names: dict[str, str] = {}
        self._known_types: dict[Type, list[Type]] = {}

    def module(self) -> Module:
        """Module of the whole text."""
        while self.peek():
            self._top()
        if not self.funcs:
            self.fail("there is no func.func in this text")
        return Module(self.module_name, self.funcs, self.module_attrs)

    def _top(self) -> None:
        """Read one item at the top level of a file or module."""
        token = self.peek()
        if token in ("module", "builtin.module"):
            self._module()
        elif token in _FUNCS:
            self._func()
        elif token.startswith("#") and self.tokens[self.i + 1] == "=":
            self._alias(self.aliases)
            self.aliases[token] = self.attribute()
        elif token.startswith("!") and self.tokens[self.i + 1] == "=":
            self._alias(self.type_aliases)
            self.type_aliases[token] = self.type()
        elif token == "{-#":
            self.resources()
        elif token == "sdy.mesh":
            self.skip()
            self.symbol()
            self.expect("=")
            self.skip_balanced()
            if self.peek() == "{":
                self.dictionary()
        else:
            op = self.op()
            if op.name == "func.func":
                self._generic_func(op)
            elif op.name != "builtin.module":
                self.fail(f"{op.name} is not in a function", op.at)
        self.location()

    def _alias(self, known: dict[str, Any]) -> None:
        """Read the name of an alias and the "=" after it."""
        name = self.next()
        if name in known:
            self.fail(f"{name} is defined twice", self.at - 1)
        self.expect("=")

    def _module(self) -> None:
        self.skip()
        if self.peek().startswith("@"):
            self.module_name = self.symbol()[1:]
        if self.accept("attributes"):
            self.module_attrs = self.dictionary()
        self._enter()
        self.expect("{")
        while not self.accept("}"):
            if not self.peek():
                self.fail("the module is not closed")
            self._top()
        self.nested -= 1

    # ---------------------------------------------------------------- functions

    def _func(self) -> None:
        at = self.at
        self.skip()
        private = False
        while self.peek() in ("public", "private", "nested"):
            private |= self.next() == "private"
        name = self.symbol()[1:]
        self.expect("(")
        args = self.several(")", self._argument)
        results: list[tuple[Type, dict[str, Any]]] = []
        if self.accept("->"):
            results = self.several(")", self._result) if self.accept("(") else [(self.type(), {})]
        if self.accept("attributes"):
            self.dictionary()
        self.location()
        if self.peek() != "{":
            self.fail(f"function @{name} has no body")
        body = self.region([arg for arg, _, _ in args])
        body.args = [(arg, kind) for arg, kind, _ in args]
        self._add(TextFunc(name, args, results, body, private, at))

    def _add(self, func: TextFunc) -> None:
        self.part(8)
        if func.name in self.funcs:
            self.fail(f"there are two functions @{func.name}", func.at)
        self.funcs[func.name] = func

    def _argument(self) -> tuple[str, Type, dict[str, Any]]:
        name = self.value()
        self.part(6)  # an input takes as much memory as 6 other values
        self.expect(":")
        kind, attrs = self._result()
        self.location()
        return name, kind, attrs

    def _result(self) -> tuple[Type, dict[str, Any]]:
        return self.type(), self.dictionary() if self.peek() == "{" else {}

    def _generic_func(self, op: HloOp) -> None:
        kind, name = op.attrs.get("function_type"), op.attrs.get("sym_name")
        if not isinstance(kind, FuncType) or not isinstance(name, str) or len(op.regions) != 1:
            self.fail("func.func needs function_type, sym_name and one region", op.at)
        body = op.regions[0]
        if len(body.args) != len(kind.inputs):
            self.fail(
                f"function @{name} has {len(body.args)} arguments, but its type has {len(kind.inputs)}",
                op.at,
            )
        own = _each(op.attrs.get("arg_attrs"), len(kind.inputs))
        args = [(arg, t, attrs) for (arg, t), attrs in zip(body.args, own, strict=True)]
        made = _each(op.attrs.get("res_attrs"), len(kind.results))
        private = op.attrs.get("sym_visibility") == "private"
        self._add(TextFunc(name, args, list(zip(kind.results, made, strict=True)), body, private, op.at))

    # ---------------------------------------------------------------- regions and ops

    def _enter(self) -> None:
        self.nested += 1
        if self.nested > _MOST_NESTED:
            self.fail(f"regions are nested more than {_MOST_NESTED} deep")

    def region(self, args: Sequence[str] = ()) -> OpRegion:
        """Read a region { one block } whose ops can read ``args`` and all values defined around the
        region."""
        self._enter()
        self.expect("{")
        around = len(self.names)
        for name in args:
            self.define(name)
        head: list[tuple[str, Type]] = []
        if self.peek().startswith("^"):
            head = self._block_head()
        ops: list[HloOp] = []
        while not self.accept("}"):
            token = self.peek()
            if token.startswith("^"):
                self.fail("regions of several blocks are not supported: only one block is")
            if not token:
                self.fail("a region is not closed")
            if token in ("module", "builtin.module", *_FUNCS):
                self._top()
            else:
                op = self.op()
                if op.name == "func.func":
                    self._generic_func(op)
                else:
                    ops.append(op)
        self.nested -= 1
        while len(self.names) > around:  # names defined in a region are visible only there
            self.names.popitem()
        return OpRegion(head, ops)

    def _block_head(self) -> list[tuple[str, Type]]:
        self.skip()
        found = arguments(self) if self.peek() == "(" else []
        for name, _ in found:
            self.define(name)
        self.expect(":")
        return found

    def op(self) -> HloOp:
        """Read an op, with the names of its results before it."""
        at = self.at
        names, count = self._results_named()
        self._ops -= 1
        if self._ops < 0:
            self.fail(f"a text of {len(self.text.data)} bytes has more ops than any writer produces", at)
        token = self.next()
        if token.startswith('"'):
            made = self._generic(token[1:-1], at)
        elif token[:1].isalpha():
            made = pretty(self, token, at, count)
        else:
            self.fail(f"an op is expected here, got {token[:60]!r}", self.at - 1)
        self.location()
        if count != len(made.types) and (count or made.name.endswith((".return", ".while"))):
            self.fail(f"{made.name} has {len(made.types)} results, but {count} names", at)
        outputs = []
        for name, number in names:
            outputs += [self.define(name), *(f"{name}#{k}" for k in range(1, number))]
        made.outputs = outputs or [f"%{at}.{k}" for k in range(len(made.types))]
        return self._shared(made)

    def _results_named(self) -> tuple[list[tuple[str, int]], int]:
        """Read the names of results before an op: ([(name, number of its results)], number of all
        results)."""
        names: list[tuple[str, int]] = []
        count = 0
        while self.peek().startswith("%"):
            at = self.at
            name, _, digits = self.next().partition(":")
            number = int(digits or 1) if len(digits) < _MOST_DIGITS else 0
            if not number:
                self.fail(f"{name} cannot have {digits[:20]} results", at)
            self.part(number)
            names.append((name, number))
            count += number
            if not self.accept(","):
                break
        if names:
            self.expect("=")
        return names, count

    def _shared(self, op: HloOp) -> HloOp:
        """The same op after its equal parts are replaced by shared objects, because a text may have hundreds
        of thousands of ops."""
        op.name = self._known_names.setdefault(op.name, op.name)
        op.inputs = op.inputs[:]  # the copy has no spare capacity
        if len(op.types) == 1:
            op.types = self._known_types.setdefault(op.types[0], op.types)
        op.attrs, op.regions, op.words = op.attrs or _NONE, op.regions or _NO_REGIONS, op.words or _NO_WORDS
        return op

    def _generic(self, name: str, at: int) -> HloOp:
        self.expect("(")
        inputs = self.several(")", self.value)
        attrs: dict[str, Any] = {}
        regions: list[OpRegion] = []
        if self.peek() == "[":
            self.fail(f"{name} has successors: control flow by blocks is not supported")
        if self.peek() == "<" and self.tokens[self.i + 1] == "{":
            self.skip()
            attrs = self.dictionary()
            self.expect(">")
        if self.accept("("):
            regions.append(self.region())
            while self.accept(","):
                regions.append(self.region())
            self.expect(")")
        if self.peek() == "{":
            attrs = {**attrs, **self.dictionary()}
        self.expect(":")
        kind = self.function_type()
        if len(kind.inputs) != len(inputs):
            self.fail(f"{name} has {len(inputs)} operands, but its type has {len(kind.inputs)}", at)
        return HloOp(name, inputs, [], list(kind.results), at, attrs, regions)


def _each(attrs: Any, count: int) -> list[dict[str, Any]]:
    """A dict of attributes for each of ``count`` items; it is empty if the text gives the item no
    attributes."""
    found = [each if isinstance(each, dict) else {} for each in attrs] if isinstance(attrs, list) else []
    return (found + [{}] * count)[:count]
