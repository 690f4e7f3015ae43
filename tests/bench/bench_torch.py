"""PyTorch on tt: what an eager operation, and a step of a compiled network, cost the host, as JSON lines.

    python tests/bench/bench_torch.py [--rounds 15] [--steps 100] [--small] [--networks [--whole]]

"calls": which way calls that repeat take (docs/torch.md): C++, compiled first where it is not yet, or, with
GR_TORCH_NATIVE=off and where there is no compiler, Python's.
"eager": us a call of an operation on float32[16], until Python goes on; the queue is drained outside of the
clock ("cpu" is the processor time of the calling thread alone, which a busy machine disturbs less); "over"
are the us above the same call of torch's on the CPU, the rounds of both alternating, least of each.
"small" (--small): the same of operations on float32[32, 32] that training uses most; "times" torch's.
"program": us of a compiled forward pass of an MLP and of Session.submit of the very same program on the same
handles, and what is between them; "compiled module": the module as a user calls it, "over" the us above the
same module whose graph gives a result that is there already, so without what dynamo and AOTAutograd take.
"training": bytes that steps move, of weights none. Medians, and the least.
"network" (--networks, needs transformers): a compiled training step, forward and backward in float32 with
numerics="fast", against torch's eager one on the CPU, and the first call against that of aot_eager;
one thread, pairs that alternate, the least of each, by the clock of the process. --whole: GPT-2 of 12 layers.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import small_calls
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import graph_runtime as gr
import graph_runtime.torch as tt
from graph_runtime.base.config import get
from graph_runtime.base.errors import CompileError
from graph_runtime.run.sessions.session import Session
from graph_runtime.torch import native_calls
from graph_runtime.torch.compiled.backend import Compiled
from graph_runtime.torch.compiled.compiled_graph import CompiledGraph

BATCH = 200  # operations between two waits
FEW = 12  # programs between two waits: of more that are queued a call waits for the oldest


def rounds_of(
    call: Callable[[], object],
    drain: Callable[[object], object],
    rounds: int,
    clock: Callable[[], float],
    batch: int = BATCH,
) -> list[float]:
    """us a call, a number a round."""
    took = []
    for _ in range(rounds + 1):
        start = clock()
        for _ in range(batch):
            last = call()
        took.append((clock() - start) / batch * 1e6)
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
    calls = {
        "add": lambda x, square: x + x,
        "relu": lambda x, square: torch.relu(x),
        "mul_": lambda x, square: x.mul_(1.0),
        "mm": lambda x, square: square @ square,
        "view": lambda x, square: square[1:],
    }
    cpu = torch.rand(16), torch.rand(32, 32)
    there = [t.to("tt") for t in cpu]
    for name, call in calls.items():
        for clock, function in {"wall": time.perf_counter, "cpu": time.thread_time}.items():
            ours: list[float] = []
            theirs: list[float] = []
            for _ in range(rounds):
                ours += rounds_of(partial(call, *there), lambda t: t.cpu(), 1, function)
                theirs += rounds_of(partial(call, *cpu), lambda t: t, 1, function)
            over = round(min(ours) - min(theirs), 2)
            told(f"eager {name}", ours, clock=clock, torch_cpu_us=round(min(theirs), 2), over=over, limit=5)


def small(rounds: int) -> None:
    torch.set_num_threads(1)
    cpu = small_calls.given()
    there = [t.to("tt") for t in cpu]
    for name, call in small_calls.CALLS.items():
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            ours += rounds_of(partial(call, *there), lambda t: t.cpu(), 1, time.thread_time)
            theirs += rounds_of(partial(call, *cpu), lambda t: t, 1, time.thread_time)
        times = round(min(ours) / min(theirs), 1)
        told(f"small {name}", ours, clock="cpu", torch_cpu_us=round(min(theirs), 2), times=times, limit=5)


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
        made = compiled._only
        assert made is not None
        arguments = arguments_of(model, x, made)
        session = Session(made.plan)
        inputs = {
            index: made._value(arguments[argument], spec)
            for (argument, _, spec), index in zip(made._inputs, given_of(made), strict=True)
        }
        for clock, function in {"wall": time.perf_counter, "cpu": time.thread_time}.items():
            ours = rounds_of(lambda: made(arguments)[0], lambda t: t.cpu(), rounds, function)
            theirs = rounds_of(
                lambda: session.submit(inputs).outputs[0], lambda t: t.wait(), rounds, function
            )
            between = [a - b for a, b in zip(ours, theirs, strict=True)]
            told("program", ours, clock=clock)
            told("session.submit", theirs, clock=clock)
            told("program over session.submit", between, clock=clock, limit=30)
            modules(run, without_program(model, run(x)), x, rounds, clock, function)


def without_program(model: nn.Module, result: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """The module, compiled by torch to a graph that gives ``result``."""

    def compiler(gm: torch.fx.GraphModule, examples: object) -> Callable[..., list[torch.Tensor]]:
        return make_boxed_func(lambda *args: [result])

    torch._dynamo.reset()
    return torch.compile(model, backend=aot_autograd(fw_compiler=compiler, inference_compiler=compiler))


def modules(
    run: Callable[[torch.Tensor], torch.Tensor],
    empty: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    rounds: int,
    clock: str,
    function: Callable[[], float],
) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    run(x), empty(x)
    for _ in range(10 * rounds):
        ours += rounds_of(lambda: run(x), lambda t: t.cpu(), 1, function, FEW)
        theirs += rounds_of(lambda: empty(x), lambda t: t.cpu(), 1, function, FEW)
    torch_us = round(min(theirs), 2)
    told(
        "compiled module",
        ours,
        clock=clock,
        torch_us=torch_us,
        over=round(min(ours) - min(theirs), 2),
        limit=15,
    )


def given_of(made: CompiledGraph) -> list[int]:
    """The graph inputs of a program's arguments, in their order."""
    return [made.plan.graph.input_names.index(key) for _, key, *_ in made._inputs]


