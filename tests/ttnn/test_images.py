"""Convolutions, pools and upsample of compat.ttnn against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graph_runtime.compat import ttnn

rng = np.random.default_rng(5)


def put(device, values, dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT):
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device)


def convolved(image, weight, stride, pads, dilation=(1, 1), groups=1):
    """[N, H, W, C] by [O, I, kh, kw], tap by tap; pads: top, bottom, left, right."""
    padded = np.pad(image, ((0, 0), pads[:2], pads[2:], (0, 0)))
    o, share, kh, kw = weight.shape
    oh, ow = (
        (size - (k - 1) * d - 1) // s + 1
        for size, k, d, s in zip(padded.shape[1:3], (kh, kw), dilation, stride, strict=True)
    )
    made = np.zeros((image.shape[0], oh, ow, o))
    cut = weight.reshape(groups, o // groups, share, kh, kw)
    for y, x in itertools.product(range(kh), range(kw)):
        rows = slice(y * dilation[0], y * dilation[0] + (oh - 1) * stride[0] + 1, stride[0])
        cols = slice(x * dilation[1], x * dilation[1] + (ow - 1) * stride[1] + 1, stride[1])
        part = padded[:, rows, cols].reshape(image.shape[0], oh, ow, groups, share)
        made += np.einsum("nhwgi,goi->nhwgo", part, cut[:, :, :, y, x]).reshape(made.shape)
    return made


CONVOLUTIONS = {
    "plain": {"padding": (1, 1)},
    "strided": {"stride": (2, 1), "padding": (1, 2, 0, 1)},
    "dilated": {"dilation": (2, 2), "padding": (2, 2)},
    "grouped": {"groups": 2},
    "by channel": {"groups": 8, "padding": (1, 1)},
}


def convolution(device, groups=1, stride=(1, 1), padding=(0, 0), dilation=(1, 1)):
    image = rng.standard_normal((2, 6, 7, 8)).astype(np.float32)
    weight = rng.standard_normal((16, 8 // groups, 3, 2)).astype(np.float32)
    bias = rng.standard_normal((1, 1, 1, 16)).astype(np.float32)
    given = {
        "in_channels": 8,
        "out_channels": 16,
        "batch_size": 2,
        "input_height": 6,
        "input_width": 7,
        "kernel_size": (3, 2),
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "device": device,
    }
    pads = padding if len(padding) == 4 else (padding[0], padding[0], padding[1], padding[1])
    return image, weight, bias, given, convolved(image, weight, stride, pads, dilation, groups) + bias


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution(device, name):
    image, weight, bias, given, wanted = convolution(device, **CONVOLUTIONS[name])
    made, size, (prepared, row) = ttnn.conv2d(
        input_tensor=put(device, image.reshape(1, 1, -1, 8)),
        weight_tensor=ttnn.from_torch(weight),
        bias_tensor=ttnn.from_torch(bias),
        return_output_dim=True,
        return_weights_and_bias=True,
        **given,
    )
    assert size == wanted.shape[1:3]
    assert (made.layout, made.dtype) == (ttnn.TILE_LAYOUT, ttnn.float32)
    assert made.shape == [1, 1, wanted.size // 16, 16]
    assert np.allclose(made.to_numpy().reshape(wanted.shape), wanted, atol=0.05)
    again = ttnn.conv2d(input_tensor=put(device, image), weight_tensor=prepared, bias_tensor=row, **given)
    assert (again.to_numpy() == made.to_numpy()).all()


def test_a_prepared_weight_is_the_matrix_in_the_type_of_the_configuration(device):
    image, weight, bias, given, wanted = convolution(device, padding=(1, 1))
    config = ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b, activation="relu")
    prepared = ttnn.prepare_conv_weights(
        weight_tensor=ttnn.from_torch(weight), weights_format="OIHW", conv_config=config, **given
    )
    assert (prepared.shape, prepared.dtype) == ([1, 1, 3 * 2 * 32, 32], ttnn.bfloat8_b)
    made = ttnn.conv2d(
        input_tensor=put(device, image),
        weight_tensor=prepared,
        bias_tensor=put(device, bias),
        conv_config=config,
        compute_config=ttnn.WormholeComputeKernelConfig(
            math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True
        ),
        **given,
    )
    assert np.allclose(made.to_numpy().reshape(wanted.shape), np.maximum(wanted, 0), atol=0.3)
    with pytest.raises(RuntimeError, match="the weight must have shape"):
        ttnn.conv2d(input_tensor=put(device, image), weight_tensor=put(device, weight[:3]), **given)
    with pytest.raises(RuntimeError, match="is no image of"):
        ttnn.conv2d(input_tensor=put(device, image[:1]), weight_tensor=put(device, weight), **given)


def test_the_edge_of_an_image_is_repeated_around_it(device):
    image, weight, _, given, _ = convolution(device, padding=(1, 1))
    around = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    wanted = convolved(around, weight, (1, 1), (0, 0, 0, 0))
    config = ttnn.Conv2dConfig(padding_mode=ttnn.PaddingMode.Replicate)
    operands = {"input_tensor": put(device, image), "weight_tensor": put(device, weight)}
    made = ttnn.conv2d(**operands, conv_config=config, **given)
    assert np.allclose(made.to_numpy().reshape(wanted.shape), wanted, atol=0.05)


def test_a_configuration_of_a_convolution_is_acted_on(device):
    image, weight, _, given, _ = convolution(device)
    x, w = put(device, image, ttnn.bfloat16), put(device, weight, ttnn.bfloat16)
    exact = convolved(x.to_numpy(), w.to_numpy(), (1, 1), (0, 0, 0, 0))

    def error(**fields):
        config = ttnn.WormholeComputeKernelConfig(**fields)
        made = ttnn.conv2d(
            input_tensor=x, weight_tensor=w, dtype=ttnn.float32, compute_config=config, **given
        )
        return np.abs(made.to_numpy().reshape(exact.shape) - exact).max()

    best = error(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True)
    assert best < 1e-3 < error(math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=True)
    assert best < error(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=False)


def test_a_convolution_of_an_image_in_l1_gives_shards(device):
    image, weight, _, given, _ = convolution(device)
    x = ttnn.to_memory_config(put(device, image.reshape(1, 1, -1, 8)), ttnn.L1_MEMORY_CONFIG)
    made = ttnn.conv2d(input_tensor=x, weight_tensor=put(device, weight), **given)
    assert made.memory_config().memory_layout is ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    assert made.memory_config().buffer_type is ttnn.BufferType.L1


def test_a_convolution_of_one_dimension(device):
    image = rng.standard_normal((2, 9, 4)).astype(np.float32)
    weight = rng.standard_normal((6, 4, 3)).astype(np.float32)
    wanted = convolved(image[:, None], weight[:, :, None], (1, 2), (0, 0, 1, 1))
    made, length = ttnn.conv1d(
        input_tensor=ttnn.from_torch(image),
        weight_tensor=ttnn.from_torch(weight),
        device=device,
        in_channels=4,
        out_channels=6,
        batch_size=2,
        input_length=9,
        kernel_size=3,
        stride=2,
        padding=1,
        return_output_dim=True,
    )
    assert length == wanted.shape[2]
    assert np.allclose(made.to_numpy().reshape(wanted.shape), wanted, atol=0.05)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize(("stride", "padding", "more"), [((2, 2), (1, 1), (1, 0)), ((1, 3), (0, 2), (0, 0))])
def test_a_transposed_convolution_is_the_gradient_of_a_convolution(device, stride, padding, more, mirrored):
    image = rng.standard_normal((1, 4, 5, 6)).astype(np.float32)
    weight = rng.standard_normal((6, 3, 3, 2)).astype(np.float32)
    size = [
        (n - 1) * s - 2 * p + k + m
        for n, s, p, k, m in zip((4, 5), stride, padding, (3, 2), more, strict=True)
    ]
    wanted = np.zeros((1, size[0] + 2 * padding[0], size[1] + 2 * padding[1], 3))
    for y, x, i, j in itertools.product(range(4), range(5), range(3), range(2)):
        wanted[0, y * stride[0] + i, x * stride[1] + j] += image[0, y, x] @ weight[:, :, i, j]
    wanted = wanted[:, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]
    turned = np.ascontiguousarray(weight if mirrored else weight[:, :, ::-1, ::-1])
    made, found = ttnn.conv_transpose2d(
        input_tensor=put(device, image),
        weight_tensor=ttnn.from_torch(turned),
        device=device,
        in_channels=6,
        out_channels=3,
        batch_size=1,
        input_height=4,
        input_width=5,
        kernel_size=(3, 2),
        stride=stride,
        padding=padding,
        output_padding=more,
        mirror_kernel=mirrored,
        return_output_dim=True,
    )
    assert found == tuple(size)
    assert np.allclose(made.to_numpy().reshape(wanted.shape), wanted, atol=0.05)


def windows(image, kernel, stride, pads, fill):
    """[N, OH, OW, kh kw, C] of [N, H, W, C]."""
    padded = np.pad(image, ((0, 0), (pads[0],) * 2, (pads[1],) * 2, (0, 0)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2))[:, :: stride[0], :: stride[1]]
    return np.moveaxis(view.reshape(*view.shape[:4], -1), 3, 4)


def test_pools(device):
    image = rng.standard_normal((2, 8, 9, 5)).astype(np.float32)
    x = put(device, image.reshape(1, 1, -1, 5), ttnn.float32)
    size, how = (2, 8, 9, 5), ([3, 2], [2, 2], [1, 1])
    cut = windows(image, (3, 2), (2, 2), (1, 1), -np.inf)
    made, places = ttnn.max_pool2d(x, *size, *how, [1, 1], return_indices=True, dtype=ttnn.float32)
    assert (made.to_numpy().reshape(cut.max(3).shape) == cut.max(3)).all()
    assert (made.layout, places.dtype) == (ttnn.ROW_MAJOR_LAYOUT, ttnn.uint16)
    flat = image.reshape(2, 72, 5)
    at = places.to_numpy().reshape(2, -1, 5).astype(np.int64)
    assert (np.take_along_axis(flat, at, 1) == cut.max(3).reshape(2, -1, 5)).all()
    zeros = windows(image, (3, 2), (2, 2), (1, 1), 0)
    there = windows(np.ones_like(image), (3, 2), (2, 2), (1, 1), 0)
    for given, wanted in (
        ({}, zeros.mean(3)),
        ({"count_include_pad": False}, zeros.sum(3) / there.sum(3)),
        ({"divisor_override": 5}, zeros.sum(3) / 5),
    ):
        made = ttnn.avg_pool2d(x, *size, *how, dtype=ttnn.float32, **given)
        assert np.allclose(made.to_numpy().reshape(wanted.shape), wanted, atol=1e-6)
    made = ttnn.global_avg_pool2d(put(device, image))
    assert np.allclose(made.to_numpy(), image.mean((1, 2), keepdims=True), atol=1e-6)
    made = ttnn.adaptive_max_pool2d(x, *size, [3, 2], dtype=ttnn.float32).to_numpy().reshape(2, 3, 2, 5)
    assert (made[:, 1, 1] == image[:, 2:6, 4:9].max((1, 2))).all()
    with pytest.raises(RuntimeError, match="at most half of the kernel"):
        ttnn.max_pool2d(x, *size, [2, 2], [2, 2], [2, 2])


def test_upsample(device):
    image = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    made = ttnn.upsample(put(device, image), (2, 3)).to_numpy()
    assert (made == image.repeat(2, 1).repeat(3, 2)).all()
    assert (ttnn.upsample(put(device, image), 1.5).to_numpy()[:, :, 0] == image[:, [0, 0, 1, 2], 0]).all()
    made = ttnn.upsample(put(device, image), (1, 2), mode="bilinear").to_numpy()
    inner = np.stack(
        [0.25 * image[:, :, :-1] + 0.75 * image[:, :, 1:], 0.75 * image[:, :, :-1] + 0.25 * image[:, :, 1:]]
    )
    assert np.allclose(made[:, :, 0], image[:, :, 0])
    assert np.allclose(made[:, :, 2:-1:2], inner[0], atol=1e-6)
    assert np.allclose(made[:, :, 1:-2:2], inner[1], atol=1e-6)


def test_fold_cuts_squares_of_an_image_with_zeros_around_it(device):
    image = rng.standard_normal((1, 6, 7, 3)).astype(np.float32)
    made = ttnn.fold(put(device, image), 4, 3, padding=[1, 1, 2, 0]).to_numpy()
    padded = np.pad(image, ((0, 0), (1, 1), (2, 0), (0, 0)))
    wanted = padded.reshape(1, 2, 4, 3, 3, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 36)
    assert (made == wanted).all()


def folded(padded, high, wide):
    """[N, H, W, C] with its squares as channels."""
    n, h, w, c = padded.shape
    cut = padded.reshape(n, h // high, high, w // wide, wide, c).transpose(0, 1, 3, 2, 4, 5)
    return cut.reshape(n, h // high, w // wide, -1)


def test_fold_pads_channels(device):
    image = rng.standard_normal((2, 6, 7, 3)).astype(np.float32)
    made = ttnn.fold(put(device, image), 4, 3, padding=[1, 1, 2, 0, 1, 2]).to_numpy()
    assert (made == folded(np.pad(image, ((0, 0), (1, 1), (2, 0), (1, 2))), 4, 3)).all()


@pytest.mark.parametrize("given", [{}, {"output_shape": (2, 10, 12, 16)}])
def test_fold_by_transposes_of_shards_is_of_an_image_behind_its_channels(device, given):
    """The demo of ResNet-50 begins so: 3 channels become 4, of each square of 2 x 2 pixels."""
    image = rng.standard_normal((2, 3, 20, 28)).astype(np.float32)
    where = ttnn.create_sharded_memory_config(
        (1, 1, 120, 28), ttnn.CoreGrid(y=2, x=2), ttnn.ShardStrategy.HEIGHT
    )
    placed = ttnn.to_memory_config(put(device, image), where)
    made = ttnn.fold(placed, 2, 2, use_transpose_as_fold=True, padding=[3, 3, 3, 3, 0, 1], **given)
    wanted = folded(np.pad(image, ((0, 0), (0, 1), (3, 3), (3, 3))).transpose(0, 2, 3, 1), 2, 2)
    if given:
        wanted = wanted[:, :10, :12]
    assert made.shape == wanted.shape
    assert (made.to_numpy() == wanted).all()
    assert made.memory_config().shard_spec.shape == [-(-wanted.size // 64), 16]


def test_fold_by_transposes_of_pages_pads_behind_and_keeps_the_size_of_tiles(device):
    image = rng.standard_normal((1, 3, 20, 28)).astype(np.float32)
    made = ttnn.fold(put(device, image), 2, 4, use_transpose_as_fold=True, padding=[3, 3, 6, 6, 0, 1])
    assert made.memory_config() == ttnn.L1_MEMORY_CONFIG
    wanted = folded(np.pad(image, ((0, 0), (0, 1), (0, 12), (0, 36))).transpose(0, 2, 3, 1), 2, 4)
    assert (made.to_numpy() == wanted).all()
    with pytest.raises(ttnn.Unsupported, match="give padding="):
        ttnn.fold(put(device, image), 2, 4, use_transpose_as_fold=True, pad_c=1)


@pytest.mark.parametrize(("size", "padding"), [((17, 22), (1, 0, 2, 1)), ((512, 512), (0, 0, 0, 0))])
def test_windows_side_by_side(device, size, padding):
    """The window is the stride, as of a vision transformer's patches."""
    image = rng.standard_normal((1, *size, 3)).astype(np.float32)
    weight = rng.standard_normal((8, 3, 16, 16) if size[0] > 99 else (8, 3, 4, 5)).astype(np.float32)
    stride = weight.shape[2:]
    made, (height, width) = ttnn.conv2d(
        input_tensor=put(device, image),
        weight_tensor=ttnn.from_torch(weight),
        device=device,
        in_channels=3,
        out_channels=8,
        batch_size=1,
        input_height=size[0],
        input_width=size[1],
        kernel_size=stride,
        stride=stride,
        padding=padding,
        return_output_dim=True,
    )
    wanted = convolved(image, weight, stride, padding)
    assert (1, height, width, 8) == wanted.shape
    error = np.abs(made.to_numpy().reshape(wanted.shape) - wanted).max()
    assert error < 3e-3 * np.abs(wanted).max()  # HiFi4 cuts the operands to 11 bits
