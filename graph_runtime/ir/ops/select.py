"""Which C body serves an op on a device kind for given types: the one rule that generated wrappers and
generic kernels share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.errors import UnsupportedOpError, afresh
from . import numerics
from .registry import KERNEL, Attrs, Body, Op, Types

__all__ = ["Selected", "able", "call_words", "candidates", "numeric_words", "select"]

_NOTHING = numerics.Numerics()  # is named


@dataclass(frozen=True, slots=True)
class Selected:
    """The body ``name`` in the instantiation ``suffix`` ("" if it is no template), which needs ``scratch``
    host bytes. ``prebuilt``: compiling it gains nothing. ``library``: Body's."""

    kind: str
    name: str
    suffix: str
    scratch: int
    prebuilt: bool = False
    library: str = ""

    @property
    def generic(self) -> str:
        """The generic entry's name: "cpu/softmax/f32", "tt/softmax"."""
        return f"{self.kind}/{self.name}" + (f"/{self.suffix}" if self.suffix else "")


def select(op: Op, attrs: Attrs, kind: str, inputs: Types, outputs: Types) -> Selected:
    """The body of ``op`` on device kind ``kind``.

    ``attrs`` are decoded (defaults filled in). Raises UnsupportedOpError, which lists what there is, for a
    kind without a body, a dtype the body does not take, or types it does not accept.
    """
    bodies = candidates(op, attrs, kind)
    if not bodies:
        there = ", ".join(sorted(op.bodies)) or "no device kind"
        raise UnsupportedOpError(
            f"op {op.name} has no kernel for {kind} devices (it has one for {there})",
            op=op.name,
            got=kind,
            wanted=tuple(sorted(op.bodies)),
        )
    body = next((b for b in bodies if _refusal(op, b, kind, attrs, inputs, outputs) is None), None)
    if body is None:
        refusal = _refusal(op, bodies[0], kind, attrs, inputs, outputs)
        assert refusal is not None  # no body was found without one
        raise afresh(refusal)
    suffix = body.suffix(inputs, outputs) if body.suffix else ""
    scratch = body.scratch(inputs, outputs, attrs) if body.scratch else 0
    prebuilt = bool(inputs) and inputs[0].dtype in body.prebuilt
    return Selected(kind, body.name, suffix, scratch, prebuilt, body.library)


def candidates(op: Op, attrs: Attrs, kind: str) -> list[Body]:
    """The bodies of a device kind that may serve a node: the one that it names (``gr.kernel``), else all, the
    default first."""
    bodies = op.all_bodies(kind)
    named = [b for b in bodies if b.name == attrs.get(KERNEL)]
    return named or bodies


def able(op: Op, attrs: Attrs, kind: str, inputs: Types, outputs: Types) -> list[str]:
    """Names of the bodies of a device kind that take these types, the default first; none that rounds."""
    return [
        b.name
        for b in candidates(op, attrs, kind)
        if not b.rounds and _refusal(op, b, kind, attrs, inputs, outputs) is None
    ]


def _refusal(
    op: Op, body: Body, kind: str, attrs: Attrs, inputs: Types, outputs: Types
) -> UnsupportedOpError | None:
    """Why a body does not take these types, None if it does."""
    dtype = (inputs or outputs)[0].dtype
    if dtype not in body.dtypes:
        return UnsupportedOpError(
            f"op {op.name} on {kind} does not take {dtype}; it takes {', '.join(body.dtypes)}",
            op=op.name,
            got=dtype,
            wanted=body.dtypes,
        )
    reason = body.accepts(inputs, outputs, attrs) if body.accepts else None
    if reason:
        return UnsupportedOpError(
            f"op {op.name} on {kind}: {reason}", op=op.name, got=[str(t) for t in inputs]
        )
    return None


def call_words(op: Op, attrs: Attrs, kind: str, inputs: Types, outputs: Types) -> tuple[int, ...]:
    """All attribute words of a call: the op's, and on tt those of its numerics (no blocking chosen)."""
    words = tuple(op.words(inputs, outputs, attrs)) if op.words else ()
    return words + numeric_words(op, attrs, kind)


def numeric_words(
    op: Op | None,
    attrs: Attrs,
    kind: str,
    device: numerics.Numerics = _NOTHING,
    model: Any = None,
) -> tuple[int, ...]:
    """The words that come after the op's own: none unless its body of this kind is known to read them.
    ``device``: what is named of the device's arithmetic; ``model`` as numerics.tail has it."""
    body = op.bodies.get(kind) if op is not None else None
    if body is None:
        return ()
    named = numerics.Numerics.of(attrs).over(device)
    if body.numerics:
        return numerics.tail(named, model)
    return numerics.function_words(named) if body.functions else ()
