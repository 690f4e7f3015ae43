"""Lowering rules of aten operations, one module for each family; importing the package fills the table."""

from . import (
    averages,
    convolutions,
    creation,
    division,
    elementwise,
    indexing,
    layers,
    movement,
    norms,
    orders,
    products,
    recurrent,
    reductions,
    resampling,
    scans,
    scattering,
    special,
    strided,
    training,
    windows,
)
from .table import Rule as Rule
from .table import find as find
from .table import rule as rule
from .table import table as table
