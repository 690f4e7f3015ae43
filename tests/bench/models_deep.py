"""The larger networks for images, as models_images.py has them."""

from __future__ import annotations

from models_images import Net

from graph_runtime.ir.value import Value


def inception_v4(batch: int) -> str:
    net = Net((batch, 3, 224, 224))
    c = net.conv
    x = c(c(c(net.image, 32, 3, 2, pad=0), 32, 3, pad=0), 64, 3)
    x = net.cat(net.pool(x, 3, 2), c(x, 96, 3, 2, pad=0))
    side = c(c(c(x, 64), 64, (7, 1)), 64, (1, 7))
    x = net.cat(c(c(x, 64), 96, 3, pad=0), c(side, 96, 3, pad=0))
    x = net.cat(c(x, 192, 3, 2, pad=0), net.pool(x, 3, 2))
    for _ in range(4):
        x = net.cat(c(_mean(net, x), 96), c(x, 96), c(c(x, 64), 96, 3), c(c(c(x, 64), 96, 3), 96, 3))
    x = net.cat(net.pool(x, 3, 2), c(x, 384, 3, 2, pad=0), c(c(c(x, 192), 224, 3), 256, 3, 2, pad=0))
    for _ in range(7):
        x = net.cat(
            c(_mean(net, x), 128),
            c(x, 384),
            c(c(c(x, 192), 224, (1, 7)), 256, (7, 1)),
            c(c(c(c(c(x, 192), 192, (1, 7)), 224, (7, 1)), 224, (1, 7)), 256, (7, 1)),
        )
    x = net.cat(
        net.pool(x, 3, 2),
        c(c(x, 192), 192, 3, 2, pad=0),
        c(c(c(c(x, 256), 256, (1, 7)), 320, (7, 1)), 320, 3, 2, pad=0),
    )
    for _ in range(3):
        y, z = c(x, 384), c(c(c(x, 384), 448, (1, 3)), 512, (3, 1))
        x = net.cat(
            c(_mean(net, x), 256),
            c(x, 256),
            c(y, 256, (1, 3)),
            c(y, 256, (3, 1)),
            c(z, 256, (3, 1)),
            c(z, 256, (1, 3)),
        )
    return net.head(x)


def _mean(net: Net, x: Value) -> Value:
    return net.pool(x, 3, 1, 1, "avg_pool2d")


def _bottleneck(net: Net, x: Value, width: int, out: int) -> Value:
    y = net.conv(net.conv(net.conv(x, width), width, 3), out)
    return net.op("add", y, x if x.shape[1] == out else net.conv(x, out))


def hrnet_w64(batch: int) -> str:
    net, width = Net((batch, 3, 224, 224)), 64
    x = net.conv(net.conv(net.image, 64, 3, 2), 64, 3, 2)
    for _ in range(4):
        x = _bottleneck(net, x, 64, 256)
    branches = [net.conv(x, width, 3), net.conv(x, 2 * width, 3, 2)]
    for modules, count in ((1, 2), (4, 3), (3, 4)):
        if len(branches) < count:
            branches.append(net.conv(branches[-1], width * 2 ** (count - 1), 3, 2))
        for _ in range(modules):
            branches = _exchange(net, [_basic(net, b) for b in branches], width)
    tops = [_bottleneck(net, b, 32 * 2**i, 128 * 2**i) for i, b in enumerate(branches)]
    x = tops[0]
    for top in tops[1:]:
        x = net.op("add", top, net.conv(x, top.shape[1], 3, 2))
    return net.head(net.conv(x, 2048))


def _basic(net: Net, x: Value) -> Value:
    for _ in range(4):
        x = net.op("add", x, net.conv(net.conv(x, x.shape[1], 3), x.shape[1], 3))
    return x


def _exchange(net: Net, branches: list[Value], width: int) -> list[Value]:
    """Each branch becomes the sum of all at its own size."""
    made = []
    for i, whole in enumerate(branches):
        for j, y in enumerate(branches):
            if j > i:
                y = net.larger(net.conv(y, width * 2**i), 2 ** (j - i))
            for k in range(j, i):
                y = net.conv(y, width * 2 ** (i if k == i - 1 else j), 3, 2)
            whole = whole if i == j else net.op("add", whole, y)
        made.append(whole)
    return made


def yolov4(batch: int, size: int) -> str:
    net = Net((batch, 3, size, size))
    x, kept = _mish(net, net.conv(net.image, 32, 3)), []
    for at, (out, count) in enumerate(((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))):
        x = _mish(net, net.conv(x, out, 3, 2))
        half = out if at == 0 else out // 2
        side, x = _mish(net, net.conv(x, half)), _mish(net, net.conv(x, half))
        for _ in range(count):
            y = _mish(net, net.conv(x, 32 if at == 0 else half))
            x = net.op("add", x, _mish(net, net.conv(y, half, 3)))
        x = _mish(net, net.conv(net.cat(_mish(net, net.conv(x, half)), side), out))
        kept.append(x)
    x = _neck(net, x, 512, 3)
    x = _neck(net, net.cat(*(net.pool(x, k, 1, k // 2) for k in (13, 9, 5)), x), 512, 3)
    tops = [x]
    for at, out in ((3, 256), (2, 128)):
        x = _neck(net, net.cat(net.conv(kept[at], out), net.larger(net.conv(x, out), 2)), out, 5)
        tops.append(x)
    heads = [net.conv(net.conv(x, 256, 3), 255)]
    for out, top in ((256, tops[1]), (512, tops[0])):
        x = _neck(net, net.cat(net.conv(x, out, 3, 2), top), out, 5)
        heads.append(net.conv(net.conv(x, 2 * out, 3), 255))
    return net.done(*heads)


def _mish(net: Net, x: Value) -> Value:
    """x * tanh(softplus(x)); as shapes go the softplus is inside the tanh."""
    return net.op("multiply", x, net.op("tanh", x))


def _neck(net: Net, x: Value, out: int, count: int) -> Value:
    """Convolutions of 1x1 and 3x3 in turn."""
    for i in range(count):
        x = net.conv(x, out) if i % 2 == 0 else net.conv(x, 2 * out, 3)
    return x
