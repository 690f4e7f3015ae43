"""One model computed in several ways, each compared with the numpy interpreter on the same inputs."""

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

__all__ = ["InPrecision", "Question", "latency"]


@dataclass(frozen=True)
class InPrecision:
    """A model in one precision: what was run, how far each node and each output is off, and the latency that
    `estimate` predicts, in ns."""

    precision: str
    prepared: Prepared
    comparison: Comparison
    latency_ns: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON-able values. Nodes are in the graph's order."""
        made = self.comparison.as_dict()
        order = {name: at for at, name in enumerate(self.prepared.model.graph.names)}
        for part in ("isolated", "accumulated"):
            # a result of several is named "node:1", and a node may have such a name itself
            made[part].sort(
                key=lambda row: order.get(row["name"], order.get(row["name"].rpartition(":")[0], 0))
            )
        made["alone"] = made.pop("isolated")
        made["bound_alone"] = made.pop("bound_isolated")
        return {"precision": self.precision, "latency_ns": self.latency_ns, **made}


@dataclass(frozen=True)
class Question:
    """What is asked: a model with its inputs, on devices, and the right value of each of its entries.
    ``libraries`` as prepare takes them."""

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
        """``source`` as prepare takes it; ``inputs``: {name: array}, what it leaves out is drawn from
        ``seed``. Raises what prepare and interpret raise."""
        made = prepare(source, devices, options, params=params, libraries=libraries)
        given = given_inputs(made.source, inputs, seed)
        # what the source leaves open is decided by what it was, a graph or a model
        return cls(
            made.source, parse_list(devices), made.options, given, judge(made.source, given), libraries
        )

    def prepare(self, precision: Precision) -> Prepared:
        """The model, rewritten and planned for a precision."""
        options = precision.over(self.options, self.devices)
        return prepare(self.source, self.devices, options, libraries=self.libraries)

    def answer(self, precision: Precision, tell: Tell = silent) -> InPrecision:
        """Run the model in a precision, as a whole and node by node. Raises InputError for one that says
        something where every node runs on a host, and what create and run raise."""
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
    hosts = all(device.descriptor.on_host for device in plan.devices)  # then it is of their weights
    if not far and not hosts and (precision.format or precision.words):
        raise InputError(
            f"{precision.text} is of simulated devices, but all nodes run on a host: pin them, "
            "as --place '*=tt:0' --fallback host",
            got=precision.text,
        )
