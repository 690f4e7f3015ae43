"""Cuts of an op onto cores and in time, and rectangles of cores on a chip's grid. Free rectangles are sought
row by row."""

from __future__ import annotations

from typing import NamedTuple


class Grid(NamedTuple):
    """Cores of an op: rows, columns."""

    r: int
    c: int


class Stream(NamedTuple):
    """The cut of an op in time: direction (one of DIRECTIONS), pieces of the rows, pieces of the columns."""

    dir: str
    r: int
    c: int

    @property
    def pieces(self) -> int:
        return self.r * self.c

    @property
    def by_rows(self) -> bool:
        return self.dir[0] == "R"

    @property
    def z_major(self) -> bool:
        return self.dir.endswith("Z")


class Spot(NamedTuple):
    """Place of an op's cores: the first row and column, and the rows and columns taken on the chip (a grid of
    8x2 may lie as 2x8)."""

    row: int
    col: int
    rows: int
    cols: int


class FreeCores:
    """The free cores of one epoch."""

    def __init__(self, grid: tuple[int, int]):
        self.grid = grid
        self._free = [(1 << grid[1]) - 1] * grid[0]  # one bit per column of each row

    def take_first(self, r: int, c: int, transpose: bool = True) -> Spot | None:
        """Take the first free rectangle of r x c cores, or of c x r if ``transpose``; None if there
        is none."""
        spot = self._find(r, c)
        if transpose and r != c:
            turned = self._find(c, r)
            if turned is not None and (spot is None or turned[:2] < spot[:2]):
                spot = turned
        if spot is not None:
            self.take(spot)
        return spot

    def spots(self, r: int, c: int) -> list[Spot]:
        """Every free rectangle of r x c cores."""
        rows, cols = self.grid
        return [
            Spot(row, col, r, c)
            for row in range(rows - r + 1)
            for col in range(cols - c + 1)
            if self._fits(row, col, r, c)
        ]

    def take(self, spot: Spot) -> None:
        mask = ((1 << spot.cols) - 1) << spot.col
        for row in range(spot.row, spot.row + spot.rows):
            self._free[row] &= ~mask

    def give_back(self, spot: Spot) -> None:
        mask = ((1 << spot.cols) - 1) << spot.col
        for row in range(spot.row, spot.row + spot.rows):
            self._free[row] |= mask

    def _fits(self, row: int, col: int, r: int, c: int) -> bool:
        mask = ((1 << c) - 1) << col
        return all(free & mask == mask for free in self._free[row : row + r])

    def _find(self, r: int, c: int) -> Spot | None:
        rows, cols = self.grid
        if r > rows or c > cols:
            return None
        for row in range(rows - r + 1):
            runs = self._free[row]
            for below in self._free[row + 1 : row + r]:
                runs &= below
            for _ in range(1, c):  # keep the bits at which c free columns begin
                runs &= runs >> 1
                if not runs:
                    break
            if runs:
                return Spot(row, (runs & -runs).bit_length() - 1, r, c)
        return None
