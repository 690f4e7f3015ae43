"""Elementwise functions and reductions of integers, of mixed types and of nothing: values and types."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.core

WHOLE = np.array([[7, -3, 0, 11, 2**20, -(2**20)]], np.int32)
HALVES = torch.tensor([[0.5, 2.0, -4.0, 0.25, 1.5, 1.0]])


def put(device, values, dtype, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(torch.as_tensor(values), dtype=dtype, layout=layout, device=device)


def test_a_whole_number_is_raised_exactly(device):
    base = np.array([[11, -3, 2, 0, 1, 7]], np.int32)
    for exponent in (0, 1, 2, 7, 9):
        made = ttnn.pow(put(device, base, ttnn.int32), exponent)
        assert made.dtype is ttnn.int32
        assert (made.to_numpy() == base**exponent).all(), exponent
    assert ttnn.pow(put(device, [[11]], ttnn.int32), 7).item() == 19487171
    assert ttnn.pow(put(device, [[11]], ttnn.uint32), 9.0).item() == 11**9


@pytest.mark.parametrize("name", ["multiply", "divide"])
def test_integers_with_floats_have_floats(device, name):
    x, y = put(device, WHOLE, ttnn.int32), put(device, HALVES, ttnn.float32)
    of = getattr(torch, name)
    a, b = torch.tensor(WHOLE).float(), HALVES
    for made, wanted in (
        (getattr(ttnn, name)(x, y), of(a, b)),
        (getattr(ttnn, name)(y, x + 1), of(b, a + 1)),
        (getattr(ttnn, name)(x, 2.5), of(a, 2.5)),
    ):
        assert made.dtype is ttnn.float32
        assert torch.allclose(ttnn.to_torch(made), wanted, rtol=1e-6)
    assert getattr(ttnn, name)(x, ttnn.typecast(y, ttnn.bfloat8_b)).dtype is ttnn.bfloat16


def test_small_integers_compare_with_halves(device):
    x = put(device, np.array([[1, 2, 3, 65535]], np.int32), ttnn.uint16)
    assert ttnn.gt(x, 2.5).to_numpy().tolist() == [[0, 0, 1, 1]]
    assert ttnn.eq(x, 2.5).to_numpy().tolist() == [[0, 0, 0, 0]]
    small = put(device, np.array([[1, 2, 200]], np.int32), ttnn.uint8)
    made = ttnn.le(small, 2)
    assert made.dtype is ttnn.uint16
    assert made.to_numpy().tolist() == [[1, 1, 0]]


def test_integers_between_two_ends(device):
    a, b = np.array([[0, 10, 20]], np.int32), np.array([[10, 20, 0]], np.int32)
    made = ttnn.lerp(put(device, a, ttnn.uint16), put(device, b, ttnn.uint16), 0.5)
    assert made.dtype is ttnn.uint16
    assert made.to_numpy().tolist() == [[5, 15, 10]]


def test_bounds_of_integers(device):
    x = put(device, np.array([[-3, 2, 9]], np.int32), ttnn.int32)
    assert ttnn.clamp(x, 0, 5).to_numpy().tolist() == [[0, 2, 5]]
    made = ttnn.clamp(x, 0.5, 5.5)
    assert made.dtype is ttnn.float32
    assert made.to_numpy().tolist() == [[0.5, 2.0, 5.5]]
    assert ttnn.relu6(x).to_numpy().tolist() == [[0, 2, 6]]
    large = put(device, np.array([[3, 2**31 + 5]], np.int64), ttnn.uint32)
    assert ttnn.relu6(large).to_numpy().tolist() == [[3, 6]]


def test_the_place_of_the_greatest_along_each_dimension(device):
    values = torch.rand(3, 33, 40)
    for layout in (ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT):
        x = put(device, values, ttnn.float32, layout)
        for dim in (0, 1, -1):
            made = ttnn.argmax(x, dim=dim, keepdim=True)
            assert (ttnn.to_torch(made).long() == values.argmax(dim, keepdim=True)).all()
    empty = ttnn.argmax(put(device, torch.rand(2, 0, 32), ttnn.float32), dim=0)
    assert list(empty.shape) == [0, 32]
    assert empty.layout is ttnn.TILE_LAYOUT


def test_sums_in_rows_stay_in_rows(device):
    values = torch.rand(2, 3, 33, 50)
    x = put(device, values, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT)
    for name in ("sum", "mean"):
        for dim, layout in (
            (0, ttnn.ROW_MAJOR_LAYOUT),
            (-1, ttnn.ROW_MAJOR_LAYOUT),
            ([2, 3], ttnn.TILE_LAYOUT),
        ):
            made = getattr(ttnn, name)(x, dim=dim)
            assert made.layout is layout
            assert torch.allclose(ttnn.to_torch(made), getattr(values, name)(dim), rtol=1e-5)
    assert ttnn.max(x, dim=0).layout is ttnn.TILE_LAYOUT
    halves = put(device, values, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    assert ttnn.sum(halves, dim=0).layout is ttnn.TILE_LAYOUT


def test_a_number_is_no_first_operand_of_most_functions(device):
    x = put(device, HALVES, ttnn.float32)
    assert torch.equal(ttnn.to_torch(ttnn.subtract(2, x)), 2 - HALVES)
    with pytest.raises(TypeError, match="first operand is a int"):
        ttnn.maximum(2, x)
    with pytest.raises(TypeError, match="second operand is a float"):
        ttnn.atan2(x, 2.0)


def test_a_choice_lies_where_most_cores_are(device):
    values = torch.rand(128, 64)
    x = put(device, values, ttnn.bfloat16)
    places = [
        ttnn.create_sharded_memory_config((128, 64), ttnn.CoreGrid(y=1, x=cores), ttnn.ShardStrategy.HEIGHT)
        for cores in (2, 4)
    ]
    few, many = (ttnn.to_memory_config(x, place) for place in places)
    for made in (ttnn.where(x, few, many), ttnn.lerp(few, many, x)):
        assert made.memory_config() == places[1]
    assert torch.equal(ttnn.to_torch(ttnn.where(x, few, many)), ttnn.to_torch(x))
