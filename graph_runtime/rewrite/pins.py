"""Pins of nodes that will be rewritten: globs -> the exact nodes that they name, which a Net carries on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..base.machine.devices import Device, parse
from ..ir.model import Model
from ..plan.globs import matching

__all__ = ["pinned"]


def pinned(model: Model, pins: Mapping[str, str | Device]) -> Model:
    """The model with ``pins`` in its own, each node by its name; the last glob that matches a node wins.

    Raises PlanError for a glob that matches no node, DeviceError for what is no device.
    """
    if not pins:
        return model
    found = dict(model.pins)
    for glob, device in pins.items():
        on = str(parse(device))
        hits = np.flatnonzero(matching(model.graph, glob, "pin"))
        found |= {model.graph.names[nid]: on for nid in hits.tolist()}
    return replace(model, pins=found)
