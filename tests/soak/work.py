"""What the soak's threads do: each kind of work is a function (common, rng) -> number of tensors that it held
against numpy; it raises Wrong. What all threads share is in Common.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder, eager
from graph_runtime.artifacts.bundles.bundle import BundleProgram
from graph_runtime.artifacts.bundles.writer import write_bundle
from graph_runtime.base.machine.layout import Layout
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.plan import plan
from graph_runtime.plan.record import record

SHAPE = (64, 64)
BULK = (1024, 1024)  # a copy of it keeps a queue busy while small ones wait
TILE, ROWS, L1 = (
    Layout(*words) for words in (("dram", "tile", "f32"), ("dram", "row_major", "f32"), ("l1", "tile", "f32"))
)
DEVICES = ("cpu:0", "tt:0")


class Wrong(Exception):
    """Values that differ from numpy's; ``count`` tensors of them."""

    def __init__(self, text: str, count: int = 1):
        super().__init__(text)
        self.count = count


@dataclass
class Common:
    """What all threads use: sessions, an open device, a bundle, its path, and tensors that nothing writes."""

    sessions: dict[str, gr.GraphModule]
    device: rt.OpenDevice
    bundle: rt.Bundle
    path: Path
    constants: list[tuple[gr.Tensor, np.ndarray]]
    own: threading.local = field(default_factory=threading.local)


# **************** what is shared ****************


def _chain(*devices: str) -> GraphBuilder:
    """relu(x + y) * x - y, a node on each device in turn."""
    builder, turn = GraphBuilder(), itertools.cycle(devices)
    x, y = builder.input("x", SHAPE, device=devices[0]), builder.input("y", SHAPE, device=devices[0])
    total = builder.op("relu", builder.op("add", x, y, device=next(turn)), device=next(turn))
    product = builder.op("multiply", total, x, device=next(turn))
    builder.output(builder.op("subtract", product, y, device=next(turn)))
    return builder


def _chained(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x + y, 0) * x - y


def _step() -> GraphBuilder:
    """x and d -> x + d, written into x."""
    builder = GraphBuilder()
    x, d = builder.input("x", SHAPE), builder.input("d", SHAPE)
    new = builder.op("add", x, d, name="new")
    builder.output(new)
    builder.alias(new, x)
    return builder


def _row() -> GraphBuilder:
    """cache[at] = row, in place; refused where ``at`` is no row."""
    builder = GraphBuilder()
    cache, at = builder.input("cache", SHAPE), builder.input("at", (1, 1), "int32")
    new = builder.op("scatter_nd", cache, at, builder.input("row", (1, SHAPE[1])), name="write")
    builder.output(new)
    builder.alias(new, cache)
    return builder


def _write_bundle(path: Path) -> Path:
    programs, files = [], {}
    for name, builder in {"chain": _chain("tt:0"), "step": _step(), "row": _row()}.items():
        planned = plan(builder.build(), ["tt:0"])
        files[f"{name}.json"] = graph_to_json(record(planned))
        programs.append(
            BundleProgram(
                name,
                f"{name}.json",
                planned.graph.input_names,
                planned.graph.output_names,
                {},
                planned.aliases,
                False,
            )
        )
    write_bundle(path, devices=["tt:0"], programs=programs, libraries=(), files=files, params={})
    return path


@contextmanager
def common(folder: Path) -> Iterator[Common]:
    """Everything open, for as long as threads use it."""
    path = _write_bundle(folder / "soak.zip")
    values = [np.full(SHAPE, n, np.float32) for n in range(1, 5)]
    with rt.open_device("tt:0") as device:
        sessions = {
            "cpu": gr.create(_chain("cpu:0").build(), None, "cpu:0"),
            "tt": gr.create(_chain("tt:0").build(), None, "tt:0"),
            "mixed": gr.create(_chain("cpu:0", "tt:0").build(), None, list(DEVICES)),
        }
        constants = [(gr.scatter([value], DEVICES[n % 2])[0], value) for n, value in enumerate(values)]
        yield Common(sessions, device, rt.load_bundle(path), path, constants)


# **************** checks ****************


def _values(rng: np.random.Generator, shape: Sequence[int] = SHAPE) -> np.ndarray:
    return rng.integers(-9, 10, shape).astype(np.float32)


def _check(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], what: str) -> int:
    wrong = [
        n for n, (a, b) in enumerate(zip(got, wanted, strict=True)) if a.shape != b.shape or (a != b).any()
    ]
    if wrong:
        a, b = got[wrong[0]], wanted[wrong[0]]
        at = tuple(np.argwhere(a != b)[0]) if a.shape == b.shape else ()
        raise Wrong(
            f"{what}: {len(wrong)} of {len(got)} tensors are wrong; tensor {wrong[0]} has at {at} "
            f"{a[at] if at else a.shape}, numpy has {b[at] if at else b.shape}",
            len(wrong),
        )
    return len(got)


def _put(common: Common, array: np.ndarray, layout: Layout | None = TILE) -> gr.Tensor:
    return rt.to_device(rt.create_owned_host_tensor(array), common.device, layout)


