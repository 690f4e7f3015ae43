"""What operations of operations/transforms accept."""

from __future__ import annotations

import math

from .rules import Given, Operand, Rule, accepts

_SOURCE = "ttnn/experimental/fft of the release 0.81.1, by its own refusals"


def _rows(name: str, *operands: str) -> tuple[Operand, ...]:
    """Each operand has floats in rows."""
    kinds = "only Float32 and BFloat16 inputs are supported (got {dtype})."
    return tuple(
        rule
        for one in operands
        for rule in (
            Operand(one, dtypes="BFLOAT16 FLOAT32", text=f"{name}: {kinds}"),
            Operand(
                one, layouts="ROW_MAJOR", text=f"{name}: only ROW_MAJOR layout is supported ({{layout}})."
            ),
        )
    )


def _power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _alike(first: str, second: str) -> Rule:
    def fault(given: Given) -> str:
        a, b = getattr(given, first), getattr(given, second)
        if not hasattr(b, "shape"):
            return ""
        if a.dtype is not b.dtype:
            return f"{first}/{second} dtype mismatch (real={a.dtype.name}, imag={b.dtype.name})."
        return "" if tuple(a.shape) == tuple(b.shape) else f"{first} and {second} must share shape."

    return Rule("both parts have one type and one shape", fault)


def _length(name: str) -> Rule:
    def fault(given: Given) -> str:
        size = getattr(given, name).shape[-1]
        return "" if size >= 2 else f"last-dim length N must be >= 2 (got N={size})."

    return Rule("rows have at least 2 elements", fault)


def _batch(name: str) -> Rule:
    def fault(given: Given) -> str:
        *outer, size = getattr(given, name).shape
        if not _power(size) or _power(math.prod(outer)):
            return ""
        return f"batch dim B={math.prod(outer)} must be a positive power of two."

    return Rule("rows of a power of two are a power of two in number", fault)


accepts(
    "experimental.fft",
    *_rows("fft", "input_real"),
    _length("input_real"),
    _alike("input_real", "input_imag"),
    _batch("input_real"),
    source=_SOURCE,
)
accepts(
    "experimental.ifft",
    *_rows("fft", "spectrum_real"),
    _length("spectrum_real"),
    _alike("spectrum_real", "spectrum_imag"),
    _batch("spectrum_real"),
    source=_SOURCE,
)
accepts(
    "experimental.bluestein_fft",
    *_rows("bluestein_fft", "input_real"),
    Operand("input_real", ranks=(2,), text="bluestein_fft: input must be 2-D (B, N).  Got rank {rank}."),
    _alike("input_real", "input_imag"),
    source=_SOURCE,
)
accepts("experimental.fft_three_pass", *_rows("fft_three_pass", "input_real"), source=_SOURCE)
accepts(
    "experimental.fft_radix_pass",
    *_rows("fft_radix_pass", "input_real"),
    _alike("input_real", "input_imag"),
    _batch("input_real"),
    Rule(
        "twiddle_N2 is 0 or a power of two up to 1024",
        lambda c: (
            ""
            if c.twiddle_N2 == 0 or (_power(c.twiddle_N2) and c.twiddle_N2 <= 1024)
            else f"fft_radix_pass: twiddle_N2 must be pow-2 in [1, 1024] (got {c.twiddle_N2})."
        ),
    ),
    source=_SOURCE,
)
accepts(
    "experimental.apply_twiddles",
    *_rows("apply_twiddles", "input_real", "input_imag"),
    Rule(
        "N2 is a power of two up to 1024",
        lambda c: (
            ""
            if _power(c.N2) and c.N2 <= 1024
            else f"apply_twiddles: N2 must be pow-2 in [1, 1024] (got {c.N2})."
        ),
    ),
    source=_SOURCE,
)
accepts(
    "experimental.apply_twiddles_xl",
    *_rows("apply_twiddles_xl", "input_real", "input_imag"),
    Rule(
        "big_modulus is a power of two up to 2^20",
        lambda c: (
            ""
            if _power(c.big_modulus) and c.big_modulus <= 1 << 20
            else f"apply_twiddles_xl: big_modulus must be pow-2 in [1, 1048576] (got {c.big_modulus})."
        ),
    ),
    source=_SOURCE,
)
accepts(
    "experimental.complex_mul",
    *_rows("complex_mul", "a_real", "a_imag", "b_real", "b_imag"),
    Rule(
        "rows have at most 1024 elements",
        lambda c: (
            ""
            if c.a_real.shape[-1] <= 1024
            else f"complex_mul: last-dim row length must be in [1, 1024] (got {c.a_real.shape[-1]})."
        ),
    ),
    source=_SOURCE,
)
