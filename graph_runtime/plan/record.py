"""Plan -> Graph whose hints say all that was decided: what `plan -o planned.json` writes, and what planning
it again follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.machine.layout import Layout
from ..ir.graph import Graph, Hints, StorageHint
from .types import Plan

__all__ = ["record"]


def record(plan: Plan) -> Graph:
    """The plan's graph with device, storage and layout columns. A device is named as files name it: by its
    kind and its ordinal among the devices of that type in the plan's list."""
    ordinal = _ordinals(plan)
    entry_did = plan.entry_did()
    layouts, row = _distinct_layouts(plan.layouts)
    hints = Hints(
        device_type=np.array([d.dl_type for d in plan.devices])[entry_did],
        device_id=np.array(ordinal)[entry_did],
        storage_id=plan.sid.astype(np.int64),
        storage_scope=plan.graph.hints.storage_scope,
        storage=_storage_rows(plan, ordinal),
        layouts=layouts,
        layout=row[plan.layout_id],
        aliases=plan.aliases,
        at_input=tuple(np.flatnonzero(plan.at_input).tolist()),
        numerics={
            name: words.as_dict()
            for name, words in zip(_names(plan, ordinal), plan.numerics, strict=bool(plan.numerics))
            if words.as_dict()
        },
        policy=plan.balanced[0].policy if plan.balanced else plan.graph.hints.policy,
    )
    return replace(plan.graph, hints=hints)


def _ordinals(plan: Plan) -> list[int]:
    types = [d.dl_type for d in plan.devices]
    return [types[:did].count(t) for did, t in enumerate(types)]


def _names(plan: Plan, ordinal: list[int]) -> list[str]:
    return [f"{d.kind}:{at}" for d, at in zip(plan.devices, ordinal, strict=True)]


def _distinct_layouts(layouts: tuple[Layout, ...]) -> tuple[tuple[Layout, ...], np.ndarray]:
    row = {layout: at for at, layout in enumerate(dict.fromkeys(layouts))}
    return tuple(row), np.array([row[layout] for layout in layouts], np.int64)


def _storage_rows(plan: Plan, ordinal: list[int]) -> tuple[StorageHint, ...]:
    names = _names(plan, ordinal)
    memories = [[m.name for m in d.descriptor.memories] for d in plan.devices]
    columns = (plan.storage.did, plan.storage.memory, plan.storage.offset, plan.storage.nbytes)
    return tuple(
        StorageHint(names[did], memories[did][memory], offset, nbytes)
        for did, memory, offset, nbytes in zip(*(c.tolist() for c in columns), strict=True)
    )
