"""RemoteModule: a GraphModule whose graph runs on other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from ...base.errors import InputError
from ...run.module import GraphModule
from .flights import RemoteRun
from .remote_session import RemoteSession

__all__ = ["RemoteModule"]


class RemoteModule(GraphModule):
    """A graph on devices as "node1/tt:0", with the methods of GraphModule. ``run`` and ``run_async`` send
    what was set; outputs stay where they are until they are read (``get_output(0).numpy()``,
    ``gr.gather``). ``params``: its inputs that are constants of the parts."""

    def __init__(self, session: RemoteSession, constants: Sequence[str] = ()):
        super().__init__(cast("Any", session))
        self.params.update(constants)

    def run_async(self, out: Any = None, **inputs: Any) -> Any:
        """Begin a run with these inputs and return a RemoteRun at once; up to ``max_in_flight`` are under
        way, so that machines work side by side. An input may be an output of an earlier run: it is read
        where it lies. Raises InputError, WorkerLost; what goes wrong later, the run's ``wait`` raises."""
        found = {self._find_input(name): value for name, value in inputs.items()}
        run: RemoteRun = cast("Any", self.session).submit(found, out)
        return run

    def share_params(self, other: GraphModule, params: Any) -> NoReturn:
        """Raises InputError: memory of one machine is not another's."""
        raise InputError("parameters are shared by modules of one machine: load them into each")

    def benchmark_nodes(self, runs: int = 30, **inputs: Any) -> NoReturn:
        """Raises InputError: nodes are timed where they run."""
        raise InputError("nodes are timed in a module of this machine: open the graph on devices of it")

    def run_from_inputs(self, device_type: int | str, device_id: int, *pairs: Any) -> NoReturn:
        """Raises InputError: its results would lie on another device than its machine has."""
        raise InputError("run_from_inputs is for devices of this machine: use run() and get_output()")
