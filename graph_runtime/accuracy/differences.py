"""Errors of results: one row per value, and the report of a comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS
from ..ir.graph import Graph, TensorType
from ..ir.ops.inputs import nmse
from ..ir.ops.numerics import Numerics
from ..plan import Plan
from ..views.notebook import table_of
from ..views.page.comparisons import comparison_page
from ..views.page.opened import open_page
from ..views.tensor_numbers import TensorNumbers
from .bisection import FirstDifference
from .ulp import ElementDifference, steps_of, ulps, worst_elements

# {coarsest format in which a float was stored: (nmse allowed for a network's outputs, in which errors add up;
# nmse allowed for one node with exact inputs)}. The nmse is the normalised mean squared error; 2e-2 is a
# correlation of 0.99.
_BOUNDS = {name: f.bounds for name, f in FORMATS.items() if f.bounds}


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """The error of one entry against the interpreter's value. ``max_rel``: the largest error relative to the
    wanted element, over wanted elements other than 0. ``correlation``: Pearson's correlation (PCC).
    ``cosine``: cosine of the angle between both values. Correlation and cosine are 1.0 for equal values, and
    0.0 for different values if they are undefined. ``max_ulp``, ``p99_ulp``: the largest error and the 99th
    percentile of errors, in steps of bf16 at the wanted element, over wanted elements other than 0; 0.0 for
    integers. ``numbers``: summary of the computed value. ``worst``: the elements with the greatest absolute
    errors.
    """

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
        """The difference of ``got`` from ``want``, which has the same shape. All measures except nmse are
        taken over the elements that are finite in both."""
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
        """The fields as JSON-able values."""
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
    """Differences, worst nmse first. ``outputs``: differences of the graph's outputs. ``accumulated``:
    differences of all entries in a run of the whole model. ``isolated``: differences of all entries when each
    node runs alone on the interpreter's values. Both are empty without nodes=True. ``bound``: nmse allowed
    for outputs. ``alone``: nmse allowed for isolated nodes. ``judge``: name of the reference. ``first``: the
    first node that differs, if it was searched for."""

    outputs: tuple[EntryDifference, ...]
    bound: float
    alone: float = 0.0
    accumulated: tuple[EntryDifference, ...] = ()
    isolated: tuple[EntryDifference, ...] = ()
    judge: str = "numpy"
    first: FirstDifference | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values, worst difference first."""
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
        """Whether every output, and every node alone, is within its bound."""
        return all(d.nmse <= self.bound for d in self.outputs) and all(
            d.nmse <= self.alone for d in self.isolated
        )

    def _repr_html_(self) -> str:
        """HTML for a notebook: the verdict, and the worst rows of each kind."""
        columns = ("name", "op", "device", "nmse", "max_abs", "correlation")
        verdict, *_ = str(self).splitlines()
        return f"<p><b>{escape(verdict)}</b></p>" + "".join(
            table_of([row.as_dict() for row in getattr(self, title)], columns, title)
            for title in ("outputs", "isolated", "accumulated")
        )

    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the page of `graph-runtime view`, with the errors and numbers of each node, and return the
        page's path. ``path``: file to write; None: a temporary file, which is opened in the browser. Raises
        WriteError, InputError."""
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


def output_differences(graph: Graph, right: Sequence[np.ndarray], module: Any) -> list[EntryDifference]:
    """The error of each output of a module that has run, compared with ``right``. ``graph``: the module's
    model before rewrites; ``right``: the values of this graph's entries."""
    found = []
    for i, eid in enumerate(graph.outputs.tolist()):
        node, got = graph.node(graph.maker(eid)), np.array(module.get_output(i).numpy())
        found.append(EntryDifference.of(node.name, node.op, "", graph.entry_type(eid), got, right[eid]))
    return found


def _cosine(a: np.ndarray, w: np.ndarray, error: float) -> float:
    """Cosine of the angle between two vectors. If one of the vectors is zero, the result is 1.0 for equal
    vectors, else 0.0."""
    with np.errstate(all="ignore"):
        norm = np.sqrt((a * a).sum() * (w * w).sum())
        return float((a * w).sum() / norm) if norm else float(error == 0.0)


def bounds_of(planned: Plan) -> tuple[float, float]:
    """(nmse allowed for the outputs of a plan, nmse allowed for a node that runs alone). Both follow from the
    plan's coarsest storage format."""
    used = {planned.layouts[i].format for i in np.unique(planned.layout_id).tolist()}
    if planned.numerics or any(Numerics.of(f.attrs).as_dict() for f in planned.graph.funcs):
        used.add("bf16")  # operands or sums are rounded to bf16, whatever their storage format
    return max((_BOUNDS[f] for f in used if f in _BOUNDS), default=(0.0, 0.0))
