"""Networks for images as shape-only graphs of gr.op nodes: parameters have shapes, no values.

An activation that both software stacks fuse into the convolution before it (ReLU and its clipped kin) has no
node, batch norms are folded into the weights; sigmoids and GELUs are nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from graph_runtime import GraphBuilder
from graph_runtime.ir.value import Value


class Net:
    """A GraphBuilder that numbers parameters and knows layers. ``host``: the device of the image."""

    def __init__(self, shape: tuple[int, ...], *, device: str = "tt:0", host: str = "cpu:0"):
        self.b = GraphBuilder(device=device)
        self.image = self.b.input("image", shape, device=host)
        self._count = 0

    def param(self, *shape: int) -> Value:
        self._count += 1
        return self.b.param(f"p{self._count}", tuple(shape))

    def op(self, op: str, *inputs: Value, **attrs) -> Value:
        return self.b.op(op, *inputs, **attrs)

    def conv(
        self,
        x: Value,
        out: int,
        k: int | tuple[int, int] = 1,
        stride: int = 1,
        group: int = 1,
        pad: int | None = None,
    ) -> Value:
        """A convolution with bias, padded so that stride 1 keeps the size."""
        kh, kw = (k, k) if isinstance(k, int) else k
        ph, pw = (kh // 2, kw // 2) if pad is None else (pad, pad)
        return self.op(
            "conv2d",
            x,
            self.param(out, x.shape[1] // group, kh, kw),
            self.param(out),
            strides=[stride, stride],
            pads=[ph, pw, ph, pw],
            group=group,
        )

    def pool(self, x: Value, k: int = 2, stride: int = 2, pad: int = 0, op: str = "max_pool2d") -> Value:
        return self.op(op, x, kernel_shape=[k, k], strides=[stride, stride], pads=[pad] * 4)

    def cat(self, *xs: Value) -> Value:
        return self.op("concatenate", *xs, axis=1)

    def head(self, x: Value, classes: int = 1000) -> str:
        """Mean of each channel, then a dense layer."""
        x = self.op("flatten", self.op("global_avg_pool2d", x), axis=1)
        return self.done(self.op("dense", x, self.param(classes, x.shape[1]), self.param(classes)))

    def done(self, *outputs: Value) -> str:
        self.b.output(*outputs)
        return self.b.to_json()

    def silu(self, x: Value) -> Value:
        return self.op("multiply", x, self.op("sigmoid", x))

    def larger(self, x: Value, factor: int) -> Value:
        """Nearest-neighbour upsampling: rows, then columns, taken ``factor`` times."""
        for axis in (2, 3):
            index = self.b.param(f"i{self._count}_{axis}", (factor * x.shape[axis],), "int32")
            x = self.op("take", x, index, axis=axis)
        self._count += 1
        return x

    def unpool(self, x: Value, out: int) -> Value:
        """A transposed 2x2 convolution of stride 2: a 1x1 convolution to 4 * out channels, then pixels from
        channels."""
        n, _, h, w = x.shape
        y = self.op("reshape", self.conv(x, 4 * out), shape=[n, out, 2, 2, h, w])
        y = self.op("transpose", y, perm=[0, 1, 4, 2, 5, 3])
        return self.op("reshape", y, shape=[n, out, 2 * h, 2 * w])


def resnet50(batch: int) -> str:
    net = Net((batch, 3, 224, 224))
    x = net.pool(net.conv(net.image, 64, 7, 2), 3, 2, 1)
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.conv(net.conv(net.conv(x, width), width, 3, stride), 4 * width)
            x = net.op("add", y, x if block else net.conv(x, 4 * width, 1, stride))
    return net.head(x)


def mobilenet_v1(batch: int) -> str:
    net = Net((batch, 3, 224, 224))
    x = net.conv(net.image, 32, 3, 2)
    for out, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *((512, 1),) * 5,
        (1024, 2),
        (1024, 1),
    ):
        x = net.conv(net.conv(x, x.shape[1], 3, stride, x.shape[1]), out)
    return net.head(x)


def _inverted(net: Net, x: Value, hidden: int, out: int, k: int, stride: int, squeeze: bool = False) -> Value:
    """An inverted residual block, with squeeze and excitation if asked for."""
    y = net.conv(x, hidden) if hidden != x.shape[1] else x
    y = net.conv(y, hidden, k, stride, hidden)
    if squeeze:
        gate = net.conv(net.conv(net.op("global_avg_pool2d", y), max(hidden // 4, 8)), hidden)
        y = net.op("multiply", y, net.op("sigmoid", gate))
    y = net.conv(y, out)
    return net.op("add", x, y) if stride == 1 and out == x.shape[1] else y


def mobilenet_v2(batch: int) -> str:
    net = Net((batch, 3, 224, 224))
    x = net.conv(net.image, 32, 3, 2)
    for factor, out, count, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(count):
            x = _inverted(net, x, x.shape[1] * factor, out, 3, 1 if i else stride)
    return net.head(net.conv(x, 1280))


def mobilenet_v3(batch: int) -> str:
    """The large one."""
    net = Net((batch, 3, 224, 224))
    x = net.conv(net.image, 16, 3, 2)
    for k, hidden, out, squeeze, stride in (
        (3, 16, 16, 0, 1),
        (3, 64, 24, 0, 2),
        (3, 72, 24, 0, 1),
        (5, 72, 40, 1, 2),
        (5, 120, 40, 1, 1),
        (5, 120, 40, 1, 1),
        (3, 240, 80, 0, 2),
        (3, 200, 80, 0, 1),
        (3, 184, 80, 0, 1),
        (3, 184, 80, 0, 1),
        (3, 480, 112, 1, 1),
        (3, 672, 112, 1, 1),
        (5, 672, 160, 1, 2),
        (5, 960, 160, 1, 1),
        (5, 960, 160, 1, 1),
    ):
        x = _inverted(net, x, hidden, out, k, stride, bool(squeeze))
    x = net.op("flatten", net.op("global_avg_pool2d", net.conv(x, 960)), axis=1)
    x = net.op("dense", x, net.param(1280, 960), net.param(1280))
    return net.done(net.op("dense", x, net.param(1000, 1280), net.param(1000)))


def vovnet39(batch: int) -> str:
    net = Net((batch, 3, 224, 224))
    x = net.conv(net.conv(net.conv(net.image, 64, 3, 2), 64, 3), 128, 3, 2)
    for stage, (width, out, blocks) in enumerate(
        ((128, 256, 1), (160, 512, 1), (192, 768, 2), (224, 1024, 2))
    ):
        x = net.pool(x, 3, 2, 1) if stage else x
        for _ in range(blocks):
            layers = [x]
            for _ in range(5):
                layers.append(net.conv(layers[-1], width, 3))
            y = net.conv(net.cat(*layers), out)
            gate = net.op("sigmoid", net.conv(net.op("global_avg_pool2d", y), out))
            y = net.op("multiply", y, gate)
            x = net.op("add", x, y) if x.shape == y.shape else y
    return net.head(x)


def _unet(net: Net, stages: list[Value], x: Value, widths: tuple[int, ...], classes: int) -> str:
    for skip, width in zip(stages[::-1], widths[::-1], strict=True):
        x = net.cat(net.unpool(x, width), skip)
        x = net.conv(net.conv(x, width, 3), width, 3)
    return net.done(net.conv(x, classes))


def unet(batch: int, height: int = 256, width: int = 256) -> str:
    """32 channels at first, 512 at the bottom."""
    net = Net((batch, 3, height, width))
    widths, stages, x = (32, 64, 128, 256), [], net.image
    for channels in widths:
        x = net.conv(net.conv(x, channels, 3), channels, 3)
        stages.append(x)
        x = net.pool(x)
    return _unet(net, stages, net.conv(net.conv(x, 512, 3), 512, 3), widths, 1)


def unet_vgg19(batch: int) -> str:
    net = Net((batch, 3, 256, 256))
    stages, x = [], net.image
    for channels, convs in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(convs):
            x = net.conv(x, channels, 3)
        stages.append(x)
        x = net.pool(x) if channels * convs != 2048 or len(stages) == 4 else x
    return _unet(net, stages[:4], stages[4], (64, 128, 256, 512), 1)


def _csp(
    net: Net, x: Value, out: int, blocks: int, shortcut: bool, act: Callable[[Value], Value], split: bool
) -> Value:
    """YOLOv5's C3, or YOLOv8's C2f where ``split``."""
    half = out // 2
    if split:
        parts = [act(net.conv(x, half)), act(net.conv(x, half))]
    else:
        parts, side = [act(net.conv(x, half))], act(net.conv(x, half))
    for _ in range(blocks):
        y = parts[-1]
        z = act(net.conv(act(net.conv(y, half, 3 if split else 1)), half, 3))
        z = net.op("add", y, z) if shortcut else z
        parts = [*parts, z] if split else [z]
    return act(net.conv(net.cat(*parts, *(() if split else (side,))), out))


def _yolo(batch: int, size: int, split: bool) -> str:
    net = Net((batch, 3, size, size))
    act = net.silu

    def block(x: Value, out: int, count: int, shortcut: bool) -> Value:
        return _csp(net, x, out, count, shortcut, act, split)

    x = act(net.conv(net.image, 32, 3 if split else 6, 2, pad=1 if split else 2))
    kept = []
    for out, count in ((64, 1), (128, 2), (256, 2 if split else 3), (512, 1)):
        x = block(act(net.conv(x, out, 3, 2)), out, count, True)
        kept.append(x)
    x = act(net.conv(x, 256))
    pools = [x]
    for _ in range(3):
        pools.append(net.pool(pools[-1], 5, 1, 2))
    x = act(net.conv(net.cat(*pools), 512))
    heads, tops = [], [x]
    for at, out in ((2, 256), (1, 128)):
        x = x if split else act(net.conv(x, out))
        tops.append(x)
        x = block(net.cat(net.larger(x, 2), kept[at]), out, 1, False)
    heads.append(x)
    for out, top in ((256, tops[2]), (512, tops[1])):
        x = block(net.cat(act(net.conv(x, x.shape[1], 3, 2)), top), out, 1, False)
        heads.append(x)
    if not split:
        return net.done(*(net.conv(h, 255) for h in heads))
    found = []
    for h in heads:
        for width, out in ((64, 64), (128, 80)):
            found.append(net.conv(act(net.conv(act(net.conv(h, width, 3)), width, 3)), out))
    return net.done(*found)


def yolov5s(batch: int, size: int = 320) -> str:
    return _yolo(batch, size, False)


def yolov8s(batch: int, size: int = 640) -> str:
    return _yolo(batch, size, True)
