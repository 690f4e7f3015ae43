"""--expect: comparison of outputs with the arrays of a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..base.errors import InputError
from ..base.files.mapped import map_file
from ..ir.documents.params import Cursor
from ..ir.documents.tensor_files import NPY, read_npz

_WANTED = "an .npz with in:<input> and outputs, by name or as output<i>, is wanted"


@dataclass(frozen=True, slots=True)
class Difference:
    """One output compared with the expected output. ``wrong``: number of elements with |got - want| > atol +
    rtol * |want|."""

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
    """The arrays of an .npz file. Raises InputError for any other file; nothing is unpickled."""

    def wrong(message: str, offset: int) -> InputError:
        return InputError(f"cannot read {path}: {message} (byte {offset}); {_WANTED}", got=str(path))

    try:
        data = map_file(path)
    except (OSError, ValueError) as error:
        text = f"cannot read {path}: {getattr(error, 'strerror', None) or error}; {_WANTED}"
        raise InputError(text, got=str(path)) from None
    if data[: len(NPY)] == NPY:
        raise InputError(f"{path} is a single array; {_WANTED}", got=str(path))
    return read_npz(Cursor(data, wrong))


def write_outputs(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file as numpy.savez does; array names may also be names of numpy.savez's parameters."""
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
    """One Difference for each expected array, compared with the output of the same name. An array named
    output<i> is compared with the i-th output.

    Raises InputError if the file has no array, or one that matches no output.
    """
    wanted = {name: array for name, array in expected.items() if not name.startswith("in:")}
    index = {f"output{i}": i for i in range(len(values))} | {name: i for i, name in enumerate(names)}
    if not wanted or set(wanted) - set(index):
        text = (
            f"the file has {sorted(wanted)}, the graph's outputs are {list(names)}, or output0 "
            f"to output{len(values) - 1}"
        )
        raise InputError(text, got=sorted(wanted), wanted=list(names))
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
