"""Division of a plan into stages: the nodes of each machine, in as few pieces as the data allows.

A **stage** runs without waiting for another machine once its inputs are there. A machine has several stages,
which run in order, if some of its nodes need results that another machine computes from results of its other
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cut_into_stages(
    machine: Mapping[int, str], reads: Mapping[int, Sequence[int]]
) -> list[tuple[str, list[int]]]:
    """(machine, its nodes in order) of each stage, in an order in which stages could run one by one.

    ``machine`` {node: the machine that runs the node}, in an order in which nodes could run; ``reads`` {node:
    nodes whose results the node needs}. Each stage has all nodes of its machine that can run when the earlier
    stages are done. A machine that can run all its remaining nodes goes first: it needs nothing more from the
    others, and they may need its results.
    """
    waiting: dict[str, list[int]] = {}
    for node, name in machine.items():
        waiting.setdefault(name, []).append(node)
    done: set[int] = set()
    stages = []
    while waiting:
        ready = {name: found for name, nodes in waiting.items() if (found := _ready(nodes, reads, done))}
        name = min(ready, key=lambda name: (len(ready[name]) < len(waiting[name]), ready[name][0]))
        stages.append((name, ready[name]))
        done.update(ready[name])
        waiting[name] = [node for node in waiting[name] if node not in done]
        waiting = {name: nodes for name, nodes in waiting.items() if nodes}
    return stages


def _ready(nodes: Sequence[int], reads: Mapping[int, Sequence[int]], done: set[int]) -> list[int]:
    """The nodes of a machine that need only results of finished nodes and of each other."""
    found: dict[int, None] = {}
    for node in nodes:
        if all(other in found or other in done for other in reads[node]):
            found[node] = None
    return list(found)
