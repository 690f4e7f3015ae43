"""Forms of arguments that the release takes: activations with their parameter, names beside ours, losses,
pages, shapes without elements."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")
U = ttnn.UnaryOpType
gelu = torch.nn.functional.gelu


def _on(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(torch.as_tensor(values), dtype=dtype, layout=layout, device=device)


@pytest.fixture
def x(device):
    torch.manual_seed(1)
    return _on(device, torch.randn(32, 64))


WITH_PARAMETERS = {
    "gelu, a pair": ((U.GELU, True), gelu),
    "gelu": (ttnn.UnaryWithParam(U.GELU, True), gelu),
    "gelu, a number": (ttnn.UnaryWithParam(U.GELU, 1.0), gelu),
    "gelu by tanh": (ttnn.UnaryWithParam(U.GELU_TANH), lambda v: gelu(v, approximate="tanh")),
    "sigmoid": ((U.SIGMOID, 4, 1), torch.sigmoid),
    "sigmoid, numbers": (ttnn.UnaryWithParam(U.SIGMOID, 4.0, 0.0), torch.sigmoid),
    "tanh": (ttnn.UnaryWithParam((U.TANH, False)), torch.tanh),
    "exp": (ttnn.UnaryWithParam(U.EXP, True), torch.exp),
    "leaky": (ttnn.UnaryWithParam(U.LEAKY_RELU, 0.3), lambda v: torch.nn.functional.leaky_relu(v, 0.3)),
    "none": (ttnn.UnaryWithParam(U.LOGICAL_NOT_UNARY), lambda v: (v == 0).float()),
}


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_activations_with_their_parameter(x, name):
    activation, wanted = WITH_PARAMETERS[name]
    v = ttnn.to_torch(x)
    made = ttnn.add(x, x, activations=[activation])
    assert torch.allclose(ttnn.to_torch(made), wanted(2 * v), rtol=1e-4, atol=1e-4)
    chained = ttnn.unary_chain(x, [activation])
    assert torch.allclose(ttnn.to_torch(chained), wanted(v), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", [(U.GELU, True), ttnn.UnaryWithParam(U.SIGMOID, 4, 0)], ids=str)
def test_a_product_with_a_fused_activation(device, activation):
    torch.manual_seed(2)
    a, b = torch.randn(32, 64), torch.randn(64, 32)
    config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(1, 1),
        in0_block_w=2,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=1,
        per_core_N=1,
        transpose_mcast=False,
        fused_activation=activation,
    )
    made = ttnn.matmul(_on(device, a, ttnn.bfloat16), _on(device, b, ttnn.bfloat16), program_config=config)
    wanted = (gelu if isinstance(activation, tuple) else torch.sigmoid)(
        a.bfloat16().float() @ b.bfloat16().float()
    )
    assert np.corrcoef(ttnn.to_torch(made).float().numpy().ravel(), wanted.numpy().ravel())[0, 1] > 0.999


def test_gelu_by_its_variants(x):
    v = ttnn.to_torch(x)
    for variant, how in ((ttnn.GeluVariant.Accurate, "none"), (ttnn.GeluVariant.Tanh, "tanh")):
        made = ttnn.to_torch(ttnn.gelu(x, variant=variant))
        assert torch.allclose(made, gelu(v, approximate=how), rtol=1e-5, atol=1e-6)
    half = ttnn.to_torch(ttnn.geglu(ttnn.reshape(x, (1, 1, 32, 64)), variant=ttnn.GeluVariant.Tanh))
    wanted = v[:, :32] * gelu(v[:, 32:], approximate="tanh")
    assert torch.allclose(half[0, 0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
def test_losses(device, name):
    torch.manual_seed(3)
    a, b = torch.randn(2, 3, 33, 40), torch.randn(2, 3, 33, 40)
    x, y = _on(device, a), _on(device, b)
    own = getattr(torch.nn.functional, name)
    for how in ttnn.LossReductionMode:
        made = getattr(ttnn, name)(input_reference=x, input_prediction=y, reduction=how)
        wanted = own(a, b, reduction=how.name.lower())
        assert tuple(made.shape) == tuple(wanted.shape)
        assert torch.allclose(ttnn.to_torch(made), wanted, rtol=1e-4, atol=1e-4)


def test_names_of_arguments_beside_ours(x, device):
    v = ttnn.to_torch(x)
    for made, wanted in (
        (ttnn.maximum(x, input_b=0.5), v.clamp(min=0.5)),
        (ttnn.div(x, value=2.0), v / 2),
        (ttnn.addcmul(input_a=x, input_b=x, input_c=x), v + v * v),
        (ttnn.lerp(input=x, end=x, weight=x), v),
        (ttnn.pow(input_tensor=x, exponent=2.0), v**2),
        (ttnn.reshape_on_device(x, 1, 1, 64, 32), v.reshape(1, 1, 64, 32)),
        (ttnn.experimental.view(x, 1, 1, 32, 64), v.reshape(1, 1, 32, 64)),
        (ttnn.permute(x, (1, 0), 0.0), v.mT),
        (ttnn.roll(x, 3, 1, memory_config=ttnn.L1_MEMORY_CONFIG), v.roll(3, 1)),
    ):
        assert torch.allclose(ttnn.to_torch(made), wanted, rtol=1e-5, atol=1e-5)
    y = _on(device, v.clone())
    ttnn.add_(input_a=y, input_b=1.0)
    assert torch.allclose(ttnn.to_torch(y), v + 1)
    with pytest.raises(TypeError, match="did you mean"):
        ttnn.permute(x, (1, 0), memory_confg=None)


def test_a_tensor_goes_to_a_device_or_a_layout_by_name(x, device):
    there = x.cpu().to(device=device, mem_config=ttnn.L1_MEMORY_CONFIG)
    assert there.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert x.cpu().to(target_layout=ttnn.ROW_MAJOR_LAYOUT).layout is ttnn.ROW_MAJOR_LAYOUT
    assert x.cpu().to(ttnn.ROW_MAJOR_LAYOUT).layout is ttnn.ROW_MAJOR_LAYOUT


def _shards(layout, shape):
    two = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 0))])
    spec = ttnn.ShardSpec(two, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, spec)


HEIGHT, WIDTH = ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.TensorMemoryLayout.WIDTH_SHARDED
ROWS, TILES = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT
PAGES = [  # as the release answers on a Wormhole
    ((1, 1, 64, 64), ttnn.bfloat16, TILES, None, (4, 2048, 2048)),
    ((3, 40, 50), ttnn.bfloat8_b, TILES, None, (12, 1088, 1088)),
    ((3, 40, 50), ttnn.float32, ROWS, None, (120, 200, 224)),
    ((3, 40, 7), ttnn.bfloat16, ROWS, ttnn.L1_MEMORY_CONFIG, (120, 14, 16)),
    ((64, 48), ttnn.bfloat16, ROWS, _shards(WIDTH, [64, 24]), (128, 48, 48)),
    ((60, 48), ttnn.bfloat16, ROWS, _shards(HEIGHT, [32, 48]), (60, 96, 96)),
    ((64, 40), ttnn.bfloat16, ROWS, _shards(WIDTH, [64, 24]), (128, 48, 48)),
    ((7,), ttnn.bfloat16, TILES, None, (1, 2048, 2048)),
]


@pytest.mark.parametrize(("shape", "dtype", "layout", "config", "wanted"), PAGES)
def test_pages_of_a_tensor(device, shape, dtype, layout, config, wanted):
    given = {"dtype": dtype, "layout": layout, "device": device, "memory_config": config}
    x = ttnn.from_torch(torch.zeros(shape), **given)
    assert (x.buffer_num_pages(), x.buffer_page_size(), x.buffer_aligned_page_size()) == wanted


@pytest.mark.parametrize("layout", [ROWS, TILES])
def test_shapes_without_elements(device, layout):
    for shape, into in (((0, 32), (32, 0)), ((0, 32), (-1,)), ((2, 0, 32), (0, 5))):
        x = _on(device, torch.zeros(shape), layout=layout)
        assert tuple(ttnn.reshape(x, into).shape) == tuple(torch.zeros(shape).reshape(into).shape)
    with pytest.raises(RuntimeError, match="is ambiguous"):
        ttnn.reshape(_on(device, torch.zeros(0, 32), layout=layout), (0, -1))


def test_cores_by_name():
    made = ttnn.num_cores_to_corerangeset(target_num_cores=5, grid_size=ttnn.CoreCoord(8, 8))
    assert made == ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (0, 4))])


def test_the_version_says_what_it_is():
    from graph_runtime import __version__

    release, _, local = ttnn.__version__.partition("+")
    assert release == "0.81.1"
    assert local == f"graph.runtime.{__version__}"
    assert np.all([part.isdigit() for part in release.split(".")])
