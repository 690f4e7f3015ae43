"""Golden functions: torch's result for the same arguments, for comparison; no operation computes by them.

The values of _ROWS are functions. In their signatures ``t`` is torch, ``f`` torch.nn.functional, ``a`` ``b``
``c`` are the operands in order, ``k`` are keyword arguments without effect. torch is imported by the first
call.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ..errors import Unsupported
from .gradients import backward_of
from .images import IMAGES

__all__ = [
    "attach_golden_function",
    "get_golden_function",
    "get_golden_function_for_activation",
]

Golden = Callable[..., Any]

# operations whose torch function has the same name and the same arguments
_SAME = (
    "abs add addcdiv addcmul addmm argmax asinh atan atan2 bitwise_and bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor ceil chunk clamp clip clone concat cos cosh cumprod cumsum "
    "deg2rad digamma eq erf erfc erfinv exp exp2 expm1 floor frac full_like gather gcd ge gt hypot i0 "
    "isclose isfinite isinf isnan isneginf isposinf lcm ldexp le lerp lgamma log log10 log1p log2 logaddexp "
    "logaddexp2 logical_and logical_not logical_or logical_xor logit lt matmul maximum mean minimum multiply "
    "ne neg nextafter ones_like outer permute pow prod rad2deg reciprocal relu repeat_interleave roll round "
    "rsqrt sigmoid sign signbit sin sinh split sqrt square squeeze stack std subtract sum tan tanh threshold "
    "topk tril triu trunc unsqueeze var xlogy zeros_like"
)
# operations whose function in torch.nn.functional has the same name and the same arguments
_FUNCTIONAL = (
    "celu elu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu relu6 silu softplus softshrink "
    "softsign tanhshrink"
)
# operation -> the torch function with the same arguments
_TORCH = {
    **{name: name for name in _SAME.split()},
    **{name: f"nn.functional.{name}" for name in _FUNCTIONAL.split()},
    "fill": "full_like",
    "floor_div": "floor_divide",
    "i1": "special.i1",
    "identity": "clone",
    "log_sigmoid": "nn.functional.logsigmoid",
    "logical_left_shift": "bitwise_left_shift",
    "mul": "multiply",
    "sigmoid_accurate": "sigmoid",
    "sub": "subtract",
    "swish": "nn.functional.silu",
}


def _against_zero(op: str) -> Golden:
    return lambda t, f, a, **k: getattr(t, op)(a, 0)


def _hardmish(t: Any, f: Any, a: Any, **_: Any) -> Any:
    """hardmish; a bfloat16 result is truncated, not rounded, as silicon stores it."""
    wide = a.float()
    made = wide * t.clamp(wide * 0.5 + 1, 0, 1)
    if a.dtype != t.bfloat16:
        return made
    return t.bitwise_right_shift(made.view(t.int32), 16).to(t.int16).view(t.bfloat16)


def _domain(t: Any, made: Any, outside: Any) -> Any:
    """``made``, with infinity wherever ``outside`` holds if the dtype is bfloat16, because silicon's packer
    turns NaN into infinity."""
    return made.masked_fill(outside, float("inf")) if made.dtype == t.bfloat16 else made


def _polyval(t: Any, f: Any, a: Any, coeffs: Any, **_: Any) -> Any:
    made = 0.0
    for coefficient in coeffs:
        made = made * a + coefficient
    return made


def _gate(activation: str) -> Golden:
    def golden(t: Any, f: Any, a: Any, dim: int = -1, **_: Any) -> Any:
        first, second = t.split(a, a.shape[dim] // 2, dim)
        return first * getattr(f, activation)(second)

    return golden


def _xielu(t: Any, f: Any, a: Any, alpha_p: float = 0.8, alpha_n: float = 0.8, **_: Any) -> Any:
    x = a.float()
    low = alpha_n * (t.expm1(t.clamp(x, max=-1e-6)) - x) + x / 2
    return t.where(x > 0, alpha_p * x * x + x / 2, low).to(a.dtype)


def _remainder(op: str) -> Golden:
    def golden(t: Any, f: Any, a: Any, b: Any, **_: Any) -> Any:
        narrow = a.dtype == t.bfloat16
        made = getattr(t, op)(a.float() if narrow and not t.is_tensor(b) else a, b)
        return made.bfloat16() if narrow else made

    return golden


def _softmax(t: Any, x: Any, mask: Any) -> Any:
    return t.softmax(x if mask is None else x + mask, -1)


def _linear(
    t: Any,
    f: Any,
    a: Any,
    b: Any,
    bias: Any = None,
    activation: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    **_: Any,
) -> Any:
    a, b = (x.transpose(-1, -2) if turn else x for x, turn in ((a, transpose_a), (b, transpose_b)))
    made = t.matmul(a, b)
    if bias is not None:
        made = made + (bias[0] if bias.dim() > 1 and bias.shape[0] == 1 and bias.dim() > made.dim() else bias)
    if activation is None:
        return made
    return getattr(f, str(activation))(made)


def _flat(x: Any) -> Any:
    return None if x is None else x.reshape(-1)


def _norm(of_rms: bool) -> Golden:
    def golden(
        t: Any,
        f: Any,
        a: Any,
        weight: Any = None,
        bias: Any = None,
        residual_input_tensor: Any = None,
        epsilon: float = 1e-12,
        **_: Any,
    ) -> Any:
        x = a if residual_input_tensor is None else a + residual_input_tensor
        weights, biases = _flat(weight), _flat(bias)
        if not of_rms:
            return f.layer_norm(x, a.shape[-1:], weights, biases, epsilon)
        made = x * t.rsqrt(x.float().square().mean(-1, keepdim=True) + epsilon)
        if weight is not None and weight.dtype in (t.float16, t.bfloat16):
            made = made.to(weight.dtype)
        made = made if weight is None else made * weights
        return made if bias is None else made + biases

    return golden


def _split_heads(
    t: Any,
    f: Any,
    a: Any,
    kv_input_tensor: Any = None,
    num_heads: int = 1,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    **_: Any,
) -> Any:
    groups = num_kv_heads or num_heads
    x = a if kv_input_tensor is None else t.cat([a, kv_input_tensor], -1)
    batch, length, width = x.shape
    size = width // (num_heads + 2 * groups)
    parts = t.split(x, [num_heads * size, groups * size, groups * size], -1)
    q, k, v = (p.reshape(batch, length, -1, size).transpose(1, 2) for p in parts)
    return q, k.transpose(-1, -2) if transpose_key else k, v


def _reduction(kind: Any) -> str:
    return str(getattr(kind, "name", kind or "none")).lower()


_MOVES = (
    "typecast to_memory_config interleaved_to_sharded sharded_to_interleaved reshard reallocate tilize "
    "to_layout to_dtype"
)
_ROWS: dict[str, Golden] = {
    **{f"{op}z": _against_zero(op) for op in ("eq", "ne", "gt", "ge", "lt", "le")},
    **dict.fromkeys(_MOVES.split(), lambda t, f, a, *_, **k: a),
    **dict.fromkeys(
        ("div", "divide"),
        lambda t, f, a, b, rounding_mode=None, *_, **k: t.div(a, b, rounding_mode=rounding_mode),
    ),
    **dict.fromkeys(("softmax", "softmax_in_place"), lambda t, f, a, dim=-1, **k: t.softmax(a, dim)),
    **dict.fromkeys(
        ("scale_mask_softmax", "scale_mask_softmax_in_place"),
        lambda t, f, a, scale=None, mask=None, **k: _softmax(t, a if scale is None else a * scale, mask),
    ),
    **dict.fromkeys(
        ("expand", "experimental.broadcast_to"), lambda t, f, a, shape, **k: a.expand(tuple(shape))
    ),
    "cbrt": lambda t, f, a, **k: t.sgn(a) * t.abs(a) ** (1 / 3),
    "gelu": lambda t, f, a, *_, **k: f.gelu(a),
    "mish": lambda t, f, a, **k: f.mish(a.float()),
    "hardmish": _hardmish,
    "multigammaln": lambda t, f, a, **k: t.special.multigammaln(a, 4),
    "selu": lambda t, f, a, *_, **k: f.selu(a),
    "relu_max": lambda t, f, a, upper_limit, **k: t.relu(t.clamp(a, max=upper_limit)),
    "relu_min": lambda t, f, a, lower_limit, **k: t.clamp(a, min=lower_limit),
    "heaviside": lambda t, f, a, value, **k: t.heaviside(a, t.tensor(value, dtype=a.dtype)),
    "polygamma": lambda t, f, a, k, **_: t.special.polygamma(k, a),
    "rpow": lambda t, f, a, exponent, **k: t.pow(exponent, a),
    "rdiv": lambda t, f, a, value, rounding_mode=None, *_, **k: t.div(
        t.full_like(a, value), a, rounding_mode=rounding_mode
    ),
    "polyval": _polyval,
    "prelu": lambda t, f, a, weight, **k: f.prelu(a, t.as_tensor(weight, dtype=a.dtype).reshape(-1)),
    "reglu": _gate("relu"),
    "geglu": _gate("gelu"),
    "swiglu": _gate("silu"),
    "xielu": _xielu,
    "acos": lambda t, f, a, **k: _domain(t, t.acos(a), (a < -1) | (a > 1)),
    "asin": lambda t, f, a, **k: _domain(t, t.asin(a), (a < -1) | (a > 1)),
    "acosh": lambda t, f, a, **k: _domain(t, t.acosh(a), a < 1),
    "atanh": lambda t, f, a, **k: _domain(t, t.atanh(a), (a <= -1) | (a >= 1)),
    "rsub": lambda t, f, a, b, **k: b - a,
    "squared_difference": lambda t, f, a, b, **k: t.square(a - b),
    "bias_gelu": lambda t, f, a, b, **k: f.gelu(a + b),
    "addalpha": lambda t, f, a, b, alpha=1, **k: t.add(a, b, alpha=alpha),
    "subalpha": lambda t, f, a, b, alpha=1, **k: t.sub(a, b, alpha=alpha),
    "div_no_nan": lambda t, f, a, b, **k: t.where(t.as_tensor(b) == 0, 0, a / b),
    "remainder": _remainder("remainder"),
    "fmod": _remainder("fmod"),
    "logical_right_shift": lambda t, f, a, b, **k: t.bitwise_right_shift(a.long() & 0xFFFFFFFF, b).to(
        a.dtype
    ),
    "logical_and_": lambda t, f, a, b, **k: a.logical_and_(b),
    "logical_or_": lambda t, f, a, b, **k: a.logical_or_(b),
    "logical_xor_": lambda t, f, a, b, **k: a.logical_xor_(b),
    "mac": lambda t, f, a, b, c, **k: a * b + c,
    "where": lambda t, f, a, b, c, **k: t.where(a.bool(), b, c),
    "max": lambda t, f, a, dim=None, keepdim=False, **k: t.max(a) if dim is None else t.max(a, dim, keepdim),
    "min": lambda t, f, a, dim=None, keepdim=False, **k: t.min(a) if dim is None else t.min(a, dim, keepdim),
    "linear": _linear,
    "layer_norm": _norm(of_rms=False),
    "rms_norm": _norm(of_rms=True),
    "transpose": lambda t, f, a, dim1, dim2, **k: a.transpose(dim1, dim2),
    "reshape": lambda t, f, a, shape, **k: a.reshape(tuple(shape)),
    "repeat": lambda t, f, a, times, **k: a.repeat(tuple(times)),
    "slice": lambda t, f, a, starts, ends, steps=None, **k: a[
        tuple(slice(*one) for one in zip(starts, ends, steps or (1,) * a.dim(), strict=True))
    ],
    "pad": lambda t, f, a, padding, value=0, **k: f.pad(
        a, [n for pair in reversed(list(padding)) for n in pair], value=value
    ),
    "embedding": lambda t, f, a, weight, **k: f.embedding(a.long(), weight.reshape(weight.shape[-2:])),
    "zeros": lambda t, f, shape, *_, **k: t.zeros(tuple(shape)),
    "ones": lambda t, f, shape, *_, **k: t.ones(tuple(shape)),
    "full": lambda t, f, shape, value, *_, **k: t.full(tuple(shape), value),
    "arange": lambda t, f, *bounds, start=None, end=None, step=1, **k: (
        t.arange(*bounds) if bounds else t.arange(start or 0, end, step)
    ),
    "transformer.split_query_key_value_and_split_heads": _split_heads,
    "transformer.concatenate_heads": lambda t, f, a, **k: a.permute(0, 2, 1, 3).flatten(2),
    "transformer.attention_softmax": lambda t, f, a, head_size=None, attention_mask=None, **k: _softmax(
        t, a if head_size is None else a / head_size**0.5, attention_mask
    ),
    "transformer.scaled_dot_product_attention": lambda t, f, a, b, c, attn_mask=None, is_causal=True, **k: (
        f.scaled_dot_product_attention(a, b, c, attn_mask, is_causal=is_causal, scale=k.get("scale"))
    ),
    "mse_loss": lambda t, f, a, b, reduction=None, **k: f.mse_loss(a, b, reduction=_reduction(reduction)),
    "l1_loss": lambda t, f, a, b, reduction=None, **k: f.l1_loss(a, b, reduction=_reduction(reduction)),
}
# keywords of ttnn that torch's functions do not know, because they place a result or choose an algorithm
_IGNORED = frozenset(
    "memory_config output_tensor optional_output_tensor optional_tensor output out output_dtype output_tile "
    "input_grad input_grad_tensor dtype device layout fast_and_approximate_mode sub_core_grids activations "
    "input_tensor_a_activations input_tensor_b_activations use_legacy compute_kernel_config queue_id "
    "program_config core_grid vector_mode mode approx approximate pad_value use_multicore use_low_perf "
    "use_2d_core_grid skip_compute_kernel_config sub_device_id mesh_mapper mesh_composer use_welford "
    "enable_secondary_dm disable_compensated_sum use_falcon7b_backend skip_padding_fill "
    "recip_tensor recreate_mapping_tensor reshape_tile_mode reallocate_halo_output keep_l1_aligned "
    "sparse_grad blocking".split()
)


def _bound(row: Golden) -> Golden:
    def golden(*args: Any, **kwargs: Any) -> Any:
        import torch

        kwargs.pop("device", None)
        return row(torch, torch.nn.functional, *args, **kwargs)

    return golden


def _same(path: str) -> Golden:
    def golden(*args: Any, **kwargs: Any) -> Any:
        import torch

        said = {key: value for key, value in kwargs.items() if key not in _IGNORED}
        return attrgetter(path)(torch)(*args, **said)

    return golden


def _convolution(*args: Any, conv_config: Any = None, **given: Any) -> Any:
    """conv2d with the activation of its configuration."""
    activation = getattr(conv_config, "activation", None)
    last = None if activation is None else get_golden_function_for_activation(activation)
    return _bound(IMAGES["conv2d"])(*args, activation=last, **given)


def golden_of(name: str) -> Golden | None:
    """The golden function of an operation, None if the operation has none. An in-place operation, such as
    add_, has the golden function of the operation without the underscore."""
    if name.endswith("_bw"):
        base = name.rpartition(".")[2].removesuffix("_bw")
        return backward_of(base, golden_of(base))
    if name == "conv2d":
        return _convolution
    for known in (name, name.removesuffix("_")):
        row = _ROWS.get(known) or IMAGES.get(known)
        if row is not None:
            return _bound(row)
        if known in _TORCH:
            return _same(_TORCH[known])
    return None


def get_golden_function(operation: Any) -> Golden:
    """The golden function of an operation. Raises RuntimeError if it has none, Unsupported if it is
    declined."""
    found = operation.golden_function
    if found is None and operation.reason:
        name = operation.python_fully_qualified_name
        raise Unsupported(f"{name} is not supported: {operation.reason}", op=name)
    if found is None:
        raise RuntimeError(f"{operation} does not have a golden function")
    return found


def attach_golden_function(operation: Any, golden_function: Golden, **hooks: Any) -> None:
    """Set the golden function of an operation."""
    operation.golden_function = golden_function
    for name, hook in hooks.items():
        setattr(operation, name, hook)


def get_golden_function_for_activation(activation: Any) -> Golden:
    """The golden function of an activation: a name, a UnaryOpType or a UnaryWithParam. Raises RuntimeError if
    it has no golden function."""
    kind = getattr(activation, "op_type", activation)
    name = str(getattr(kind, "name", kind)).lower().removesuffix("_approx")
    found = golden_of(name)
    if found is None:
        raise RuntimeError(f"{name} is not supported as activation function")
    params = getattr(activation, "params", ())
    return lambda x, *_: found(x, *params)
