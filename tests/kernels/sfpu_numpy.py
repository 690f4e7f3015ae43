"""The vector unit in numpy, and kernels of ttnn on it, written from the same descriptions as
native/kernels/tt/sfpu*.h but apart from them: arrays of float32 bits (uint32) in, arrays out.

``mad`` is SFPMAD of a Wormhole: the product keeps three bits below a float32's place, the rest is one sticky
bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIGN, EXPONENT, MANTISSA = np.uint32(0x80000000), np.uint32(0x7F800000), np.uint32(0x007FFFFF)
Bits = np.ndarray


def bits(x: float | np.ndarray) -> Bits:
    return np.asarray(x, np.float32).view(np.uint32)


def floats(x: Bits) -> np.ndarray:
    return np.asarray(x, np.uint32).view(np.float32)


# ---------------------------------------------------------------- registers


def field(x: Bits) -> np.ndarray:
    """The exponent's bits, int64."""
    return (x >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)


def fraction(x: Bits) -> np.ndarray:
    return (x & MANTISSA).astype(np.int64)


def _whole(x: Bits) -> np.ndarray:
    return np.where(field(x) == 0, 0, fraction(x) | 1 << 23)


def _fall(value: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Shifted right; what falls off is remembered in the last bit, unless nothing is left."""
    by = np.minimum(by, 62)
    left = value >> by
    return np.where(left == 0, 0, left | ((left << by) != value))


def mad(x: Bits, y: Bits, z: Bits) -> Bits:
    """x y + z"""
    x, y, z = np.broadcast_arrays(*(np.asarray(v, np.uint32) for v in (x, y, z)))
    product, place = _whole(x) * _whole(y), field(x) + field(y) - 127
    sign = (x ^ y) >> np.uint32(31)
    none = (product == 0) | (place < 0)
    product = np.where(none, 0, _fall(product, np.full_like(product, 20)))
    place = np.where(none, 0, np.minimum(place, 255))
    top = np.maximum(place, field(z))
    a = _fall(product, top - place) * np.where(sign, -1, 1)
    b = _fall(_whole(z) << 3, top - field(z)) * np.where(z >> np.uint32(31), -1, 1)
    total = a + b
    size = np.abs(total)
    length = np.frexp(size.astype(np.float64))[1]  # bits: 27 is a float32 with its three
    more = np.maximum(length - 27, 0)  # of bits that fall off here only the last one counts
    size = np.where(length > 27, size >> more | (size & 1), size << np.maximum(27 - length, 0))
    top = top + length - 27
    low = size & 7
    size = (size >> 3) + ((low > 4) | ((low == 4) & (size >> 3 & 1 == 1)))
    top, size = np.where(size >> 24, top + 1, top), np.where(size >> 24, size >> 1, size)
    made = np.where(
        (total == 0) | (top <= 0), 0, np.where(top >= 255, 255 << 23, top << 23 | size & 0x7FFFFF)
    )
    # what is left of the sign where all is lost is +0
    out = made.astype(np.uint32) | np.where((total < 0) & (made != 0), SIGN, 0).astype(np.uint32)
    out = np.where(none, np.where(field(z) == 0, 0, z), out).astype(np.uint32)
    return _special(x, y, z, out, none, field(x) + field(y) - 127)


def _special(x: Bits, y: Bits, z: Bits, out: Bits, none: np.ndarray, place: np.ndarray) -> Bits:
    def nan(v: Bits) -> np.ndarray:
        return (v & ~SIGN) > EXPONENT

    def inf(v: Bits) -> np.ndarray:
        return (v & ~SIGN) == EXPONENT

    sign = (x ^ y) & SIGN
    infinite = inf(x) | inf(y)
    zero = (_whole(x) == 0) | (_whole(y) == 0)
    invalid = nan(x) | nan(y) | (infinite & zero)
    infinite = infinite | (~none & (place >= 255))
    wrong = invalid | nan(z) | (infinite & inf(z) & (sign != z & SIGN))
    of = np.where(~invalid & nan(z), z & SIGN, sign)
    leaked = np.where(field(out) == 255, 0, out & MANTISSA)
    bad = of | EXPONENT | leaked | np.uint32(1)
    good = np.where(infinite, sign | EXPONENT, np.where(inf(z), z, out))
    return np.where(wrong, bad, good).astype(np.uint32)


def mul(x: Bits, y: Bits) -> Bits:
    return mad(x, y, bits(0.0))


def add(x: Bits, y: Bits) -> Bits:
    return mad(x, bits(1.0), y)


def sub(x: Bits, y: Bits) -> Bits:
    return mad(y, bits(-1.0), x)


def poly(x: Bits, *coefficients: float) -> Bits:
    """The constant first."""
    total = np.broadcast_to(bits(coefficients[-1]), np.shape(x))
    for c in reversed(coefficients[:-1]):
        total = mad(total, x, bits(c))
    return total


def negative(x: Bits) -> np.ndarray:
    return x >> np.uint32(31) == 1


def below(x: Bits, limit: float) -> np.ndarray:
    return negative(sub(x, bits(limit)))


def magnitude(x: Bits) -> Bits:
    return x & ~SIGN


def signed(x: Bits, like: Bits) -> Bits:
    return magnitude(x) | (like & SIGN)


def with_field(x: Bits, exponent: np.ndarray) -> Bits:
    return (x & ~EXPONENT) | ((exponent & 0xFF) << 23).astype(np.uint32)


def rank(x: Bits) -> np.ndarray:
    i = x.astype(np.int64)
    return np.where(i >> 31, -(i & 0x7FFFFFFF) - 1, i)


def lesser(x: Bits, y: float) -> Bits:
    return np.where(rank(np.asarray(x)) > rank(bits(y)), bits(y), x).astype(np.uint32)


def greater(x: Bits, y: float) -> Bits:
    return np.where(rank(np.asarray(x)) < rank(bits(y)), bits(y), x).astype(np.uint32)


def number(x: np.ndarray) -> Bits:
    """Integers as floats."""
    return bits(x.astype(np.float32))


# ---------------------------------------------------------------- blocks


def exp21(x: Bits, first: float = 1.0017248) -> Bits:
    z = lesser(greater(mad(x, bits(1.4426950216293335), bits(127.0)), 0.0), 255.0)
    return exp21_of(z, first)


def exp21_of(z: Bits, first: float = 1.0017248) -> Bits:
    power, whole = field(z) - 127, fraction(z) | 1 << 23
    fixed = np.where(power >= 0, whole << np.maximum(power, 0), whole >> (np.maximum(-power, 0) & 31))
    part = poly(number(fixed & 0x7FFFFF), first, 7.839635491371155e-08, 4.791750143340323e-15)
    return with_field(part, fixed >> 23)


def reciprocal(x: Bits, steps: int) -> Bits:
    minus = bits(-1.0) | (x & MANTISSA)
    y = poly(minus, 2.121212482452392578125, 1.4545459747314453125, 0.3232325017452239990234375)
    for _ in range(steps):
        y = mad(y, mad(minus, y, bits(1.0)), y)
    scale = mul(~x & (SIGN | EXPONENT), bits(0.5))
    return signed(mul(y, scale), x)


def root(x: Bits, inverse: bool) -> Bits:
    y = np.uint32(0x5F1110A0) - (x >> np.uint32(1))
    c = mul(y ^ SIGN, mul(x, y))
    y = mul(y, mad(c, add(c, bits(2.2533049)), bits(2.2825186)))
    xy = mul(x, y)
    rest = mad(y ^ SIGN, xy, bits(1.0))
    if inverse:
        half = np.where(field(y) == 0, y, with_field(y, field(y) - 1)).astype(np.uint32)
        ends = (x == 0) | (x == EXPONENT)
        y = np.where(ends, EXPONENT - x, mad(rest, half, y))
    else:
        y = np.where(x.astype(np.int32) < 0x7F800000, mad(rest, mul(bits(0.5), xy), xy), y)
    return np.where(negative(x), bits(np.nan), y).astype(np.uint32)


def _log(part: np.ndarray, n: Bits) -> Bits:
    r = mad(poly(n, float.fromhex("-0x1.008p-1"), float.fromhex("0x1.744p-2"), -0.25), mul(n, n), n)
    exponent = bits(part.astype(np.int32).astype(np.float32))
    return mad(exponent, bits(np.float32(0.693147182) * np.float32(1.1920929e-7)), r)


def _log_part(x: Bits) -> Bits:
    return (x - bits(0.75)) & (SIGN | EXPONENT)


def log(x: Bits, scale: float = 0.0) -> Bits:
    part = _log_part(x)
    made = _log(part, sub(x - part, bits(1.0)))
    made = mul(made, bits(scale)) if scale else made
    made = np.where(field(x) == 255, x, np.where(field(x) == 0, bits(-np.inf), made))
    return np.where(negative(x), bits(np.nan), made).astype(np.uint32)


def log1p(x: Bits) -> Bits:
    u = add(x, bits(1.0))
    part = _log_part(u)
    least = mad(bits(-0.25), bits(-4.0) - part, bits(-1.0))
    made = np.where(field(u) == 255, u, _log(part, add(x - part, least)))
    return np.where(negative(u), bits(np.nan), made).astype(np.uint32)


def reduced(x: Bits, j: Bits, unit: float) -> Bits:
    first, *rest = (float.fromhex(h) for h in ("-0x1.92p+1", "-0x1.fbp-11", "-0x1.51p-21", "-0x1.0b4612p-33"))
    x = add(x, mul(j, bits(unit * first)))
    for part in rest:
        x = mad(j, bits(unit * part), x)
    return x


def sine(a: Bits, odd: Bits) -> Bits:
    s = mul(a, a)
    a = a ^ (odd << np.uint32(31))
    c = (float.fromhex(h) for h in ("-0x1.5554a4p-3", "0x1.10c2a2p-7", "-0x1.8b10a4p-13"))
    return mad(poly(s, *c), mul(a, s), a)


WHOLE = 12582912.0


def sin(x: Bits) -> Bits:
    j = mad(x, bits(0.31830987334251404), bits(WHOLE))
    return sine(reduced(x, sub(j, bits(WHOLE)), 1.0), j)


def cos(x: Bits) -> Bits:
    j = add(mad(x, bits(0.31830987334251404), bits(0.5)), bits(WHOLE))
    return sine(reduced(x, mad(sub(j, bits(WHOLE)), bits(2.0), bits(-1.0)), 0.5), j)


def sigmoid(x: Bits) -> Bits:
    return reciprocal(add(bits(1.0), exp21(x ^ SIGN)), 1)


def tanh(x: Bits) -> Bits:
    c = (0.0, 0.999004364013671875, 3.0897438526153564453125e-2, -0.4890659749507904052734375)
    c += (0.281917631626129150390625, -6.6649019718170166015625e-2, 5.876733921468257904052734375e-3)
    return signed(lesser(poly(magnitude(x), *c), 1.0), x)


def erf(x: Bits) -> Bits:
    x = signed(lesser(magnitude(x), 10.0), x)
    s = mul(x, x)
    above = mul(poly(s, 1.1280932447, 2.7609212279e-01, 4.5400281738e-02, 7.4481184425e-04), x)
    under = poly(s, 1.0, 5.7439188334e-01, 1.3675764810e-01, 8.2844606784e-03, 2.4813862145e-05)
    return lesser(greater(mul(above, reciprocal(under, 2)), -1.0), 1.0)


def gelu(x: Bits) -> Bits:
    square = mul(x, x)
    odd = (3.9894227818e-01, -6.6361041488e-02, 9.7720050615e-03, -1.0717806322e-03, 8.1812159812e-05)
    core = mul(x, mad(x, poly(square, *odd, -3.8082057209e-06, 7.9821413868e-08), bits(0.5)))
    tail = exp21_of(mad(square, bits(-0.72134752044), bits(127.0)))
    cubic = (3.0369991064e-01, 9.5413386822e-02, 1.3809983619e-02, 7.5950479368e-04)
    tail = mul(x, sub(add(mul(tail, poly(x, *cubic)), bits(0.375)), bits(0.375)))
    made = np.where(below(x, 2.78125), np.where(below(x, -3.125), tail, core), x)
    low = sub(x, bits(-5.54259443))
    return np.where(negative(low) | (low == 0), 0, made).astype(np.uint32)


def expm1(x: Bits) -> Bits:
    j = mad(bits(1.442695), x, bits(WHOLE))
    i, j = j, sub(j, bits(WHOLE))
    f = mad(j, bits(-0.6931471805599453), x)
    r = mad(poly(f, 0.5, 1.666259766e-01, 4.177856445e-02, 8.361816406e-03), mul(f, f), f)
    scale = (i << np.uint32(23)) + bits(0.5)
    far = add(j, bits(-2.0))
    made = mad(scale, r, sub(scale, bits(0.5)))
    end = np.where(negative(far), bits(-0.5), mul(far, bits(np.inf)))
    made = mul(np.where(np.abs(floats(far)) < 126.5, made, end).astype(np.uint32), bits(2.0))
    return np.where(j == 0, r, made).astype(np.uint32)


# ---------------------------------------------------------------- what comes back


def near(x: Bits) -> Bits:
    """Rounded to bf16 by the vector unit: ties away from 0, NaN to infinity."""
    made = np.where(field(x) == 255, x & ~MANTISSA, (x + np.uint32(0x8000)) & np.uint32(0xFFFF0000))
    return np.where(field(x) == 0, 0, made).astype(np.uint32)


def stored(x: Bits) -> np.ndarray:
    """float32: what a 16-bit Dst and the packer leave: cut, no NaN, and 0 without a sign."""
    cut = np.where(field(x) == 255, x & ~MANTISSA, x & np.uint32(0xFFFF0000))
    return floats(np.where(field(x) == 0, 0, cut).astype(np.uint32))


FUNCTIONS: dict[str, Callable[[Bits], Bits]] = {  # the register that is stored
    "exp": lambda x: near(exp21(x, 1.001953125)),
    "exp2": lambda x: near(exp21(mul(x, bits(0.6931471805)))),
    "expm1": lambda x: near(expm1(x)),
    "reciprocal": lambda x: near(reciprocal(x, 1)),
    "sqrt": lambda x: near(root(x, False)),
    "rsqrt": lambda x: near(root(x, True)),
    "log": lambda x: near(log(x)),
    "log2": lambda x: near(log(x, 1.4426950408889634)),
    "log10": lambda x: near(log(x, 0.4342944819032518)),
    "log1p": lambda x: near(log1p(x)),
    "sin": lambda x: near(sin(x)),
    "cos": lambda x: near(cos(x)),
    "sigmoid": lambda x: near(sigmoid(x)),
    "silu": lambda x: near(mul(x, sigmoid(x))),
    "tanh": lambda x: near(tanh(x)),
    "erf": erf,
    "gelu": lambda x: near(gelu(x)),
    "square": lambda x: mul(x, x),
    "relu": lambda x: greater(x, 0.0),
    "deg2rad": lambda x: mul(x, bits(0.017453292519943295)),
    "softsign": lambda x: mul(x, reciprocal(add(magnitude(x), bits(1.0)), 2)),
}