# **************** kinds of work ****************


def run(common: Common, rng: np.random.Generator) -> int:
    """Inline runs of a session of the thread's own, and of one that it makes and drops."""
    devices = DEVICES[rng.integers(2)]
    if rng.random() < 0.1 or not hasattr(common.own, devices):
        setattr(common.own, devices, gr.create(_chain(devices).build(), None, devices))
    module, checks = getattr(common.own, devices), 0
    for _ in range(4):
        x, y = _values(rng), _values(rng)
        module.run(x=x, y=y)
        checks += _check([module.get_output(0).numpy()], [_chained(x, y)], f"run on {devices}")
    return checks


def run_async(common: Common, rng: np.random.Generator) -> int:
    """Queued runs of a session of all threads; some are cancelled, some dropped, the others looked at in any
    order. Their host arrays are written again at once."""
    name = list(common.sessions)[rng.integers(len(common.sessions))]
    queued, buffer = [], (np.empty(SHAPE, np.float32), np.empty(SHAPE, np.float32))
    for _ in range(6):
        x, y = _values(rng), _values(rng)
        buffer[0][...], buffer[1][...] = x, y
        queued.append((common.sessions[name].run_async(x=buffer[0], y=buffer[1]), _chained(x, y)))
    checks = 0
    for at in rng.permutation(len(queued)):
        one, wanted = queued[at]
        if rng.random() < 0.1:
            one.cancel()
            try:
                one.wait()
            except gr.RunCancelledError:
                continue
        if rng.random() < 0.9:
            checks += _check([one.outputs[0].numpy()], [wanted], f"run_async of {name}")
    for one, _ in queued:
        one.cancel()
    return checks


def run_async_of_tensors(common: Common, rng: np.random.Generator) -> int:
    """A run's output feeds the next; inputs are dropped while they are read."""
    module = common.sessions["tt"]
    x, y = _values(rng), rng.integers(0, 2, SHAPE).astype(np.float32)
    given, other = gr.scatter([x, y], "tt:0")
    for _ in range(3):
        given = module.run_async(x=given, y=other).outputs[0]
        x = np.clip(_chained(x, y), -9, 9)
        given = eager.clip(given, -9.0, 9.0)
    return _check([given.numpy()], [x], "outputs that feed runs")


def submit(common: Common, rng: np.random.Generator) -> int:
    """Programs of a bundle: inputs freed at once, donated, of another layout."""
    outputs, wanted = [], []
    for _ in range(4):
        x, y = _values(rng), _values(rng)
        layout = (TILE, ROWS, L1)[rng.integers(3)]
        inputs = [_put(common, x, layout), _put(common, y)]
        donate = [0] if rng.random() < 0.3 else False
        outputs += rt.submit(common.device, common.bundle, "chain", inputs, donate=donate)
        if not donate and rng.random() < 0.5:
            rt.deallocate(inputs[0], force=True)
        wanted.append(_chained(x, y))
    got = gr.gather(outputs) if rng.random() < 0.5 else [out.numpy() for out in outputs]
    return _check(got, wanted, "submit")


def in_place(common: Common, rng: np.random.Generator) -> int:
    """State that a program overwrites, step by step."""
    x, d = _values(rng), _values(rng)
    state, delta = _put(common, x), _put(common, d)
    steps = int(rng.integers(1, 8))
    for _ in range(steps):
        (state,) = rt.submit(common.device, common.bundle, "step", [state, delta])
    return _check([state.numpy(), delta.numpy()], [x + steps * d, d], "in-place steps")


def refusals(common: Common, rng: np.random.Generator) -> int:
    """State that a program overwrites, where some positions are refused: the run and those queued behind it
    fail, and the tensor that was donated to it has its old values."""
    wanted, row = _values(rng), _values(rng, (1, SHAPE[1]))
    cache, given, checks = _put(common, wanted), _put(common, row, None), 0
    positions = {
        at: _put(common, np.array([[at]], np.int32), None)
        for at in (SHAPE[0], *rng.integers(0, SHAPE[0], 3).tolist())
    }
    for _ in range(4):
        chain = rng.choice(list(positions), int(rng.integers(1, 4))).tolist()
        tensors = [cache]
        good = chain.index(SHAPE[0]) if SHAPE[0] in chain else len(chain)
        wanted = wanted.copy()
        wanted[chain[:good]] = row
        try:
            for at in chain:
                tensors += rt.submit(common.device, common.bundle, "row", [tensors[-1], positions[at], given])
        except gr.errors.KernelError:  # the tensor that was refused has gone back already
            if good == len(chain):
                raise
        else:
            if good < len(chain):
                _refused(tensors[-1])
        cache = tensors[good]
        del tensors
        checks += _check([cache.numpy()], [wanted], f"cache after rows {chain}")
    return checks


def _refused(tensor: gr.Tensor) -> None:
    try:
        tensor.numpy()
    except gr.errors.KernelError:
        return
    raise Wrong("an output behind a refused position has values")


