"""torch's flex_attention on tt. torch checks the device's name against a list inside of one of its functions,
so tt is added to the constants of that function's code."""

from __future__ import annotations

from torch.nn.attention import flex_attention


def register() -> None:
    """Add tt to the devices that flex_attention takes. Dynamo still traces torch's own function, so graphs do
    not break there. Without effect in a torch version that has no such list."""
    check = getattr(flex_attention, "_validate_device", None)
    if check is None:
        return
    code = check.__code__
    constants = tuple(
        known | {"tt"} if isinstance(known, frozenset) and "cuda" in known else known
        for known in code.co_consts
    )
    check.__code__ = code.replace(co_consts=constants)
