"""Lowering rules of aten operations, a module a family; importing the package fills the table."""

from . import creation, elementwise, movement, network, products, reductions, training
from .table import Emitter, Rule, find, rule, table

__all__ = [
    "Emitter",
    "Rule",
    "creation",
    "elementwise",
    "find",
    "movement",
    "network",
    "products",
    "reductions",
    "rule",
    "table",
    "training",
]
