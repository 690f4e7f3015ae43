"""Errors of an elementwise op on a device, over every bf16 number as its first input.

    print(sweep("gelu", "tt:0", Precision.of("bf16")).max_ulp)

The reference is the op in numpy with float64, not rounded. Numbers below the smallest normal number count as
0, on the device and in the reference, as inputs and as results.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import GraphRuntimeError, InputError, did_you_mean
from ..base.machine.devices import Device, parse
from ..base.options import Options
from ..ir.builder import GraphBuilder
from ..ir.graph import TensorType
from ..ir.ops import registry
from ..run.factory import create
from .precision import Precision
from .ulp import BINS, ElementDifference, bf16_codes, last_place, steps_of

_NORMAL = 2.0**-126
SPECIALS = {
    "0": 0.0,
    "-0": -0.0,
    "inf": np.inf,
    "-inf": -np.inf,
    "nan": np.nan,
    "2^-126": _NORMAL,
    "-2^-126": -_NORMAL,
}
_SIDE = 256  # side of the square matrix that holds one sweep
_FEW = 2.0  # a result is usable up to this error, in ULP
_SHOWN = 5
# values of second and third inputs: powers of two, numbers with many digits, both signs, small and large
_PARTNERS = tuple(
    float(x)
    for a in (0.0078125, 0.1, 0.5, 0.75, 1.0, 1.5, 2.0, 3.140625, 7.0, 10.0, 100.0, 1e-6, 1e4, 1e-30, 1e30)
    for x in (a, -a)
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Errors of an op on a device, in ULP of ``format`` (ulp.steps_of), over the ``points`` at which both the
    right result and the device's are normal numbers.

    ``exact``: the share of points at which the result is the right number rounded to nearest. ``mean_ulp``:
    mean error of the other points. ``histogram``: number of points in each of ulp.BINS, and number beyond the
    last bin. ``defects``: number of results that are 0, NaN or infinite where a normal number is right.
    ``unflushed``: number of normal results where 0 is right. ``outside``: number of other results where NaN
    or an infinity is right. ``usable_to``: the largest magnitude up to which no point is a defect or has an
    error beyond 2 ULP; None for an op with several inputs. ``specials``: results at the inputs SPECIALS, with
    1 for other inputs. ``worst``: elements with the largest errors, largest first.
    """

    op: str
    device: str
    precision: str
    format: str
    points: int
    exact: float
    max_ulp: float
    mean_ulp: float
    p99_ulp: float
    max_abs: float
    histogram: tuple[int, ...]
    defects: int
    unflushed: int
    outside: int
    usable_to: float | None
    specials: dict[str, float]
    worst: tuple[ElementDifference, ...]

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values; NaN and infinities of specials as text."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return made | {
            "histogram": dict(zip([*(f"<={end:g}" for end in BINS), "more"], self.histogram, strict=True)),
            "specials": {name: x if np.isfinite(x) else str(x) for name, x in self.specials.items()},
            "worst": [element.as_dict() for element in self.worst],
        }


def sweepable(op: registry.Op, kind: str) -> bool:
    """Whether an op can be swept on a device kind. Such an op is elementwise, takes only floats, and has no
    required attribute."""
    return not _reason(op, kind)


def _reason(op: registry.Op, kind: str) -> str:
    """The reason why an op cannot be swept; "" if it can be."""
    if op.kind != "elementwise" or op.arity[0] != op.arity[1]:
        return "it is not elementwise: give a model that has it"
    if kind not in op.bodies:
        return f"{kind} has no kernel for it"
    try:
        made = op.infer([TensorType("float32", (2, 2))] * op.arity[0], op.decode({}))
    except GraphRuntimeError as error:
        return str(error)
    return "" if made[0].dtype == "float32" else "its result is no float"


