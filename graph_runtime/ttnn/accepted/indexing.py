"""What operations of operations/indexing accept."""

from __future__ import annotations

from .rules import Given, Operand, Rule, accepts


def _k_fits(given: Given) -> str:
    size = given.input_tensor.shape[given.dim]
    if 0 < given.k <= size:
        return ""
    return f"K cannot be larger than the dimension size! K={given.k}, dimension size={size}"


accepts(
    "topk",
    Operand(
        "input_tensor",
        dtypes="BFLOAT16 BFLOAT8_B FLOAT32",
        text="Input tensor must be BFLOAT16, BFLOAT8_B or FLOAT32, got: {dtype}",
    ),
    Operand("input_tensor", layouts="TILE", text="The input must be in tiled format"),
    Rule("0 < k <= the size of dim", _k_fits),
    source="ttnn/cpp/ttnn/operations/reduction/topk/device/topk_device_operation.cpp",
)
