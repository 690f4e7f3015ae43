"""ttnn's convolutions of volumes and values between pixels against torch."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

from .helpers import ROWS, TILE, close, drawn, got, put

torch = pytest.importorskip("torch")

E = ttnn.experimental
F = torch.nn.functional


@pytest.mark.parametrize(
    ("channels", "groups", "mode", "stride", "dilation"),
    [(32, 1, "zeros", 1, 1), (64, 2, "replicate", 2, 1), (40, 1, "zeros", 1, 2)],
)
def test_a_convolution_of_a_volume(device, channels, groups, mode, stride, dilation):
    module = torch.nn.Conv3d(
        channels, 48, (3, 3, 2), stride, (1, 2, 0), dilation=dilation, groups=groups, padding_mode=mode
    )
    x = drawn(2, channels, 5, 6, 7)
    whole = -(-channels // 32) * 32
    tensor = put(device, F.pad(x.permute(0, 2, 3, 4, 1), (0, whole - channels)), layout=ROWS)
    weight = ttnn.from_torch(module.weight.data, dtype=ttnn.float32)
    config = ttnn.Conv3dConfig(C_in_block=32, dilation=(dilation,) * 3)
    prepared = E.prepare_conv3d_weights(weight_tensor=weight, groups=groups, C_in_block=32, device=device)
    assert tuple(prepared.shape) == (whole * 18, 48)
    given = {
        "bias_tensor": put(device, module.bias.data[None]),
        "config": config,
        "dtype": ttnn.float32,
        "output_channels": 48,
        "kernel_size": (3, 3, 2),
        "stride": (stride,) * 3,
        "padding": (1, 2, 0),
        "dilation": (dilation,) * 3,
        "padding_mode": mode,
        "groups": groups,
    }
    expected = module(x).permute(0, 2, 3, 4, 1)
    for given_weight in (ttnn.to_layout(prepared, TILE), weight):
        made = E.conv3d(input_tensor=tensor, weight_tensor=given_weight, device=device, **given)
        assert made.layout is ROWS
        close(got(made), expected, 1e-5)


def test_windows_side_by_side(device):
    module, x = torch.nn.Conv3d(64, 48, (2, 3, 4), (2, 3, 4)), drawn(2, 64, 4, 6, 4)
    made = E.conv3d(
        input_tensor=put(device, x.permute(0, 2, 3, 4, 1), layout=ROWS),
        weight_tensor=ttnn.from_torch(module.weight.data, dtype=ttnn.float32),
        bias_tensor=put(device, module.bias.data[None]),
        dtype=ttnn.float32,
        output_channels=48,
        kernel_size=(2, 3, 4),
        stride=(2, 3, 4),
    )
    close(got(made), module(x).permute(0, 2, 3, 4, 1), 1e-5)


def test_volumes_that_do_not_fit(device):
    x, weight = put(device, drawn(1, 4, 4, 4, 32), layout=ROWS), put(device, drawn(27 * 32, 32))
    given = {"dtype": ttnn.float32, "output_channels": 32, "kernel_size": (3, 3, 3)}
    with pytest.raises(RuntimeError, match="Weight patch size must match input patch size"):
        E.conv3d(input_tensor=x, weight_tensor=weight, **given | {"kernel_size": (3, 3, 2)})
    narrow = put(device, drawn(1, 4, 4, 4, 3), layout=ROWS)
    with pytest.raises(RuntimeError, match=r"Input channels \(3\) must be divisible by C_in_block"):
        E.conv3d(input_tensor=narrow, weight_tensor=weight, **given)
    with pytest.raises(ttnn.Unsupported, match="halo"):
        E.conv3d(input_tensor=x, weight_tensor=weight, logical_h_mask=2, **given)


@pytest.mark.parametrize("corners", [False, True])
def test_values_of_an_image_at_the_places_of_a_grid(device, corners):
    x, grid = drawn(2, 32, 7, 9), torch.rand(2, 4, 6, 2) * 2.6 - 1.3
    expected = F.grid_sample(x, grid, align_corners=corners).permute(0, 2, 3, 1)
    image = put(device, x.permute(0, 2, 3, 1), layout=ROWS)
    made = ttnn.grid_sample(image, put(device, grid, layout=ROWS), align_corners=corners)
    close(got(made), expected, 1e-5)
    packed = put(device, grid.reshape(2, 4, 2, 6), layout=ROWS)
    close(got(ttnn.grid_sample(image, packed, align_corners=corners)), expected, 1e-5)
    made = ttnn.grid_sample(image, packed, align_corners=corners, batch_output_channels=True)
    close(got(made), expected.reshape(2, 4, 2, 96), 1e-5)


def levels(shapes, batch=2, queries=5, heads=2, points=4, width=16):
    value = drawn(batch, sum(h * w for h, w in shapes), heads, width).bfloat16()
    places = (torch.rand(batch, queries, heads, len(shapes), points, 2) * 1.2 - 0.1).bfloat16()
    weights = torch.rand(batch, queries, heads, len(shapes), points).bfloat16()
    return value, places, weights


def attended(value, places, weights, shapes, corners=False):
    """[b, q, h d], by grid_sample of each level; places are between 0 and 1."""
    batch, queries, heads = weights.shape[:3]
    value, places, weights = (x.float() for x in (value, places, weights))
    made, start = 0, 0
    for n, (h, w) in enumerate(shapes):
        image = value[:, start : start + h * w].permute(0, 2, 3, 1).reshape(batch * heads, -1, h, w)
        start += h * w
        grid = places[:, :, :, n].transpose(1, 2).reshape(batch * heads, queries, -1, 2) * 2 - 1
        found = F.grid_sample(image, grid, align_corners=corners)
        share = weights[:, :, :, n].transpose(1, 2).reshape(batch * heads, 1, queries, -1)
        made = made + (found * share).sum(-1)
    return made.reshape(batch, -1, queries).transpose(1, 2)


@pytest.mark.parametrize("corners", [False, True])
def test_deformable_attention_of_several_levels(device, corners):
    shapes = [(6, 5), (3, 4), (1, 1)]
    value, places, weights = levels(shapes)
    expected = attended(value, places, weights, shapes, corners)

    def rows(x):
        return put(device, x, ttnn.bfloat16, ROWS)

    given = {"align_corners": corners}
    made = E.fused_msda(rows(value), rows(places), rows(weights), shapes, **given)
    close(got(made), expected, 2**-7)
    packed = rows(value.flatten(2)), rows(places.flatten(3)), rows(weights.flatten(3))
    close(got(E.fused_msda(*packed, shapes, **given)), expected, 2**-7)
    made = E.fused_msda(
        rows(value),
        rows(places.float() * 2 - 1),
        rows(weights),
        shapes,
        **given,
        locations_in_grid_space=True,
    )
    close(got(made), expected, 2**-5)  # places were rounded again
    with pytest.raises(RuntimeError, match=r"value's S dim \(43\) must equal"):
        E.fused_msda(rows(value), rows(places), rows(weights), [*shapes[:2], (1, 2)])


@pytest.mark.parametrize("mode", ["level", "pillar"])
@pytest.mark.parametrize("corners", [False, True])
def test_deformable_attention_by_offsets(device, mode, corners):
    shapes = [(6, 5), (1, 4)]
    value, _, weights = levels(shapes)
    references, offsets = torch.rand(2, 5, 2, 2), drawn(2, 5, 2, 2, 4, 2).bfloat16()
    sizes = torch.tensor([[w, h] for h, w in shapes], dtype=torch.float32)
    scale = torch.where(sizes > 1, 1 / (sizes - 1), 0.0) if corners else 1 / sizes
    own = (
        references[:, :, None, :, None]
        if mode == "level"
        else references.repeat(1, 1, 2, 1)[:, :, None, None]
    )
    places = own + offsets.float() * scale[:, None]
    made = E.fused_msda_from_offsets(
        put(device, value, ttnn.bfloat16, ROWS),
        put(device, references, layout=ROWS),
        put(device, offsets, ttnn.bfloat16, ROWS),
        put(device, weights, ttnn.bfloat16, ROWS),
        shapes,
        reference_mode=mode,
        align_corners=corners,
    )
    close(got(made), attended(value, places, weights, shapes, corners), 2**-7)


def test_deformable_attention_of_one_level(device):
    shapes = [(8, 6)]
    value, places, weights = levels(shapes, batch=1, heads=1)
    grid = (places[0, :, 0, 0].float() * 2 - 1).reshape(1, 20, 1, 2).bfloat16()
    made = E.multi_scale_deformable_attn(
        put(device, value.reshape(1, 8, 6, 16), ttnn.bfloat16, ROWS),
        put(device, grid, ttnn.bfloat16, ROWS),
        put(device, weights.reshape(1, 5, 4), ttnn.bfloat16, ROWS),
    )
    exact = ((grid.float() + 1) / 2).reshape(1, 5, 1, 1, 4, 2)
    close(got(made), attended(value, exact, weights, shapes), 2**-7)
