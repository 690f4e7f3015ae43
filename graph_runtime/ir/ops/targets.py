"""What the host wants of a node before it runs: the rules of rewrite.target follow this, and costs that are
asked before those rules ran count on it."""

from __future__ import annotations

from typing import Any

from .registry import KERNEL, Attrs, Types

__all__ = ["attrs_to_come", "kernel_by_rule", "packs_weight"]

_ROWS = 12  # of the left operand, from which packing the right one pays


def kernel_by_rule(op: str, inputs: Types, attrs: Attrs) -> str | None:
    """The variant to be named for a node that is not measured, None for the op's default kernel."""
    if inputs and inputs[0].dtype != "float32":
        return None
    if op == "attention":
        return "attention_panels" if inputs[0].shape[-2] >= _ROWS else None
    if op != "matmul" or attrs["epilogue"]:
        return None
    return "matmul_panels" if inputs[0].shape[-1 if attrs["transpose_a"] else -2] >= _ROWS else None


def packs_weight(op: str, inputs: Types, outputs: Types, attrs: Attrs) -> bool:
    """Whether the weight, input 1, of a dense, matmul or conv2d is put into panels where it is a constant:
    float32; one group, or one channel a group."""
    if op not in ("dense", "matmul", "conv2d") or attrs.get("packed") or KERNEL in attrs:
        return False
    x, w = inputs[:2]
    if x.dtype != "float32" or not outputs[0].size:
        return False
    if op == "conv2d":
        able = attrs["group"] == 1 or attrs["group"] == x.shape[1] == w.shape[0]
        return attrs["layout"] == "NCHW" and min(w.shape) > 0 and able
    return len(w.shape) == 2 and (op == "dense" or not attrs["transpose_a"])


def attrs_to_come(
    op: str, inputs: Types, outputs: Types, attrs: Attrs, constant_weight: bool
) -> dict[str, Any]:
    """The attributes that rewrite.target gives a node of the host which decide how fast it is: ``packed`` or
    ``kernel``."""
    if constant_weight and packs_weight(op, inputs, outputs, attrs):
        w = inputs[1].shape
        transposed = op == "matmul" and not attrs["transpose_b"]
        return {"packed": w[1] if transposed else w[0]}
    kernel = None if KERNEL in attrs else kernel_by_rule(op, inputs, attrs)
    return {KERNEL: kernel} if kernel else {}
