"""GraphModule: TVM's graph executor interface over a Session. The session does the work; the module finds
inputs and outputs by name.

create(graph, library, devices) and load(bundle) make a module (factory.py, loading.py)."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..artifacts.prepare import read_params
from ..base.errors import InputError, did_you_mean
from ..base.machine.devices import Device, of_type
from ..ir.graph import Graph
from .queues.run import Run
from .sessions.constants import set_parameters
from .sessions.session import Session
from .sessions.sharing import share_inputs
from .tensors.arrays import empty
from .tensors.tensor import Tensor

if TYPE_CHECKING:
    from .benchmark import BenchmarkResult, NodeTimes

_FUNCTIONS = frozenset(
    """
    benchmark get_input get_input_index get_input_info get_num_inputs get_num_outputs get_output
    get_output_info load_params reset_zero_copy run run_async run_from_inputs set_input set_input_zero_copy
    set_output_zero_copy share_params
    """.split()
)


class GraphModule:
    """A graph that is ready to run, with the methods of TVM's GraphModule.

    ``session`` runs the graph, ``params`` are the names of the inputs that are parameters. A GraphModule
    given in place of a session provides both. Names and indices are those of the graph's arg_nodes and heads;
    of two nodes with one name the last counts, as in TVM."""

    functions = _FUNCTIONS  # the names that module["name"] finds

    def __init__(self, session: Session | GraphModule):
        given: Any = session
        self.params: set[str] = getattr(given, "params", set())
        self.session: Session = getattr(given, "session", given)
        graph = self.session.graph
        self._input_index = {name: i for i, name in enumerate(graph.input_names)}
        self._output_index = _output_index(graph)
        self._run = self.session.run

    def __repr__(self) -> str:
        return f"<GraphModule on {', '.join(map(str, self.session.plan.devices))}: {self.session.graph!r}>"

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The method called ``name``, as TVM's raw module has it. Raises AttributeError."""
        if name not in self.functions:
            raise AttributeError(f"Module has no function {name!r}{did_you_mean(name, self.functions)}")
        return getattr(self, name)

    @property
    def module(self) -> GraphModule:
        """TVM's raw module under its wrapper; here the module and its wrapper are one object."""
        return self

    # **************** running ****************

    def run(self, **inputs: Any) -> None:
        """Set the inputs given by name, then run all nodes once. Raises InputError, KernelError,
        SessionBusyError."""
        if inputs:
            self.set_input(**inputs)
        self._run()

    def run_async(
        self, out: Mapping[str | int, Tensor] | Sequence[Tensor | None] | None = None, **inputs: Any
    ) -> Run:
        """Queue a run with these inputs, as Session.submit does. ``out`` {output's name or number: tensor to
        which the output is written}. Raises InputError; later failures are raised by the run's ``wait``."""
        found: dict[int | str, Any] = {self._find_input(name): value for name, value in inputs.items()}
        if isinstance(out, Mapping):
            return self.session.submit(found, {self._find_output(key): tensor for key, tensor in out.items()})
        return self.session.submit(found, out)

    def benchmark(
        self,
        device: Device | str | None = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **inputs: Any,
    ) -> BenchmarkResult:
        """Time ``run``: ``repeat`` measurements of the mean of ``number`` calls, after one unmeasured call.

        With ``min_repeat_ms``, ``number`` is raised until a measurement takes that long, or until
        ``limit_zero_time_iterations`` measurements were zero. After measurement i with i %
        repeats_to_cooldown == 0 the method sleeps ``cooldown_interval_ms``. ``end_to_end``: also time setting
        the inputs and fetching the outputs to the host. ``device`` exists for TVM's sake and changes nothing:
        a run that returns is over on every device."""
        call = self[func_name]
        if end_to_end:
            call = self._end_to_end(inputs)
        elif inputs:
            self.set_input(**inputs)
        from .benchmark import measure  # statistics takes 3 ms to import

        return measure(
            call,
            repeat,
            number,
            min_repeat_ms or 0,
            limit_zero_time_iterations,
            cooldown_interval_ms / 1e3,
            repeats_to_cooldown,
        )

    def benchmark_nodes(self, runs: int = 30, **inputs: Any) -> NodeTimes:
        """Times of each node alone, over ``runs`` runs after an unmeasured one. ``str()`` of the result is a
        table, ``rows()`` its rows. Raises InputError for ``runs`` below 1, and the errors of run."""
        if inputs:
            self.set_input(**inputs)
        from .benchmark import measure_nodes

        return measure_nodes(self.session, runs)

    def _end_to_end(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        def call() -> None:
            self.run(**inputs)
            for i in range(self.get_num_outputs()):
                self.get_output(i).numpy()

        return call

    # **************** inputs ****************

    def get_num_inputs(self) -> int:
        """Number of graph inputs, parameters included."""
        return len(self.session.graph.inputs)

    def get_input_index(self, name: str) -> int:
        """The index of a graph input, -1 for an unknown name."""
        return self._input_index.get(name, -1)

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the inputs that load_params has not set."""
        graph = self.session.graph
        names = [name for name in self._input_index if name not in self.params]
        eids = [graph.input_eids[self._input_index[name]] for name in names]
        return _info(graph, names, eids)

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Copy values into inputs: into one input by name or index, or into any number of inputs by name
        (biggest first).

        A value is a Tensor or anything numpy takes. Its shape must be the input's. Its dtype must be the
        input's or cast to it as "same_kind", and the input's dtype must hold each element (floats are
        rounded). Raises InputError for a value that does not fit, and for an unknown name before anything is
        copied."""
        if key is not None:
            self.session.set_input(self._find_input(key), value)
        found = [(self._find_input(name), value) for name, value in params.items()]
        if len(found) > 1:
            found.sort(key=lambda each: -_size(each[1]))
        for index, value in found:
            self.session.set_input(index, value)

    def get_input(self, index: str | int, out: Any = None) -> Tensor | Any:
        """The live tensor of an input. With ``out``, an array or a Tensor, the values are copied to ``out``,
        which is the result."""
        return hand_out(self.session.input(self._find_input(index)), out)

    def load_params(self, params: bytes | str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Set parameters from TVM's binary (bytes or a path), .npz, .safetensors or a dict, biggest first.
        Names that are no inputs are skipped with a warning. Raises ParamsError, InputError."""
        loaded = read_params(params)
        known = {name: value for name, value in loaded.items() if name in self._input_index}
        if skipped := [name for name in loaded if name not in known]:
            names = ", ".join(map(repr, skipped[:10])) + (" ..." if len(skipped) > 10 else "")
            warnings.warn(f"parameters that the graph has no inputs for were skipped: {names}", stacklevel=2)
        largest = sorted(known, key=lambda name: -_size(known[name]))
        set_parameters(self.session, {self._find_input(name): known[name] for name in largest})
        self.params.update(known)

    def share_params(
        self, other: GraphModule, params: bytes | str | os.PathLike[str] | Mapping[str, Any]
    ) -> None:
        """Let the parameters that ``params`` names live in the memory of ``other``, which may be deleted
        later. Their values become those of ``other``; this module's own memory for them goes back to the
        system. Raises InputError if the two modules do not fit together (sharing.share_inputs), ParamsError.
        """
        names = list(read_params(params))
        share_inputs(self.session, other.session, names)
        self.params.update(name for name in names if name in self._input_index)

    def run_from_inputs(self, device_type: int | str, device_id: int, *pairs: Any) -> list[Tensor]:
        """Set inputs given as name, value, name, value ..., run, and return copies of all outputs on that
        device. Raises InputError for an odd number of ``pairs`` or a name that is no input."""
        if len(pairs) % 2:
            raise InputError(
                f"run_from_inputs takes names and values in turn, got an odd number: {len(pairs)}"
            )
        for name in pairs[::2]:
            if name not in self._input_index:
                close = did_you_mean(name, self._input_index)
                raise InputError(f"{name} is not a valid input name{close}", got=name)
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.set_input(name, value)
        self.run()
        live = [self.session.output(i) for i in range(self.get_num_outputs())]
        device = of_type(device_type, device_id)
        return [tensor.copyto(empty(tensor.shape, tensor.dtype, device)) for tensor in live]

    def _find_input(self, key: str | int) -> int:
        return _find(key, self._input_index, self.get_num_inputs(), "input")

    # **************** outputs ****************

    def get_num_outputs(self) -> int:
        """Number of heads."""
        return len(self.session.graph.outputs)

    def get_output_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """({name: shape}, {name: dtype}) of the outputs, with the names of Graph.output_names."""
        graph = self.session.graph
        return _info(graph, graph.output_names, graph.outputs)

    def get_output(self, index: str | int, out: Any = None) -> Tensor | Any:
        """The live tensor of an output, which the next run overwrites; with ``out`` the values are copied to
        ``out``, which is the result. ``index``: the output's number, its node's name, or "node:k" for the
        node's k-th result."""
        return hand_out(self.session.output(self._find_output(index)), out)

    def _find_output(self, key: str | int) -> int:
        return _find(key, self._output_index, self.get_num_outputs(), "output")

    def debug_get_output(self, node: str | int, out: Any = None) -> Tensor:
        """Refuse the call: only TVM's debug executor keeps the results of inner nodes."""
        raise NotImplementedError(
            "only outputs are kept, the memory of other nodes is used again: "
            "make the node a head of the graph to look at it"
        )

    # **************** zero copy ****************

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Let inputs live in the caller's arrays: the next run reads what the caller writes there.

        The array must have the input's dtype and shape, be contiguous and start at a multiple of 64 bytes
        (``graph_runtime.aligned_empty``); it is kept alive. Raises InputError otherwise, and for unknown
        names."""
        if key is not None:
            self.session.bind_input(self._find_input(key), value)
        for index, array in [(self._find_input(name), value) for name, value in params.items()]:
            self.session.bind_input(index, array)

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Let an output be written to the caller's array, by the rules of set_input_zero_copy."""
        self.session.bind_output(self._find_output(key), value)

    def reset_zero_copy(self, name: str | None = None) -> None:
        """Return to the session's own memory for the input and the output called ``name``, or for all inputs
        and outputs. Raises InputError for an unknown name."""
        inputs: Sequence[int] = range(self.get_num_inputs())
        outputs: Sequence[int] = range(self.get_num_outputs())
        if name is not None:
            inputs = [self._input_index[name]] if name in self._input_index else []
            outputs = [] if inputs and name not in self._output_index else [self._find_output(name)]
        for i in inputs:
            self.session.reset_input(i)
        for i in outputs:
            self.session.reset_output(i)


def _output_index(graph: Graph) -> dict[str, int]:
    """{name: index} of the outputs, by every name of an output: the name of its node (of several heads with
    this name the last, as in TVM), "node:k", and its name in Graph.output_names."""
    index = {}
    for i, (nid, eid) in enumerate(zip(graph.entry_nid[graph.outputs], graph.outputs, strict=True)):
        index[graph.names[nid]] = index[f"{graph.names[nid]}:{eid - graph.row_ptr[nid]}"] = i
    for i, name in enumerate(graph.output_names):
        index.setdefault(name, i)
    return index


def _info(
    graph: Graph, names: Sequence[str], eids: Sequence[int] | np.ndarray
) -> tuple[dict[str, Any], dict[str, str]]:
    types = {name: graph.entry_type(int(eid)) for name, eid in zip(names, eids, strict=True)}
    return {n: t.shape for n, t in types.items()}, {n: t.dtype for n, t in types.items()}


def _size(value: Any) -> int:
    if value.__class__ is np.ndarray:
        return value.size
    return math.prod(value.shape) if hasattr(value, "shape") else int(np.size(value))


def _find(key: str | int, names: Mapping[str, int], count: int, what: str) -> int:
    if isinstance(key, str):
        if key not in names:
            raise InputError(f"Could not find {key!r} in graph's {what}s{did_you_mean(key, names)}", got=key)
        return names[key]
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not 0 <= key < count:
            text = f"{what} {key} is out of range: the graph has {count}"
            raise InputError(text, got=int(key), wanted=count)
        return int(key)
    raise InputError(f"an {what} is named by a string or an integer, got {type(key).__name__}", got=repr(key))


def hand_out(tensor: Tensor, out: Any) -> Tensor | Any:
    """The tensor itself if ``out`` is None; else ``out``, a Tensor or array, into which the values are
    copied. Raises InputError."""
    if out is None:
        return tensor
    if isinstance(out, Tensor):
        out.copy_from(tensor)
        return out
    array = tensor.numpy()
    if not isinstance(out, np.ndarray) or (out.shape, out.dtype) != (array.shape, array.dtype):
        got = f"{out.dtype.name}{list(out.shape)}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(f"out is {got}, the tensor is {tensor.type}", got=got, wanted=str(tensor.type))
    np.copyto(out, array)
    return out
