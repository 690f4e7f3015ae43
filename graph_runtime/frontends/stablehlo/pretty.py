"""Pretty forms of ops: a loose grammar that most ops share, and special grammars for while and reduce.

operands, words, name = attribute, [ranges], @symbol, dense<...>, {attributes} : types
"""

from __future__ import annotations

from typing import Any

from .attribute_trees import Attributes
from .syntax import Dense, HloOp, OpRegion, Type


def pretty(p: Attributes, name: str, at: int, count: int) -> HloOp:
    """Read an op in pretty form, after its name. ``count``: number of the op's results."""
    if "." not in name:
        name = f"func.{name}"
    op = HloOp(name, [], [], [], at)
    short = name.rpartition(".")[2]
    if short == "while" and p.peek() == "(":
        _while(p, op)
    elif short == "reduce" and p.peek() == "(":
        _reduce(p, op)
    else:
        _loose(p, op, count)
    return op


def arguments(p: Attributes) -> list[tuple[str, Type]]:
    """Read arguments (%a: t, %b: t)."""

    def argument() -> tuple[str, Type]:
        name = p.value()
        p.expect(":")
        kind = p.type()
        p.location()
        return name, kind

    p.expect("(")
    return p.several(")", argument)


def _loose(p: Attributes, op: HloOp, count: int) -> None:
    while True:
        token = p.peek()
        first = token[:1]
        if first == "%":
            if p.tokens[p.i + 1] in ("=", ",") and ":" in token:
                return
            op.inputs.append(p.value())
        elif token == ":":
            p.skip()
            _types(p, op, count)
            return
        elif token in (",", "(", ")"):
            p.skip()
        elif first == "{":
            op.attrs |= p.dictionary()
        elif first == "[":
            op.attrs["ranges"] = _ranges(p)
        elif first == "@":
            op.attrs["callee"] = p.symbol()
        elif first == "<" and p.tokens[p.i + 1] == "{":
            p.skip()
            op.attrs |= p.dictionary()
            p.expect(">")
        elif first == "<":
            p.skip_balanced()
        elif token.startswith(("dense<", "dense_resource<")):
            kind, _, text = p.next()[:-1].partition("<")
            op.attrs["value"] = Dense(kind, text.strip(), None)
        elif first == '"':
            op.words.append(p.next()[1:-1])
        elif first.isalpha() and p.tokens[p.i + 1] == "=":
            _named(p, op)
        elif first.isalpha() and p.tokens[p.i - 1] in (",", op.name, op.name.removeprefix("func.")):
            op.words.append(p.next())
        elif token in ("}", "loc", "") or op.name.endswith("return"):
            return
        else:
            p.fail(f"{token[:60]!r} is not expected in {op.name}")


def _named(p: Attributes, op: HloOp) -> None:
    name = p.next()
    p.expect("=")
    if name == "dim_numbers":
        op.attrs["dimension_numbers"] = p.conv_dims()
        return
    p.bare = True
    found: Any = p.attribute()
    if isinstance(found, list) and p.accept("x"):
        found = [found, p.attribute()]
    p.bare = False
    op.attrs[name] = found


def _ranges(p: Attributes) -> list[list[int]]:
    """Read ranges [0:4, 0:8:2] as [start, limit, stride] of each dimension; the stride may be omitted."""

    def bounds() -> list[int]:
        found = [_int(p)]
        while p.accept(":"):
            found.append(_int(p))
        return found

    p.expect("[")
    return p.several("]", bounds)


def _int(p: Attributes) -> int:
    token = p.next()
    if not token.removeprefix("-").isdigit() or len(token) > 20:
        p.fail(f"an integer is expected, got {token[:60]!r}", p.at - 1)
    return int(token)


def _types(p: Attributes, op: HloOp, count: int) -> None:
    """Read the types after the colon. They are the types of all values, or those of operands -> those of
    results."""
    if p.accept("("):
        found = p.types()
    else:
        found = [p.type()]
        while p.accept(","):
            found.append(p.type())
    if p.accept("->"):
        op.types = p.types() if p.accept("(") else [p.type()]
    elif op.name.endswith("return"):
        if len(found) != len(op.inputs):
            p.fail(f"{op.name} has {len(op.inputs)} operands, but its type has {len(found)}", op.at)
    elif len(found) == count:
        op.types = found
    elif count == 1 and len(found) > 1:  # stablehlo.select also lists the type of its condition
        op.types = found[-1:]
    elif len(found) == 1:
        op.types = found * min(count, 1 << 16)
    elif count:
        p.fail(f"{op.name} has {len(found)} types for {count} results", op.at)


def _while(p: Attributes, op: HloOp) -> None:
    """Read while(%a = %x, ...) : types attributes {...} cond {...} do {...}."""

    def state() -> str:
        name = p.value()
        p.expect("=")
        op.inputs.append(p.value())
        return name

    p.expect("(")
    names = p.several(")", state)
    if p.accept(":"):
        op.types = [p.type()]
        while p.accept(","):
            op.types.append(p.type())
    if p.accept("attributes"):
        op.attrs = p.dictionary()
    p.location()
    if len(names) != len(op.types):
        p.fail(f"{op.name} has {len(names)} values, but {len(op.types)} types", op.at)
    for word in ("cond", "do"):
        p.expect(word)
        region = p.region(names)
        region.args = list(zip(names, op.types, strict=True))
        op.regions.append(region)


def _reduce(p: Attributes, op: HloOp) -> None:
    """Read reduce(%x init: %i), (%y init: %j) applies op across dimensions = [1] : types, or a reducer."""
    starts: list[str] = []
    while p.accept("(") or (p.accept(",") and p.accept("(")):
        op.inputs.append(p.value())
        p.expect("init")
        p.expect(":")
        starts.append(p.value())
        p.expect(")")
    op.inputs += starts
    body = p.next() if p.accept("applies") else ""
    p.expect("across")
    p.expect("dimensions")
    p.expect("=")
    op.attrs["dimensions"] = p.attribute()
    if p.peek() == "{":
        op.attrs |= p.dictionary()
    p.expect(":")
    kind = p.function_type()
    op.types = list(kind.results)
    if len(kind.inputs) != len(op.inputs):
        p.fail(f"{op.name} has {len(op.inputs)} operands, but its type has {len(kind.inputs)}", op.at)
    p.location()
    if body:
        scalar = kind.inputs[-1]
        inner = HloOp(body, ["%lhs", "%rhs"], ["%applied"], [scalar], op.at)
        end = HloOp("stablehlo.return", ["%applied"], [], [], op.at)
        op.regions = [OpRegion([("%lhs", scalar), ("%rhs", scalar)], [inner, end])]
        return
    p.expect("reducer")
    pairs = [arguments(p)]
    while p.peek() == "(":
        pairs.append(arguments(p))
    region = p.region([name for pair in pairs for name, _ in pair])
    if any(len(pair) != 2 for pair in pairs):
        p.fail("a reducer must have pairs of arguments", op.at)
    region.args = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    op.regions = [region]
