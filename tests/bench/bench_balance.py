"""What each policy of the balancer makes of networks, as JSON lines, by the command `graph-runtime plan`.

    python tests/bench/bench_balance.py [--board e150] [--policy nlp] [--net resnet50] [FILE ...]
    python tests/bench/bench_balance.py --table

cycles: for one input, all epochs after each other; epochs; seconds: CPU time of the command in this process,
with nothing known from the one before; cuts, queued: edges through DRAM within an epoch, for want of a legal
pair and against deadlock; utilisation: mean of the epochs. FILE: models instead of the networks here. The
last line of a network has `best`: the policy of fewest cycles. --table: the rows of docs/balancer.md. Policy
optimal needs scipy for graphs of a few ops.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from graph_runtime import cli
from graph_runtime.base.machine import devices
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.graph import Graph
from graph_runtime.plan.balance import BALANCER_POLICIES, models

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


def planned(file: Path, board: str, policy: str) -> dict[str, Any]:
    """What the command says of a model that is balanced: its JSON's "balance" of the only board."""
    out = io.StringIO()
    with redirect_stdout(out):
        try:
            cli.main(["plan", str(file), "--device", f"tt:0={board}", "--policy", policy, "--json"])
        except SystemExit as end:
            if end.code:
                raise
    return next(iter(json.loads(out.getvalue())["balance"]), {})


def measure(board: str, file: Path, policies: Iterable[str]) -> None:
    rows = []
    for policy in policies:
        models.enumerate_models.cache_clear()
        start = time.process_time()
        found = planned(file, board, policy)
        epochs = found["epochs"]
        row = {
            "net": file.stem,
            "board": board,
            "policy": policy,
            "ops": len(found["ops"]),
            "cycles": found["cycles"],
            "epochs": len(epochs),
            "cuts": len(found["cuts"]),
            "queued": len(found["queued"]),
            "utilisation": round(sum(e["utilisation"] for e in epochs) / max(len(epochs), 1), 4),
            "seconds": round(time.process_time() - start, 3),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    best = min(rows, key=lambda r: r["cycles"])["policy"]
    print(json.dumps({"net": file.stem, "board": board, "best": best}))


def table_row(file: Path) -> str:
    """The row of docs/balancer.md of a network."""
    found = [planned(file, "e150", policy) for policy in BALANCER_POLICIES if policy != "random"]
    cells = [str(len(found[0]["ops"])), *(f"{one['cycles']:,}" for one in found)]
    return f"| {file.stem} | {' | '.join(cells)} |"


def written(name: str, folder: Path) -> Path:
    """A network of NETS as a file."""
    file = folder / f"{name}.json"
    file.write_bytes(graph_to_json(NETS[name]()))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--board", default="e150", help="a board of stack buda")
    parser.add_argument("--policy", choices=BALANCER_POLICIES, action="append", help="default: all")
    parser.add_argument("--net", choices=NETS, action="append", help="default: all")
    parser.add_argument("--table", action="store_true", help="the rows of docs/balancer.md")
    args = parser.parse_args()
    devices.parse(f"tt:0={args.board}")
    with tempfile.TemporaryDirectory() as folder:
        for file in args.files or [written(name, Path(folder)) for name in args.net or NETS]:
            if args.table:
                print(table_row(file))
            else:
                measure(args.board, file, args.policy or BALANCER_POLICIES)


if __name__ == "__main__":
    main()
