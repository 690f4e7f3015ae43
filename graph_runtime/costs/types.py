"""Cost: an amount, and its basis (measured, fitted, ...)."""

from __future__ import annotations

from dataclasses import dataclass

# bases, most reliable first
BASES = ("measured", "fitted", "extrapolated", "assumed")


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount and its basis. ``cycles``: device cycles, or ns (or another unit) if the docstring of the
    function that returns the Cost says so. ``basis`` is one of BASES: measured (a published measurement),
    fitted (from a formula fitted to measurements of this case), extrapolated (from a formula used outside the
    range of its measurements) or assumed. ``note`` names the formula."""

    cycles: float
    basis: str
    note: str


def worst(*bases: str) -> str:
    """The least reliable of several bases, which is the basis of a sum of such costs."""
    return max(bases, key=BASES.index)
