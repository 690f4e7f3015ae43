"""Rules of layers and losses, forward and backward: on the device without the host's help, as on the CPU."""

from __future__ import annotations

import pytest

from graph_runtime.ir import ops
from graph_runtime.ir.ops import inputs as draws

torch = pytest.importorskip("torch")
pytest.importorskip("graph_runtime.torch")
from torch.nn import functional  # noqa: E402

IMAGE = (2, 4, 6, 5)
CLASSES = torch.tensor([2, 0, -100, 4])


def convolution(*shape, transposed=False, **how):
    """The name's function of an image and a kernel of this shape, whose gradients are taken, too."""
    call = getattr(functional, f"conv{'_transpose' if transposed else ''}{len(shape) - 2}d")
    kernel = torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)
    outputs = shape[1] * how.get("groups", 1) if transposed else shape[0]
    bias = torch.linspace(0, 1, outputs)
    return lambda x, k, b: call(x, k, b, **how), kernel, bias


CONVOLUTIONS = {
    "strides": convolution(3, 4, 3, 2, stride=2, padding=1),
    "rest": convolution(3, 4, 3, 3, stride=(3, 2)),
    "dilations": convolution(2, 4, 2, 2, dilation=2, stride=2),
    "groups": convolution(6, 2, 3, 3, groups=2, padding=(2, 1)),
    "depthwise": convolution(4, 1, 3, 3, groups=4, stride=2),
    "padding beyond the kernel": convolution(2, 4, 1, 1, padding=1, stride=2),
    "transposed": convolution(4, 3, 3, 3, transposed=True, stride=2, padding=1, output_padding=1),
    "transposed, groups": convolution(4, 2, 2, 3, transposed=True, groups=2, dilation=2),
    "transposed, cut": convolution(4, 2, 1, 1, transposed=True, padding=1, stride=2),
    "lines": convolution(3, 4, 3, stride=2, padding=1),
    "lines, transposed": convolution(4, 3, 3, transposed=True, stride=2),
}
LAYERS = {
    "nearest": lambda x: functional.interpolate(x, size=(4, 9)),
    "nearest, factor": lambda x: functional.interpolate(x, scale_factor=1.7),
    "nearest-exact": lambda x: functional.interpolate(x, size=(4, 9), mode="nearest-exact"),
    "bilinear": lambda x: functional.interpolate(x, size=(9, 4), mode="bilinear"),
    "corners": lambda x: functional.interpolate(x, size=(9, 1), mode="bilinear", align_corners=True),
    "bilinear, factor": lambda x: functional.interpolate(x, scale_factor=(1.5, 2), mode="bilinear"),
    "bicubic": lambda x: functional.interpolate(x, size=(9, 4), mode="bicubic"),
    "linear": lambda x: functional.interpolate(x.flatten(2), size=17, mode="linear"),
    "adaptive": lambda x: functional.adaptive_avg_pool2d(x, (4, 3)),
    "adaptive, one": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "average": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "average, ceil": lambda x: functional.avg_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True),
    "average, inside": lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "reflect": lambda x: functional.pad(x, (2, 1, 0, 3), mode="reflect"),
    "replicate": lambda x: functional.pad(x, (2, 1, 0, 3), mode="replicate"),
    "circular": lambda x: functional.pad(x, (2, 1, 0, 3), mode="circular"),
    "cut": lambda x: functional.pad(x, (-1, 2, 1, -2), value=3.0),
    "roll": lambda x: x.roll((1, -2), (0, 3)) + x.roll(5),
    "tril": lambda x: x.tril(1) + x.triu(-2),
    "cross entropy of images": lambda x: functional.cross_entropy(x, x.detach().argmax(1)),
    "batch norm": lambda x: functional.batch_norm(x, None, None, training=True),
}
ACTIVATIONS = {
    "elu": lambda x: functional.elu(x, 0.7),
    "selu": functional.selu,
    "celu": lambda x: functional.celu(x, 1.5),
    "softplus": functional.softplus,
    "steep": lambda x: functional.softplus(x, 2.0, 1.5),
    "hardshrink": functional.hardshrink,
    "softshrink": functional.softshrink,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "glu": lambda x: functional.glu(x, 1),
    "threshold": lambda x: functional.threshold(x, 0.1, 2.0),
    "softsign": functional.softsign,
    "prelu": lambda x: functional.prelu(x, x.detach()[0, :4, 0, 0]),
    "huber": lambda x: functional.huber_loss(x, x.detach().roll(1), delta=0.5),
    "smooth l1": lambda x: functional.smooth_l1_loss(x, x.detach().roll(1), reduction="none"),
    "binary cross entropy": lambda x: functional.binary_cross_entropy(x.sigmoid(), x.detach().sigmoid()),
    "group norm": lambda x: functional.group_norm(x, 2),
    "deviation": lambda x: x.std(1) + x.norm(),
    "first norm": lambda x: torch.linalg.vector_norm(x, 1, dim=(1, 3), keepdim=True) + x.norm(1),
    "mask": lambda x: (x * 1).masked_fill(x > 0, 2.0) + x.clone().index_put((x < 0,), torch.tensor(0.5)),
    "columns": lambda x: x.detach()[:, [2, 0]] * x.sum(),
}
LOSSES = {
    "mean": lambda x, c, w: functional.cross_entropy(x, c),
    "weighted": lambda x, c, w: functional.cross_entropy(x, c, w),
    "sum": lambda x, c, w: functional.cross_entropy(x, c, w, reduction="sum"),
    "each": lambda x, c, w: functional.cross_entropy(x, c, w, reduction="none").sum(),
    "one": lambda x, c, w: functional.nll_loss(x[0], c[0]),
}


