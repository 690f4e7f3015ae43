"""Windows over images and volumes: the attributes, checks and sizes that convolutions and pools share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import rules
from .registry import Attr, Attrs


def sides(dims: int) -> str:
    """Names of the dimensions of an image (``dims`` 2) or a volume (3)."""
    return "height, width" if dims == 2 else "depth, height, width"


def window_attrs(dims: int, padding: str) -> tuple[Attr, Attr, Attr]:
    """The attributes strides, pads and dilations of windows; ``padding``: a noun for the elements around the
    image, for the meaning of pads."""
    place = (
        "around the image: top, left, bottom, right"
        if dims == 2
        else "before each dimension, then after each"
    )
    return (
        Attr("strides", "ints", (1,) * dims, f"step of the window: {sides(dims)}"),
        Attr("pads", "ints", (0,) * 2 * dims, f"{padding} {place}"),
        Attr("dilations", "ints", (1,) * dims, f"distance of a window's elements: {sides(dims)}"),
    )


GROUP = Attr("group", "int", 1, "number of groups of channels, each convolved alone")


def check_window(op: str, attrs: Attrs, dims: int) -> None:
    """Raise GraphError for strides, pads or dilations of the wrong length or out of range."""
    rules.limit(op, "strides", attrs["strides"], dims, 1)
    rules.limit(op, "pads", attrs["pads"], 2 * dims, 0)
    rules.limit(op, "dilations", attrs.get("dilations", (1,) * dims), dims, 1)


def check_groups(op: str, what: str, channels: int, group: int) -> None:
    """Raise GraphError unless ``channels`` can be split into ``group`` groups."""
    if channels % group:
        rules.fail(op, f"{channels} {what} cannot be split into {group} groups", got=group)


def window_sizes(op: str, sizes: Iterable[int], kernel: Sequence[int], attrs: Attrs) -> list[int]:
    """Number of windows along each dimension of ``sizes``. Raises GraphError if no window fits."""
    pads, dims = attrs["pads"], len(kernel)
    dilations, ceil_mode = attrs.get("dilations", (1,) * dims), attrs.get("ceil_mode", False)
    found = []
    for d, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        reach, both = (k - 1) * dilations[d] + (k > 0), pads[d] + pads[d + dims]
        found.append(_count(op, size, reach, attrs["strides"][d], both, ceil_mode, pads[d]))
    return found


def _count(op: str, size: int, window: int, stride: int, pads: int, ceil_mode: bool, begin: int) -> int:
    """Number of windows of ``window`` elements along a dimension of ``size`` elements with ``pads`` elements
    of padding, ``begin`` of these in front.

    By ONNX's rules: with ceil_mode the last window may overhang, even if it is the only window, but it never
    begins after the end of the image.
    """
    room = size + pads - window
    if (room < 0 and not (ceil_mode and room > -stride)) or window < 1:
        text = f"a window of {window} does not fit into {size} elements padded to {size + pads}"
        rules.fail(op, text, got=window)
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    return count - (ceil_mode and (count - 1) * stride >= size + begin)
