"""Golden functions: what torch makes of the same arguments, for comparison; no operation computes by them.

A row is an expression in which ``t`` is torch, ``f`` torch.nn.functional, ``a`` ``b`` ``c`` the tensors or
numbers in order, ``k`` the keyword arguments. torch is imported by the first call.
"""

from __future__ import annotations

from collections.abc import Callable
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

# names whose torch function has the same name and the same arguments
_SAME = (
    "abs add asinh atan atan2 bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
    "bitwise_xor ceil cos cosh deg2rad digamma eq erf erfc erfinv exp exp2 expm1 floor frac gcd ge gt hypot "
    "i0 isfinite isinf isnan isneginf isposinf lcm ldexp le lgamma log log10 log1p log2 logaddexp "
    "logaddexp2 logical_and logical_not logical_or logical_xor logit lt maximum minimum multiply ne neg "
    "nextafter pow rad2deg reciprocal relu round rsqrt sigmoid sign signbit sin sinh sqrt square subtract "
    "tan tanh trunc xlogy isclose lerp outer permute tril triu squeeze concat stack split chunk roll argmax "
    "cumsum cumprod gather matmul topk sum mean prod std var repeat_interleave"
).split()

_ROWS: dict[str, Golden] = {
    "cbrt": lambda t, f, a, **k: t.sgn(a) * t.abs(a) ** (1 / 3),
    "i1": lambda t, f, a, **k: t.special.i1(a),
    "eqz": lambda t, f, a, **k: a == 0,
    "nez": lambda t, f, a, **k: a != 0,
    "gtz": lambda t, f, a, **k: a > 0,
    "gez": lambda t, f, a, **k: a >= 0,
    "ltz": lambda t, f, a, **k: a < 0,
    "lez": lambda t, f, a, **k: a <= 0,
    "identity": lambda t, f, a, **k: a.clone(),
    "relu6": lambda t, f, a, **k: f.relu6(a),
    "silu": lambda t, f, a, **k: f.silu(a),
    "swish": lambda t, f, a, **k: f.silu(a),
    "gelu": lambda t, f, a, *_, **k: f.gelu(a),
    "mish": lambda t, f, a, **k: f.mish(a.float()),
    "hardmish": lambda t, f, a, **k: _hardmish(t, a),
    "hardswish": lambda t, f, a, **k: f.hardswish(a),
    "hardsigmoid": lambda t, f, a, **k: f.hardsigmoid(a),
    "softplus": lambda t, f, a, beta=1.0, threshold=20.0, **k: f.softplus(a, beta, threshold),
    "softsign": lambda t, f, a, **k: f.softsign(a),
    "sigmoid_accurate": lambda t, f, a, **k: t.sigmoid(a),
    "log_sigmoid": lambda t, f, a, **k: f.logsigmoid(a),
    "tanhshrink": lambda t, f, a, **k: f.tanhshrink(a),
    "multigammaln": lambda t, f, a, **k: t.special.multigammaln(a, 4),
    "elu": lambda t, f, a, alpha=1.0, **k: f.elu(a, alpha),
    "celu": lambda t, f, a, alpha=1.0, **k: f.celu(a, alpha),
    "selu": lambda t, f, a, *_, **k: f.selu(a),
    "leaky_relu": lambda t, f, a, negative_slope=0.01, **k: f.leaky_relu(a, negative_slope),
    "hardtanh": lambda t, f, a, min_val=-1.0, max_val=1.0, **k: f.hardtanh(a, min_val, max_val),
    "hardshrink": lambda t, f, a, lambd=0.5, **k: f.hardshrink(a, lambd),
    "softshrink": lambda t, f, a, lambd=0.5, **k: f.softshrink(a, lambd),
    "relu_max": lambda t, f, a, upper_limit, **k: t.relu(t.clamp(a, max=upper_limit)),
    "relu_min": lambda t, f, a, lower_limit, **k: t.clamp(a, min=lower_limit),
    "heaviside": lambda t, f, a, value, **k: t.heaviside(a, t.tensor(value, dtype=a.dtype)),
    "threshold": lambda t, f, a, threshold, value, **k: t.threshold(a, threshold, value),
    "fill": lambda t, f, a, fill_value, **k: t.full_like(a, fill_value),
    "clamp": lambda t, f, a, min=None, max=None, **k: t.clamp(a, min, max),
    "clip": lambda t, f, a, min=None, max=None, **k: t.clamp(a, min, max),
    "polygamma": lambda t, f, a, k, **_: t.special.polygamma(k, a),
    "rpow": lambda t, f, a, exponent, **k: t.pow(exponent, a),
    "rdiv": lambda t, f, a, value, rounding_mode=None, *_, **k: t.div(
        t.full_like(a, value), a, rounding_mode=rounding_mode
    ),
    "polyval": lambda t, f, a, coeffs, **k: _polyval(a, coeffs),
    "prelu": lambda t, f, a, weight, **k: _prelu(t, f, a, weight),
    "glu": lambda t, f, a, dim=-1, **k: f.glu(a, dim),
    "reglu": lambda t, f, a, dim=-1, **k: _gate(t, f.relu, a, dim),
    "geglu": lambda t, f, a, dim=-1, **k: _gate(t, f.gelu, a, dim),
    "swiglu": lambda t, f, a, dim=-1, **k: _gate(t, f.silu, a, dim),
    "xielu": lambda t, f, a, alpha_p=0.8, alpha_n=0.8, **k: _xielu(t, a, alpha_p, alpha_n),
    "div": lambda t, f, a, b, rounding_mode=None, *_, **k: t.div(a, b, rounding_mode=rounding_mode),
    "divide": lambda t, f, a, b, rounding_mode=None, *_, **k: t.div(a, b, rounding_mode=rounding_mode),
    "logical_and_": lambda t, f, a, b, **k: a.logical_and_(b),
    "logical_or_": lambda t, f, a, b, **k: a.logical_or_(b),
    "logical_xor_": lambda t, f, a, b, **k: a.logical_xor_(b),
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
    "floor_div": lambda t, f, a, b, **k: t.floor_divide(a, b),
    "remainder": lambda t, f, a, b, **k: _left(t, t.remainder, a, b),
    "fmod": lambda t, f, a, b, **k: _left(t, t.fmod, a, b),
    "logical_left_shift": lambda t, f, a, b, **k: t.bitwise_left_shift(a, b),
    "logical_right_shift": lambda t, f, a, b, **k: t.bitwise_right_shift(a.long() & 0xFFFFFFFF, b).to(
        a.dtype
    ),
    "addcmul": lambda t, f, a, b, c, value=1, **k: t.addcmul(a, b, c, value=value),
    "addcdiv": lambda t, f, a, b, c, value=1, **k: t.addcdiv(a, b, c, value=value),
    "mac": lambda t, f, a, b, c, **k: a * b + c,
    "where": lambda t, f, a, b, c, **k: t.where(a.bool(), b, c),
    "max": lambda t, f, a, dim=None, keepdim=False, **k: t.max(a) if dim is None else t.max(a, dim, keepdim),
    "min": lambda t, f, a, dim=None, keepdim=False, **k: t.min(a) if dim is None else t.min(a, dim, keepdim),
    "linear": lambda t, f, a, b, bias=None, activation=None, transpose_a=False, transpose_b=False, **k: (
        _linear(t, f, a, b, bias, activation, transpose_a, transpose_b)
    ),
    "addmm": lambda t, f, a, b, c, alpha=1.0, beta=1.0, **k: t.addmm(a, b, c, alpha=alpha, beta=beta),
    "softmax": lambda t, f, a, dim=-1, **k: t.softmax(a, dim),
    "softmax_in_place": lambda t, f, a, dim=-1, **k: t.softmax(a, dim),
    "scale_mask_softmax": lambda t, f, a, scale=None, mask=None, **k: _scaled(t, a, scale, mask),
    "scale_mask_softmax_in_place": lambda t, f, a, scale=None, mask=None, **k: _scaled(t, a, scale, mask),
    "full_like": lambda t, f, a, fill_value, **k: t.full_like(a, fill_value),
    "ones_like": lambda t, f, a, **k: t.ones_like(a),
    "zeros_like": lambda t, f, a, **k: t.zeros_like(a),
    "layer_norm": lambda t, f, a, weight=None, bias=None, residual_input_tensor=None, epsilon=1e-12, **k: (
        f.layer_norm(
            a if residual_input_tensor is None else a + residual_input_tensor,
            a.shape[-1:],
            _flat(weight),
            _flat(bias),
            epsilon,
        )
    ),
    "rms_norm": lambda t, f, a, weight=None, bias=None, residual_input_tensor=None, epsilon=1e-12, **k: _rms(
        t, a if residual_input_tensor is None else a + residual_input_tensor, weight, bias, epsilon
    ),
    "transpose": lambda t, f, a, dim1, dim2, **k: a.transpose(dim1, dim2),
    "reshape": lambda t, f, a, shape, **k: a.reshape(tuple(shape)),
    "unsqueeze": lambda t, f, a, dim, **k: a.unsqueeze(dim),
    "expand": lambda t, f, a, shape, **k: a.expand(tuple(shape)),
    "experimental.broadcast_to": lambda t, f, a, shape, **k: a.expand(tuple(shape)),
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
    "transformer.split_query_key_value_and_split_heads": lambda t, f, a, *rest, **k: _split_heads(
        t, a, *rest, **k
    ),
    "transformer.concatenate_heads": lambda t, f, a, **k: a.permute(0, 2, 1, 3).reshape(
        a.shape[0], a.shape[2], -1
    ),
    "transformer.attention_softmax": lambda t, f, a, head_size=None, attention_mask=None, **k: _attention(
        t, a, head_size, attention_mask
    ),
    "transformer.scaled_dot_product_attention": lambda t, f, *qkv, **k: _attend(f, *qkv, **k),
    "clone": lambda t, f, a, **k: a.clone(),
    "typecast": lambda t, f, a, *_, **k: a,
    "to_memory_config": lambda t, f, a, *_, **k: a,
    "mse_loss": lambda t, f, a, b, reduction=None, **k: f.mse_loss(a, b, reduction=_reduction(reduction)),
    "l1_loss": lambda t, f, a, b, reduction=None, **k: f.l1_loss(a, b, reduction=_reduction(reduction)),
}


