"""Write graph_runtime/study/corpus: twenty networks as graph.json files without weights.

    python tests/tools/make_corpus.py            writes the files
    python tests/tools/make_corpus.py --check    exits with 1 if a file is out of date

Shapes are those of the networks named; a node's name says its block. Inputs that a run sets begin with "x",
parameters with "w". Normalisation is folded into the weights, as it is where a model is deployed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graph_runtime import GraphBuilder

CORPUS = Path(__file__).resolve().parents[2] / "graph_runtime" / "study" / "corpus"


class Maker:
    """A GraphBuilder with the blocks of networks."""

    def __init__(self) -> None:
        self.b = GraphBuilder()
        self.weights = 0

    def input(self, shape: Sequence[int], dtype: str = "float32", name: str = "x") -> Any:
        return self.b.input(name, tuple(shape), dtype)

    def param(self, *shape: int, dtype: str = "float32") -> Any:
        self.weights += 1
        return self.b.input(f"w{self.weights}", shape, dtype)

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        return self.b.op(name, *values, **attrs)

    # **************** images ****************

    def conv(self, x: Any, out: int, k: int = 3, stride: int = 1, group: int = 1, act: str = "relu") -> Any:
        weight = self.param(out, x.type.shape[1] // group, k, k)
        pads, steps = (k // 2 if stride < k else 0,) * 4, (stride, stride)
        y = self.op("conv2d", x, weight, self.param(out), pads=pads, strides=steps, group=group)
        return self.op(act, y) if act else y

    def max_pool(self, x: Any, k: int = 2, stride: int = 2, pad: int = 0) -> Any:
        return self.op("max_pool2d", x, kernel_shape=(k, k), strides=(stride, stride), pads=(pad,) * 4)

    def avg_pool(self, x: Any, k: int = 2, stride: int = 2, pad: int = 0) -> Any:
        return self.op("avg_pool2d", x, kernel_shape=(k, k), strides=(stride, stride), pads=(pad,) * 4)

    def head(self, x: Any, classes: int = 1000) -> Any:
        return self.op("softmax", self.linear(self.op("flatten", self.op("global_avg_pool2d", x)), classes))

    # **************** matrices ****************

    def linear(self, x: Any, out: int, act: str = "") -> Any:
        y = self.op("dense", x, self.param(out, x.type.shape[-1]), self.param(out))
        return self.op(act, y) if act else y

    def norm(self, x: Any) -> Any:
        n = x.type.shape[-1]
        return self.op("layer_norm", x, self.param(n), self.param(n))

    def attention(self, x: Any, heads: int, causal: bool = False) -> Any:
        n, rows, width = x.type.shape
        q, k, v = (
            self.op(
                "transpose",
                self.op("reshape", self.linear(x, width), shape=(n, rows, heads, width // heads)),
                perm=(0, 2, 1, 3),
            )
            for _ in range(3)
        )
        mixed = self.op("transpose", self.op("attention", q, k, v, causal=causal), perm=(0, 2, 1, 3))
        return self.linear(self.op("reshape", mixed, shape=(n, rows, width)), width)

    def block(self, x: Any, heads: int, causal: bool = False) -> Any:
        """A transformer's, normalised before each part."""
        width = x.type.shape[-1]
        x = self.op("add", x, self.attention(self.norm(x), heads, causal))
        inner = self.linear(self.linear(self.norm(x), 4 * width, "gelu"), width)
        return self.op("add", x, inner)


def lenet(m: Maker) -> Any:
    x = m.max_pool(m.conv(m.input((8, 1, 28, 28)), 6, 5))
    x = m.op("flatten", m.max_pool(m.conv(x, 16, 5)))
    return m.op("softmax", m.linear(m.linear(m.linear(x, 120, "relu"), 84, "relu"), 10))


