"""How far results are from what they should be: a row a value, and the report of a comparison."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS
from ..ir.graph import TensorType
from ..ir.ops.inputs import nmse
from ..ir.ops.numerics import Numerics
from ..plan import Plan
from ..views.notebook import table_of
from ..views.page.comparisons import comparison_page
from ..views.page.opened import open_page
from ..views.tensor_numbers import TensorNumbers
from .bisection import FirstDifference
from .ulp import ElementDifference, steps_of, ulps, worst_elements

__all__ = ["Comparison", "EntryDifference", "bounds_of"]

# Normalised mean squared error that values may have, by the coarsest format in which a float was stored: of a
# network's outputs, where errors add up (2e-2 is a correlation of 0.99), and of what one node makes of right
# inputs.
_BOUNDS = {name: f.bounds for name, f in FORMATS.items() if f.bounds}


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """How one entry differs from the interpreter's. ``max_rel`` is relative to the wanted element where that
    is not 0; ``correlation`` is Pearson's (PCC), ``cosine`` that of the angle between the two; both are 1.0
    where the two are equal, 0.0 where they are not and one has no direction. ``max_ulp``, ``p99_ulp``: the
    greatest distance and the 99th percentile, in steps of bf16 at the wanted element where that is not 0; 0.0
    of integers. ``numbers``: of what was got. ``worst``: the elements with the greatest absolute errors."""

    name: str
    op: str
    device: str
    type: TensorType
    max_abs: float
    max_rel: float
    nmse: float
    correlation: float
    cosine: float
    max_ulp: float
    p99_ulp: float
    numbers: TensorNumbers
    worst: tuple[ElementDifference, ...] = ()

    @classmethod
    def of(
        cls, name: str, op: str, device: str, type: TensorType, got: np.ndarray, want: np.ndarray
    ) -> EntryDifference:
        """Measured: ``got`` beside ``want``, of equal shapes; elements that are finite both ways, but for
        nmse."""
        error = nmse(got, want)
        digits = steps_of("bf16")
        floats = want.dtype.kind not in "iub"
        with np.errstate(all="ignore"):
            a, w = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
            both = np.isfinite(a) & np.isfinite(w)
            a, w = a[both], w[both]
            distance = np.abs(a - w)
            relative = distance[w != 0] / np.abs(w[w != 0])
            steps = ulps(a, w, digits)[w != 0] if floats else np.zeros(0)
        return cls(
            name,
            op,
            device,
            type,
            max_abs=float(distance.max(initial=0.0)),
            max_rel=float(relative.max(initial=0.0)),
            nmse=error,
            correlation=_cosine(a - a.mean(), w - w.mean(), error) if a.size else float(error == 0.0),
            cosine=_cosine(a, w, error),
            max_ulp=float(steps.max(initial=0.0)),
            p99_ulp=float(np.quantile(steps, 0.99)) if steps.size else 0.0,
            numbers=TensorNumbers.of(got),
            worst=tuple(worst_elements(got, want, digits)),
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return made | {
            "type": str(self.type),
            "numbers": self.numbers.as_dict(),
            "worst": [element.as_dict() for element in self.worst],
        }

    def __str__(self) -> str:
        return (
            f"{self.nmse:10.2e} {self.max_abs:10.2e} {self.max_rel:10.2e} {self.correlation:12.9f}  "
            f"{self.name} ({self.op} on {self.device}) {self.type}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences, worst nmse first. ``outputs``: the graph's heads, one a head. With nodes=True also one an
    entry: ``accumulated``, run as a whole, and ``isolated``, each node fed with the interpreter's values.
    ``bound``: the nmse that the outputs are judged by, ``alone``: that of isolated nodes. ``judge``: whose
    values they are compared with. ``first``: the first node that differs, where it was looked for."""

    outputs: tuple[EntryDifference, ...]
    bound: float
    alone: float = 0.0
    accumulated: tuple[EntryDifference, ...] = ()
    isolated: tuple[EntryDifference, ...] = ()
    judge: str = "numpy"
    first: FirstDifference | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values, worst first."""
        return {
            "ok": self.ok,
            "judge": self.judge,
            "worst_nmse": self.worst,
            "bound": self.bound,
            "bound_isolated": self.alone,
            **{
                title: [d.as_dict() for d in getattr(self, title)]
                for title in ("outputs", "isolated", "accumulated")
            },
            **({"first": self.first.as_dict()} if self.first else {}),
        }

    @property
    def worst(self) -> float:
        """The greatest nmse of an output; 0.0 for a graph without outputs."""
        return max((d.nmse for d in self.outputs), default=0.0)

    @property
    def ok(self) -> bool:
        """Whether every output is within the bound, and every node alone."""
        return all(d.nmse <= self.bound for d in self.outputs) and all(
            d.nmse <= self.alone for d in self.isolated
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, and the worst rows of each kind."""
        columns = ("name", "op", "device", "nmse", "max_abs", "correlation")
        verdict, *_ = str(self).splitlines()
        return f"<p><b>{escape(verdict)}</b></p>" + "".join(
            table_of([row.as_dict() for row in getattr(self, title)], columns, title)
            for title in ("outputs", "isolated", "accumulated")
        )

    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """The page of `graph-runtime view` with the errors and numbers of each node: written to ``path``, or
        to a temporary file that the browser opens. Returns where it is. Raises WriteError, InputError."""
        return open_page(comparison_page(self.as_dict(), f"compared with {self.judge}"), path)

    def __str__(self) -> str:
        lines = [
            f"{'as' if self.ok else 'DIFFERS from'} {self.judge}: worst nmse {self.worst:.2e}, "
            f"bound {self.bound:.0e}" + (f", of a node alone {self.alone:.0e}" if self.isolated else "")
        ]
        lines += [str(self.first)] if self.first else []
        for title in ("outputs", "isolated", "accumulated"):
            rows = getattr(self, title)
            if rows:
                lines += [
                    f"{title:<10}       nmse    max abs    max rel  correlation",
                    *(f"{'':6}{d}" for d in rows[:20]),
                ]
                lines += [f"{'':6}... and {len(rows) - 20} more"] if len(rows) > 20 else []
        return "\n".join(lines)


def _cosine(a: np.ndarray, w: np.ndarray, error: float) -> float:
    """Of the angle between two vectors; 1.0 for equal ones without a direction, 0.0 for others."""
    with np.errstate(all="ignore"):
        norm = np.sqrt((a * a).sum() * (w * w).sum())
        return float((a * w).sum() / norm) if norm else float(error == 0.0)


def bounds_of(planned: Plan) -> tuple[float, float]:
    """The nmse that outputs of a plan may have, and a node alone, by the coarsest format that it stores."""
    used = {planned.layouts[i].format for i in np.unique(planned.layout_id).tolist()}
    if planned.numerics or any(Numerics.of(f.attrs).as_dict() for f in planned.graph.funcs):
        used.add("bf16")  # operands or sums are cut, whatever they are stored as
    return max((_BOUNDS[f] for f in used if f in _BOUNDS), default=(0.0, 0.0))
