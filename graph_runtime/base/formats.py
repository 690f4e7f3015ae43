"""The table of data formats: what each is, and its names elsewhere. docs/adding.md: what a new one takes.

A logical dtype ("bfloat16") is what the host sees and op rules use. A physical format ("bf16") is how a
device stores it; a dtype has one of its own, and floats may be stored in another.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BY_DTYPE", "CONVERTED", "FLOATS", "FORMATS", "NARROW_FLOATS", "ROWS", "TILED", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """A physical element format. ``code`` is enum gr_format of gr_abi.h; ``itemsize`` in bytes, None for
    block formats, whose 32x32 tile takes ``tile_bytes`` (block exponents included).

    ``dtype``       the logical dtype whose own format it is; "" for a block format
    ``kind``        "float", "int", "uint" or "bool"
    ``digits``      significant bits of a value, a float's hidden one included, an int's sign not
    ``exponent``    bits of a float's exponent
    ``suffix``      of the C bodies of its template
    ``converts``    a copy converts between it and the others that do, and kernels of tt compute with them in
                    tiles
    ``extension``   the package that adds the dtype to numpy, "" for numpy itself
    ``narrower``    dtypes that take its values on a device without it: first the usual one, last the one that
                    takes least room
    ``onnx``        TensorProto.DataType, 0 for none; ``onnx_field`` holds values that are not raw
    ``safetensors`` its name there
    ``dlpack``      DLDataTypeCode
    ``bounds``      nmse that may be of a network that stores it, and of one node alone
    ``rounding``    nmse that cases of ops may have by storing in it: (exact, rounded, only moved) on tt; ()
                    where no case is tested in it
    ``sum``         nmse on cpu of what was added up in a wider float and rounded to its dtype once
    ``function``    nmse on cpu of a function within a few ulp in it; 0 where a function's own bound holds
    ``fit``         the class of formats that fits of cycles speak of
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
        """Whether 16 elements share an exponent: tiles only."""
        return self.itemsize is None


FORMATS: dict[str, Format] = {}


def _own(name: str, code: int, itemsize: int, **traits) -> None:
    """A dtype's own format."""
    dtype = traits.pop("dtype", name)
    made = {"dtype": dtype, "suffix": name, "fit": name, **traits}
    FORMATS[name] = Format(name, code, itemsize, 1024 * itemsize, **made)


def _block(name: str, code: int, bits: int, **traits) -> None:
    """A block float: 64 exponents a tile, then a sign and bits - 1 of magnitude an element."""
    FORMATS[name] = Format(
        name, code, None, 64 + 128 * bits, digits=bits - 1, exponent=8, fit="bfp", **traits
    )


# ---------------------------------------------------------------- the table
# the order is that in which error texts name them

_own(
    "f32",
    0,
    4,
    dtype="float32",
    digits=24,
    exponent=8,
    converts=True,
    onnx=1,
    onnx_field="float_data",
    safetensors="F32",
    dlpack=2,
    bounds=(1e-8, 1e-8),
    rounding=(0.0, 1e-12, 0.0),
)
_own(
    "f64",
    1,
    8,
    dtype="float64",
    digits=53,
    exponent=11,
    narrower=("float32",),
    onnx=11,
    onnx_field="double_data",
    safetensors="F64",
    dlpack=2,
    bounds=(1e-20, 1e-20),
    sum=1e-24,
)
_own(
    "f16",
    2,
    2,
    dtype="float16",
    digits=11,
    exponent=5,
    narrower=("float32", "bfloat16"),
    onnx=10,
    safetensors="F16",
    dlpack=2,
    bounds=(1e-4, 1e-4),
    sum=1e-6,
    function=1e-8,
    fit="fp16",
)
_own(
    "bf16",
    3,
    2,
    dtype="bfloat16",
    digits=8,
    exponent=8,
    converts=True,
    extension="ml_dtypes",
    onnx=16,
    safetensors="BF16",
    dlpack=4,
    bounds=(2e-2, 5e-3),
    rounding=(1e-4, 1e-4, 1e-5),
    sum=1e-4,
    function=1e-6,
    fit="fp16",
)
_own("int8", 4, 1, kind="int", digits=7, suffix="i8", onnx=3, safetensors="I8")
_own("int16", 5, 2, kind="int", digits=15, suffix="i16", onnx=5, safetensors="I16")
_own("int32", 6, 4, kind="int", digits=31, suffix="i32", onnx=6, safetensors="I32")
_own(
    "int64",
    7,
    8,
    kind="int",
    digits=63,
    suffix="i64",
    narrower=("int32",),
    onnx=7,
    onnx_field="int64_data",
    safetensors="I64",
)
_own("uint8", 8, 1, kind="uint", digits=8, suffix="u8", onnx=2, safetensors="U8", dlpack=1, fit="int8")
_own("uint16", 9, 2, kind="uint", digits=16, suffix="u16", onnx=4, safetensors="U16", dlpack=1)
_own(
    "uint32",
    10,
    4,
    kind="uint",
    digits=32,
    suffix="u32",
    onnx=12,
    onnx_field="uint64_data",
    safetensors="U32",
    dlpack=1,
    fit="int32",
)
_own(
    "uint64",
    11,
    8,
    kind="uint",
    digits=64,
    suffix="u64",
    narrower=("uint32",),
    onnx=13,
    onnx_field="uint64_data",
    safetensors="U64",
    dlpack=1,
)
_own("bool", 12, 1, kind="bool", digits=1, onnx=9, safetensors="BOOL", dlpack=6)
_block("bfp8_b", 32, 8, converts=True, bounds=(5e-2, 2e-2), rounding=(1e-3, 2e-3, 1e-3))
_block("bfp4_b", 33, 4, converts=True, bounds=(2e-1, 2e-1))
_block("bfp2_b", 34, 2, converts=True, bounds=(9e-1, 9e-1))

# ---------------------------------------------------------------- what follows from it

# dtype -> its own format
BY_DTYPE = {f.dtype: f for f in FORMATS.values() if f.dtype}
FLOATS = tuple(f.dtype for f in BY_DTYPE.values() if f.kind == "float")
# floats of less than 32 bits: sums and functions of them are made in float32
NARROW_FLOATS = tuple(dtype for dtype in FLOATS if BY_DTYPE[dtype].digits < 24)
# the format in rows of floats that are asked for in one that has tiles only
ROWS = "bf16"
# formats that copies convert among, and the dtypes that may be stored in any of them
CONVERTED = tuple(name for name, f in FORMATS.items() if f.converts)
TILED = tuple(FORMATS[name].dtype for name in CONVERTED if FORMATS[name].dtype)