def gradients_too(same, made, wanted, inputs, twins):
    same(made, wanted, 1e-4)
    made.square().sum().backward()
    wanted.square().sum().backward()
    for x, twin in zip(inputs, twins, strict=True):
        same(x.grad, twin.grad, 1e-4)


VOLUMES = {
    "convolution": lambda x: functional.conv3d(x, WEIGHT.to(x.device), stride=(1, 2, 1), padding=1, groups=2),
    "average": lambda x: functional.avg_pool3d(x, 3, 2, 1),
    "average, inside": lambda x: functional.avg_pool3d(x, (1, 3, 2), count_include_pad=False, ceil_mode=True),
    "response": lambda x: functional.local_response_norm(x, 3, 0.5),
}
WEIGHT = torch.randn(6, 2, 3, 2, 3)


@pytest.mark.parametrize("name", VOLUMES)
@pytest.mark.parametrize("compiled", [False, True])
def test_volumes(tt, same, name, compiled):
    x = torch.randn(2, 4, 5, 6, 7)
    run = torch.compile(VOLUMES[name], backend="tt") if compiled else VOLUMES[name]
    with tt.no_fallback():
        same(run(x.to("tt")), VOLUMES[name](x), 1e-4)


def test_maxima_of_volumes_are_compiled(tt, same):
    run = torch.compile(lambda x: functional.max_pool3d(x, 3, 2, 1, dilation=(1, 2, 1)), backend="tt")
    x = torch.randn(2, 4, 5, 6, 7)
    same(run(x.to("tt")), functional.max_pool3d(x, 3, 2, 1, dilation=(1, 2, 1)))
    assert not tt.stats().eager_graphs


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(tt, same, name):
    call, *given = CONVOLUTIONS[name]
    image = torch.randn(IMAGE if given[0].dim() == 4 else (2, 4, 9))
    twins = [x.clone().requires_grad_() for x in (image, *given)]
    inputs = [x.detach().to("tt").requires_grad_() for x in twins]
    with tt.no_fallback():
        gradients_too(same, call(*inputs), call(*twins), inputs, twins)


@pytest.mark.parametrize("name", [*LAYERS, *ACTIVATIONS])
def test_layers(tt, same, name):
    layer = {**LAYERS, **ACTIVATIONS}[name]
    twin = torch.randn(IMAGE, requires_grad=True)
    x = twin.detach().to("tt").requires_grad_()
    with tt.no_fallback():
        gradients_too(same, layer(x), layer(twin), [x], [twin])


def test_the_greatest_and_where_it_is(tt, same):
    x = torch.randn(IMAGE)
    with tt.no_fallback():
        for made, wanted in zip(
            (*x.to("tt").max(1), *x.to("tt").min(-1, keepdim=True)),
            (*x.max(1), *x.min(-1, keepdim=True)),
            strict=True,
        ):
            same(made, wanted)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_classes(tt, same, name):
    scores = torch.randn(4, 5)
    scores[:, 3] = -float("inf")  # a class that is masked: no row has it
    twin, weight = scores.requires_grad_(), torch.rand(5)
    x = scores.detach().to("tt").requires_grad_()
    with tt.no_fallback():
        made, wanted = LOSSES[name](x, CLASSES.to("tt"), weight.to("tt")), LOSSES[name](twin, CLASSES, weight)
        gradients_too(same, made, wanted, [x], [twin])


def test_rows_of_padding_learn_nothing(tt, same):
    twin = torch.randn(6, 3, requires_grad=True)
    x, at = twin.detach().to("tt").requires_grad_(), torch.tensor([[1, 0, 5], [0, 1, 1]])
    with tt.no_fallback():
        made = functional.embedding(at.to("tt"), x, padding_idx=0)
        gradients_too(same, made, functional.embedding(at, twin, padding_idx=0), [x], [twin])


def picked(x, at, other):
    made = x[at, :, other] + x[:, at, other].sum() + x[..., at].sum()
    return made.index_put((at,), x[0, 0, 0, 0]).sum() + x.gather(1, at[None, :, None, None].abs()).sum()


