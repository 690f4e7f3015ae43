"""torch's flex_attention on tt: torch asks a device's name of a list that it has in a function of its own."""

from __future__ import annotations

from torch.nn.attention import flex_attention

__all__ = ["register"]


def register() -> None:
    """Add tt to the devices that flex_attention takes. What dynamo traces stays torch's own function, so that
    a graph does not break there; where a version of torch has no such list, nothing is changed."""
    check = getattr(flex_attention, "_validate_device", None)
    if check is None:
        return
    code = check.__code__
    constants = tuple(
        known | {"tt"} if isinstance(known, frozenset) and "cuda" in known else known
        for known in code.co_consts
    )
    check.__code__ = code.replace(co_consts=constants)
