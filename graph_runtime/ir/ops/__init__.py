"""The op table. The family of an op is imported when the op is first looked up; ``all_ops()`` imports all
families.

Read registry (the definition of an op), rules (shared by families; ``select`` chooses the C body of a node),
cases, and one family (such as elements/elementwise with pointwise), then the modules for ops inside of other
ops: steps, epilogue, fused. The folders sort the families by kind of work: elements/, moving/, reductions/,
products/, spatial/, integers/.
"""

from functools import partial
from importlib import import_module
from typing import Any

from ...base.outside import load_entry_points
from .registry import REQUIRED, Attr, Body, Case, Op, add_kernels, all_ops, get, provide, register, require

__all__ = [
    "REQUIRED",
    "Attr",
    "Body",
    "Case",
    "Op",
    "add_kernels",
    "all_ops",
    "get",
    "register",
    "require",
    "support_table",
]

# {family: names of its ops}, so that a graph imports only the families of its ops
_FAMILIES = {
    "graph_runtime.ir.ops.products.packed": "pack_panels",
    "graph_runtime.ir.ops.integers.quantized": "quantize dynamic_quantize dequantize lookup",
    "graph_runtime.ir.ops.integers.quantized_map": "quantized_map",
    "graph_runtime.ir.ops.integers.quantized_products": "quantized_dense",
    "graph_runtime.ir.ops.integers.quantized_conv": "quantized_conv2d",
    "graph_runtime.ir.ops.products.attention": "attention",
    "graph_runtime.ir.ops.products.bias": "bias_add",
    "graph_runtime.ir.ops.products.dense": "dense",
    "graph_runtime.ir.ops.products.matmul": "matmul",
    "graph_runtime.ir.ops.elements.codes": "encode bitcast",
    "graph_runtime.ir.ops.products.conv": "conv2d",
    "graph_runtime.ir.ops.products.convolutions": "conv3d conv_transpose2d conv2d_backward_weight",
    "graph_runtime.ir.ops.elements.elementwise": (
        "add subtract multiply divide maximum relu gelu sigmoid tanh exp sqrt cast"
    ),
    "graph_runtime.ir.ops.moving.fill": "broadcast_to tile pad reverse",
    "graph_runtime.ir.ops.fused": "fused",
    "graph_runtime.ir.ops.moving.gather": "take_along_axis gather_nd",
    "graph_runtime.ir.ops.moving.movement": "transpose concatenate take",
    "graph_runtime.ir.ops.reductions.normalize": "softmax log_softmax layer_norm rms_norm lrn",
    "graph_runtime.ir.ops.reductions.axis": "argmax argmin cumsum topk",
    "graph_runtime.ir.ops.coupling": "couple",
    "graph_runtime.ir.ops.counted": "nonzero compress unique non_max_suppression",
    "graph_runtime.ir.ops.spatial.windows": "max_pool3d avg_pool3d lp_pool2d",
    "graph_runtime.ir.ops.spatial.pool": "max_pool2d avg_pool2d global_max_pool2d global_avg_pool2d",
    "graph_runtime.ir.ops.spatial.pool_indices": "max_pool2d_indices max_pool2d_argmax max_pool2d_backward",
    "graph_runtime.ir.ops.products.recurrent": "lstm gru rnn",
    "graph_runtime.ir.ops.spatial.resample": "resample",
    "graph_runtime.ir.ops.spatial.roi_align": "roi_align",
    "graph_runtime.ir.ops.moving.scatter": "scatter_elements scatter_nd",
    "graph_runtime.ir.ops.moving.shape": "reshape flatten squeeze unsqueeze",
    "graph_runtime.ir.ops.moving.slicing": "slice slice_update",
    "graph_runtime.ir.ops.trees": "trees",
}
# families imported when a name is not in _FAMILIES
_OTHERS = (
    "graph_runtime.ir.ops.reductions.reduce",
    "graph_runtime.ir.ops.elements.float_functions",
    "graph_runtime.ir.ops.elements.float_pairs",
    "graph_runtime.ir.ops.elements.arithmetic",
)


provide(
    {op: partial(import_module, family) for family, ops in _FAMILIES.items() for op in ops.split()},
    [partial(import_module, family) for family in _OTHERS],
    partial(load_entry_points, "graph_runtime.ops", "ops"),
)


def support_table() -> list[dict[Any, Any]]:
    """Rows of ops, for docs and the command line: {"op", "family", "doc", device kind: [dtypes of the first
    input]}. The list is ["any"] if the op needs no kernel on that kind."""
    kinds = sorted({kind for op in all_ops().values() for kind in op.bodies})
    return [
        {
            "op": op.name,
            "family": op.infer.__module__.rpartition(".")[2],
            "doc": op.doc,
            **{
                kind: ["any"] if op.is_nop else list(op.bodies[kind].dtypes) if kind in op.bodies else []
                for kind in kinds
            },
        }
        for op in all_ops().values()
    ]
