"""PyTorch on tt: what an eager operation, and a step of a compiled network, cost the host, as JSON lines.

    python tests/bench/bench_torch.py [--rounds 15] [--steps 100]

"eager": us a call of an operation on float32[16], until Python goes on; the queue is drained outside of the
clock ("cpu" is the processor time of the calling thread alone, which a busy machine disturbs less).
"program": us of a compiled forward pass of an MLP and of Session.submit of the very same program on the same
handles, and what is between them. "training": bytes that steps move, of weights none. Medians, and the
least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import graph_runtime as gr
import graph_runtime.torch as tt
from graph_runtime.run.sessions.session import Session
from graph_runtime.torch.backend import Compiled
from graph_runtime.torch.compiled_graph import CompiledGraph

BATCH = 200  # operations between two waits


def rounds_of(
    call: Callable[[], object], drain: Callable[[object], object], rounds: int, clock: Callable[[], float]
) -> list[float]:
    """us a call, a number a round."""
    took = []
    for _ in range(rounds + 1):
        start = clock()
        for _ in range(BATCH):
            last = call()
        took.append((clock() - start) / BATCH * 1e6)
        drain(last)
    return took[1:]


def told(name: str, values: list[float], **more: object) -> None:
    print(
        json.dumps(
            {
                "bench": name,
                "median_us": round(statistics.median(values), 2),
                "least_us": round(min(values), 2),
                **more,
            }
        )
    )


def eager(rounds: int) -> None:
    x, square = torch.rand(16).to("tt"), torch.rand(32, 32).to("tt")
    calls = {
        "add": lambda: x + x,
        "relu": lambda: torch.relu(x),
        "mul_": lambda: x.mul_(1.0),
        "mm": lambda: square @ square,
        "view": lambda: square[1:],
    }
    for name, call in calls.items():
        for clock, function in {"wall": time.perf_counter, "cpu": time.thread_time}.items():
            told(f"eager {name}", rounds_of(call, lambda t: t.cpu(), rounds, function), clock=clock, limit=40)


def program(rounds: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to("tt")
    kept: list[Compiled] = []
    plain = Compiled.__init__

    def keep(self: Compiled, *args: object) -> None:
        plain(self, *args)
        kept.append(self)

    Compiled.__init__ = keep
    run = torch.compile(model, backend="tt", options={})
    x = torch.rand(32, 64).to("tt")
    with torch.no_grad():
        run(x)
        (compiled,) = kept
        made = compiled.programs[()]
        arguments = arguments_of(model, x, made)
        session = Session(made.plan)
        inputs = {
            index: made._value(arguments[argument], layout, device)
            for (argument, layout, device), index in zip(made._inputs, given_of(made), strict=True)
        }
        for clock, function in {"wall": time.perf_counter, "cpu": time.thread_time}.items():
            ours = rounds_of(lambda: made(arguments)[0], lambda t: t.cpu(), rounds, function)
            theirs = rounds_of(
                lambda: session.submit(inputs).outputs[0], lambda t: t.wait(), rounds, function
            )
            dynamo = rounds_of(lambda: run(x), lambda t: t.cpu(), rounds, function)
            between = [a - b for a, b in zip(ours, theirs, strict=True)]
            told("program", ours, clock=clock)
            told("session.submit", theirs, clock=clock)
            told("program over session.submit", between, clock=clock, limit=30)
            told("compiled module", dynamo, clock=clock)


def given_of(made: CompiledGraph) -> list[int]:
    """The graph inputs of a program's arguments, in their order."""
    return [made.plan.graph.input_names.index(f"argument_{argument}") for argument, _, _ in made._inputs]


def arguments_of(model: nn.Module, x: torch.Tensor, made: CompiledGraph) -> list[torch.Tensor]:
    """The arguments of the graph, in its order: it is told by their shapes."""
    shapes = {tuple(t.shape): t for t in (*model.parameters(), x)}
    graph = made.plan.graph
    wanted = {
        argument: tuple(graph.entry_type(int(graph.input_eids[index])).shape)
        for (argument, _, _), index in zip(made._inputs, given_of(made), strict=True)
    }
    return [shapes[wanted[i]] for i in range(len(wanted))]


def training(steps: int) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    run = torch.compile(model.to("tt"), backend="tt")
    x, y = torch.rand(32, 64), torch.randint(0, 10, (32,))

    def step() -> None:
        loss = nn.functional.cross_entropy(run(x.to("tt")).cpu(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    tt.stats(clear=True)
    start = time.perf_counter()
    with gr.stats() as moved:
        for _ in range(steps):
            step()
    wanted = steps * 4 * (32 * 64 + 32 * 10)
    took = round((time.perf_counter() - start) / steps * 1e6)
    print(
        json.dumps(
            {
                "bench": "training",
                "steps": steps,
                "us a step": took,
                "h2d": moved.bytes("h2d"),
                "h2d beyond batch and gradient": moved.bytes("h2d") - wanted,
                "conversions": moved.count("conversion"),
                "prepared": tt.stats()["prepared"],
                "on the host": tt.stats().on_host,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What PyTorch on tt costs the host.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    eager(options.rounds)
    program(options.rounds)
    training(options.steps)


if __name__ == "__main__":
    main()
