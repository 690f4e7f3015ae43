"""A tour of GraphBuilder: inputs, parameters, ops, devices, storage, a copy, and the comparison with numpy.

    python examples/handcrafted.py

One block of a transformer's feed-forward part, on the cpu and one simulated tt device:

    x -> layer_norm -> dense (tt) -> gelu (tt) -> copy to cpu -> dense -> + x
"""

from __future__ import annotations

import numpy as np

import graph_runtime as gr
from graph_runtime.testing import compare_arrangements

DEVICES = ["cpu:0", "tt:0"]


def feed_forward(tokens: int = 40, width: int = 48, inner: int = 96) -> gr.GraphBuilder:
    """A graph with one block: float32 [tokens, width] in and out."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    b = gr.GraphBuilder()  # a node without a device goes to cpu:0
    x = b.input("x", (tokens, width))
    scale, shift = b.param("scale", np.ones(width, np.float32)), b.param("shift", np.zeros(width, np.float32))
    h = b.op("layer_norm", x, scale, shift)
    # two ops on tt:0; h is on cpu:0, so the runtime inserts the copy
    h = b.op("dense", h, b.param("w1", weights(inner, width)), device="tt:0")
    h = b.op("gelu", h, device="tt:0")
    h = b.copy(h, "cpu:0", name="bring_back")  # or an explicit copy, with a name
    y = b.op("dense", h, b.param("w2", weights(width, inner)))
    b.output(b.op("add", y, x, name="residual"))
    return b


def main() -> None:
    b = feed_forward()
    print(f"{len(b.to_json())} characters of graph.json; it begins\n\n{b.to_json()[:300]}...\n")
    print(gr.plan_text(gr.prepare(b, DEVICES).plan))

    # run it: without a library the kernels built into the package are used
    module = gr.create(b, None, DEVICES, params=b.params)
    module.run(x=np.linspace(-1, 1, 40 * 48, dtype=np.float32).reshape(40, 48))
    y = module.get_output("residual").numpy()
    print(f"output {y.dtype} {y.shape}, first values {y[0, :4]}\n")

    # compare on random inputs: as planned, with the storage planned anew, and with the devices exchanged
    reports = compare_arrangements(b, None, DEVICES)
    for name, report in reports.items():
        print(f"{name}: {report}")
    assert all(getattr(report, "ok", True) for report in reports.values())
    print("every arrangement agrees with numpy")


if __name__ == "__main__":
    main()
