"""Plain torch tensors on the simulated device: moves, views, in-place operations, lifetime, files."""

from __future__ import annotations

import copy
import gc
import io

import pytest

torch = pytest.importorskip("torch")
tt_module = pytest.importorskip("graph_runtime.torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
]
SHAPES = [(), (1,), (3,), (2, 3), (4, 5, 6), (0, 3)]


def filled(dtype, shape):
    bits = torch.randint(0, 2, shape) if dtype == torch.bool else torch.randint(0, 100, shape)
    return bits.to(torch.float32).to(dtype)


def bits(tensor):
    return tensor.reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_move_bit_by_bit(dtype):
    for shape in SHAPES:
        x = filled(dtype, shape)
        y = x.to("tt")
        assert (y.device, y.dtype, y.shape) == (torch.device("tt:0"), dtype, x.shape)
        assert torch.equal(bits(y.cpu()), bits(x))
        assert torch.equal(bits(y.to("tt:1").cpu()), bits(x))


def test_every_float32_bit_pattern_survives():
    words = [0, 1, 0x7F800001, 0x7FC12345, -1, 1 << 23, -(1 << 31)]
    x = torch.tensor(words, dtype=torch.int32).view(torch.float32)
    assert torch.equal(x.to("tt").cpu().view(torch.int32), x.view(torch.int32))
    grid = x.repeat(5, 3)
    assert torch.equal(grid.to("tt").cpu().view(torch.int32), grid.view(torch.int32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_views_share_memory_both_ways(dtype):
    x = filled(dtype, (4, 5, 6))
    y = x.to("tt")
    for view in (
        lambda t: t.transpose(0, 2),
        lambda t: t[1:3, ::2],
        lambda t: t.reshape(20, 6)[3],
        lambda t: t.permute(1, 2, 0)[..., 1:],
        lambda t: t[2, 3, 4],
        lambda t: t[:, :, -1].t(),
        lambda t: t.unsqueeze(1).expand(4, 3, 5, 6),
        lambda t: t.unfold(2, 3, 1),
    ):
        assert torch.equal(view(y).cpu(), view(x))
    x[1:3, ::2] = x[0:2, ::2].clone()
    y[1:3, ::2] = y[0:2, ::2]
    assert torch.equal(y.cpu(), x)
    x.transpose(0, 1)[2].fill_(1)
    y.transpose(0, 1)[2].fill_(1)
    assert torch.equal(y.cpu(), x)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_chains_of_views(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    y = x.to("tt")
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["slice", "transpose", "select", "reshape"]))
        dim = data.draw(st.integers(0, max(x.dim() - 1, 0)))
        if kind == "slice" and x.dim():
            start = data.draw(st.integers(0, x.shape[dim] - 1))
            at = (slice(None),) * dim + (slice(start, None, data.draw(st.integers(1, 3))),)
            x, y = x[at], y[at]
        elif kind == "transpose" and x.dim() > 1:
            x, y = x.transpose(0, dim), y.transpose(0, dim)
        elif kind == "select" and x.dim() > 1:
            x, y = x.select(dim, 0), y.select(dim, 0)
        elif kind == "reshape":
            x, y = x.reshape(-1), y.reshape(-1)
    assert torch.equal(y.cpu(), x)
    assert torch.equal((y + 1).cpu(), x + 1)
    x.mul_(2)
    y.mul_(2)
    assert torch.equal(y.cpu(), x)


def test_copies_are_counted_with_their_bytes():
    import graph_runtime as gr

    x = torch.rand(64, 32)
    with gr.stats() as moved:
        y = x.to("tt")
        y.to("tt:1").cpu()
    sizes = [moved.bytes("h2d", "tt:0"), moved.bytes("d2d", "tt:1"), moved.bytes("d2h", "tt:1")]
    assert sizes == [64 * 32 * 4] * 3
    assert moved.count("d2h", "tt:0") == 0


def test_non_blocking_dtype_and_memory_formats():
    x = torch.rand(2, 3, 4, 5)
    assert torch.equal(x.to("tt", torch.bfloat16, non_blocking=True).cpu(), x.bfloat16())
    assert torch.equal(x.to("tt").to(torch.bfloat16).float().cpu(), x.bfloat16().float())
    last = x.contiguous(memory_format=torch.channels_last).to("tt")
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last.cpu(), x)
    assert torch.equal(last.contiguous().cpu(), x)


