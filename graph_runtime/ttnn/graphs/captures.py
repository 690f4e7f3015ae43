"""ttnn.graph: the operations that were called during a capture, as a list of nodes.

A node is a dict: ``counter`` (its place in the list), ``node_type`` (capture_start, function_start,
function_end, buffer, buffer_allocate, buffer_deallocate, circular_buffer_allocate,
circular_buffer_deallocate_all, tensor, capture_end), ``params``, ``arguments``, ``connections`` (the nodes
that follow the node or belong to it), ``input_tensors``, ``stacking_level``, and, in a node that ends
something, ``duration_ns``. A function that runs one device operation of ttnn has that operation's name in the
graph (``DEVICE_NAMES``); other functions have their own names. With RunMode.NO_DISPATCH the operations run
all the same, for the shapes of their results; addresses are 0. Circular buffers and tensors that an operation
holds for itself are those of ttnn's programs (l1.py), if these are known.
"""

from __future__ import annotations

import enum
import json
import time
import weakref
from pathlib import Path
from typing import Any

from ...base.machine.layout import DRAM, L1
from ...costs.factories import CardStage, HeldTensor
from ..devices import kernels
from ..devices.mesh_device import MeshDevice
from ..errors import check
from ..memory.values import BufferType
from ..operations import operation
from ..programs.l1 import Use
from ..tensors.tensor import Tensor, tensors_within
from .pages import buffer_size
from .text import arguments_of, create_arguments, memory_text, tensor_params

__all__ = [
    "RunMode",
    "begin_graph_capture",
    "captured_uses",
    "end_graph_capture",
    "end_graph_capture_to_file",
    "is_graph_capture_active",
    "track_function_end",
    "track_function_start",
]

Node = dict[str, Any]
REPORT_VERSION = 1


RunMode = enum.Enum("RunMode", "NORMAL NO_DISPATCH", start=0)


