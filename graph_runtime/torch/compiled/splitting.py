"""A torch graph in pieces: programs of the nodes that can be lowered; each other node runs by itself.

refused = survey(gm)                  {node: why it cannot be lowered}
made = split(gm, refused, compiled)   a graph of pieces; ``compiled`` compiles the lowerable pieces
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch.fx.passes.split_module import split_module

from .graphs import hint, lower

_Compiler: TypeAlias = Callable[[torch.fx.GraphModule], Callable[..., Any]]


def survey(gm: torch.fx.GraphModule, **how: Any) -> dict[torch.fx.Node, str]:
    """{node that cannot be lowered: reason}. ``how``: keyword arguments of graphs.lower. Open sizes have
    their values at the time of tracing."""
    arguments = [_example(node) for node in gm.graph.nodes if node.op == "placeholder"]
    refused: dict[torch.fx.Node, str] = {}
    lower(gm, arguments, refused=refused, **how)
    return refused


def split(
    gm: torch.fx.GraphModule,
    refused: Mapping[torch.fx.Node, str],
    compiled: _Compiler,
) -> torch.fx.GraphModule:
    """The graph as calls of pieces, each of consecutive nodes. ``compiled(piece)``: callback that turns a
    lowerable piece into a function, which takes the piece's arguments and returns a sequence of the piece's
    results."""
    numbers: dict[torch.fx.Node, int] = {}
    number, before = 0, None
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        if before is not None and (node in refused) != before:
            number += 1
        before = node in refused
        numbers[node] = number
    there = {number for node, number in numbers.items() if node not in refused}
    made = split_module(gm, gm, lambda node: numbers[node], keep_original_order=True)
    for number in there:
        piece = getattr(made, f"submod_{number}")
        setattr(made, f"submod_{number}", _Piece(piece, compiled))
    return made


class _Piece(torch.nn.Module):
    """A compiled piece, called like the module that it replaces."""

    def __init__(self, piece: torch.fx.GraphModule, compiled: _Compiler):
        super().__init__()
        output = next(node for node in piece.graph.nodes if node.op == "output")
        self.single = not isinstance(output.args[0], (tuple, list))
        if self.single:
            output.args = ((output.args[0],),)
            piece.recompile()
        self.run = compiled(piece)

    def forward(self, *args: Any) -> Any:
        made = self.run(*args)
        return made[0] if self.single else tuple(made)


def _example(node: torch.fx.Node) -> Any:
    """The traced value of a placeholder: a number for an open size, a tensor without values for a tensor."""
    meta = node.meta.get("val")
    if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return meta.node.hint
    if isinstance(meta, torch.Tensor):
        return torch.empty([hint(n) for n in meta.shape], dtype=meta.dtype, device="meta")
    return meta
