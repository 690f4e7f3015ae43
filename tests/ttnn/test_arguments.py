"""No argument is let go of in silence: unknown ones are refused, those without effect have a reason."""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading

import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.operations.neutral import NAMED, NEUTRAL
from graph_runtime.ttnn.registry import OPERATIONS

pytestmark = pytest.mark.core


def test_an_argument_that_no_function_knows_is_refused(device):
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    for call in (
        lambda: ttnn.permute(x, (1, 0), memory_confg=ttnn.L1_MEMORY_CONFIG),
        lambda: ttnn.softmax(x, dim=-1, memory_confg=ttnn.L1_MEMORY_CONFIG),
    ):
        with pytest.raises(TypeError, match=r"unexpected 'memory_confg'[^\0]*did you mean 'memory_config'"):
            call()
    with pytest.raises(TypeError, match="unexpected 'weight_format'"):
        ttnn.prepare_conv_bias(bias_tensor=x, out_channels=32, device=device, weight_format="OIHW")
    assert ttnn.permute(x, (1, 0), sub_core_grids=None).shape == [32, 32]


WITHOUT_EFFECT = {
    "add": ("use_legacy", "sub_core_grids", "fast_and_approximate_mode"),
    "relu": ("sub_core_grids", "fast_and_approximate_mode"),
    "eqz": ("sub_core_grids", "fast_and_approximate_mode"),
    "layer_norm": ("compute_kernel_config", "recip_tensor"),
    "sum": ("sub_core_grids", "compute_kernel_config"),
    "moreh_norm": ("compute_kernel_config",),
    "plus_one": ("sub_core_grids",),
    "addcmul": ("sub_core_grids",),
    "pad": ("use_multicore",),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_arguments_without_effect_are_taken(device, name):
    kind = ttnn.int32 if name == "plus_one" else ttnn.bfloat16
    layout = ttnn.ROW_MAJOR_LAYOUT if name == "plus_one" else ttnn.TILE_LAYOUT
    x = ttnn.ones((32, 32), kind, layout, device)
    more = {"add": (x,), "addcmul": (x, x), "moreh_norm": (2.0,), "pad": ([(0, 32), (0, 32)],)}.get(name, ())
    for word in WITHOUT_EFFECT[name]:
        OPERATIONS[name](x, *more, **{word: None})


def unused(function):
    """The arguments that a function's body does not name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(tree, ast.FunctionDef):
        return set()
    named = {node.id for part in tree.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    given = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    return {arg.arg for arg in given} - named - {"self"}


def test_arguments_without_effect_have_a_reason():
    silent = {}
    for name, operation in OPERATIONS.items():
        if not operation.reason and operation.function.__module__.startswith("graph_runtime"):
            more = unused(operation.function) - NEUTRAL.keys() - NAMED.keys()
            if more:
                silent[name] = more
    assert silent == {}


def test_what_has_no_kernel_in_a_form_is_refused_by_its_name(device):
    x = ttnn.ones((1, 1, 32, 96), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    for call, name in (
        (lambda: ttnn.transformer.attention_softmax(x, head_size=32, causal_mask=True), "causal_mask"),
        (
            lambda: ttnn.experimental.nlp_create_qkv_heads(x, num_heads=1, output_tensors=[x]),
            "output_tensors",
        ),
        (lambda: ttnn.prod(x, dim=0, output_tensor=x), "into a tensor"),
    ):
        with pytest.raises(ttnn.Unsupported, match=name):
            call()


def shards(rows):
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))})
    spec = ttnn.ShardSpec(cores, [rows, 32], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)


def image(device):
    return ttnn.ones((1, 1, 64, 32), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)


BAD = {
    "a type that is none": (lambda d, x: ttnn.typecast(x, "float"), TypeError, "dtype is 'float', wanted"),
    "a type by name": (lambda d, x: ttnn.add(x, x, dtype="bf16"), TypeError, "dtype is 'bf16'"),
    "a layout that is none": (lambda d, x: ttnn.to_layout(x, "tile"), TypeError, "layout is 'tile'"),
    "a memory that is none": (
        lambda d, x: ttnn.exp(x, memory_config="l1"),
        TypeError,
        "memory_config is 'l1'",
    ),
    "sizes beyond the machine": (
        lambda d, x: ttnn.empty((1 << 40, 1 << 30), ttnn.bfloat16, ttnn.TILE_LAYOUT, d),
        RuntimeError,
        "Out of Memory",
    ),
    "shards without rows": (
        lambda d, x: ttnn.to_memory_config(x, shards(0)),
        RuntimeError,
        r"Shard shape \[0, 32\] must be greater than 0",
    ),
    "a stride of 0": (
        lambda d, x: ttnn.max_pool2d(image(d), 1, 8, 8, 32, (3, 3), (0, 1), (0, 0), (1, 1)),
        RuntimeError,
        "must be greater than 0",
    ),
    "a convolution's stride of 0": (
        lambda d, x: ttnn.conv2d(
            input_tensor=image(d),
            weight_tensor=ttnn.ones([8, 32, 3, 3]),
            device=d,
            in_channels=32,
            out_channels=8,
            batch_size=1,
            input_height=8,
            input_width=8,
            kernel_size=(3, 3),
            stride=(0, 0),
            padding=(0, 0),
        ),
        RuntimeError,
        "must be greater than 0",
    ),
    "a device that cannot be": (lambda d, x: ttnn.open_device(device_id=-1), RuntimeError, "Device id -1"),
    "a device by name": (lambda d, x: ttnn.open_device(device_id="x"), TypeError, "device_id is 'x'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_and_the_session_goes_on(device, name):
    call, error, text = BAD[name]
    x = ttnn.ones((64, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    with pytest.raises(error, match=text):
        call(device, x)
    assert (ttnn.add(x, x).to_numpy() == 2).all()


def test_threads_compute_beside_each_other(device):
    found = {}

    def work(number):
        for _ in range(10):
            x = ttnn.ones((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
            y = ttnn.multiply(ttnn.add(x, float(number)), 2.0)
            found[number] = (y.to_numpy() == 2 * (1 + number)).all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), True)