def test_the_last_alias_frees_the_memory():
    gc.collect()
    before = torch.tt.memory_allocated()
    x = torch.rand(100, 100).to("tt")
    padded = torch.tt.memory_allocated() - before
    assert padded >= 4 * 4 * 1024 * 4  # 4 x 4 tiles
    view = x[1:].t()
    del x
    gc.collect()
    assert torch.tt.memory_allocated() - before == padded
    del view
    gc.collect()
    assert torch.tt.memory_allocated() == before


def test_too_much_memory_is_an_error_and_leaves_the_device_usable():
    with pytest.raises(MemoryError, match="tt:0"):
        torch.empty(1 << 40, device="tt")
    assert torch.ones(2).to("tt").sum().item() == 2


def test_repr_and_deepcopy_and_bool():
    x = torch.tensor([[1.5, 2.0]])
    y = x.to("tt")
    assert repr(y) == "tensor([[1.5000, 2.0000]], device='tt:0')"
    assert "tt:0" in repr(nn.Parameter(y))
    twin = copy.deepcopy(y)
    twin += 1
    assert torch.equal(y.cpu(), x)
    assert torch.equal(twin.cpu(), x + 1)
    assert bool((y == y).all())
    assert y.tolist() == x.tolist()


def test_modules_move_and_keep_their_parameters():
    layer = nn.Linear(3, 4)
    weight = layer.weight
    assert layer.tt() is layer
    assert layer.weight is weight  # optimizers made before keep working
    assert weight.is_tt
    assert weight.device == torch.device("tt:0")
    layer.cpu()
    assert weight.device.type == "cpu"


@pytest.mark.parametrize("where", ["cpu", "tt", "tt:1", None])
@pytest.mark.parametrize("origin", ["cpu", "tt:0"])
def test_files_with_map_location(where, origin):
    layer = nn.Linear(3, 4).to(origin)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=where)
    wanted = torch.device(where or origin)
    assert state["weight"].device.type == wanted.type
    assert wanted.index in (None, state["weight"].device.index)
    assert torch.equal(state["weight"].cpu(), layer.weight.detach().cpu())
    other = nn.Linear(3, 4).to("tt")
    other.load_state_dict(state)
    assert torch.equal(other.bias.detach().cpu(), layer.bias.detach().cpu())


def test_random_numbers_follow_the_seed():
    torch.manual_seed(3)
    first = torch.randn(5, device="tt")
    torch.manual_seed(3)
    assert torch.equal(torch.randn(5, device="tt").cpu(), first.cpu())
    torch.tt.manual_seed(3)
    assert torch.equal(torch.randn(5, device="tt").cpu(), first.cpu())
    assert torch.equal(torch.randn(5, generator=torch.Generator().manual_seed(3)), first.cpu())


def test_devices_are_counted_and_chosen():
    assert torch.tt.device_count() == len(tt_module.devices()) >= 2
    with torch.tt.device(1):
        assert torch.ones(1, device="tt").device == torch.device("tt:1")
    assert torch.ones(1).tt().device == torch.device("tt:0")
    with pytest.raises(RuntimeError, match="no device tt:7"):
        torch.ones(1, device="tt:7")
    stats = torch.tt.memory_stats(1)
    assert stats["free"] > stats["allocated"] >= 0
    torch.tt.synchronize()


def test_numpy_wants_a_copy():
    with pytest.raises(TypeError, match="cpu"):
        torch.ones(2).to("tt").numpy()
