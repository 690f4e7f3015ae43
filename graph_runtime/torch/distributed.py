"""torch.distributed for tensors on tt: init_process_group("tt"). Each process simulates its own board.
Tensors that processes exchange, including CPU tensors, go through the hosts by gloo.

A collective is complete when its call returns; only recv completes when its Work is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

# the collectives that write to their first argument, under all the names that torch uses
_WRITING = (
    "_allgather_base _reduce_scatter_base all_gather_single all_gather_single_coalesced "
    "all_to_all_single allgather allgather_coalesced allgather_into_tensor_coalesced allreduce "
    "allreduce_coalesced alltoall alltoall_base broadcast gather reduce reduce_scatter "
    "reduce_scatter_single reduce_scatter_single_coalesced reduce_scatter_tensor_coalesced scatter"
).split()


def _on_cpu(x: Any) -> Any:
    """A tensor, or the tensors in nested lists, on the CPU."""
    if isinstance(x, torch.Tensor):
        return x.detach().cpu().contiguous() if x.device.type == "tt" else x
    return [_on_cpu(item) for item in x] if isinstance(x, (list, tuple)) else x


def _back(x: Any, values: Any) -> None:
    """Copy the results of a collective into the tensors on tt among its arguments."""
    if isinstance(x, (list, tuple)):
        for one, other in zip(x, values, strict=True):
            _back(one, other)
    elif x.device.type == "tt":
        x.detach().copy_(values.reshape(x.shape))


def _tensors(x: Any) -> list[torch.Tensor]:
    return [x] if isinstance(x, torch.Tensor) else [t for item in x for t in _tensors(item)]


def _done(tensors: list[torch.Tensor]) -> dist.Work:
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return torch._C._distributed_c10d._create_work_from_future(future)


class _Received(dist.Work):
    """The Work of a recv; waiting for it writes the received values into the tensors."""

    def __init__(self, work: Any, tensors: Any, values: Any):
        super().__init__()
        self._work, self._tensors, self._values = work, tensors, values

    def wait(self, timeout: Any = None) -> bool:
        done = self._work.wait() if timeout is None else self._work.wait(timeout)
        _back(self._tensors, self._values)
        return bool(done)

    def is_completed(self) -> bool:
        return bool(self._work.is_completed())


class ProcessGroupTT(dist.ProcessGroup):
    """A group of processes. ``gloo``: the group that moves the values as CPU tensors."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any):
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroup(store, rank, size)
        backend = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        self.gloo._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
        self.gloo._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def getBackendName(self) -> str:
        return "tt"

    @property
    def pg_name(self) -> str:
        """The group's name in torch."""
        return dist.distributed_c10d._world.pg_names[self]

    @property
    def group_name(self) -> str:
        return self.pg_name

    def barrier(self, *args: Any, **more: Any) -> Any:
        self.gloo.allreduce([torch.zeros(1)]).wait()
        return _done([])

    def send(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        return self.gloo.send(_on_cpu(tensors), rank, tag)

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        values = _on_cpu(tensors)
        return _Received(self.gloo.recv(values, rank, tag), tensors, values)


def _collective(name: str) -> Callable[..., Any]:
    def collective(self: ProcessGroupTT, written: Any, *args: Any, **more: Any) -> Any:
        values, given = _on_cpu(written), [_on_cpu(arg) for arg in args]
        more = {key: _on_cpu(value) for key, value in more.items()}
        options: Any = next((o for o in (*given, *more.values()) if hasattr(o, "reduceOp")), None)
        mean = options is not None and options.reduceOp == dist.ReduceOp.AVG
        if mean:  # gloo computes no mean: the sum is divided here
            options.reduceOp = dist.ReduceOp.SUM
        getattr(self.gloo, name)(values, *given, **more).wait()
        if mean:
            options.reduceOp = dist.ReduceOp.AVG
            for tensor in _tensors(values):
                tensor.div_(self.size())
        _back(written, values)
        return _done(_tensors(written))

    return collective


for _name in _WRITING:
    if hasattr(dist.ProcessGroup, _name):
        setattr(ProcessGroupTT, _name, _collective(_name))


def register() -> None:
    """Register the backend "tt" with torch.distributed."""
    dist.Backend.register_backend("tt", ProcessGroupTT, devices=["tt", "cpu"])
