"""Random networks compute the same before and after rewriting, on cpu, on tt and on both; on cpu fusion alone
changes no bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.ir.model import Model
from graph_runtime.rewrite import fuse, simplify

pytestmark = pytest.mark.core

UNARY = ("relu", "sigmoid", "tanh", "gelu", "exp", "sqrt", "silu", "abs", "erf", "hard_swish", "negative")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
SHAPE = (2, 6, 8)


class Network:
    """A network in the making: values of one shape and of the shapes that broadcast to it."""

    def __init__(self, rng: np.random.Generator, places: tuple[str, ...]):
        self.rng, self.places = rng, places
        self.b = gr.GraphBuilder(device=places[0])
        self.values = [self.b.input("x", SHAPE), self.b.input("y", SHAPE)]

    def weight(self, *shape):
        return self.b.param(f"w{len(self.b.params)}", self.rng.uniform(0.1, 1, shape).astype(np.float32))

    def pick(self):
        return self.values[int(self.rng.integers(max(0, len(self.values) - 4), len(self.values)))]

    def where(self):
        return None if len(self.places) == 1 else str(self.rng.choice(self.places))

    def step(self) -> None:
        kind, x, place = self.rng.integers(7), self.pick(), self.where()
        anything = (place or self.places[0]).startswith("cpu")  # tt has no kernel for some of the ops

        def op(name, *inputs, **attrs):
            return self.b.op(str(name), *inputs, device=place, **attrs)

        if kind < 2:
            name = self.rng.choice(UNARY if anything else UNARY[:6])
            made = op(name, op("relu", x) if name == "sqrt" else x)
        elif kind < 4:
            shapes = (SHAPE, (8,), (6, 1), (), (2, 1, 1))
            other = self.pick() if self.rng.random() < 0.5 else self.weight(*shapes[self.rng.integers(5)])
            made = op(self.rng.choice(BINARY if anything else BINARY[:4]), x, other)
        elif kind == 4:
            made = op("matmul", x, self.weight(8, 8))
        elif kind == 5:
            made = op("dense", x, self.weight(8, 8), self.weight(8))
        else:
            made = op("transpose", op("relu", op("transpose", x, perm=[0, 2, 1])), perm=[0, 2, 1])
        self.values.append(op("tanh", made) if self.rng.random() < 0.3 else made)


def network(seed: int, places: tuple[str, ...] = ("cpu:0",)) -> Model:
    net = Network(np.random.default_rng(seed), places)
    for _ in range(12):
        net.step()
    net.b.output(*dict.fromkeys(net.values[-1 - int(k)] for k in net.rng.integers(0, 6, 2)), net.values[-1])
    return Model.from_builder(net.b)


def run(model: Model, devices) -> list[np.ndarray]:
    session = gr.create(model.graph, None, list(devices))
    rng = np.random.default_rng(3)
    for name, constant in model.constants.items():
        session.set_input(name, constant.read())
    for name in model.input_names:
        session.set_input(name, rng.uniform(-1, 1, SHAPE).astype(np.float32))
    session.run()
    return [session.get_output(i).numpy() for i in range(len(model.output_names))]


def assert_close(was, now, bound):
    for a, b in zip(was, now, strict=True):
        finite = np.isfinite(a)
        np.testing.assert_array_equal(np.isfinite(b), finite)
        scale = np.abs(a[finite]).max(initial=1.0)
        np.testing.assert_allclose(b[finite] / scale, a[finite] / scale, rtol=0, atol=bound)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_fusion_changes_no_bit_on_cpu(seed):
    model = network(seed)
    fused = fuse(model, ["cpu:0"])
    for a, b in zip(run(model, ["cpu:0"]), run(fused, ["cpu:0"]), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("places", "bound"), [(("cpu:0",), 1e-5), (("tt:0",), 1e-4), (("cpu:0", "tt:0"), 1e-4)]
)
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rewritten_networks_agree(places, bound, seed):
    model = network(seed, places)
    rewritten = fuse(simplify(model, places), places)
    assert rewritten.output_names == model.output_names
    assert_close(run(model, places), run(rewritten, places), bound)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_nodes_of_different_devices_are_never_joined(seed):
    """Each node of the rewritten model runs where all the nodes that it stands for were asked to run."""
    places = ("cpu:0", "tt:0")
    model = network(seed, places)
    rewritten = fuse(simplify(model, places), places)
    column = dict(zip(model.graph.names, model.graph.hints.device_type.tolist(), strict=True))
    after = dict(zip(rewritten.graph.names, rewritten.graph.hints.device_type.tolist(), strict=True))
    for name, origins in rewritten.origins.items():
        assert {column[o] for o in origins} == {after[name]}, (name, origins)
