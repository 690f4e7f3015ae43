"""What training scripts do around the mathematics: pinned memory, loaders, autocast, scalers, storages,
queues, files, and what is refused with what to do instead."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from graph_runtime.base.errors import InputError  # noqa: E402
from graph_runtime.torch import content, rules  # noqa: E402
from graph_runtime.torch.direct import Eager, EagerValue  # noqa: E402


def test_copies_that_do_not_block_arrive():
    x = torch.arange(12.0).reshape(3, 4).to("tt", non_blocking=True)
    assert torch.equal(x.to("cpu", non_blocking=True), torch.arange(12.0).reshape(3, 4))
    assert torch.equal(
        x.T.to("cpu", torch.float64, non_blocking=True), torch.arange(12.0).reshape(3, 4).T.double()
    )
    assert torch.equal(torch.empty(3, 4).copy_(x, non_blocking=True), x.cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_memory_is_pinned(dtype):
    x = torch.arange(24).reshape(1, 4, 3, 2).to(dtype).to(memory_format=torch.channels_last)
    made = x.pin_memory()
    assert made.is_pinned()
    assert made[0, 1].is_pinned()
    assert not x.is_pinned()
    assert made.stride() == x.stride()
    assert torch.equal(made, x)
    assert torch.equal(made.to("tt", non_blocking=True).cpu(), x)
    assert made.pin_memory() is made
    assert torch.empty(0, dtype=dtype).pin_memory().numel() == 0


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_loaders_pin(workers):
    data = TensorDataset(torch.arange(8.0).reshape(4, 2), torch.arange(4))
    for x, y in DataLoader(data, 2, pin_memory=True, num_workers=workers):
        assert x.is_pinned()
        assert y.is_pinned()
        assert x.to("tt", non_blocking=True).sum().item() == x.sum().item()


def test_data_parallel_modules_of_the_cpu_are_left_alone():
    layer, x = nn.Linear(3, 2), torch.rand(4, 3)
    assert torch.equal(nn.DataParallel(layer)(x), layer(x))
    with pytest.raises(RuntimeError, match="DistributedDataParallel"):
        nn.DataParallel(nn.Linear(3, 2).to("tt"))


def test_parts_without_parameters_move_with_the_whole():
    part = nn.Identity().to("cpu")  # as peft makes them
    model = nn.Sequential(part, nn.Linear(2, 2)).to("tt")
    assert model(torch.ones(1, 2).to("tt")).device == torch.device("tt:0")
    assert model.to("cpu")(torch.ones(1, 2)).device == torch.device("cpu")


def test_autocast_is_bfloat16_in_every_thread():
    x = torch.rand(4, 4).to("tt")
    seen = []

    def look():
        with torch.autocast("tt"):
            seen.append((x @ x).dtype)

    look()
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [torch.bfloat16] * 2
    with torch.autocast("tt", enabled=False):
        assert (x @ x).dtype == torch.float32


def test_a_scaler_scales_and_skips_steps_that_overflow():
    layer = nn.Linear(4, 1).to("tt")
    optimizer, scaler = torch.optim.SGD(layer.parameters(), 0.5), torch.amp.GradScaler("tt", init_scale=8.0)
    before = layer.weight.detach().cpu().clone()
    for factor in (1.0, float("inf")):
        optimizer.zero_grad()
        scaler.scale(layer(torch.ones(1, 4).to("tt")).sum() * factor).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert torch.equal(layer.weight.detach().cpu(), before - 0.5)
    assert scaler.get_scale() == 4.0


def test_a_storage_gives_its_memory_back_and_gets_it_again():
    x = torch.rand(256, 256).to("tt")
    storage, before = x.untyped_storage(), torch.tt.memory_allocated()
    storage.resize_(0)
    assert (storage.nbytes(), storage.size(), len(storage)) == (0, 0, 0)
    assert torch.tt.memory_allocated() < before
    assert x.shape == (256, 256)
    storage.resize_(4 * 256 * 256)
    x.copy_(torch.ones(256, 256))
    assert x.sum().item() == 256 * 256
    with pytest.raises(RuntimeError, match="0 bytes or those that it was made with"):
        storage.resize_(8)
    assert torch.UntypedStorage(4).resize_(8).nbytes() == 8


@pytest.mark.slow
def test_tensors_travel_through_queues():
    made = subprocess.run(
        [sys.executable, "-c", _QUEUE], capture_output=True, text=True, timeout=110, check=False
    )
    assert made.stdout == "tt:1 6.0 True Parameter\n", made.stderr


_QUEUE = """
import torch, torch.multiprocessing as mp
import graph_runtime.torch
q = mp.get_context("spawn").Queue()
q.put((torch.arange(4.).to("tt:1")[1:], torch.nn.Parameter(torch.ones(2).to("tt"))))
x, p = q.get(timeout=60)
print(x.device, x.sum().item(), p.requires_grad, type(p).__name__)
"""


def test_what_autograd_made_is_refused_at_put():
    import multiprocessing.reduction

    x = torch.ones(2, device="tt", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        multiprocessing.reduction.ForkingPickler.dumps(x)
    assert queue.Queue().empty()


def test_safetensors_load_onto_the_device(tmp_path):
    st = pytest.importorskip("safetensors.torch")
    st.save_file({"a": torch.arange(6.0).to("tt"), "b": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "x")
    for device, wanted in (("tt", "tt:0"), ("tt:1", "tt:1"), ("cpu", "cpu")):
        made = st.load_file(tmp_path / "x", device=device)
        assert made["a"].device == torch.device(wanted)
        assert torch.equal(made["a"].cpu(), torch.arange(6.0))


def test_channels_last_keeps_its_strides():
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = x.to("tt")
    for z in (
        y,
        y.clone(),
        y.cpu(),
        torch.empty_like(y),
        x.cpu().to("tt").to(memory_format=torch.channels_last),
    ):
        assert z.stride() == x.stride()
    assert (
        torch.rand(2, 3, 4, 5).to("tt").contiguous(memory_format=torch.channels_last).stride() == x.stride()
    )
    conv = nn.Conv2d(3, 2, 3).to("tt", memory_format=torch.channels_last)
    assert conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y.cpu(), x)


# **************** single operations ****************


def test_mode_writes_into_what_it_is_given():
    x = torch.tensor([[1.0, 1.0, 2.0], [3.0, 2.0, 3.0]])
    values, indices = torch.empty(0, device="tt"), torch.empty(0, dtype=torch.int64, device="tt")
    torch.mode(x.to("tt"), 1, out=(values, indices))
    wanted = torch.mode(x, 1)
    assert torch.equal(values.cpu(), wanted.values)
    assert torch.equal(indices.cpu(), wanted.indices)


def test_group_norm_of_nothing():
    made = nn.GroupNorm(2, 4).to("tt")(torch.empty(0, 4, 3, 3, device="tt"))
    assert made.shape == (0, 4, 3, 3)


def test_dropouts_gradient_of_integers_is_float():
    given = torch.ones(3, dtype=torch.int32), torch.tensor([True, False, True])
    wanted = torch.ops.aten.native_dropout_backward(*given, 2.0)
    made = torch.ops.aten.native_dropout_backward(*(g.to("tt") for g in given), 2.0)
    assert made.dtype == wanted.dtype
    assert torch.equal(made.cpu(), wanted)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_an_encoder_with_a_padding_mask(training):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).train(training)
    x, mask = torch.rand(2, 5, 16), torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    with torch.no_grad():
        wanted = encoder(x, src_key_padding_mask=mask)
        made = encoder.to("tt")(x.to("tt"), src_key_padding_mask=mask.to("tt")).cpu()
    torch.testing.assert_close(made[~mask], wanted[~mask], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: torch.eye(3).to("tt").to_sparse(), "sparse"),
        (lambda: torch.eye(3).to("tt").to_sparse_csr(), "sparse"),
        (lambda: torch.eye(3).to_sparse().to("tt"), "sparse"),
        (
            lambda: nn.Embedding(4, 2, sparse=True).to("tt")(torch.tensor([1]).to("tt")).sum().backward(),
            "sparse=False",
        ),
        (lambda: torch.nested.nested_tensor([torch.ones(2).to("tt")]) + 1, "nested"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_layouts_that_the_device_has_not(make, what):
    with pytest.raises(RuntimeError, match="the device tt has no .* tensors: .*" + what):
        make()
    assert torch.ones(2, device="tt").sum().item() == 2


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "tt"),
        ({"ACCELERATE_TORCH_DEVICE": "cpu"}, "cpu"),
        ({"ACCELERATE_USE_CPU": "true"}, None),
        ({"LOCAL_RANK": "0"}, None),
    ],
)
def test_accelerate_is_told_of_the_device_where_the_user_did_not_choose(tt, monkeypatch, given, wanted):
    from graph_runtime.torch.registration import _tell_accelerate

    for name in ("ACCELERATE_TORCH_DEVICE", "ACCELERATE_USE_CPU", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    _tell_accelerate()
    assert os.environ.get("ACCELERATE_TORCH_DEVICE") == wanted


def test_a_rule_is_for_an_operation_that_torch_has():
    for name, text in (("gelu_backwards", "did you mean 'gelu_backward'"), ("add", "has a rule already")):
        with pytest.raises(InputError, match=text):
            rules.rule(name)(lambda x: x)


def test_running_products_and_parts_stay_on_the_device(tt):
    x = torch.rand(3, 5)
    with tt.no_fallback():
        torch.testing.assert_close(x.to("tt").cumprod(1).cpu(), x.cumprod(1))
    value = EagerValue(Eager(0), content.image(x.to("tt")))
    assert value[1:, ::2].tensor.numpy().tolist() == x[1:, ::2].tolist()