def evictions(common: Common, rng: np.random.Generator) -> int:
    """Tensors in L1, which submissions of all threads move out of it."""
    arrays = [_values(rng) for _ in range(3)]
    kept = [_put(common, array, L1) for array in arrays]
    x, y = _values(rng), _values(rng)
    inputs = [_put(common, x), _put(common, y)]
    (out,) = rt.submit(common.device, common.bundle, "chain", inputs, evict="unused")
    sums = [tensor + 1.0 for tensor in kept]
    return _check(
        [out.numpy(), *gr.gather(kept), *(t.numpy() for t in sums)],
        [_chained(x, y), *arrays, *(a + 1 for a in arrays)],
        "evicted tensors",
    )


def scatter(common: Common, rng: np.random.Generator) -> int:
    """Many small tensors after a large one, so that many blocks of the host wait to be copied at once."""
    device = DEVICES[rng.integers(2)] if rng.random() < 0.2 else "tt:0"
    bulk = np.full(BULK, rng.integers(100), np.float32)
    shape = (SHAPE, (32, 32), (100, 3))[rng.integers(3)]
    base = int(rng.integers(1000))
    large = gr.scatter([bulk], device)
    arrays = [np.full(shape, base + n, np.float32) for n in range(40)]
    made = [gr.scatter([array], device)[0] for array in arrays]
    together = gr.scatter(arrays[:5], device)
    tensors = [*made, *together, *large]
    got = gr.gather(tensors) if rng.random() < 0.5 else [tensor.numpy() for tensor in tensors]
    return _check(got, [*arrays, *arrays[:5], bulk], f"scatter to {device}")


def copies(common: Common, rng: np.random.Generator) -> int:
    """Between devices and layouts, into slots that are written again while they are read."""
    slots = [rt.create_empty_tensor(SHAPE, "float32", common.device, TILE) for _ in range(2)]
    got, wanted = [], []
    for n in range(6):
        array = _values(rng)
        rt.copy(slots[n % 2], rt.create_owned_host_tensor(array))
        way = rng.integers(4)
        got.append(
            (
                lambda t: t + 0.0,
                lambda t: t.to("cpu:0"),
                lambda t: t.to(layout=ROWS),
                lambda t: t.to(layout=L1).to("cpu:0"),
            )[way](slots[n % 2])
        )
        wanted.append(array)
    return _check([t.numpy() for t in got], wanted, "copies")


STEPS = (
    lambda a, b, module: module.maximum(a, b) - 1.0,
    lambda a, b, module: module.clip(a + b, -9.0, 9.0),
    lambda a, b, module: a[::-1],
    lambda a, b, module: -a,
)


def eager_ops(common: Common, rng: np.random.Generator) -> int:
    """Chains of ops over tensors of all threads and of its own."""
    device = DEVICES[rng.integers(2)]
    shared, array = common.constants[rng.integers(len(common.constants))]
    x = _values(rng)
    a, b = eager.array(x, device), shared.to(device)
    for _ in range(int(rng.integers(2, 12))):
        step = int(rng.integers(len(STEPS)))
        a, x = STEPS[step](a, b, eager), STEPS[step](x, array, np)
    return _check([a.numpy(), shared.numpy()], [x, array], f"eager ops on {device}")


def overwritten(common: Common, rng: np.random.Generator) -> int:
    """A handle that gets new values while readers of the old ones are queued."""
    device = DEVICES[rng.integers(2)]
    x = eager.array(np.zeros(SHAPE, np.float32), device)
    seen = []
    for _ in range(8):
        seen.append(x * 2.0)
        x += 1.0
    wanted = [np.full(SHAPE, n, np.float32) for n in (*range(0, 16, 2), 8)]
    return _check([t.numpy() for t in (*seen, x)], wanted, f"a tensor overwritten on {device}")


def gathers(common: Common, rng: np.random.Generator) -> int:
    """The shared tensors, read by all."""
    chosen = [common.constants[n] for n in rng.integers(len(common.constants), size=6)]
    return _check(gr.gather([tensor for tensor, _ in chosen]), [array for _, array in chosen], "gather")


def bundles(common: Common, rng: np.random.Generator) -> int:
    """A bundle read, a program loaded, used and dropped; a session of it."""
    x, y = _values(rng), _values(rng)
    bundle = rt.load_bundle(common.path)
    if rng.random() < 0.5:
        rt.load_program(common.device, bundle, "chain")
        (out,) = rt.submit(common.device, bundle, "chain", [_put(common, x), _put(common, y)])
        del bundle
        return _check([out.numpy()], [_chained(x, y)], "a bundle that was dropped")
    module = gr.load(common.path, program="chain")
    module.run(x=x, y=y)
    return _check([module.get_output(0).numpy()], [_chained(x, y)], "a session of a bundle")


Work = Callable[[Common, np.random.Generator], int]
KINDS: dict[str, Work] = {
    work.__name__: work
    for work in (
        run,
        run_async,
        run_async_of_tensors,
        submit,
        in_place,
        refusals,
        evictions,
        scatter,
        copies,
        eager_ops,
        overwritten,
        gathers,
        bundles,
    )
}