class Capture:
    """The nodes of one capture. Operations add nodes to the capture while they run (operation.WATCHERS)."""

    def __init__(self, mode: RunMode):
        self.mode, self.open, self.starts = mode, [0], [time.perf_counter_ns()]
        self.nodes: list[Node] = []
        self.finished = -1
        self.buffered = False  # whether a card program has opened circular buffers
        self.buffers: dict[Any, int] = {}
        self.uses: list[Use] = []
        self.taken: list[tuple[Tensor, Any, Node]] = []  # operands of the open function that lie in L1
        self.node("capture_start", level=0)

    def node(self, kind: str, level: int | None = None, **params: Any) -> Node:
        level = len(self.open) - 1 if level is None else level
        made: Node = {
            "counter": len(self.nodes),
            "node_type": kind,
            "params": params,
            "arguments": [],
            "connections": [],
            "input_tensors": [],
            "stacking_level": level,
        }
        self.nodes.append(made)
        return made

    def under(self, made: Node) -> Node:
        """Connect the open function to a node that belongs to it."""
        self.nodes[self.open[-1]]["connections"].append(made["counter"])
        return made

    # **************** functions ****************

    def begin(self, name: str, arguments: list[str], tensors: list[Tensor]) -> None:
        made = self.node("function_start", len(self.open), name=name, inputs=str(len(arguments)))
        made["arguments"] = arguments
        if self.finished >= 0:
            self.nodes[self.finished]["connections"].append(made["counter"])
            self.finished = -1
        self.under(made)
        self.open.append(made["counter"])
        self.starts.append(time.perf_counter_ns())
        for tensor in tensors:
            number = self.tensor(tensor)
            self.nodes[number]["connections"].append(made["counter"])
            made["input_tensors"].append(number)

    def end(self, tensors: list[Tensor]) -> None:
        start = self.nodes[self.open[-1]]
        made = self.node("function_end", start["stacking_level"], name=start["params"]["name"])
        made["duration_ns"] = max(1, time.perf_counter_ns() - self.starts.pop())
        self.under(made)
        self.finished = made["counter"]
        for tensor in tensors:
            made["connections"].append(self.tensor(tensor))
        self.open.pop()

    # **************** tensors and their buffers ****************

    def tensor(self, tensor: Tensor) -> int:
        params = tensor_params(tensor)
        on_device = _on_device(tensor)
        if on_device:
            params |= {"memory_config": memory_text(tensor.memory_config()), **self.place(tensor)}
        made = self.node("tensor", **params)
        if on_device:
            self.nodes[self.buffer(tensor)]["connections"].append(made["counter"])
        return int(made["counter"])

    def place(self, tensor: Tensor) -> Node:
        assert tensor._device is not None
        kind = BufferType.DRAM if tensor._handle.layout.memory == DRAM else BufferType.L1
        address = 0 if self.mode is RunMode.NO_DISPATCH else tensor.buffer_address()
        return {"device_id": tensor._device.number, "address": address, "buffer_type": kind.value}

    def buffer(self, tensor: Tensor) -> int:
        key = _key(tensor)
        if key not in self.buffers:
            size = buffer_size(tensor)
            kept = {k: size[k] for k in ("size", "type", "layout")} | self.place(tensor)
            del kept["address"]
            self.buffers[key] = self.under(self.node("buffer", **kept))["counter"]
        return self.buffers[key]

    def made_by(self, tensor: Tensor) -> None:
        """Record the result of a function. A new buffer gets a node for its allocation now, and a node for
        its release when the tensor is freed."""
        key = _key(tensor)
        if key in self.buffers:
            return
        self.begin("tt::tt_metal::create_device_tensor", create_arguments(tensor), [])
        number, params = self.buffer(tensor), buffer_size(tensor) | self.place(tensor)
        made = self.under(self.node("buffer_allocate", **params))
        made["connections"].append(number)
        self.end([tensor])
        weakref.finalize(tensor, self.freed, key, number, params)

    def freed(self, key: Any, number: int, params: Node) -> None:
        if _captures and _captures[-1] is self and self.buffers.get(key) == number:
            del self.buffers[key]
            made = self.under(self.node("buffer_deallocate", **params))
            made["connections"].append(number)

    # **************** buffers of a card program ****************

    def stage(self, stage: CardStage, own: list[HeldTensor], device: MeshDevice) -> None:
        """Record the tensors that an operation holds for itself during a card program, and the card program's
        circular buffers, which stay until those of the next card program are opened."""
        for held in stage.held:
            if held not in own:
                own.append(held)
                self.under(self.node("buffer_allocate", **_own(held, device)))
        if self.buffered:
            self.under(self.node("circular_buffer_deallocate_all"))
        self.buffered = True
        grid, address = device.core_grid, device.chip.descriptor.memory(L1).base
        for buffer in stage.program.buffers:
            params: dict[str, Any] = {
                "address": address,
                "size": buffer.pages * buffer.page_bytes,
                "core_range_set": f"{{[(x=0,y=0) - (x={grid.x - 1},y={grid.y - 1})]}}",
                "globally_allocated": int(buffer.borrowed),
                "device_id": device.number,
                "name": buffer.name,
            }
            self.under(self.node("circular_buffer_allocate", **params))
            address += buffer.nbytes

    def card_programs(self, use: Use, made: list[Tensor]) -> None:
        """Record the card programs of a finished call, and the results of the call; each result belongs to
        the card program that writes it."""
        own: list[HeldTensor] = []
        for stage in use.stages:
            for held in [held for held in own if held not in stage.held]:
                own.remove(held)
                self.under(self.node("buffer_deallocate", **_own(held, use.device)))
            if stage.frees:
                self.drop_taken()
            if stage.last:
                self.results(made)
            self.stage(stage, own, use.device)
        for held in own:
            self.under(self.node("buffer_deallocate", **_own(held, use.device)))

    def results(self, made: list[Tensor]) -> None:
        for tensor in made:
            if _on_device(tensor):
                self.made_by(tensor)

    def views(self, made: list[Tensor]) -> None:
        """Record that results are views of operands, for which no memory is allocated."""
        for tensor in made:
            if _on_device(tensor):
                self.buffer(tensor)

    def drop_taken(self) -> None:
        """Record that operands in ``taken`` were freed by the function."""
        for tensor, key, params in self.taken:
            if not tensor.is_allocated() and key in self.buffers:
                self.freed(key, self.buffers[key], params)
        self.taken = []

    def finish(self) -> list[Node]:
        made = self.node("capture_end", 0)
        made["duration_ns"] = max(1, time.perf_counter_ns() - self.starts[0])
        last = self.nodes[self.finished if self.finished >= 0 else 0]
        last["connections"].append(made["counter"])
        return self.nodes

    # **************** operation.WATCHERS ****************

    def started(self, name: str, args: Any, given: dict[str, Any]) -> None:
        tensors = list(tensors_within((args, given)))
        device = any(x._device is not None for x in tensors)
        self.begin(*arguments_of(name, args, given, device), tensors)
        for tensor in tensors if name == "deallocate" else ():
            if _on_device(tensor):
                number = self.buffer(tensor)
                self.freed(_key(tensor), number, buffer_size(tensor) | self.place(tensor))
        self.taken = []
        for tensor in tensors:
            if _on_device(tensor) and tensor._handle.layout.memory == L1:
                self.taken.append((tensor, _key(tensor), buffer_size(tensor) | self.place(tensor)))

    def ended(self, made: Any, use: Use | None = None) -> None:
        found = list(tensors_within(made))
        if use is not None:
            self.uses.append(use)
            self.card_programs(use, found)
        self.drop_taken()
        if use is not None and use.known and not any(stage.last for stage in use.stages):
            self.views(found)
        self.results(found)
        self.end(found)


