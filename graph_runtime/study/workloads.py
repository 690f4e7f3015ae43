"""Workloads: networks of the corpus, or the user's models, each as a Graph with the names of the inputs that
every run sets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..artifacts.door import open_model
from ..base.errors import InputError, did_you_mean
from ..base.files.mapped import data_folder
from ..base.json_text import is_path
from ..ir.documents.loader import load_graph
from ..ir.documents.write import graph_to_json
from ..ir.graph import Graph

_SET = "x"  # first letter of the names of a corpus network's inputs; parameters begin with "w"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A graph to place. ``inputs``: names of the inputs that every run sets; all others are constants.
    ``digest``: digest of the graph."""

    name: str
    graph: Graph
    inputs: tuple[str, ...]
    digest: str


def corpus() -> tuple[str, ...]:
    """The names of the packaged networks."""
    return tuple(sorted(path.stem for path in _folder().glob("*.json")))


def workload(source: Any) -> Workload:
    """A network of the corpus by name, or a source that prepare() reads, such as an ONNX file or a Model with
    its constants.

    Raises InputError for a name that is neither in the corpus nor a file, and what load_graph and front ends
    raise."""
    if isinstance(source, str) and source in corpus():
        graph = load_graph((_folder() / f"{source}.json").read_bytes())
        return _workload(source, graph, [name for name in graph.input_names if name.startswith(_SET)])
    if isinstance(source, str) and is_path(source) and not Path(source).exists():
        text = (
            f"no file and no network of the corpus is called {source!r}{did_you_mean(str(source), corpus())}"
        )
        raise InputError(text, got=source, wanted=list(corpus()))
    model = open_model(source).model
    name = Path(source).stem if isinstance(source, str | Path) else type(source).__name__
    set_anew = [one for one in model.graph.input_names if one not in model.constants]
    return _workload(name, model.graph, set_anew if model.constants else ())


def _workload(name: str, graph: Graph, inputs: Sequence[str]) -> Workload:
    digest = hashlib.sha256(graph_to_json(graph)).hexdigest()[:12]
    return Workload(name, graph, tuple(inputs), digest)


def _folder() -> Any:
    return data_folder("graph_runtime.study.corpus")
