"""The table of data formats and their names in other systems. docs/adding.md has the steps of adding a
format.

The host and op rules use logical dtypes ("bfloat16"), devices store physical formats ("bf16"). Each dtype has
a format of its own; floats may also be stored in the format of another dtype or in a block format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Format:
    """A physical element format. ``code`` is enum gr_format of gr_abi.h; ``itemsize``: bytes of an element,
    None for block formats. ``tile_bytes``: bytes of a 32x32 tile, with the exponents of a block format.

    ``dtype``       the logical dtype whose own format it is; "" for a block format
    ``kind``        "float", "int", "uint" or "bool"
    ``digits``      significant bits of a value: with the hidden bit of a float, without the sign of an int
    ``exponent``    bits of a float's exponent
    ``suffix``      end of the names of C bodies that are made from a template for this format
    ``converts``    whether a copy converts the format into all others with this mark; kernels of tt compute
                    with tiles of these formats
    ``extension``   the package that adds the dtype to numpy, "" for numpy itself
    ``narrower``    dtypes that replace it on a device without it: first the usual one, last the one that
                    takes least memory
    ``onnx``        number in TensorProto.DataType, 0 for none
    ``onnx_field``  field of a TensorProto that has the values if raw_data has not
    ``safetensors`` name of the format in safetensors files
    ``dlpack``      DLDataTypeCode number
    ``bounds``      bounds of the nmse of a network that stores values in this format, and of one node alone
    ``rounding``    bounds of the nmse of ops' test cases on tt that come from storing values in this format:
                    (exact, rounded, only moved); () if no case is tested in this format
    ``sum``         bound of the nmse on cpu of a sum computed in a wider float and rounded to this dtype once
    ``function``    bound of the nmse on cpu of a function that is a few ulp off; 0: use the function's bound
    ``fit``         name of the class of formats for which a fit of cycles holds
    """

    name: str
    code: int
    itemsize: int | None
    tile_bytes: int
    dtype: str = ""
    kind: str = "float"
    digits: int = 0
    exponent: int = 0
    suffix: str = ""
    converts: bool = False
    extension: str = ""
    narrower: tuple[str, ...] = ()
    onnx: int = 0
    onnx_field: str = "int32_data"
    safetensors: str = ""
    dlpack: int = 0
    bounds: tuple[float, float] | None = None
    rounding: tuple[float, ...] = ()
    sum: float = 0.0
    function: float = 0.0
    fit: str = ""

    @property
    def shared_exponent(self) -> bool:
        """Whether 16 elements share an exponent; such a format exists in tiles only."""
        return self.itemsize is None


FORMATS: dict[str, Format] = {}


def _own(name: str, code: int, itemsize: int, **traits) -> None:
    """Add a dtype's own format."""
    made = {"dtype": name, "suffix": name, "fit": name, "safetensors": name.upper(), **traits}
    FORMATS[name] = Format(name, code, itemsize, 1024 * itemsize, **made)


def _float(name: str, code: int, dtype: str, **traits) -> None:
    made = {"dtype": dtype, "dlpack": 2, **_ACCURACY[name], **traits}
    _own(name, code, int(dtype.strip("abflot")) // 8, **made)


def _integer(name: str, code: int, **traits) -> None:
    """Add the format of an integer dtype, such as "int8" or "uint16"."""
    kind, bits = name.rstrip("0123456789"), int(name.lstrip("uint"))
    short, signed = f"{kind[0]}{bits}", kind == "int"
    made = {"kind": kind, "digits": bits - signed, "suffix": short, "safetensors": short.upper()}
    _own(name, code, bits // 8, dlpack=int(not signed), **made, **traits)


def _block(name: str, code: int, bits: int, **traits) -> None:
    """Add a block float. A tile has 64 exponents, followed by ``bits`` bits for each element: a sign and the
    magnitude."""
    made = {"digits": bits - 1, "exponent": 8, "fit": "bfp", **traits}
    FORMATS[name] = Format(name, code, None, 64 + 128 * bits, **made)


# ---------------------------------------------------------------- the table

# accuracy of floats, as fields of Format
_ACCURACY: dict[str, dict[str, Any]] = {
    "f32": {"bounds": (1e-8, 1e-8), "rounding": (0.0, 1e-12, 0.0)},
    "f64": {"bounds": (1e-20, 1e-20), "sum": 1e-24},
    "f16": {"bounds": (1e-4, 1e-4), "sum": 1e-6, "function": 1e-8},
    "bf16": {"bounds": (2e-2, 5e-3), "rounding": (1e-4, 1e-4, 1e-5), "sum": 1e-4, "function": 1e-6},
}

# error texts name the formats in this order
_float("f32", 0, "float32", digits=24, exponent=8, onnx=1, onnx_field="float_data", converts=True)
_float("f64", 1, "float64", digits=53, exponent=11, onnx=11, onnx_field="double_data", narrower=("float32",))
_float("f16", 2, "float16", digits=11, exponent=5, onnx=10, narrower=("float32", "bfloat16"), fit="fp16")
_float(
    "bf16",
    3,
    "bfloat16",
    digits=8,
    exponent=8,
    onnx=16,
    extension="ml_dtypes",
    dlpack=4,
    converts=True,
    fit="fp16",
)
_integer("int8", 4, onnx=3)
_integer("int16", 5, onnx=5)
_integer("int32", 6, onnx=6)
_integer("int64", 7, onnx=7, onnx_field="int64_data", narrower=("int32",))
_integer("uint8", 8, onnx=2, fit="int8")
_integer("uint16", 9, onnx=4)
_integer("uint32", 10, onnx=12, onnx_field="uint64_data", fit="int32")
_integer("uint64", 11, onnx=13, onnx_field="uint64_data", narrower=("uint32",))
_own("bool", 12, 1, kind="bool", digits=1, onnx=9, dlpack=6)
_block("bfp8_b", 32, 8, converts=True, bounds=(5e-2, 2e-2), rounding=(1e-3, 2e-3, 1e-3))
_block("bfp4_b", 33, 4, converts=True, bounds=(2e-1, 2e-1))
_block("bfp2_b", 34, 2, converts=True, bounds=(9e-1, 9e-1))

# ---------------------------------------------------------------- tables made from FORMATS

# dtype -> its own format
BY_DTYPE = {f.dtype: f for f in FORMATS.values() if f.dtype}
FLOATS = tuple(f.dtype for f in BY_DTYPE.values() if f.kind == "float")
# floats of less than 32 bits: sums and functions of them are computed in float32
NARROW_FLOATS = tuple(dtype for dtype in FLOATS if BY_DTYPE[dtype].digits < 24)
# the row-major format for floats if the requested format has tiles only
ROWS = "bf16"
# formats that copies convert into each other, and the dtypes that may be stored in any of them
CONVERTED = tuple(name for name, f in FORMATS.items() if f.converts)
TILED = tuple(FORMATS[name].dtype for name in CONVERTED if FORMATS[name].dtype)
