"""Which nodes of a plan run together: the nodes of each machine, in as few pieces as the data allows.

A piece, a **stage**, runs without a wait for another machine once its values are there. A machine whose nodes
need, in the middle, what another machine makes of their results has several stages, which run in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["cut_into_stages"]


def cut_into_stages(
    machine: Mapping[int, str], reads: Mapping[int, Sequence[int]]
) -> list[tuple[str, list[int]]]:
    """(machine, its nodes in order) of each stage, in an order in which they could run one by one.

    ``machine`` {node: where it runs}, in an order in which nodes could run; ``reads`` {node: nodes whose
    results it needs}. As many nodes as can run form a stage; a machine that could finish goes first, so that
    others, which need nothing of it, wait no longer than they have to.
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
        left = [node for node in waiting[name] if node not in done]
        if left:
            waiting[name] = left
        else:
            del waiting[name]
    return stages


def _ready(nodes: Sequence[int], reads: Mapping[int, Sequence[int]], done: set[int]) -> list[int]:
    """Those of a machine's nodes that need nothing but what is done, and each other."""
    found: list[int] = []
    here: set[int] = set()
    for node in nodes:
        if all(other in here or other in done for other in reads[node]):
            found.append(node)
            here.add(node)
    return found