def alexnet(m: Maker) -> Any:
    x = m.max_pool(m.conv(m.input((4, 3, 224, 224)), 64, 11, 4), 3)
    x = m.max_pool(m.conv(x, 192, 5), 3)
    x = m.max_pool(m.conv(m.conv(m.conv(x, 384), 256), 256), 3)
    x = m.op("flatten", x)
    return m.op("softmax", m.linear(m.linear(m.linear(x, 4096, "relu"), 4096, "relu"), 1000))


def vgg16(m: Maker) -> Any:
    x = m.input((2, 3, 224, 224))
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = m.conv(x, width)
        x = m.max_pool(x)
    return m.head(x)


def _residual(m: Maker, x: Any, out: int, stride: int) -> Any:
    short = x if stride == 1 and x.type.shape[1] == out else m.conv(x, out, 1, stride, act="")
    return m.op("relu", m.op("add", short, m.conv(m.conv(x, out, 3, stride), out, act="")))


def _bottleneck(m: Maker, x: Any, width: int, stride: int) -> Any:
    out = 4 * width
    short = x if stride == 1 and x.type.shape[1] == out else m.conv(x, out, 1, stride, act="")
    inner = m.conv(m.conv(m.conv(x, width, 1), width, 3, stride), out, 1, act="")
    return m.op("relu", m.op("add", short, inner))


def _resnet(m: Maker, block: Callable[..., Any], depths: Sequence[int]) -> Any:
    x = m.max_pool(m.conv(m.input((2, 3, 224, 224)), 64, 7, 2), 3, 2, 1)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            x = block(m, x, 64 << stage, 2 if stage and not i else 1)
    return m.head(x)


def resnet18(m: Maker) -> Any:
    return _resnet(m, _residual, (2, 2, 2, 2))


def resnet50(m: Maker) -> Any:
    return _resnet(m, _bottleneck, (3, 4, 6, 3))


def inception(m: Maker) -> Any:
    """GoogLeNet's blocks of four branches."""
    x = m.max_pool(m.conv(m.input((2, 3, 224, 224)), 64, 7, 2), 3, 2, 1)
    x = m.max_pool(m.conv(m.conv(x, 64, 1), 192), 3, 2, 1)
    rows = (
        (64, 96, 128, 16, 32, 32),
        (128, 128, 192, 32, 96, 64),
        (),
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
        (),
        (256, 160, 320, 32, 128, 128),
        (384, 192, 384, 48, 128, 128),
    )
    for row in rows:
        if not row:
            x = m.max_pool(x, 3, 2, 1)
            continue
        one, before3, three, before5, five, pooled = row
        branches = (
            m.conv(x, one, 1),
            m.conv(m.conv(x, before3, 1), three),
            m.conv(m.conv(x, before5, 1), five, 5),
            m.conv(m.max_pool(x, 3, 1, 1), pooled, 1),
        )
        x = m.op("concatenate", *branches, axis=1)
    return m.head(x)


def mobilenet(m: Maker) -> Any:
    """MobileNetV2."""
    x = m.conv(m.input((2, 3, 224, 224)), 32, 3, 2)
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2))
    for grow, out, count, stride in (*rows, (6, 320, 1, 1)):
        for i in range(count):
            n, step = x.type.shape[1], stride if not i else 1
            inner = m.conv(x, n * grow, 1) if grow > 1 else x
            inner = m.conv(m.conv(inner, n * grow, 3, step, n * grow), out, 1, act="")
            x = m.op("add", x, inner) if step == 1 and n == out else inner
    return m.head(m.conv(x, 1280, 1))


