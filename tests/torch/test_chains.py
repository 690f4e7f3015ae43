"""Random chains of operations, views and writes through views, on the device as on the CPU. What aliases what
is torch's business on the CPU, so it shows when ours forgets a write."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

VIEWS = {
    "t": lambda x: x.t() if x.dim() < 3 else x.transpose(0, -1),
    "flip dims": lambda x: x.permute(*reversed(range(x.dim()))),
    "rest": lambda x: x[1:] if x.dim() and x.shape[0] > 1 else x,
    "every other": lambda x: x[..., ::2] if x.dim() else x,
    "first": lambda x: x[0] if x.dim() > 1 else x,
    "last column": lambda x: x[..., -1:] if x.dim() else x,
    "flat": lambda x: x.reshape(-1),
    "unsqueezed": lambda x: x.unsqueeze(0) if x.dim() < 4 else x,
    "expanded": lambda x: x.unsqueeze(0).expand(2, *x.shape) if x.dim() < 4 else x,
    "half": lambda x: x.chunk(2, -1)[-1] if x.dim() else x,
    "diagonal": lambda x: x.diagonal() if x.dim() == 2 else x,
    "windows": lambda x: x.unfold(0, 2, 1) if x.dim() in (1, 2) and x.shape[0] > 1 else x,
    "itself": lambda x: x,
    "detached": lambda x: x.detach(),
}
PURE = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - 2 * y,
    "mul": lambda x, y: x * y,
    "own": lambda x, y: x * x,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: x.relu(),
    "tanh": lambda x, y: x.float().tanh().to(x.dtype),
    "clamp": lambda x, y: x.clamp(-2, 3),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "sum": lambda x, y: x.sum(-1, keepdim=True).to(x.dtype) if x.dim() else x,
    "max": lambda x, y: torch.maximum(x, y),
    "amax": lambda x, y: x.amax(0) if x.dim() else x,
    "copy": lambda x, y: x.clone(),
    "contiguous": lambda x, y: x.contiguous(),
    "cat": lambda x, y: torch.cat([x, x], 0) if x.dim() else x,
    "cast": lambda x, y: x.int().to(x.dtype),
    "compare": lambda x, y: (x > y).to(x.dtype),
    "roll": lambda x, y: x.roll(1, 0) if x.dim() else x,
    "tril": lambda x, y: x.tril() if x.dim() >= 2 else x,
    "gather": lambda x, y: x[[0, -1]] if x.dim() else x,
}
WRITES = {
    "add_": lambda x, y: x.add_(1),
    "mul_": lambda x, y: x.mul_(-2),
    "copy_": lambda x, y: x.copy_(y),
    "zero_": lambda x, y: x.zero_(),
    "fill_": lambda x, y: x.fill_(3),
    "sub_": lambda x, y: x.sub_(y),
    "clamp_": lambda x, y: x.clamp_(-4, 4),
    "masked_fill_": lambda x, y: x.masked_fill_(x > 1, -1),
    "relu_": lambda x, y: x.relu_(),
    "setitem": lambda x, y: x.__setitem__((..., slice(0, 1)), 2),
    "neg_": lambda x, y: x.neg_(),
}
STEP = st.tuples(
    st.sampled_from([*VIEWS, *VIEWS, *PURE, *WRITES, *WRITES]), st.integers(0, 5), st.integers(0, 5)
)
CHAIN = st.lists(STEP, min_size=2, max_size=9)
START = st.tuples(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from([torch.float32, torch.float32, torch.int32, torch.int64, torch.bfloat16]),
)
FEW = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def values(shape, dtype):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7 % 11) - 5).reshape(shape).to(dtype)


def run(start, chain):
    """All tensors that a chain makes. Each step works on one of the last six, the second operand is seen in
    its shape; what torch refuses (a write into repeated elements) is left out."""
    made = [start]
    for name, at, other in chain:
        x, y = made[-1 - at % len(made)], made[-1 - other % len(made)]
        if name in VIEWS:
            made.append(VIEWS[name](x))
            continue
        y = y.sum().to(x.dtype) if y.shape != x.shape else y
        if name in PURE:
            made.append(PURE[name](x, y))
        elif not overlapping(x) and not (y is not x and overlaps(x, y)):
            WRITES[name](x, y)
    return made


def overlapping(x):
    return (
        any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))
        or len(
            set(
                torch.arange(x.untyped_storage().nbytes() // x.element_size())
                .as_strided(x.shape, x.stride(), x.storage_offset())
                .flatten()
                .tolist()
            )
        )
        < x.numel()
    )


def overlaps(x, y):
    return x.dim() > 0 and y.dim() > 0 and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


@given(START, CHAIN)
@FEW
def test_chains_of_eager_operations(start, chain):
    x = values(*start)
    for made, wanted in zip(run(x.to("tt"), chain), run(x, chain), strict=True):
        torch.testing.assert_close(
            made.cpu(), wanted, rtol=2e-2 if x.dtype == torch.bfloat16 else 1e-4, atol=1e-4
        )
