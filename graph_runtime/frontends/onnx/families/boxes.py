"""RoiAlign: what boxes see of an image."""

from __future__ import annotations

from ..context import Context, Results, converter


@converter("RoiAlign")
def _roi_align(ctx: Context) -> Results:
    default = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    transform = ctx.attr("coordinate_transformation_mode", default)
    if transform not in ("half_pixel", "output_half_pixel"):
        ctx.fail(f"coordinate_transformation_mode {transform!r}")
    return ctx.op(
        "roi_align",
        ctx.input(0),
        ctx.input(1),
        ctx.input(2),
        mode=ctx.attr("mode", "avg"),
        output_shape=[ctx.attr("output_height", 1), ctx.attr("output_width", 1)],
        sampling_ratio=ctx.attr("sampling_ratio", 0),
        spatial_scale=ctx.attr("spatial_scale", 1.0),
        half_pixel=transform == "half_pixel",
    )
