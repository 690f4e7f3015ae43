"""Write a placement policy of your own and compare it with the built-in ones: how far from the best is it?"""

from __future__ import annotations

import numpy as np
from picture import bars

import graph_runtime as gr
from graph_runtime import study
from graph_runtime.plan.placing import PlacementProblem, evaluate


def halves(problem: PlacementProblem) -> np.ndarray:
    """The order of nodes cut at the best place, with one part on each of the two devices."""
    cheap = np.where(problem.allowed, problem.cost, np.inf).argmin(1)
    sides = [np.where(problem.allowed[:, did], did, cheap) for did in range(2)]
    cuts = np.arange(problem.num_nodes + 1)[:, None]
    tried = np.concatenate(
        [np.where(np.arange(problem.num_nodes) < cuts, sides[a], sides[1 - a]) for a in range(2)]
    )
    return tried[evaluate(problem, tried).argmin()]


rows = {}
for name in ("recommender", "experts", "rnn"):
    work = study.workload(name)
    for policy in (halves, "greedy", "mincut"):
        placed = gr.place(work.graph, ["cpu:0", "tt:0=n150"], placement=policy, inputs=work.inputs)
        serial = placed.summary()["predictions"][0]
        label = f"{name} {policy if isinstance(policy, str) else policy.__name__}"
        rows[label] = {
            "bound": serial["bound_ns"] / 1e3,
            "above it": (serial["ns"] - serial["bound_ns"]) / 1e3,
        }
bars("three networks on cpu:0 and tt:0=n150", "us", rows)
