"""ns of a node on the host: the time of a call, plus the time of the node's arithmetic or the time of its
traffic, whichever is larger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..base import dtypes
from ..base.machine.isa import host_features
from ..ir.graph import Func, TensorType
from ..ir.ops import registry, steps
from ..ir.ops.products.attention import softmax_flops
from ..ir.ops.products.packed import PAIRED, PANEL, bundle_of, is_narrow
from ..ir.ops.targets import attrs_to_come, pairs_to_come, rounding_kernel
from .types import Cost
from .weights_file import load

_OUTSIDE = "simple_gflops"  # name of the rate of ops that other packages register; their basis is "assumed"
_TILES_GAIN = 2.5  # Winograd's speed over panels': 1.6 with 16 channels, 3.3 with 128 (bench_winograd.py)
_ON_PANELS = ("matmul_panels", "attention_panels", "matmul_blas", "dense_blas")
_IN_PAIRS = ("matmul_pairs", "attention_pairs")
_COLUMNS = 16
_GATHERED = 0.66  # share of the panels' rate that convolutions of several groups reach: each is gathered
_STORE_FLOPS = 4  # flops to scale and round a result of a product of bytes, as many as quantize takes
SPIN_NS = 50_000  # time for which a queue's thread looks for work before it sleeps (native/core/worker.c)
_SIMPLE = ("movement", "reduction", "windows")  # kinds of ops that run at simple_gflops


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of a host, all threads together. In 1e9 flops per second, for products in float32:
    ``product_gflops`` without packed weights, ``packed_gflops`` with weights in panels, ``depthwise_gflops``
    for convolutions in panels with one channel per group, ``grouped_gflops`` for convolutions in panels with
    2 to 16 channels per group. For other products: ``quantized_gflops`` and ``quantized_depthwise_gflops``
    for bytes, ``paired_gflops`` with panels in bf16, ``levels_gflops`` with panels of few bits. For other
    work: ``simple_gflops`` for simple arithmetic, ``function_gflops`` for exp and the like, ``scalar_gflops``
    for functions computed one element at a time, such as log and sin. In 1e9 bytes per second: ``gb_per_s``
    for reads and writes of kernels and copies, ``weight_gb_per_s`` for weights from memory,
    ``cached_gb_per_s`` for weights that stay in a cache between runs. Weights stay there if the graph's
    inputs have at most ``cache_bytes`` together. ``call_ns``: time to call a kernel.

    Time from the end of a step on one host queue to the start of a waiting step on another: ``handoff_ns`` if
    the other queue's device was busy within SPIN_NS, else ``wake_ns``, because its threads and maybe its core
    sleep.

    ``basis``: "fitted" if these constants were measured on this machine, else "assumed"."""

    product_gflops: float
    simple_gflops: float
    function_gflops: float
    gb_per_s: float
    call_ns: float
    basis: str = "assumed"
    handoff_ns: float = 8_000.0
    wake_ns: float = 40_000.0
    packed_gflops: float = 100.0
    depthwise_gflops: float = 30.0
    grouped_gflops: float = 54.0
    quantized_gflops: float = 180.0
    paired_gflops: float = 108.0
    quantized_depthwise_gflops: float = 30.0
    levels_gflops: float = 90.0
    scalar_gflops: float = 0.3
    weight_gb_per_s: float = 25.0
    cached_gb_per_s: float = 60.0
    cache_bytes: float = 8e6


def pace_of(name: str) -> str | None:
    """The name of the field of Machine that has the rate of an op's arithmetic; None if the op's table entry
    names no rate."""
    op = registry.require(name)
    pace = op.pace.get("cpu", "simple" if op.kind in _SIMPLE else "")
    return f"{pace}_gflops" if pace else None


@cache
def machine() -> Machine:
    """The packaged constants, which are those of a small host with AVX-512, adjusted if this machine has
    further instructions."""
    packaged, features = load("cpu"), host_features() or ()
    rates = dict(packaged["machine"])
    for name, faster in packaged["instructions"].items():
        rates |= faster if name in features else {}
    return Machine(**rates)