def named_ops(names: Sequence[str], kind: str) -> list[str]:
    """The ops that match names and globs; the ops that a glob matches are in the table's order. Raises
    InputError for a name or glob that matches none, and for a named op that cannot be swept."""
    ops, found = registry.all_ops(), []
    for name in names:
        if name in registry.aliases():
            target, attrs = registry.aliases()[name]
            said = ", ".join(f"{key}={value}" for key, value in attrs.items())
            raise InputError(
                f"{name} is another name of {target}" + (f" with {said}" if said else ""), got=name
            )
        if name in ops:
            if reason := _reason(ops[name], kind):
                raise InputError(f"{name} cannot be swept on {kind}: {reason}", got=name)
            found.append(name)
            continue
        matched = [n for n in fnmatch.filter(ops, name) if sweepable(ops[n], kind)]
        if not matched:
            raise InputError(f"no op to sweep is named {name!r}{did_you_mean(name, ops)}", got=name)
        found += matched
    return list(dict.fromkeys(found))


def sweep(op: str, device: str | Device = "tt:0", precision: Precision | None = None) -> Sweep:
    """Run ``op``, with the defaults of its attributes, over all 65,536 bf16 numbers on a device. Further
    inputs take only the values in _PARTNERS, each combined with every first input; for an op with such inputs
    the worst error found is therefore a lower bound.

    On tt a tensor is stored in the precision's format, by default bf16; on a host it is bfloat16. Raises
    InputError for an op that cannot be swept, and what create raises.
    """
    at, precision = parse(device), precision or Precision()
    entry = registry.require(named_ops([op], at.kind)[0])
    format = "bf16" if at.descriptor.on_host else precision.format or "bf16"
    first, *rest = _inputs(entry.arity[0])
    got = _run(entry, [first, *rest], at, precision, format)
    right = _right(entry, [_flushed(a) for a in (first, *rest)])
    specials = _specials(entry, at, precision, format)
    points = np.broadcast_to(_ordinary(first), got.shape)
    return _judged(entry, (str(at), precision.text, format), [first, *rest], got, right, points, specials)


def _inputs(count: int) -> list[np.ndarray]:
    """The op's inputs: all 65,536 codes as the first input, and constants from _PARTNERS as the others. There
    is one plane per combination of these constants."""
    codes = bf16_codes().reshape(_SIDE, _SIDE)
    if count == 1:
        return [codes]
    partners = dtypes.to_numpy("bfloat16")
    values = np.array(_PARTNERS, partners).astype(np.float32)
    planes = [np.roll(values, 7 * turn).reshape(-1, 1, 1) for turn in range(count - 1)]
    return [codes, *planes]


def _run(
    op: registry.Op, arrays: Sequence[np.ndarray], at: Device, precision: Precision, format: str
) -> np.ndarray:
    """The device's result for float32 arrays, as float64."""
    own = dtypes.FORMATS[format].dtype if at.descriptor.on_host else "float32"
    builder = GraphBuilder(device=str(at))
    inputs = [builder.input(f"x{i}", a.shape, own) for i, a in enumerate(arrays)]
    builder.output(builder.op(op.name, *inputs))
    options = precision.over(Options(), [at]) if precision.format or precision.words else Options()
    if not at.descriptor.on_host:
        options = Options.of(options, formats={str(at): format})
    module = create(builder, None, [at], options=options)
    with np.errstate(all="ignore"):
        given = [a.astype(dtypes.to_numpy(own)) for a in arrays]
    module.run(**{f"x{i}": a for i, a in enumerate(given)})
    return np.asarray(module.get_output(0).numpy(), np.float64)


def _right(op: registry.Op, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The reference's result for the arrays, computed in float64."""
    with np.errstate(all="ignore"):
        wide = [np.asarray(a, np.float64) for a in arrays]
        return np.asarray(op.reference(wide, op.decode({}))[0], np.float64)


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < _NORMAL, np.copysign(np.float32(0), x), x)


