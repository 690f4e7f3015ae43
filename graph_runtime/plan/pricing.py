"""Pricing: the inputs from which a placement's times are computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..base.options import Options


@dataclass(frozen=True, slots=True, eq=False)
class Pricing:
    """``options``: options of placing; ``inputs``: names of the inputs that every run sets anew, from the
    first host of the list; ``kernels``: {function: device kinds for which libraries have the function}.
    ``constants``: inputs whose values rewrite.target, which runs later, knows; costs are then those of the
    kernels that rewrite.target will choose. None: nodes run unchanged. ``streamed``: inputs that each run
    copies from the first host, as it does with ``inputs``; a device holds a streamed input only while the
    input is read. ``weights``: {host: format of the weights of its products}; a layout may give single nodes
    another format."""

    options: Options = field(default_factory=Options)
    inputs: tuple[str, ...] = ()
    kernels: Mapping[str, Collection[str]] = field(default_factory=dict)
    constants: Collection[str] | None = None
    streamed: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
