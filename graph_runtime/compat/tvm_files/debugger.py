"""DebugModule: a GraphModule that runs node by node, times each node, and shows its results. Unlike TVM's
debug executor, it finds a node's outputs by entry, not by node number, and before it reads an output, it runs
the nodes on which the output depends.

Node numbers are those of the loaded graph; inserted copies run with the node that needs them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import InputError, did_you_mean
from ...binding import core
from ...run.benchmark import BenchmarkResult, measure
from ...run.factory import create
from ...run.module import GraphModule, hand_out
from ...run.sessions.session import Session
from ...views.profile import Report, cell

_WARM_UP_RUNS = 3


def create_debug(graph: Any, library: Any = None, devices: Any = ("cpu:0",), **options: Any) -> DebugModule:
    """A DebugModule; parameters are those of create()."""
    return DebugModule(create(graph, library, devices, **options).session)


class DebugModule(GraphModule):
    """A GraphModule whose nodes can be run, timed and inspected one by one."""

    num_nodes: int

    functions = GraphModule.functions | {
        "debug_get_output",
        "execute_node",
        "get_node_output",
        "profile",
        "run_individual",
        "run_individual_node",
    }

    def __init__(self, session: Session | GraphModule):
        super().__init__(session)
        session = self.session
        self._last_executed = -1
        plan, program = session.plan, session.program
        origin = plan.origin[program.nid[: program.main]]
        # an inserted copy (origin -1) belongs to the next node from the file
        owner = np.where(origin >= 0, origin, np.iinfo(np.int64).max)
        self._owner = np.minimum.accumulate(owner[::-1])[::-1] if len(owner) else owner
        self.num_nodes = int(plan.origin.max(initial=-1)) + 1
        self._new_nid = {int(o): nid for nid, o in enumerate(plan.origin.tolist()) if o >= 0}
        self._names = {session.graph.names[new]: nid for nid, new in self._new_nid.items()}

    def run(self, **inputs: Any) -> None:
        """Run, as GraphModule.run does; afterwards, execute_node starts again from the first node."""
        super().run(**inputs)
        self._last_executed = -1

    # **************** nodes ****************

    def _nid(self, node: int | str) -> int:
        """The number, in the loaded graph, of a node given by number or by name. If several nodes have the
        name, it is the number of the last."""
        if isinstance(node, str):
            if node not in self._names:
                raise InputError(f"no node is called {node!r}{did_you_mean(node, self._names)}", got=node)
            return self._names[node]
        if not 0 <= node < self.num_nodes:
            text = f"node {node} is out of range: the graph has {self.num_nodes}"
            raise InputError(text, got=node, wanted=self.num_nodes)
        return int(node)

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """(begin, end) of the instructions that belong to nodes first .. last of the loaded graph."""
        return int(np.searchsorted(self._owner, first)), int(np.searchsorted(self._owner, last, side="right"))

    def execute_node(self, node: int | str) -> None:
        """Run all nodes after the one executed last, up to ``node``. If ``node`` comes before the one
        executed last, run all nodes from the first node to ``node``. Do nothing if ``node`` was executed
        last."""
        nid = self._nid(node)
        if nid == self._last_executed:
            return
        first = 0 if nid < self._last_executed else self._last_executed + 1
        self.session.run_span(*self._span(first, nid))
        self._last_executed = nid

    def get_node_output(self, node: int | str, index: int = 0) -> np.ndarray:
        """A copy of result ``index`` of ``node``. Raises InputError unless ``node`` was executed last,
        because a later node may have reused its memory."""
        nid = self._nid(node)
        if nid != self._last_executed:
            raise InputError(
                f"node {nid} is not the one executed last ({self._last_executed}): call execute_node({nid}) "
                f"first",
                got=nid,
                wanted=self._last_executed,
            )
        return self._entry(nid, index).numpy()

    def debug_get_output(self, node: str | int, out: Any = None) -> Any:
        """Run nodes 0 .. node, and return a copy of the first result of ``node``, or write that result to
        ``out``."""
        nid = self._nid(node)
        self.session.run_span(*self._span(0, nid))
        self._last_executed = nid
        tensor = self._entry(nid, 0)
        return tensor.numpy() if out is None else hand_out(tensor, out)

    def num_results(self, node: int | str) -> int:
        """Number of a node's results."""
        row_ptr, new = self.session.graph.row_ptr, self._new_nid[self._nid(node)]
        return int(row_ptr[new + 1] - row_ptr[new])

    def _entry(self, nid: int, index: int) -> Any:
        row_ptr, new, results = self.session.graph.row_ptr, self._new_nid[nid], self.num_results(nid)
        if not 0 <= index < results:
            text = f"node {nid} has {results} results, there is none of number {index}"
            raise InputError(text, got=index, wanted=results)
        return self.session.tensor(int(row_ptr[new]) + index)

    # **************** timing ****************

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Seconds of each node, with ``repeat`` values for each; 0.0 for null nodes. First all nodes run
        once, in order, so that each finds its inputs."""
        self.session.run()
        limits = (min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown)
        return [self._time_node(nid, number, repeat, *limits) for nid in range(self.num_nodes)]

    def run_individual_node(
        self,
        index: int,
        number: int = 1,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """The BenchmarkResult of node ``index``. Raises InputError for an invalid index."""
        nid = self._nid(index)
        self.session.run_span(*self._span(0, nid))
        limits = (min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown)
        return BenchmarkResult(tuple(self._time_node(nid, number, repeat, *limits)))

    def _time_node(
        self, nid: int, number: int, repeat: int, min_ms: int, limit: int, cooldown_ms: int, cooldown_at: int
    ) -> list[float]:
        first, last = self._span(nid, nid)
        if first == last:
            return [0.0] * repeat

        def call() -> None:
            self.session.run_span(first, last)

        timed = measure(call, repeat, number, min_ms, limit, cooldown_ms / 1e3, cooldown_at)
        return list(timed.results)

    def profile(self, collectors: Any = None, **inputs: Any) -> Report:
        """A report with the time of each call in one run, after three warm-up runs. ``collectors`` has no
        effect; it is accepted because TVM's callers pass it."""
        if inputs:
            self.set_input(**inputs)
        for _ in range(_WARM_UP_RUNS):
            self.session.run()
        seconds = []
        for first in range(self.session.program.main):
            begin = time.perf_counter()
            self.session.run_span(first, first + 1)
            seconds.append(time.perf_counter() - begin)
        return self._report([s * 1e6 for s in seconds])

    def _report(self, durations: Sequence[float]) -> Report:
        plan, program = self.session.plan, self.session.program
        devices = [_device_name(plan.devices[did]) for did in plan.did[program.nid[: program.main]].tolist()]
        totals = {
            name: sum(t for t, d in zip(durations, devices, strict=True) if d == name)
            for name in dict.fromkeys(devices)
        }
        whole = max(totals.values(), default=0.0) or 1.0
        calls = tuple(
            self._call(at, us, device, whole)
            for at, (us, device) in enumerate(zip(durations, devices, strict=True))
        )
        metrics = {
            name: {
                "Duration (us)": cell("microseconds", us),
                "Count": cell("count", devices.count(name)),
                "Percent": cell("percent", 100 * us / whole),
                "Device": cell("string", name),
            }
            for name, us in totals.items()
        }
        return Report(
            calls,
            metrics,
            {"Executor": cell("string", "Graph"), "Number of threads": cell("count", core.pool_threads())},
        )

    def _call(self, at: int, us: float, device: str, whole: float) -> dict[str, Any]:
        view = self.session.graph.node(int(self.session.program.nid[at]))
        shapes = ", ".join(
            f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in (*view.input_types, *view.output_types)
        )
        row = {
            "Name": cell("string", view.callee.name),
            "Duration (us)": cell("microseconds", us),
            "Percent": cell("percent", 100 * us / whole),
            "Device": cell("string", device),
            "Count": cell("count", 1),
            "Argument Shapes": cell("string", shapes),
        }
        raw = view.callee.raw
        if "hash" in raw:
            row["Hash"] = cell("string", raw["hash"])
        return row | {key: cell("string", value) for key, value in raw.items() if "layout" in key}


def _device_name(device: Any) -> str:
    return f"{device.kind}{device.ordinal}"
