"""A body's signature says what is checked and how the result is placed; the published one is ttnn's own."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices.wide_value import WideValue
from graph_runtime.ttnn.operations.bodies import FloatValue, TiledTensor
from graph_runtime.ttnn.operations.neutral import NAMED, NEUTRAL
from graph_runtime.ttnn.operations.operation import operation
from graph_runtime.ttnn.operations.results import Target
from graph_runtime.ttnn.registry import OPERATIONS
from graph_runtime.ttnn.tensors.tensor import Tensor

pytestmark = pytest.mark.core

PUBLISHED = Path(__file__).with_name("signatures.txt")  # names, order, defaults, what is by name only


def shown(name, signature):
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return name + str(inspect.Signature([p for p in plain if p.name not in ("_", "__")]))


def test_signatures_are_ttnns():
    published = {
        shown(name, inspect.signature(function))
        for name, function in OPERATIONS.items()
        if not (function.reason or function.same_as)
        and function.function.__module__.startswith("graph_runtime.ttnn.")
    }
    assert published == set(PUBLISHED.read_text().splitlines())


def test_keywords_that_the_decorator_adds_place_a_result_or_have_no_effect():
    from graph_runtime.ttnn.operations.bodies import PLACES
    from graph_runtime.ttnn.operations.bodies import _operands as operands_of

    for function in OPERATIONS.values():
        assert set(function.parameters.added) <= {*PLACES, *NEUTRAL, *NAMED}, function
        assert not function.parameters.added or operands_of(function.parameters, ""), function


@pytest.fixture
def made():
    """Operations of a test, gone after it."""
    before = set(OPERATIONS)
    yield
    for name in OPERATIONS.keys() - before:
        del OPERATIONS[name]


def tensor(device, values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(np.asarray(values), dtype, layout=layout, device=device)


def test_a_body_is_the_mathematics(device, made):
    @operation("squared_sum", "add, square", takes="memory_config, ..., output_tensor")
    def squared_sum(a: FloatValue, b: WideValue | None = None, *, times: float = 1.0) -> WideValue:
        return (a if b is None else a + b).square() * times

    assert str(inspect.signature(squared_sum)) == (
        "(a: 'Tensor', b: 'Tensor | None' = None, *, memory_config: 'MemoryConfig | None' = None, "
        "times: 'float' = 1.0, output_tensor: 'Tensor | None' = None) -> 'Tensor'"
    )
    x = tensor(device, np.full((32, 32), 3.0, np.float32))
    place = ttnn.L1_MEMORY_CONFIG
    done = squared_sum(x, b=x, memory_config=place, times=2.0)
    assert (done.to_numpy() == 72).all()
    assert done.memory_config() == place
    assert squared_sum(x, output_tensor=done) is done
    assert (done.to_numpy() == 9).all()
    assert done.memory_config() == place
    with pytest.raises(ttnn.Unsupported, match=r"ttnn.squared_sum of INT32 .* takes floats"):
        squared_sum(tensor(device, np.ones((32, 32), np.int32), ttnn.int32))
    with pytest.raises(RuntimeError, match=r"squared_sum[^\0]*the b must be on device"):
        squared_sum(x, x.cpu())
    with pytest.raises(TypeError, match=r"b is a int, wanted a ttnn.Tensor"):
        squared_sum(x, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        squared_sum()
    with pytest.raises(TypeError, match=r"unexpected 'output_tenser'.*did you mean 'output_tensor'"):
        squared_sum(x, output_tenser=x)


def test_a_body_may_take_the_target_and_make_several_results(device, made):
    @operation("halved", takes="memory_config, dtype", tiled="tiles are wanted", layout=ttnn.TILE_LAYOUT)
    def halved(x: TiledTensor, *, goal: Target) -> tuple[WideValue | None, WideValue, Tensor]:
        return None, x._value * 0.5, goal.wrap(x._value)

    @operation("doubled_", in_place=True)
    def doubled_(x: WideValue) -> WideValue:
        return x * 2.0

    x = tensor(device, np.ones((32, 32), np.float32))
    nothing, half, same = halved(x, dtype=ttnn.bfloat16)
    assert nothing is None
    assert half.dtype is same.dtype is ttnn.bfloat16
    assert (half.to_numpy() == 0.5).all()
    assert (same.to_numpy() == 1).all()
    with pytest.raises(RuntimeError, match="tiles are wanted"):
        halved(tensor(device, np.ones((32, 32), np.float32), layout=ttnn.ROW_MAJOR_LAYOUT))
    assert doubled_(x).buffer_address() == x.buffer_address()
    assert (x.to_numpy() == 2).all()
