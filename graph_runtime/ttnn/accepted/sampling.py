"""What operations of operations/images/sampling and volumes accept."""

from __future__ import annotations

from .rules import Operand, Rule, accepts

accepts(
    "grid_sample",
    Operand("input_tensor", layouts="ROW_MAJOR", text="Input tensor must be ROW_MAJOR layout"),
    Operand("grid", layouts="ROW_MAJOR", text="Grid tensor must be ROW_MAJOR layout"),
    Operand("grid", dtypes="BFLOAT16 FLOAT32", text="Grid tensor must be BFLOAT16 or FLOAT32, got {dtype}"),
    Rule(
        "mode is bilinear, unless the grid is precomputed",
        lambda c: (
            ""
            if c.mode == "bilinear" or c.use_precomputed_grid
            else f"use_precomputed_grid = false is not supported with mode = '{c.mode}'. Please use "
            "precomputed grid with nearest mode."
        ),
    ),
    Rule(
        "padding_mode is zeros",
        lambda c: "" if c.padding_mode == "zeros" else "Only zeros padding mode is currently supported",
    ),
    Rule(
        "channels in whole tiles",
        lambda c: (
            ""
            if c.input_tensor.shape[-1] % 32 == 0
            else "Input tensor last dimension must be divisible by TILE_WIDTH (32), but got "
            f"{c.input_tensor.shape[-1]}"
        ),
    ),
    Rule(
        "image and grid have one batch",
        lambda c: (
            ""
            if c.input_tensor.shape[0] == c.grid.shape[0]
            else f"Batch size mismatch: input tensor has {c.input_tensor.shape[0]}, grid {c.grid.shape[0]}"
        ),
    ),
    source="ttnn/cpp/ttnn/operations/pool/grid_sample/device/grid_sample_device_operation.cpp",
)
accepts(
    "experimental.fused_msda",
    Operand("value", dtypes="BFLOAT16", text="fused_msda: value must be BFLOAT16, got {dtype}"),
    Operand("value", layouts="ROW_MAJOR", text="fused_msda: value must be ROW_MAJOR, got {layout}"),
    source="the release 0.81.1, by its own words: all tensors BFLOAT16 and ROW_MAJOR",
)
accepts(
    "experimental.conv3d",
    Operand("input_tensor", layouts="ROW_MAJOR", text="Activation tensor must be row-major."),
    source="ttnn/cpp/ttnn/operations/experimental/conv3d/device/conv3d_device_operation.cpp",
)
