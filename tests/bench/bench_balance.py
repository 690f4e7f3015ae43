"""What each policy of the balancer makes of networks, as JSON lines.

    python tests/bench/bench_balance.py [--board e150] [--policy nlp] [--net resnet50]

cycles: for one input, all epochs after each other; epochs; seconds: of enumerating all op models and choosing
(`enumerate_seconds`: the first alone, the same for all policies); cuts, queued: edges through DRAM within an
epoch, for want of a legal pair and against deadlock; utilisation: mean of the epochs. The last line of a
network has `best`: the policy of fewest cycles. Policy optimal needs scipy for graphs of a few ops.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from graph_runtime.base.machine import devices
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.graph import Graph
from graph_runtime.plan import plan
from graph_runtime.plan.balance import BALANCER_POLICIES, balance_device, models
from graph_runtime.plan.balance.network import network_of

_DTYPE = "bfloat16"


class _Net:
    """A GraphBuilder with a count for the names of weights."""

    def __init__(self) -> None:
        self.b, self.count = GraphBuilder(), 0

    def param(self, *shape: int):
        self.count += 1
        return self.b.param(f"p{self.count}", shape, _DTYPE)

    def conv(self, x, cin: int, cout: int, k: int, stride: int = 1, group: int = 1):
        return self.b.op(
            "conv2d",
            x,
            self.param(cout, cin // group, k, k),
            self.param(cout),
            group=group,
            strides=[stride] * 2,
            pads=[k // 2] * 4,
            name=f"conv{self.count}",
        )

    def done(self, *outputs) -> Graph:
        for y in outputs:
            self.b.output(y)
        return load_graph(self.b.to_json())


def resnet50() -> Graph:
    net = _Net()
    op = net.b.op
    h = op("relu", net.conv(net.b.input("x", (1, 3, 224, 224), _DTYPE), 3, 64, 7, 2))
    h, cin = op("max_pool2d", h, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, (mid, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = op("relu", net.conv(h, cin, mid, 1))
            y = net.conv(op("relu", net.conv(y, mid, mid, 3, stride)), mid, 4 * mid, 1)
            h = op("relu", op("add", y, h if block else net.conv(h, cin, 4 * mid, 1, stride)))
            cin = 4 * mid
    h = op("reshape", op("global_avg_pool2d", h), shape=[1, cin])
    return net.done(op("dense", h, net.param(1000, cin), name="fc"))


def mobile() -> Graph:
    """Inverted residuals with depthwise convolutions, as in MobileNetV2."""
    net = _Net()
    op = net.b.op
    h, cin = net.conv(net.b.input("x", (1, 3, 112, 112), _DTYPE), 3, 32, 3, 2), 32
    for cout, stride in ((32, 1), (64, 2), (64, 1), (96, 2), (96, 1)):
        y = op("relu", net.conv(h, cin, 4 * cin, 1))
        y = net.conv(op("relu", net.conv(y, 4 * cin, 4 * cin, 3, stride, 4 * cin)), 4 * cin, cout, 1)
        h = op("add", y, h) if (cin, stride) == (cout, 1) else y
        cin = cout
    return net.done(op("global_avg_pool2d", h))


def encoder() -> Graph:
    """Two layers of a transformer's encoder, 384 tokens of 768, one head's shapes."""
    net = _Net()
    op = net.b.op
    h = net.b.input("x", (384, 768), _DTYPE)
    for _ in range(2):
        q, k, v = (op("matmul", h, net.param(768, 768)) for _ in range(3))
        scores = op("softmax", op("matmul", q, k, transpose_b=True))
        y = op("matmul", op("matmul", scores, v), net.param(768, 768))
        h = op("layer_norm", op("add", h, y), net.param(768), net.param(768))
        y = op("matmul", op("gelu", op("matmul", h, net.param(768, 3072))), net.param(3072, 768))
        h = op("layer_norm", op("add", h, y), net.param(768), net.param(768))
    return net.done(h)


def mlp() -> Graph:
    """Six ops: solved exactly."""
    net = _Net()
    h, k = net.b.input("x", (256, 512), _DTYPE), 512
    for n in (1024, 1024, 256):
        h, k = net.b.op("relu", net.b.op("matmul", h, net.param(k, n))), n
    return net.done(h)


NETS: dict[str, Callable[[], Graph]] = {
    "resnet50": resnet50,
    "mobile": mobile,
    "encoder": encoder,
    "mlp": mlp,
}


def measure(board: str, name: str, policies: list[str]) -> None:
    graph, rows = NETS[name](), []
    planned = plan(graph, [f"tt:0={board}"])
    models.enumerate_models.cache_clear()
    start = time.perf_counter()
    ops = len(network_of(planned, 0).ops)
    enumerating = time.perf_counter() - start
    for policy in policies:
        start = time.perf_counter()
        found = balance_device(planned, 0, policy)
        row = {
            "net": name,
            "board": board,
            "policy": policy,
            "ops": ops,
            "cycles": found.total,
            "epochs": len(found.epoch_cycles),
            "cuts": len(found.choice.cuts),
            "queued": len(found.queued),
            "utilisation": round(float(found.utilisation.mean()), 4),
            "enumerate_seconds": round(enumerating, 3),
            "seconds": round(enumerating + time.perf_counter() - start, 3),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    print(json.dumps({"net": name, "board": board, "best": min(rows, key=lambda r: r["cycles"])["policy"]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--board", default="e150", help="a board of stack buda")
    parser.add_argument("--policy", choices=BALANCER_POLICIES, action="append", help="default: all")
    parser.add_argument("--net", choices=NETS, action="append", help="default: all")
    args = parser.parse_args()
    devices.parse(f"tt:0={args.board}")
    for name in args.net or NETS:
        measure(args.board, name, args.policy or list(BALANCER_POLICIES))


if __name__ == "__main__":
    main()
