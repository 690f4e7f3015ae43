"""Lowering rules of aten operations, a module a family; importing the package fills the table."""

from . import (
    convolutions,
    creation,
    division,
    elementwise,
    indexing,
    layers,
    movement,
    products,
    reductions,
    resampling,
    training,
)
from .table import Emitter, Rule, find, rule, table

__all__ = [
    "Emitter",
    "Rule",
    "convolutions",
    "creation",
    "division",
    "elementwise",
    "find",
    "indexing",
    "layers",
    "movement",
    "products",
    "reductions",
    "resampling",
    "rule",
    "table",
    "training",
]