def _on_device(tensor: Tensor) -> bool:
    return tensor._device is not None and tensor.is_allocated()


def _key(tensor: Tensor) -> Any:
    return tensor._handle.layout.memory, tensor.buffer_address()


_captures: list[Capture] = []
_last: list[list[Use]] = [[]]


def _own(held: HeldTensor, device: MeshDevice) -> Node:
    """Fields of the node of a tensor that an operation holds for itself; only the bytes per core are
    known."""
    return {
        "size": held.nbytes,
        "type": "L1",
        "layout": "HEIGHT_SHARDED",
        "page_size": held.nbytes,
        "max_size_per_bank": held.nbytes,
        "num_cores": 1,
        "device_id": device.number,
        "address": 0,
        "name": held.name,
    }


def begin_graph_capture(run_mode: RunMode = RunMode.NORMAL) -> None:
    """Record the operations that are called from now on. Captures may be nested."""
    _captures.append(Capture(run_mode))
    operation.WATCHERS.append(_captures[-1])
    kernels.allow_more_than_l1(run_mode is RunMode.NO_DISPATCH)


def end_graph_capture() -> list[Node]:
    """The nodes since the last begin_graph_capture. Raises RuntimeError outside of a capture."""
    check(_captures, "ttnn.graph.end_graph_capture", "no graph is being captured")
    found = _captures.pop()
    operation.WATCHERS.remove(found)
    kernels.allow_more_than_l1(bool(_captures) and _captures[-1].mode is RunMode.NO_DISPATCH)
    _last[0] = found.uses
    return found.finish()


def captured_uses() -> list[Use]:
    """Contents of a core's L1 during each operation (l1.Use) of the last capture that ended. ttnn has no such
    function."""
    return list(_last[0])


def end_graph_capture_to_file(report_path: Any) -> Node:
    """end_graph_capture, with the nodes in a JSON file."""
    report = {"version": REPORT_VERSION, "graph": end_graph_capture()}
    path = Path(report_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report))
    return report


def is_graph_capture_active() -> bool:
    return bool(_captures)


def track_function_start(name: str, *_: Any) -> None:
    """Add a function that the caller has defined to the nodes."""
    for capture in _captures[-1:]:
        capture.begin(name, [], [])


def track_function_end(*made: Any) -> None:
    for capture in _captures[-1:]:
        capture.end(list(tensors_within(made)))
