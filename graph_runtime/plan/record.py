"""Plan -> Graph whose hints hold all decisions of the plan. `plan -o planned.json` writes this graph, and
planning it again follows the hints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.graph import Graph, Hints, StorageHint
from .types import Plan


def record(plan: Plan) -> Graph:
    """The plan's graph with device, storage and layout columns. A device is named as in files: by its kind
    and its ordinal among the devices of that type in the plan's list."""
    types, entry_did = [d.dl_type for d in plan.devices], plan.entry_did()
    ordinal = [types[:did].count(t) for did, t in enumerate(types)]
    names = [f"{d.kind}:{at}" for d, at in zip(plan.devices, ordinal, strict=True)]
    row = {layout: at for at, layout in enumerate(dict.fromkeys(plan.layouts))}
    numerics = [words.as_dict() for words in plan.numerics] or [{}] * len(names)
    hints = Hints(
        device_type=np.array(types)[entry_did],
        device_id=np.array(ordinal)[entry_did],
        storage_id=plan.sid.astype(np.int64),
        storage_scope=plan.graph.hints.storage_scope,
        storage=_storage_rows(plan, names),
        layouts=tuple(row),
        layout=np.array([row[layout] for layout in plan.layouts], np.int64)[plan.layout_id],
        aliases=plan.aliases,
        at_input=tuple(np.flatnonzero(plan.at_input).tolist()),
        numerics={name: words for name, words in zip(names, numerics, strict=True) if words},
        policy=plan.balanced[0].policy if plan.balanced else plan.graph.hints.policy,
    )
    return replace(plan.graph, hints=hints)


def _storage_rows(plan: Plan, names: list[str]) -> tuple[StorageHint, ...]:
    memories = [[m.name for m in d.descriptor.memories] for d in plan.devices]
    columns = (plan.storage.did, plan.storage.memory, plan.storage.offset, plan.storage.nbytes)
    return tuple(
        StorageHint(names[did], memories[did][memory], offset, nbytes)
        for did, memory, offset, nbytes in zip(*(c.tolist() for c in columns), strict=True)
    )