def densenet(m: Maker) -> Any:
    """DenseNet-121's first two blocks: every layer reads all before it."""
    x = m.max_pool(m.conv(m.input((2, 3, 224, 224)), 64, 7, 2), 3, 2, 1)
    for count in (6, 12):
        for _ in range(count):
            x = m.op("concatenate", x, m.conv(m.conv(m.op("relu", x), 128, 1), 32), axis=1)
        x = m.avg_pool(m.conv(x, x.type.shape[1] // 2, 1))
    return m.head(x)


def squeezenet(m: Maker) -> Any:
    x = m.max_pool(m.conv(m.input((2, 3, 224, 224)), 64, 3, 2), 3, 2)
    for i, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        y = m.conv(x, squeezed, 1)
        x = m.op("concatenate", m.conv(y, 4 * squeezed, 1), m.conv(y, 4 * squeezed), axis=1)
        if i in (1, 3):
            x = m.max_pool(x, 3, 2)
    return m.op("softmax", m.op("flatten", m.op("global_avg_pool2d", m.conv(x, 1000, 1))))


def unet(m: Maker) -> Any:
    x, kept = m.input((1, 3, 256, 256)), []
    for width in (32, 64, 128, 256):
        x = m.conv(m.conv(x, width), width)
        kept.append(x)
        x = m.max_pool(x)
    x = m.conv(m.conv(x, 512), 512)
    for width, across in zip((256, 128, 64, 32), kept[::-1], strict=True):
        up = m.op("conv_transpose2d", x, m.param(x.type.shape[1], width, 2, 2), strides=(2, 2))
        x = m.conv(m.conv(m.op("concatenate", across, up, axis=1), width), width)
    return m.op("sigmoid", m.conv(x, 1, 1, act=""))


def mlp(m: Maker) -> Any:
    x = m.input((64, 784))
    for _ in range(4):
        x = m.linear(x, 1024, "relu")
    return m.op("softmax", m.linear(x, 10))


def autoencoder(m: Maker) -> Any:
    x = m.input((64, 4096))
    for width in (2048, 1024, 256, 64, 256, 1024, 2048):
        x = m.linear(x, width, "relu")
    return m.op("sigmoid", m.linear(x, 4096))


def towers(m: Maker) -> Any:
    """Two inputs, each through a tower of its own, compared."""
    ends = []
    for name in ("x1", "x2"):
        x = m.input((128, 768), name=name)
        for width in (1024, 1024, 512, 256):
            x = m.linear(x, width, "relu")
        ends.append(x)
    return m.op("matmul", *ends, transpose_b=True)


def recommender(m: Maker) -> Any:
    """DLRM: embeddings of eight features beside a dense one, their products, and a top."""
    dense = m.linear(m.linear(m.input((256, 13), name="x0"), 512, "relu"), 64, "relu")
    found = [m.op("take", m.param(20000, 64), m.input((256,), "int32", f"x{i}"), axis=0) for i in range(1, 9)]
    rows = [m.op("reshape", v, shape=(256, 1, 64)) for v in (dense, *found)]
    all_ = m.op("concatenate", *rows, axis=1)
    crossed = m.op("reshape", m.op("matmul", all_, all_, transpose_b=True), shape=(256, 81))
    top = m.linear(m.op("concatenate", dense, crossed, axis=1), 512, "relu")
    return m.op("sigmoid", m.linear(m.linear(top, 256, "relu"), 1))


def experts(m: Maker) -> Any:
    """A layer of eight experts, each weighted by a gate."""
    x = m.input((128, 512))
    gate = m.op("softmax", m.linear(x, 8))
    total = None
    for i in range(8):
        share = m.op("slice", gate, starts=(i,), ends=(i + 1,), axes=(1,))
        part = m.op("multiply", m.linear(m.linear(x, 2048, "gelu"), 512), share)
        total = part if total is None else m.op("add", total, part)
    return m.op("add", x, total)


def rnn(m: Maker) -> Any:
    """Sixteen steps of an LSTM cell of 512, with the same weights."""
    x, width = m.input((32, 16, 256)), 512
    h, c = m.input((32, width), name="x_h"), m.input((32, width), name="x_c")
    w, u, bias = m.param(4 * width, 256), m.param(4 * width, width), m.param(4 * width)
    for t in range(16):
        step = m.op("slice", x, starts=(t,), ends=(t + 1,), axes=(1,))
        step = m.op("reshape", step, shape=(32, 256))
        gates = m.op("add", m.op("dense", step, w, bias), m.op("dense", h, u))
        i, f, o, g = (
            m.op("slice", gates, starts=(k * width,), ends=((k + 1) * width,), axes=(1,)) for k in range(4)
        )
        kept = m.op("multiply", m.op("sigmoid", f), c)
        c = m.op("add", kept, m.op("multiply", m.op("sigmoid", i), m.op("tanh", g)))
        h = m.op("multiply", m.op("sigmoid", o), m.op("tanh", c))
    return m.linear(h, 1000)


def bert(m: Maker) -> Any:
    """Four layers of BERT-base."""
    x = m.op("take", m.param(30522, 768), m.input((1, 128), "int32"), axis=0)
    x = m.norm(m.op("add", x, m.param(128, 768)))
    for _ in range(4):
        x = m.block(x, 12)
    return m.linear(x, 2)


def gpt(m: Maker) -> Any:
    """Four layers of GPT-2 over 128 tokens."""
    x = m.op("take", m.param(50257, 768), m.input((1, 128), "int32"), axis=0)
    x = m.op("add", x, m.param(128, 768))
    for _ in range(4):
        x = m.block(x, 12, causal=True)
    return m.linear(m.norm(x), 8192)


def vit(m: Maker) -> Any:
    """Four layers of ViT-S/16."""
    x = m.conv(m.input((2, 3, 224, 224)), 384, 16, 16, act="")
    n, width, high, wide = x.type.shape
    x = m.op("reshape", x, shape=(n, width, high * wide))
    x = m.op("transpose", x, perm=(0, 2, 1))
    x = m.op("add", x, m.param(high * wide, width))
    for _ in range(4):
        x = m.block(x, 6)
    return m.linear(m.op("mean", m.norm(x), axes=(1,), keepdims=False), 1000)


def translator(m: Maker) -> Any:
    """An encoder and a decoder of two layers each; the decoder reads the encoder at every layer."""
    x = m.op("take", m.param(32000, 512), m.input((1, 64), "int32", "x_source"), axis=0)
    y = m.op("take", m.param(32000, 512), m.input((1, 64), "int32", "x_target"), axis=0)
    for _ in range(2):
        x = m.block(x, 8)
    for _ in range(2):
        y = m.op("add", y, m.attention(m.norm(y), 8, causal=True))
        q, k, v = m.linear(m.norm(y), 512), m.linear(x, 512), m.linear(x, 512)
        q, k, v = (
            m.op("transpose", m.op("reshape", part, shape=(1, 64, 8, 64)), perm=(0, 2, 1, 3))
            for part in (q, k, v)
        )
        mixed = m.op("transpose", m.op("attention", q, k, v), perm=(0, 2, 1, 3))
        y = m.op("add", y, m.linear(m.op("reshape", mixed, shape=(1, 64, 512)), 512))
        y = m.op("add", y, m.linear(m.linear(m.norm(y), 2048, "gelu"), 512))
    return m.linear(y, 8192)


NETWORKS = (
    *(lenet, alexnet, vgg16, resnet18, resnet50, inception, mobilenet, densenet, squeezenet, unet),
    *(mlp, autoencoder, towers, recommender, experts, rnn, bert, gpt, vit, translator),
)


def text_of(make: Callable[[Maker], Any]) -> str:
    """The graph.json of one network."""
    maker = Maker()
    maker.b.output(make(maker))
    return maker.b.to_json()


def main() -> int:
    if "--check" in sys.argv[1:]:
        files = {path.stem: path.read_text() for path in CORPUS.glob("*.json")}
        return int(files != {make.__name__: text_of(make) for make in NETWORKS})
    for make in NETWORKS:
        (CORPUS / f"{make.__name__}.json").write_text(text_of(make))
    return 0


if __name__ == "__main__":
    sys.exit(main())
