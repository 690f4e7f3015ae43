"""One model computed in several precisions, each compared with the numpy interpreter on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..artifacts.prepare import Prepared, prepare
from ..base.errors import InputError
from ..base.machine.devices import parse_list
from ..base.options import Options
from ..base.progress import Tell, silent
from ..ir.model import Model
from ..simulation.simulation import simulate
from .compare import compare_prepared, given_inputs, judge
from .differences import Comparison
from .precision import Precision


@dataclass(frozen=True)
class InPrecision:
    """A model in one precision: the prepared model, the error of each node and output, and the latency in ns
    that `estimate` predicts."""

    precision: str
    prepared: Prepared
    comparison: Comparison
    latency_ns: int

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values, with nodes in the graph's order."""
        made = self.comparison.as_dict()
        order = {name: at for at, name in enumerate(self.prepared.model.graph.names)}
        for part in ("isolated", "accumulated"):
            # a node with several results has rows "node:1", ..., which may also be the name of another node
            made[part].sort(
                key=lambda row: order.get(row["name"], order.get(row["name"].rpartition(":")[0], 0))
            )
        made["alone"] = made.pop("isolated")
        made["bound_alone"] = made.pop("bound_isolated")
        return {"precision": self.precision, "latency_ns": self.latency_ns, **made}


@dataclass(frozen=True)
class Question:
    """A model with its devices, its inputs, and the exact value of each of its entries for these inputs.
    ``libraries``: kernel libraries, as in prepare."""

    source: Model
    devices: Sequence[Any]
    options: Options
    given: Mapping[str, np.ndarray]
    right: Sequence[np.ndarray]
    libraries: Sequence[Any] = ()

    @classmethod
    def of(
        cls,
        source: Any,
        devices: Sequence[Any],
        options: Options | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        seed: int = 0,
        params: Any = None,
        libraries: Sequence[Any] = (),
    ) -> Question:
        """The question for ``source``, which is anything that prepare accepts. ``inputs``: {name: array};
        missing inputs are drawn from ``seed``. Raises what prepare and interpret raise."""
        made = prepare(source, devices, options, params=params, libraries=libraries)
        given = given_inputs(made.source, inputs, seed)
        # the defaults of options that are not set depend on whether the source was a graph or a model
        return cls(
            made.source, parse_list(devices), made.options, given, judge(made.source, given), libraries
        )

    def prepare(self, precision: Precision) -> Prepared:
        """The model, rewritten and planned in a precision."""
        options = precision.over(self.options, self.devices)
        return prepare(self.source, self.devices, options, libraries=self.libraries)

    def answer(self, precision: Precision, tell: Tell = silent) -> InPrecision:
        """Run the model in a precision, as a whole and node by node. Raises InputError if every node runs on
        a host and the precision is not the default, and the errors of create and run."""
        tell(f"comparing {precision.text}", 0, 0)
        prepared = self.prepare(precision)
        _require_device(prepared, precision)
        comparison = compare_prepared(
            prepared, list(self.libraries) or None, inputs=self.given, original=self.right
        )
        return InPrecision(precision.text, prepared, comparison, latency(prepared, list(self.given)))


def latency(prepared: Prepared, inputs: Sequence[str]) -> int:
    """ns of a run that sets ``inputs``, as `estimate` predicts it."""
    names = set(prepared.plan.graph.input_names)
    return int(simulate(prepared.plan, inputs=[n for n in inputs if n in names]).summary()["latency_ns"])


def _require_device(prepared: Prepared, precision: Precision) -> None:
    plan = prepared.plan
    far = any(not plan.devices[did].descriptor.on_host for did in set(plan.did.tolist()))
    hosts = all(device.descriptor.on_host for device in plan.devices)  # then the format is that of weights
    if not far and not hosts and (precision.format or precision.words):
        raise InputError(
            f"{precision.text} applies to simulated devices, but all nodes run on a host: pin them, "
            "as --place '*=tt:0' --fallback host",
            got=precision.text,
        )
