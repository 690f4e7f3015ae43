"""What a cost is: an amount, and its basis (measured, fitted, ...)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BASES", "Cost", "worst"]

# from the firmest ground to the weakest
BASES = ("measured", "fitted", "extrapolated", "assumed")


@dataclass(frozen=True, slots=True)
class Cost:
    """``cycles``: device cycles, or ns where the function that made it says so. ``basis`` is one of BASES:
    measured (a published measurement itself), fitted (a formula fitted to measurements of this case),
    extrapolated (a formula carried beyond what it was fitted to) or assumed. ``note`` says which formula."""

    cycles: float
    basis: str
    note: str


def worst(*bases: str) -> str:
    """The weakest of several bases: the basis of a sum of such costs."""
    return max(bases, key=BASES.index)