def _ordinary(x: np.ndarray) -> np.ndarray:
    """Mask (bool) of the numbers that are finite and whose magnitude is at least the smallest normal number.
    0 is excluded, because it is tested among SPECIALS."""
    return np.isfinite(x) & (np.abs(x) >= _NORMAL)


def _specials(op: registry.Op, at: Device, precision: Precision, format: str) -> dict[str, float]:
    """The results at SPECIALS. Each value has a tile of its own, because in a block float format it would
    change its neighbours."""
    values = np.zeros((len(SPECIALS), 32, 32), np.float32)
    values[:, 0, 0] = list(SPECIALS.values())
    ones = [np.ones((1, 1, 1), np.float32)] * (op.arity[0] - 1)
    got = _run(op, [values, *ones], at, precision, format)
    return dict(zip(SPECIALS, got[:, 0, 0].tolist(), strict=True))


def _judged(
    op: registry.Op,
    names: tuple[str, str, str],
    arrays: Sequence[np.ndarray],
    got: np.ndarray,
    right: np.ndarray,
    inputs: np.ndarray,
    specials: dict[str, float],
) -> Sweep:
    digits = steps_of(names[2])
    with np.errstate(all="ignore"):
        place = last_place(right, digits)
        rounded = np.round(right / place) * place
        largest = (2.0 - 2.0 ** (1 - digits)) * 2.0**127
        number = inputs & np.isfinite(right) & (np.abs(rounded) >= _NORMAL) & (np.abs(rounded) <= largest)
        zero = inputs & (np.abs(rounded) < _NORMAL)
        given = np.isfinite(got) & (np.abs(got) >= _NORMAL)
        point, error = number & given, np.abs(got - right)
        ulp = np.where(point, error / place, np.nan)
        equal = (
            (got == rounded)
            | (np.isnan(got) & np.isnan(right))
            | (np.isinf(got) & (np.abs(rounded) > largest))
        )
    defect, found = number & ~given, ulp[point]
    wrong = found[(got != rounded)[point]]
    bins = np.searchsorted(BINS, found, side="left")
    return Sweep(
        op.name,
        *names,
        points=int(point.sum()),
        exact=float(1 - len(wrong) / max(len(found), 1)),
        max_ulp=float(found.max(initial=0.0)),
        mean_ulp=float(wrong.mean()) if len(wrong) else 0.0,
        p99_ulp=float(np.quantile(found, 0.99)) if len(found) else 0.0,
        max_abs=float(error[point].max(initial=0.0)),
        histogram=tuple(np.bincount(bins, minlength=len(BINS) + 1).tolist()),
        defects=int(defect.sum()),
        unflushed=int((zero & given).sum()),
        outside=int((inputs & ~number & ~zero & ~equal).sum()),
        usable_to=_usable_to(arrays[0], defect | (ulp > _FEW)) if len(arrays) == 1 else None,
        specials=specials,
        worst=tuple(_worst(arrays, got, right, ulp)),
    )


def _usable_to(x: np.ndarray, bad: np.ndarray) -> float:
    """The largest magnitude of a normal number in x below all magnitudes at which ``bad`` holds; 0.0 if there
    is none."""
    size, normal = np.abs(x), _ordinary(x)
    least = size[bad].min(initial=np.inf)
    return float(size[normal & (size < least)].max(initial=0.0))


def _worst(
    arrays: Sequence[np.ndarray], got: np.ndarray, right: np.ndarray, ulp: np.ndarray
) -> list[ElementDifference]:
    flat = np.where(np.isnan(ulp), -1.0, ulp).ravel()
    order = np.argpartition(-flat, _SHOWN)[:_SHOWN]
    order = order[np.argsort(-flat[order], kind="stable")]
    operands = [np.broadcast_to(a, got.shape).ravel() for a in arrays]
    return [
        ElementDifference(
            tuple(float(a[i]) for a in operands), float(got.flat[i]), float(right.flat[i]), float(flat[i])
        )
        for i in order.tolist()
        if flat[i] > 0
    ]
