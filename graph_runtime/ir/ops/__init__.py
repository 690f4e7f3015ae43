"""The op table. Importing this package registers every family; ``all_ops()`` is the table.

Read registry (what an op is), rules (what families share), one family (elementwise with pointwise, say),
select (which C body serves a node), and where ops run inside of others: steps, epilogue, fused.
"""

from . import (  # noqa: F401
    attention,
    bias,
    compare,
    conv,
    convolutions,
    elementwise,
    fill,
    functions,
    fused,
    gather,
    linear,
    movement,
    normalize,
    order,
    packed,
    pool,
    pool_indices,
    reduce,
    scatter,
    shape,
    slicing,
    windows,
)
from .registry import REQUIRED, Attr, Body, Case, Op, all_ops, get, register, require

__all__ = ["REQUIRED", "Attr", "Body", "Case", "Op", "all_ops", "get", "register", "require", "support_table"]


def support_table() -> list[dict]:
    """One row an op, for docs and the command line: {"op", "family", "doc", and a list of the dtypes of its
    first input for each device kind}. ["any"]: no kernel is needed."""
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
