"""nextafter and the product of operands in width shards against torch."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

from .helpers import close, drawn, got, put

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("dtype", "kind"), [(ttnn.bfloat16, torch.bfloat16), (ttnn.float32, torch.float32)])
def test_the_number_after_another(device, dtype, kind):
    a = torch.tensor([1.0, 1.0, -1.0, -1.0, 2.0, 255.0, -0.5, 3.0, torch.nan, 1.0]).to(kind)
    b = torch.tensor([2.0, 0.0, 2.0, -2.0, 2.0, 300.0, 0.0, torch.inf, 1.0, torch.nan]).to(kind)
    made = ttnn.to_torch(ttnn.nextafter(put(device, a[None], dtype), put(device, b[None], dtype)))
    assert torch.equal(made[0].nan_to_num(7), torch.nextafter(a, b).nan_to_num(7))
    x, y = drawn(32, 64).to(kind), drawn(32, 1).to(kind)
    made = ttnn.nextafter(put(device, x, dtype), put(device, y, dtype))
    assert torch.equal(ttnn.to_torch(made), torch.nextafter(x, y.expand(32, 64)))


def test_numbers_that_have_none_after_them_are_refused(device):
    x, y = put(device, drawn(32, 32)), put(device, drawn(32, 32), ttnn.bfloat16)
    with pytest.raises(RuntimeError, match="Mixed dtype is not supported"):
        ttnn.nextafter(x, y)
    whole = put(device, torch.ones(32, 32, dtype=torch.int32), ttnn.int32)
    with pytest.raises(RuntimeError, match="INT32 is not supported"):
        ttnn.nextafter(whole, whole)


def test_a_product_of_operands_in_width_shards(device):
    def shards(x, count):
        return ttnn.create_sharded_memory_config(
            list(x.shape),
            ttnn.CoreGrid(y=1, x=count),
            ttnn.ShardStrategy.WIDTH,
            ttnn.ShardOrientation.ROW_MAJOR,
        )

    a, b = drawn(32, 128), drawn(128, 256)
    first, second = put(device, a, memory_config=shards(a, 4)), put(device, b, memory_config=shards(b, 8))
    made = ttnn.experimental.matmul_decode(first, second)
    close(got(made), a @ b, 2**-8)
    assert list(made.memory_config().shard_spec.shape) == [32, 32]
    with pytest.raises(RuntimeError, match="WIDTH_SHARDED"):
        ttnn.experimental.matmul_decode(put(device, a), second)
