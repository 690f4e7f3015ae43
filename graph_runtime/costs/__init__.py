"""What ops and transfers cost: cycles and ns, and the basis of each number.

Pure functions; nothing is read but the packaged weights, once. Read types (what a cost is), nodes (which
model is asked), cpu and tt (a node on a host, on a board: node_work, opmodel, noc, links), copies, and
cost_model, which has them in one value that users may replace. buda and formulas are what TT-Buda published,
grid whole ops of ttnn, eltwise its elementwise ones by the blocks of their kernels, limits what bounds an op;
factories/ says what ttnn's programs take of L1.
"""

from .buda import NonZero
from .copies import copy_cost
from .cost_model import CostModel, ask, find_costs
from .cpu import SPIN_NS, Machine, cpu_node_cost, machine
from .eltwise import eltwise_cycles
from .grid import gemm_cycles, grid_unary_cycles, sharded_matmul_cycles
from .links import (
    dispatch_ns,
    dram_bandwidth,
    dram_cycles,
    ethernet_ns,
    host_turn_ns,
    pcie_bandwidth,
    pcie_ns,
)
from .noc import multicast_cycles, noc_cycles, reshard_cycles
from .nodes import node_cost, weights_from_memory
from .opmodel import op_cycles
from .tt import modelled_node_cost
from .types import BASES, Cost, worst

__all__ = [
    "BASES",
    "SPIN_NS",
    "Cost",
    "CostModel",
    "Machine",
    "NonZero",
    "ask",
    "copy_cost",
    "cpu_node_cost",
    "dispatch_ns",
    "dram_bandwidth",
    "dram_cycles",
    "eltwise_cycles",
    "ethernet_ns",
    "find_costs",
    "gemm_cycles",
    "grid_unary_cycles",
    "host_turn_ns",
    "machine",
    "modelled_node_cost",
    "multicast_cycles",
    "noc_cycles",
    "node_cost",
    "op_cycles",
    "pcie_bandwidth",
    "pcie_ns",
    "reshard_cycles",
    "sharded_matmul_cycles",
    "weights_from_memory",
    "worst",
]