def arguments_of(model: nn.Module, x: torch.Tensor, made: CompiledGraph) -> list[torch.Tensor]:
    """The arguments of the graph, in its order: it is told by their shapes."""
    shapes = {tuple(t.shape): t for t in (*model.parameters(), x)}
    graph = made.plan.graph
    wanted = {
        argument: tuple(graph.entry_type(int(graph.input_eids[index])).shape)
        for (argument, *_), index in zip(made._inputs, given_of(made), strict=True)
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


def networks(rounds: int, whole: bool) -> None:
    import transformers

    torch.manual_seed(0)
    size = {} if whole else {"n_embd": 256, "n_layer": 2, "n_head": 4}
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size)).eval()
    blocks = {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    resnet = transformers.ResNetForImageClassification(transformers.ResNetConfig(**blocks, num_labels=10))
    ids, images = torch.randint(0, 1000, (2, 64)), torch.rand(4, 3, 64, 64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    network("gpt2", gpt2, lambda net, x: net(input_ids=x, labels=x, use_cache=False).loss, ids, rounds)
    network("resnet18", resnet.train(), lambda net, x: net(x).logits.square().mean(), images, rounds)
    torch.set_num_threads(threads)


def network(name: str, net: nn.Module, loss: Callable[..., Any], x: torch.Tensor, rounds: int) -> None:
    def step(run: Callable[[torch.Tensor], torch.Tensor], given: torch.Tensor, model: nn.Module) -> float:
        """Processor seconds of a step."""
        start = time.process_time()
        made = run(given)
        made.backward()
        made.detach().cpu()
        if given.device.type == "tt":
            torch.tt.synchronize()
        took = time.process_time() - start
        model.zero_grad()
        return took

    def compiled(model: nn.Module, given: torch.Tensor, backend: str, **more: Any) -> tuple[Any, float]:
        torch._dynamo.reset()
        run = torch.compile(lambda x: loss(model, x), backend=backend, **more)
        return run, step(run, given, model)

    there, given = copy.deepcopy(net).to("tt"), x.to("tt")
    _, theirs_first = compiled(copy.deepcopy(net), x, "aot_eager")
    run, ours_first = compiled(there, given, "tt", options={"numerics": "fast"})
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(step(run, given, there))
        theirs.append(step(lambda x: loss(net, x), x, net))
    print(
        json.dumps(
            {
                "bench": f"network {name}",
                "step ms": round(min(ours) * 1e3, 1),
                "torch cpu ms": round(min(theirs) * 1e3, 1),
                "ratio": round(min(ours) / min(theirs), 2),
                "limit": 1.3,
                "first call s": round(ours_first, 2),
                "aot_eager s": round(theirs_first, 2),
                "first ratio": round(ours_first / theirs_first, 2),
                "first limit": 1.2,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What PyTorch on tt costs the host.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--small", action="store_true", help="operations of 32 x 32, and nothing else")
    parser.add_argument("--networks", action="store_true", help="training steps of GPT-2 and ResNet-18, too")
    parser.add_argument("--whole", action="store_true", help="GPT-2 of 12 layers, not of 2")
    options = parser.parse_args()
    if get("TORCH_NATIVE") != "off":
        with contextlib.suppress(CompileError):
            native_calls.build()
    print(json.dumps({"bench": "calls", "way": native_calls.which()}))
    if options.small:
        return small(options.rounds)
    eager(options.rounds)
    program(options.rounds)
    training(options.steps)
    if options.networks:
        networks(options.rounds, options.whole)


if __name__ == "__main__":
    main()
