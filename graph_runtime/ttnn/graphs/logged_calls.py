"""The report of a script's operations, which ttnn-visualizer opens: outside of fast runtime mode,
CONFIG.enable_logging with report_name writes db.sqlite and config.json into CONFIG.report_path.

After each operation the main thread waits for its results, as ttnn does. The duration of an operation is the
host's time to simulate it, which says nothing about a card. Circular buffers and tensors that an operation
holds for itself are those of ttnn's programs (captures.py). enable_detailed_buffer_report adds pages,
enable_graph_report adds the nodes of each call, enable_detailed_tensor_report adds a file for each operand
and result.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...views.visualizer.database import insert, make_tables
from ...views.visualizer.tables import VERSION, device_row
from ..devices.mesh_device import MeshDevice
from ..operations.operation import Operation
from ..settings import SETTINGS
from ..tensors.tensor import Tensor, tensors_within
from ..tensors.tensorbin import write_tensor
from . import captures
from .pages import buffer_size, get_buffer_pages
from .text import memory_text

_MOST_TEXT = 10_000  # most characters that are kept of an argument


class CallReport:
    """A report that is being written into a folder; an older report there is replaced."""

    def __init__(self, folder: Path):
        self.folder, self.count = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "db.sqlite").unlink(missing_ok=True)
        self.database = sqlite3.connect(folder / "db.sqlite", check_same_thread=False)
        self.devices: dict[int, MeshDevice] = {}
        self.tensors: set[int] = set()
        self.files: dict[str, int] = {}
        make_tables(self.database)
        now = time.time_ns()
        told = {"schema_version": VERSION, "capture_timestamp_ns": now, "total_duration_ns": 0}
        told["times"] = "of the host that plays the board: they say nothing about a card"
        insert(self.database, "report_metadata", [(key, str(value)) for key, value in told.items()])
        config = {
            "report_name": f"{SETTINGS.report_name} (simulated)",
            "path": str(folder),
            "simulated": True,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2))
        self.database.commit()

    def begin(self, name: str, args: Any, kwargs: Any) -> int:
        """Write the arguments and operands of a new operation; return the number of the operation."""
        self.count += 1
        number = self.count
        pairs = [*((str(at), value) for at, value in enumerate(args)), *kwargs.items()]
        rows = [(number, key, _text(value)) for key, value in pairs]
        insert(self.database, "operation_arguments", rows)
        for index, tensor in enumerate(tensors_within([args, kwargs])):
            self.tensor(tensor, number)
            insert(self.database, "input_tensors", [(number, index, tensor.tensor_id)])
            insert(self.database, "tensor_consumers", [(tensor.tensor_id, number, index)])
            self.lived(tensor, "last_use_operation_id", number)
            if name == "ttnn.deallocate":
                self.lived(tensor, "deallocate_operation_id", number)
        self.stack(number)
        return number

    def end(self, number: int, name: str, seconds: float, made: Any, nodes: list[dict[str, Any]]) -> None:
        """Write the results of an operation, and the buffers that devices hold after it."""
        insert(self.database, "operations", [(number, name, seconds)])
        for index, tensor in enumerate(tensors_within(made)):
            self.tensor(tensor, number)
            insert(self.database, "output_tensors", [(number, index, tensor.tensor_id)])
            self.lived(tensor, "producer_operation_id", number)
        told = [{**node, "params": {k: str(v) for k, v in node["params"].items()}} for node in nodes]
        insert(self.database, "captured_graph", [(number, json.dumps(told))])
        if SETTINGS.enable_graph_report:
            self.graph(number, nodes)
        for device in self.devices.values():
            self.held(number, device)
        self.database.execute(
            "UPDATE report_metadata SET value = CAST(value AS INTEGER) + ? WHERE key = 'total_duration_ns'",
            [int(seconds * 1e9)],
        )
        self.database.commit()

    def failed(self, number: int, name: str, error: Exception) -> None:
        """Write the error of an operation that raised."""
        trace, now = "".join(traceback.format_exception(error)), time.strftime("%Y-%m-%dT%H:%M:%S")
        row = (number, name, type(error).__name__, str(error), trace, now)
        insert(self.database, "errors", [row])

    def tensor(self, tensor: Tensor, number: int) -> None:
        """Write a tensor that is new to the report, with its device."""
        device = tensor._device
        if device is not None and device.number not in self.devices:
            self.devices[device.number] = device
            insert(self.database, "devices", [(device.number, *device_row(device.chip.descriptor))])
        if tensor.tensor_id in self.tensors:
            return
        self.tensors.add(tensor.tensor_id)
        placed: tuple[Any, ...] = (None, None, None)
        if device is not None and tensor.is_allocated():
            placed = device.number, tensor.buffer_address(), tensor.memory_config().buffer_type.value
            insert(self.database, "device_tensors", [(tensor.tensor_id, *placed[:2])])
        config = memory_text(tensor.memory_config()) if device is not None else None
        said = (f"Shape({list(tensor.shape)})", str(tensor.dtype), str(tensor.layout), config)
        size = tensor.volume() * tensor.element_size()
        insert(self.database, "tensors", [(tensor.tensor_id, *said, *placed, size)])
        lived = (tensor.tensor_id, *[None] * 7)
        insert(self.database, "tensor_lifetime", [lived])
        if SETTINGS.enable_detailed_tensor_report and tensor.is_allocated() and tensor.logical_volume():
            (self.folder / "tensors").mkdir(exist_ok=True)
            write_tensor(self.folder / "tensors" / f"{tensor.tensor_id}.tensorbin", tensor)

    def lived(self, tensor: Tensor, column: str, number: int) -> None:
        kept = "COALESCE(producer_operation_id, ?)" if column == "producer_operation_id" else "?"
        self.database.execute(
            f"UPDATE tensor_lifetime SET {column} = {kept} WHERE tensor_id = ?", [number, tensor.tensor_id]
        )

    def held(self, number: int, device: MeshDevice) -> None:
        """Write the buffers of a device; buffers that share memory are written once."""
        rows = {}
        for tensor in list(device.tensors.values()):
            if tensor.is_allocated():
                config, size = tensor.memory_config(), buffer_size(tensor)
                key = config.buffer_type.value, tensor.buffer_address()
                layout = config.memory_layout.value
                rows[key] = (number, device.number, key[1], size["max_size_per_bank"], key[0], layout)
        insert(self.database, "buffers", rows.values())
        if SETTINGS.enable_detailed_buffer_report:
            pages = get_buffer_pages(device)
            insert(self.database, "buffer_pages", [_page(number, page) for page in pages])

    def graph(self, number: int, nodes: list[dict[str, Any]]) -> None:
        named = [(number, x["counter"], number, x["params"].get("name", x["node_type"])) for x in nodes]
        insert(self.database, "nodes", named)
        for node in nodes:
            edges = [(number, node["counter"], after, 0, 0, 0) for after in node["connections"]]
            insert(self.database, "edges", edges)

    def stack(self, number: int) -> None:
        """Write the place in the script from which the call comes."""
        frame = sys._getframe()
        inner = str(Path(__file__).parents[1])
        while frame.f_back is not None and frame.f_code.co_filename.startswith((inner, contextlib.__file__)):
            frame = frame.f_back
        path = frame.f_code.co_filename
        if path not in self.files:
            self.files[path] = len(self.files) + 1
            source = Path(path)
            text = source.read_text(errors="replace") if source.is_file() else ""
            insert(self.database, "source_files", [(self.files[path], path, text)])
        trace = "".join(traceback.format_stack(frame))
        insert(self.database, "stack_traces", [(number, trace, self.files[path])])


def _page(number: int, page: Any) -> tuple[Any, ...]:
    place = (page.address, page.core_y, page.core_x, page.bank_id, page.page_index, page.page_address)
    return number, page.device_id, *place, page.page_size, page.buffer_type.value


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"ttnn.Tensor(shape={value.shape}, dtype={value.dtype}, layout={value.layout})"
    if hasattr(value, "detach"):
        return f"torch.Tensor(shape={tuple(value.shape)}, dtype={value.dtype})"
    return repr(value)[:_MOST_TEXT]


_reports: dict[Path, CallReport] = {}


@contextlib.contextmanager
def logged(operation: Operation, args: Any, kwargs: Any) -> Iterator[Any]:
    """An observer (operation.OBSERVERS) that runs a call and writes the call's rows of the report."""
    folder = SETTINGS.report_path
    report = _reports.get(folder)
    if report is None:
        report = _reports[folder] = CallReport(folder)
    name = operation.python_fully_qualified_name
    number = report.begin(name, args, kwargs)
    made: list[Any] = []
    capturing = not captures.is_graph_capture_active()
    if capturing:
        captures.begin_graph_capture()
    start = time.perf_counter()
    try:
        yield made.append
        for tensor in tensors_within(made):
            if tensor._device is not None and tensor.is_allocated():
                tensor._handle.wait()
    except Exception as error:
        report.failed(number, name, error)
        raise
    finally:
        seconds = time.perf_counter() - start
        nodes = captures.end_graph_capture() if capturing else []
        report.end(number, name, seconds, made, nodes)