def put(x, at, other):
    made = x.clone()
    made[at, other] = 2.0
    made[:, at, :, other] += 1.5
    made.index_put_((at,), x[other] * 3, accumulate=True)
    best = x.topk(2, 1)
    ordered = x.sort(-1, descending=True).values
    column = at[None, :, None, None].abs()
    return made + best.values.sum() * ordered + x.scatter(1, column, 0.5).scatter_add(1, column, x[:1])


@pytest.mark.parametrize("function", [picked, put])
def test_graphs_that_pick_and_put_by_indices(tt, same, function):
    torch._dynamo.reset()
    x, at, other = torch.randn(3, 4, 3, 3), torch.tensor([1, 0]), torch.tensor([2, -1])
    run = torch.compile(function, backend="tt")
    same(run(x.to("tt"), at.to("tt"), other.to("tt")), function(x, at, other), 1e-4)
    assert not tt.stats().eager_graphs


NAMED = [(op, name) for op in ops.all_ops().values() for name in op.torch if op.kind == "elementwise"]
INTEGERS = torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4)


@pytest.mark.parametrize(("op", "name"), NAMED, ids=lambda x: x if isinstance(x, str) else "")
def test_an_operation_that_the_op_table_names_is_that_op(tt, same, op, name):
    aten, bools = getattr(torch.ops.aten, name), {*op.bodies["cpu"].dtypes} == {"bool"}
    case = next(c for c in op.cases if c.inputs[0][1] and 0 not in c.inputs[0][1] and not c.attrs)
    inputs = [torch.from_numpy(array) for array in draws.draw(case)]
    with tt.no_fallback():
        same(aten(*(x.to("tt") for x in inputs)), aten(*inputs), 2e-6)
    if op.promotes or bools:  # integers and floats are what torch makes of them
        given = [INTEGERS.abs() % 2 if bools else INTEGERS] * op.arity[0]
        try:
            wanted = aten(*given)
        except RuntimeError:  # torch has it of floats, or bools, alone
            return
        with tt.no_fallback():
            same(aten(*(x.to("tt") for x in given)), wanted, 2e-6)


OF_FLOATS = {
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "ldexp": torch.ldexp,
    "mean of squares": functional.mse_loss,
    "squares": lambda a, b: functional.mse_loss(a, b, reduction="none"),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3) + a.lerp(b, 1.25),
    "lerp of tensors": lambda a, b: torch.lerp(a, b, a.detach()[0]),
    "addcmul": lambda a, b: torch.addcmul(a, a.sin(), b, value=-0.5) + a.addcmul(b, b),
    "addcdiv": lambda a, b: torch.addcdiv(a, b, a * a + 1, value=-0.5) + b.addcdiv(a, b * b + 1),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", OF_FLOATS)
def test_functions_of_two_and_three_floats(tt, same, name, compiled):
    torch._dynamo.reset()
    call = OF_FLOATS[name]
    run = torch.compile(call, backend="tt") if compiled else call
    twins = [torch.randn(5, 7, requires_grad=True) for _ in range(2)]
    inputs = [x.detach().to("tt").requires_grad_() for x in twins]
    with tt.no_fallback():
        gradients_too(same, run(*inputs), call(*twins), inputs, twins)


def test_functions_of_floats_of_two_dtypes_and_of_integers(tt, same):
    a, b, n = torch.randn(3, 4), torch.randn(4).bfloat16(), torch.arange(12, dtype=torch.int32).view(3, 4)
    x, y, m = (t.to("tt") for t in (a, b, n))
    with tt.no_fallback():
        same(torch.addcmul(x, y, x), torch.addcmul(a, b, a))
        same(torch.addcdiv(y, y, y), torch.addcdiv(b, b, b), 1e-2)
        same(torch.hypot(x, y), torch.hypot(a, b))
        same(torch.lerp(y, y * 2, 0.25), torch.lerp(b, b * 2, 0.25), 1e-2)
        same(torch.addcmul(m, m, m, value=2), torch.addcmul(n, n, n, value=2))
        same(torch.ldexp(x, m), torch.ldexp(a, n))
        same(torch.ldexp(m, y), torch.ldexp(n, b), 1e-2)


def test_an_infinite_end_of_lerp_is_torchs(tt, same):
    ends = torch.tensor([float("inf"), -float("inf"), 0.0, 1.0])
    a, b, w = torch.meshgrid(
        ends, ends, torch.tensor([0.0, 0.25, 0.5, 1.0, -1.0, float("inf")]), indexing="ij"
    )
    a, b, w = (t.contiguous() for t in (a, b, w))
    with tt.no_fallback():
        same(torch.lerp(a.to("tt"), b.to("tt"), w.to("tt")), torch.lerp(a, b, w))
