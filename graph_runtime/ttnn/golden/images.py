"""Golden functions of convolutions, pools and resizing: torch's functions, applied to images with channels
last."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def _planes(a: Any, batch_size: int, input_h: int, input_w: int, channels: int) -> Any:
    """Images [1, 1, N H W, C] as [N, C, H, W]."""
    return a.reshape(batch_size, input_h, input_w, -1)[..., :channels].permute(0, 3, 1, 2)


def _flat(made: Any) -> Any:
    return made.permute(0, 2, 3, 1).reshape(1, 1, -1, made.shape[1])


def _on_planes(pool: Callable[..., Any]) -> Callable[..., Any]:
    """The function ``pool`` of images [N, C, H, W], made a function of images [1, 1, N H W, C]."""

    def golden(
        t: Any,
        f: Any,
        input_tensor: Any,
        batch_size: int,
        input_h: int,
        input_w: int,
        channels: int,
        *args: Any,
        **given: Any,
    ) -> Any:
        return _flat(pool(f, _planes(input_tensor, batch_size, input_h, input_w, channels), *args, **given))

    return golden


def _sides(padding: Any) -> tuple[int, int, int, int]:
    """(left, right, top, bottom), the order in which torch pads."""
    sizes = [padding] * 2 if isinstance(padding, int) else list(padding)
    top, bottom, left, right = sizes if len(sizes) == 4 else (sizes[0], sizes[0], sizes[1], sizes[1])
    return left, right, top, bottom


def _conv2d(
    t: Any,
    f: Any,
    input_tensor: Any,
    weight_tensor: Any,
    *,
    in_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    bias_tensor: Any = None,
    conv_config: Any = None,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
    activation: Callable[..., Any] | None = None,
    **_: Any,
) -> Any:
    image = _planes(input_tensor, batch_size, input_height, input_width, in_channels).float()
    image = f.pad(image, _sides(padding))
    bias = None if bias_tensor is None else bias_tensor.reshape(-1).float()
    made = f.conv2d(image, weight_tensor.float(), bias, stride, 0, dilation, groups or 1)
    made = _flat(made if activation is None else activation(made))
    return [made] if return_output_dim or return_weights_and_bias else made


@_on_planes
def _max_pool2d(
    f: Any,
    image: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    ceil_mode: bool = False,
    **_: Any,
) -> Any:
    image = f.pad(image, _sides(padding), value=-float("inf"))
    return f.max_pool2d(image, kernel_size, stride, 0, dilation, ceil_mode)


@_on_planes
def _avg_pool2d(
    f: Any,
    image: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    **_: Any,
) -> Any:
    left, right, top, bottom = _sides(padding)
    if (left, top) == (right, bottom):
        pads: Any = (top, left)
    else:  # torch pads both sides alike: pad before the pool, so the padding counts as elements
        image, pads = f.pad(image, (left, right, top, bottom)), 0
    return f.avg_pool2d(image, kernel_size, stride, pads, ceil_mode, count_include_pad, divisor_override)


def _adaptive(name: str) -> Callable[..., Any]:
    return _on_planes(lambda f, image, output_size, **_: getattr(f, name)(image, tuple(output_size)))


def _upsample(t: Any, f: Any, input_tensor: Any, scale_factor: Any, mode: str = "nearest", **_: Any) -> Any:
    scale = (scale_factor,) * 2 if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    image = input_tensor.permute(0, 3, 1, 2)
    return f.interpolate(image, scale_factor=scale, mode=mode).permute(0, 2, 3, 1)


def _rotate(
    t: Any,
    f: Any,
    a: Any,
    angle: float,
    center: Any = None,
    fill: float = 0.0,
    interpolation_mode: str = "nearest",
    **_: Any,
) -> Any:
    """rotate as torchvision does, which blends edges with ``fill`` once more."""
    n, height, width, _c = a.shape
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x0, y0 = (0.0, 0.0) if center is None else (center[0] - width / 2, center[1] - height / 2)
    x = t.arange(width, dtype=t.float32) + 0.5 - width / 2 - x0
    y = (t.arange(height, dtype=t.float32) + 0.5 - height / 2 - y0).unsqueeze(1)
    across, down = (cos * x - sin * y + x0) / (width / 2), (sin * x + cos * y + y0) / (height / 2)
    grid = t.stack((across, down), -1).expand(n, height, width, 2)
    planes = t.cat((a.float(), t.ones(n, height, width, 1)), -1).permute(0, 3, 1, 2)
    made = f.grid_sample(planes, grid, mode=interpolation_mode, align_corners=False).permute(0, 2, 3, 1)
    made, there = made[..., :-1], made[..., -1:]
    if interpolation_mode == "nearest":
        return t.where(there < 0.5, t.tensor(float(fill)), made).to(a.dtype)
    return (made * there + (1 - there) * fill).to(a.dtype)


IMAGES: dict[str, Callable[..., Any]] = {
    "conv2d": _conv2d,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "global_avg_pool2d": lambda t, f, input_tensor, **k: input_tensor.mean((-3, -2), keepdim=True),
    "adaptive_avg_pool2d": _adaptive("adaptive_avg_pool2d"),
    "adaptive_max_pool2d": _adaptive("adaptive_max_pool2d"),
    "upsample": _upsample,
    "rotate": _rotate,
}
