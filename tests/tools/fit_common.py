"""What the fit_*.py scripts share: tables, a robust fit of positive weights, cross-validation, writing
weights."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

WEIGHTS = Path(__file__).resolve().parents[2] / "graph_runtime" / "costs" / "weights"
Columns = dict[str, np.ndarray]
Model = Callable[[dict[str, float], Columns], np.ndarray]


def rows(path: Path) -> list[dict[str, str]]:
    """Rows of a table by column name, blanks stripped. Its first line names the source and is skipped."""
    with path.open(encoding="utf-8", newline="") as file:
        next(file)
        return [{k.strip(): (v or "").strip() for k, v in row.items()} for row in csv.DictReader(file)]


def date_of() -> str:
    return datetime.date.today().isoformat()


def fit(
    model: Model, start: dict[str, float], x: Columns, y: np.ndarray, tries: int = 12, seed: int = 0
) -> dict[str, float]:
    """Positive weights that make the mean absolute relative error of model(weights, x) small.

    Levenberg-Marquardt on log(model / y) in the logarithms of the weights, reweighted towards the absolute
    error; from ``start`` and from ``tries`` random places around it and around the best so far.
    """
    names = list(start)
    base = np.log([start[n] for n in names])

    def residual(q: np.ndarray) -> np.ndarray:
        weights = dict(zip(names, np.exp(q).tolist(), strict=True))
        return np.clip(np.log(np.maximum(model(weights, x), 1e-9) / y), -20, 20)

    rng = np.random.default_rng(seed)
    best, least = _descend(residual, base)
    for i in range(tries):
        around = np.maximum(best, base - 7) if i % 2 else base
        found, error = _descend(residual, around + rng.normal(0, 0.7, len(base)))
        if error < least:
            best, least = found, error
    return dict(zip(names, np.exp(best).tolist(), strict=True))


def _descend(residual: Callable[[np.ndarray], np.ndarray], q: np.ndarray) -> tuple[np.ndarray, float]:
    r, damping = residual(q), 1e-2
    for _ in range(60):
        weight = 1 / np.maximum(np.abs(r), 0.01)
        jacobian = np.stack([(residual(q + d) - r) / 1e-4 for d in np.eye(len(q)) * 1e-4], axis=1)
        normal, gradient = jacobian.T @ (weight[:, None] * jacobian), jacobian.T @ (weight * r)
        for _ in range(8):
            step = np.linalg.lstsq(
                normal + np.diag(damping * (np.diag(normal) + 1e-9)), -gradient, rcond=None
            )[0]
            step = np.clip(step, -1, 1)
            moved = residual(q + step)
            if (weight * moved**2).sum() < (weight * r**2).sum():
                break
            damping *= 4
        else:
            break
        q, r, damping = q + step, moved, max(damping / 5, 1e-9)
        if np.abs(step).max() < 1e-6:
            break
    return q, float(np.abs(np.exp(r) - 1).mean())


def cross_validate(
    model: Model,
    weights: dict[str, float],
    x: Columns,
    y: np.ndarray,
    groups: Sequence[Any] | None = None,
    folds: int = 5,
) -> float | None:
    """Mean absolute relative error, in percent, on rows (or whole groups of them) that the fit did not see;
    each fit starts at ``weights``. None where all rows are one group."""
    labels = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    folds = min(folds, int(labels.max()) + 1)
    if folds < 2:
        return None
    fold = np.random.default_rng(0).permutation(labels.max() + 1)[labels] % folds
    errors = np.zeros(len(y))
    for i in range(folds):
        seen = fold != i
        found = fit(model, weights, {k: v[seen] for k, v in x.items()}, y[seen], tries=0)
        errors[~seen] = model(found, {k: v[~seen] for k, v in x.items()}) / y[~seen] - 1
    return round(float(np.abs(errors).mean()) * 100, 3)


def error(model: Model, weights: dict[str, float], x: Columns, y: np.ndarray) -> float:
    """Mean absolute relative error in percent."""
    return round(float(np.abs(model(weights, x) / y - 1).mean()) * 100, 3)


def write_weights(name: str, content: dict[str, Any]) -> None:
    """Write graph_runtime/costs/weights/<name>.json, keys in the given order, numbers with 6 significant
    digits."""
    text = orjson.dumps(_rounded(content), option=orjson.OPT_INDENT_2)
    (WEIGHTS / f"{name}.json").write_bytes(text + b"\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(v) for v in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value
