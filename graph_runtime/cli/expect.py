"""--expect: outputs against those of a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..base.cursor import Cursor
from ..base.errors import InputError
from ..base.files.mapped import map_file
from ..ir.documents.tensor_files import NPY, read_npz

__all__ = ["Difference", "compare_outputs", "read_expected", "write_outputs"]

_WANTED = "an .npz with in:<input> and outputs, by name or as output<i>, is wanted"


@dataclass(frozen=True, slots=True)
class Difference:
    """One output beside the expected one. ``wrong`` elements exceed |got - want| <= atol + rtol * |want|."""

    output: int
    ok: bool
    wrong: int
    size: int
    max_abs: float
    text: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.text:
            return f"output {self.output}: {self.text}"
        verdict = "as expected" if self.ok else f"DIFFERS in {self.wrong} of {self.size} elements"
        return f"output {self.output}: {verdict}, greatest difference {self.max_abs:.3g}"


def read_expected(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz. Raises InputError for anything else; nothing is unpickled."""

    def wrong(message: str, offset: int) -> InputError:
        return InputError(f"cannot read {path}: {message} (byte {offset}); {_WANTED}", got=str(path))

    try:
        data = map_file(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}; {_WANTED}", got=str(path)
        ) from None
    if data[: len(NPY)] == NPY:
        raise InputError(f"{path} is a single array; {_WANTED}", got=str(path))
    return read_npz(Cursor(data, wrong))


def write_outputs(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz, as numpy.savez, whose keywords some names are."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def compare_outputs(
    values: Sequence[np.ndarray],
    names: Sequence[str],
    expected: dict[str, np.ndarray],
    rtol: float,
    atol: float,
) -> list[Difference]:
    """Every array of the file with the output that has its name, or the i-th where it is output<i>.

    Raises InputError where the file has none, or one too many.
    """
    wanted = {name: array for name, array in expected.items() if not name.startswith("in:")}
    index = {f"output{i}": i for i in range(len(values))} | {name: i for i, name in enumerate(names)}
    if not wanted or set(wanted) - set(index):
        raise InputError(
            f"the file has {sorted(wanted)}, the graph's outputs are {list(names)}, or output0 "
            f"to output{len(values) - 1}",
            got=sorted(wanted),
            wanted=list(names),
        )
    pairs = sorted((index[name], name) for name in wanted)
    return [_difference(i, values[i], wanted[name], rtol, atol) for i, name in pairs]


def _difference(index: int, got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> Difference:
    if got.shape != want.shape:
        return Difference(
            index,
            False,
            got.size,
            got.size,
            float("inf"),
            f"DIFFERS: shape {list(got.shape)}, expected {list(want.shape)}",
        )
    if "O" in (got.dtype.kind, want.dtype.kind):
        other = int((got.astype(object) != want.astype(object)).sum())
        return Difference(index, not other, other, got.size, float("inf") if other else 0.0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    close = np.isclose(a, b, rtol, atol, equal_nan=True)
    with np.errstate(invalid="ignore"):
        distance = np.where(a == b, 0.0, np.abs(a - b))
    return Difference(
        index, bool(close.all()), int((~close).sum()), got.size, float(np.nanmax(distance, initial=0.0))
    )