def _hardmish(t: Any, a: Any) -> Any:
    """Of bfloat16: cut, not rounded, as silicon stores it."""
    wide = a.float()
    made = wide * t.clamp(wide * 0.5 + 1, 0, 1)
    if a.dtype != t.bfloat16:
        return made
    return t.bitwise_right_shift(made.view(t.int32), 16).to(t.int16).view(t.bfloat16)


def _domain(t: Any, made: Any, outside: Any) -> Any:
    """Of bfloat16: infinity where silicon's packer makes it of NaN."""
    return made.masked_fill(outside, float("inf")) if made.dtype == t.bfloat16 else made


def _polyval(a: Any, coeffs: Any) -> Any:
    made = 0.0
    for coefficient in coeffs:
        made = made * a + coefficient
    return made


def _prelu(t: Any, f: Any, a: Any, weight: Any) -> Any:
    values = t.as_tensor(weight, dtype=a.dtype)
    return f.prelu(a, values.reshape(-1))


def _gate(t: Any, gate: Golden, a: Any, dim: int) -> Any:
    first, second = t.split(a, a.shape[dim] // 2, dim)
    return first * gate(second)


def _xielu(t: Any, a: Any, above: float, below: float) -> Any:
    x = a.float()
    low = below * (t.expm1(t.clamp(x, max=-1e-6)) - x) + x / 2
    return t.where(x > 0, above * x * x + x / 2, low).to(a.dtype)


def _left(t: Any, of: Golden, a: Any, b: Any) -> Any:
    narrow = a.dtype == t.bfloat16
    made = of(a.float() if narrow and not t.is_tensor(b) else a, b)
    return made.bfloat16() if narrow else made


def _flat(x: Any) -> Any:
    return None if x is None else x.reshape(-1)


def _rms(t: Any, a: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    made = a * t.rsqrt(a.float().square().mean(-1, keepdim=True) + epsilon)
    if weight is not None and weight.dtype in (t.float16, t.bfloat16):
        made = made.to(weight.dtype)
    made = made if weight is None else made * _flat(weight)
    return made if bias is None else made + _flat(bias)


def _linear(t: Any, f: Any, a: Any, b: Any, bias: Any, activation: Any, turn_a: bool, turn_b: bool) -> Any:
    a, b = (x.transpose(-1, -2) if turn else x for x, turn in ((a, turn_a), (b, turn_b)))
    made = t.matmul(a, b)
    if bias is not None:
        made = made + (bias[0] if bias.dim() > 1 and bias.shape[0] == 1 and bias.dim() > made.dim() else bias)
    if activation is None:
        return made
    return {"gelu": f.gelu, "relu": f.relu, "silu": f.silu, "tanh": t.tanh, "sigmoid": t.sigmoid}[
        str(activation)
    ](made)


def _attend(
    f: Any, q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = True, scale: Any = None, **_: Any
) -> Any:
    return f.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale)


def _split_heads(
    t: Any,
    a: Any,
    kv_input_tensor: Any = None,
    num_heads: int = 1,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    **_: Any,
) -> Any:
    heads, kv, turned = num_heads, kv_input_tensor, transpose_key
    groups = num_kv_heads or heads
    x = a if kv is None else t.cat([a, kv], -1)
    batch, length, width = x.shape
    size = width // (heads + 2 * groups)
    parts = t.split(x, [heads * size, groups * size, groups * size], -1)
    q, k, v = (
        p.reshape(batch, length, n, size).transpose(1, 2)
        for p, n in zip(parts, (heads, groups, groups), strict=True)
    )
    return q, k.transpose(-1, -2) if turned else k, v


def _scaled(t: Any, a: Any, scale: Any, mask: Any) -> Any:
    x = a if scale is None else a * scale
    return t.softmax(x if mask is None else x + mask, -1)


def _attention(t: Any, a: Any, head_size: int | None, mask: Any) -> Any:
    x = a if head_size is None else a / head_size**0.5
    return t.softmax(x if mask is None else x + mask, -1)


def _reduction(kind: Any) -> str:
    return str(getattr(kind, "name", kind or "none")).lower()


def _bound(row: Golden) -> Golden:
    def golden(*args: Any, **kwargs: Any) -> Any:
        import torch

        kwargs.pop("device", None)
        return row(torch, torch.nn.functional, *args, **kwargs)

    return golden


_MOVES = (
    "interleaved_to_sharded sharded_to_interleaved reshard reallocate tilize to_layout to_dtype"
).split()
_IGNORED = (
    "memory_config output_tensor dtype device layout fast_and_approximate_mode sub_core_grids activations "
    "use_legacy compute_kernel_config queue_id program_config core_grid vector_mode mode"
).split()


def _same(name: str) -> Golden:
    def golden(*args: Any, **kwargs: Any) -> Any:
        import torch

        said = {key: value for key, value in kwargs.items() if key not in _IGNORED}
        return getattr(torch, name)(*args, **said)

    return golden


def _convolution(*args: Any, conv_config: Any = None, **given: Any) -> Any:
    """conv2d's, with the activation of its configuration."""
    activation = getattr(conv_config, "activation", None)
    last = None if activation is None else get_golden_function_for_activation(activation)
    return _bound(IMAGES["conv2d"])(*args, activation=last, **given)


def golden_of(name: str) -> Golden | None:
    """The golden function of an operation, None where it has none; that of an in-place one is the plain
    one's."""
    if name.endswith("_bw"):
        base = name.rpartition(".")[2].removesuffix("_bw")
        return backward_of(base, golden_of(base))
    if name == "conv2d":
        return _convolution
    for known in (name, name.removesuffix("_"), {"mul": "multiply", "sub": "subtract"}.get(name, name)):
        row = _ROWS.get(known) or IMAGES.get(known)
        if row is not None:
            return _bound(row)
        if known in _SAME:
            return _same(known)
    return (lambda a, *_, **__: a) if name in _MOVES else None


def get_golden_function(operation: Any) -> Golden:
    """Raises RuntimeError for an operation that has none, Unsupported for one that is declined."""
    found = operation.golden_function
    if found is None and operation.reason:
        name = operation.python_fully_qualified_name
        raise Unsupported(f"{name} is not supported: {operation.reason}", op=name)
    if found is None:
        raise RuntimeError(f"{operation} does not have a golden function")
    return found


def attach_golden_function(operation: Any, golden_function: Golden, **hooks: Any) -> None:
    """Another golden function for an operation."""
    operation.golden_function = golden_function
    for name, hook in hooks.items():
        setattr(operation, name, hook)


def get_golden_function_for_activation(activation: Any) -> Golden:
    """Of an activation: a name, a UnaryOpType or a UnaryWithParam. Raises RuntimeError."""
    kind = getattr(activation, "op_type", activation)
    name = str(getattr(kind, "name", kind)).lower().removesuffix("_approx")
    found = golden_of(name)
    if found is None:
        raise RuntimeError(f"{name} is not supported as activation function")
    params = getattr(activation, "params", ())
    return lambda x, *_: found(x, *params)