def cpu_node_cost(
    func: Func,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    host: Machine | None = None,
    constant_weight: bool | None = None,
    from_memory: bool = False,
    stored: str = "",
) -> Cost:
    """ns of a kernel on the host. A function that only a library knows counts as moving its tensors once.

    ``from_memory``: whether weights come from memory in each run, because caches cannot keep all of them.
    ``stored``: "bf16" if rewrite.target will store the panels in bf16, where the node allows it
    (pairs_to_come).

    ``constant_weight``: whether the weight, input 1, is a constant, for a node whose kernel rewrite.target
    will still choose; None for a node that runs unchanged.
    """
    host = host or machine()
    op = registry.get(func.op or "")
    if op is None:
        note = f"function {func.name}: its tensors once"
        return Cost(host.call_ns + _traffic(None, inputs, outputs) / host.gb_per_s, "assumed", note)
    if op.is_nop:
        return Cost(0.0, host.basis, "no kernel")
    attrs = func.attrs
    if constant_weight is not None:
        attrs = {**attrs, **attrs_to_come(op, inputs, outputs, attrs, constant_weight)}
    weighted = 1 in op.weights and op.panels is not None
    weight = inputs[1].nbytes if weighted or attrs.get("packed") else 0
    traffic = (_traffic(op, inputs, outputs) - weight) / host.gb_per_s
    paired = bool(attrs.get("packed")) and inputs[1].dtype == PAIRED
    if stored == "bf16" and pairs_to_come(inputs, attrs):
        paired, weight = True, weight // 2
    if stored == "bf16" and (kernel := rounding_kernel(op, attrs)):
        attrs = {**attrs, registry.KERNEL: kernel}
    work = _work_ns(op, func, inputs, outputs, attrs, host, paired) / _width(outputs[0].dtype)
    traffic += weight / (host.weight_gb_per_s if from_memory else host.cached_gb_per_s)
    if pace_of(op.name) is None:
        return Cost(host.call_ns + max(work, traffic), "assumed", "an op from outside: as simple arithmetic")
    return Cost(host.call_ns + max(work, traffic), host.basis, "roofline of the host")


def _traffic(op: registry.Op | None, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> int:
    """Number of bytes moved between memory and cores: all bytes of each tensor, but of a tensor from which
    the op gathers only the gathered part."""
    made = sum(t.nbytes for t in outputs)
    if op is not None and op.gathers:
        return made + min(inputs[0].nbytes, made) + sum(t.nbytes for t in inputs[1:])
    return made + sum(t.nbytes for t in inputs)


def _work_ns(
    op: registry.Op,
    func: Func,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    attrs: Mapping[str, Any],
    host: Machine,
    paired: bool,
) -> float:
    """ns of arithmetic in float32 in the kernel that ``attrs`` select. Steps of a fused node are added up,
    each at the rate of its op."""
    body = func.attrs.get(op.program, ())
    flops, total = op.flops(list(inputs), list(outputs), func.attrs), 0.0
    for step in body:
        own = steps.flops([step], outputs[0])
        flops -= own
        total += own / getattr(host, pace_of(step[0]) or _OUTSIDE)
    if op.pace.get("cpu") == "quantized" and attrs.get("group", 1) == 1:
        total += _STORE_FLOPS * outputs[0].size / host.simple_gflops
    if op.name == "attention" and attrs.get(registry.KERNEL):
        own = softmax_flops(inputs, outputs, attrs)
        flops -= own
        total += own / host.function_gflops
    if attrs.get("packed") and attrs.get("group", 1) > 1 and op.pace.get("cpu") != "quantized":
        channels = inputs[0].shape[-1 if attrs["layout"] == "NHWC" else 1] // attrs["group"]
        return total + flops / _rate_of_groups(attrs, host, channels, paired)
    return total + flops / _rate(op, attrs, host, paired)


def _rate_of_groups(attrs: Mapping[str, Any], host: Machine, channels: int, paired: bool) -> float:
    """Like _rate, for a convolution of several groups with ``channels`` each. Groups that share panels
    multiply by zeros for the channels of the other groups and for a panel's unused columns."""
    group, o = attrs["group"], attrs["packed"]
    if attrs.get("winograd"):
        return host.packed_gflops * _TILES_GAIN
    if is_narrow(o, channels, group):
        return host.depthwise_gflops if channels == 1 else host.grouped_gflops
    own = o // group
    computed = -(-own * bundle_of(group, own) // PANEL) * PANEL
    return (host.paired_gflops if paired else host.packed_gflops) * _GATHERED * own / computed


def _rate(op: registry.Op, attrs: Mapping[str, Any], host: Machine, paired: bool) -> float:
    """Flops per ns of the kernel for a node. ``paired``: whether panels are bf16. Panels compute whole
    vectors of 16 columns. Flops are those of the op's definition, although Winograd's tiles need fewer."""
    packed = attrs.get("packed")
    if attrs.get("winograd"):
        return host.packed_gflops * _TILES_GAIN
    quantized = op.pace.get("cpu") == "quantized"
    if packed and attrs.get("group", 1) == 1:
        fast = host.paired_gflops if paired else host.packed_gflops
        fast = host.levels_gflops if attrs.get("levels") else fast
        fast = host.quantized_gflops if quantized else fast
        return fast * packed / (-(-packed // _COLUMNS) * _COLUMNS)
    if attrs.get("kernel") in _ON_PANELS:
        return host.packed_gflops
    if attrs.get("kernel") in _IN_PAIRS:
        return host.paired_gflops
    if quantized:  # without panels the kernel computes one sum at a time
        return host.quantized_depthwise_gflops if packed else host.simple_gflops
    return getattr(host, pace_of(op.name) or _OUTSIDE)


def _width(dtype: str) -> float:
    """Elements in a vector, relative to the number of float32 elements."""
    return 0.5 if dtypes.parse(dtype).itemsize > 4 else 1.0


def host_copy_ns(nbytes: int, host: Machine | None = None) -> float:
    """ns to read and write ``nbytes`` on the host."""
    host = host or machine()
    return host.call_ns + 2 * nbytes / host.gb_per_s
