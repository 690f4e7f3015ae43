"""Experiments with placement: models x device lists x objectives x policies x seeds, in a table.

    from graph_runtime.study import Study, compared
    rows = Study(models=["bert", "resnet50"], policies=["single", "heft", mine]).run("results.csv")
    for row in compared(rows): print(row["policy"], row["over_best"])

Read: networks (the corpus), baselines (policies of the literature), experiment (the runner), table.
"""

from .baselines import BASELINES, annealing, m_etf, m_sct
from .experiment import COLUMNS, POLICIES, Study, read_rows
from .networks import Network, corpus, network
from .table import chart, compared

__all__ = [
    "BASELINES",
    "COLUMNS",
    "POLICIES",
    "Network",
    "Study",
    "annealing",
    "chart",
    "compared",
    "corpus",
    "m_etf",
    "m_sct",
    "network",
    "read_rows",
]
