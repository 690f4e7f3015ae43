"""Pricing: what the times of a placement depend on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..base.options import Options

__all__ = ["Pricing"]


@dataclass(frozen=True, slots=True, eq=False)
class Pricing:
    """``options`` of placing; ``inputs`` that every run sets anew, from the first host of the list;
    ``kernels``: function -> device kinds that libraries have it for; ``constants``: None where nodes run as
    they are, else rewrite.target follows, and knows the values of these inputs: costs are those of the
    kernels that it will choose; ``streamed``: inputs that each run brings from that host, as those set anew,
    and that a device holds only while they are read; ``weights``: host -> format of the weights of its
    products, where a layout does not say another of single nodes."""

    options: Options = field(default_factory=Options)
    inputs: tuple[str, ...] = ()
    kernels: Mapping[str, Collection[str]] = field(default_factory=dict)
    constants: Collection[str] | None = None
    streamed: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
