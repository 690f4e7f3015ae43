"""Experiments with placement: a table of results for models x device lists x objectives x policies x seeds.

    from graph_runtime.study import Study, compared
    rows = Study(models=["bert", "resnet50"], policies=["single", "heft", mine]).run("results.csv")
    for row in compared(rows): print(row["policy"], row["over_best"])

Read workloads (the corpus), baselines (policies of the literature), experiment (the runner) and comparison.
"""

from .baselines import BASELINES, annealing, m_etf, m_sct
from .comparison import chart, compared
from .experiment import COLUMNS, POLICIES, Study, read_rows
from .workloads import Workload, corpus, workload

__all__ = [
    "BASELINES",
    "COLUMNS",
    "POLICIES",
    "Study",
    "Workload",
    "annealing",
    "chart",
    "compared",
    "corpus",
    "m_etf",
    "m_sct",
    "read_rows",
    "workload",
]
