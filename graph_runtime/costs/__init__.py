"""Costs of ops and transfers, in cycles or ns, with the basis of each number.

All are pure functions, which read the packaged weights once and nothing else. Read types (Cost), cpu (a node
on a host), tt (a node on a board, by opmodel, noc and links), copies, and cost_model, which holds all costs
in one value that users may replace. buda and formulas are TT-Buda's published models. grid has costs of whole
ops of ttnn, and eltwise those of ttnn's elementwise ops, from the blocks of their kernels. factories/
computes the L1 that ttnn's card programs take."""

from .buda import NonZero
from .copies import copy_cost
from .cost_model import CostModel, ask, find_costs, node_cost, weights_from_memory
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
