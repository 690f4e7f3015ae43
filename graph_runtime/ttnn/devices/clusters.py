"""Clusters: machines of several chips, by the names that --board and GR_TTNN_BOARD take beside those of
boards.

Shapes are those in which the release opens them (its mesh graph descriptors); which chips are cabled how is
in schemas/topologies.
"""

from __future__ import annotations

from typing import NamedTuple

from .chips import ClusterType

__all__: list[str] = []


class Cluster(NamedTuple):
    """``board``: the board of each chip; ``shape``: rows and columns of the whole mesh; ``kind``: what
    ttnn.cluster.get_cluster_type answers; ``on_pcie``: number of chips with a PCIe link of their own."""

    board: str
    shape: tuple[int, int]
    kind: ClusterType
    on_pcie: int


CLUSTERS = {
    "n300": Cluster("n300", (2, 1), ClusterType.N300, 1),
    "t3000": Cluster("n300", (2, 4), ClusterType.T3K, 4),
    "galaxy": Cluster("n300", (8, 4), ClusterType.GALAXY, 32),
    "p300": Cluster("p150", (1, 2), ClusterType.P300, 2),  # assumed: no descriptor of it is published
    "p150x4": Cluster("p150", (2, 2), ClusterType.P150_X4, 4),
    "p150x8": Cluster("p150", (2, 4), ClusterType.P150_X8, 8),
}


def cluster_of(board: str) -> Cluster:
    """The cluster of a name; any other board is a machine of one chip."""
    found = CLUSTERS.get(board)
    if found is not None:
        return found
    kind = {"p150": ClusterType.CUSTOM, "p100": ClusterType.P100}.get(board.split("[")[0], ClusterType.N150)
    return Cluster(board, (1, 1), kind, 1)
