"""Operations of 64-bit integers that are known to fit 32 bits, run eagerly in int32."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..run.tensors.tensor import Tensor
from . import content
from .calls import prepare, run
from .counters import Unsupported, count
from .direct import Eager
from .host import on_meta
from .kinds import kind_of
from .magnitudes import result_bound
from .store import wrap
from .wide import widened


def in_32_bits(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operation computed in int32. None if its 64-bit integers are not known to fit
    (magnitudes.py), or if the device refuses the operation for another reason."""
    bound = result_bound(operation.rule_name, args, kwargs)
    if bound is None:
        return None
    try:
        wanted = _on_meta(operation.op, args, kwargs)
        emitter, given, more = prepare(operation, args, kwargs, narrow=True)
        made = run(operation, emitter, given, more)
    except Unsupported:
        return None
    count("device")
    several = isinstance(made, (tuple, list))
    results = [
        None if value is None else _as_wanted(value, meta, emitter, bound)
        for value, meta in zip(made if several else [made], wanted, strict=True)
    ]
    return type(made)(results) if several else results[0]


def _on_meta(op: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Results of an operation as meta tensors. Raises Unsupported if torch cannot infer them."""
    try:
        given, more = tree_map(on_meta, (list(args), kwargs))
        found = op(*given, **more)
    except (RuntimeError, NotImplementedError, TypeError, IndexError) as error:
        raise Unsupported(str(error)) from error
    return list(found) if isinstance(found, (tuple, list)) else [found]


def _as_wanted(made: Tensor, meta: torch.Tensor, emitter: Eager, bound: int) -> torch.Tensor:
    if meta.dtype == torch.int64:
        made = content.apply("cast", (("to", "int32"),), made) if made.dtype != "int32" else made
        return wrap(widened(made), torch.int64, emitter.index, made.type.shape, bound)
    kind = kind_of(meta.dtype)
    if kind.raw:
        raise Unsupported(f"the device does not compute with {meta.dtype}".replace("torch.", ""))
    made = content.apply("cast", (("to", kind.stored),), made) if made.dtype != kind.stored else made
    return wrap(made, meta.dtype, emitter.index)
