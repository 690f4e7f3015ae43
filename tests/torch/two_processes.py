"""Run by test_distributed.py: two processes, each with a board of its own, train by DDP and by FSDP2."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import graph_runtime.torch  # noqa: F401


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def train(model: nn.Module, rows: slice, device: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(8, 8, generator=generator)[rows], torch.randint(0, 3, (8,), generator=generator)[rows]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()


def collectives(rank: int) -> None:
    """Each collective once, on values of which the result is known."""
    mine = torch.full((2,), rank + 1.0).to("tt")
    summed, sent, mean = mine.clone(), mine.clone(), mine.to(torch.bfloat16)
    dist.all_reduce(summed)
    dist.broadcast(sent, 1)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert (summed.tolist(), sent.tolist(), mean.tolist()) == ([3, 3], [2, 2], [1.5, 1.5])
    parts = [torch.zeros(2).to("tt") for _ in range(2)]
    dist.all_gather(parts, mine)
    assert [p.tolist() for p in parts] == [[1, 1], [2, 2]]
    scattered, swapped = torch.zeros(2).to("tt"), torch.zeros(2).to("tt")
    dist.reduce_scatter(scattered, [torch.ones(2).to("tt"), torch.full((2,), 2.0).to("tt")])
    assert scattered.tolist() == [2 * rank + 2] * 2
    dist.all_to_all_single(swapped, torch.tensor([2.0 * rank, 2.0 * rank + 1]).to("tt"))
    assert swapped.tolist() == [rank, rank + 2]
    if rank == 0:
        dist.send(mine, 1)
    else:
        dist.recv(mine, 0)
        assert mine.tolist() == [1, 1]
    dist.barrier()
    on_cpu = torch.ones(1)
    dist.all_reduce(on_cpu)
    assert on_cpu.item() == 2


def work(rank: int, folder: str) -> None:
    dist.init_process_group("tt", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    collectives(rank)
    rows = slice(4 * rank, 4 * rank + 4)
    replicated = nn.parallel.DistributedDataParallel(net().to("tt"))
    train(replicated, rows, "tt")
    sharded = net().to("tt")
    mesh = init_device_mesh("tt", (2,))
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    train(sharded, rows, "tt")
    made = {
        "ddp": {key: value.cpu() for key, value in replicated.module.state_dict().items()},
        "fsdp": {key: value.full_tensor().cpu() for key, value in sharded.state_dict().items()},
    }
    if rank == 0:
        torch.save(made, Path(folder) / "made.pt")
    dist.destroy_process_group()


def main(folder: str) -> None:
    """Print the largest difference to what one process trains on the CPU, for each way."""
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # DDP says that it has no timer of this device
    mp.spawn(work, (folder,), nprocs=2)
    one = net()
    train(one, slice(None), "cpu")
    for way, made in torch.load(Path(folder) / "made.pt").items():
        worst = max(float((made[key] - value).abs().max()) for key, value in one.state_dict().items())
        print(way, worst)


if __name__ == "__main__":
    main(sys.argv[1])
