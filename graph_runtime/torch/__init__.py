"""PyTorch on the simulated device: importing this package makes torch.device("tt") usable.

    import torch, graph_runtime.torch
    model = Net().to("tt");  y = model(x.to("tt")).to("cpu")
    fast = torch.compile(model, backend="tt")

Needs torch 2.13 or 2.14 (the extra torch); see docs/torch.md.
"""

from typing import Any as _Any

from .required import check as _check

_check()

from ..base.errors import no_attribute as _no_attribute  # noqa: E402
from ..run.tensors.journal import no_fallback  # noqa: E402
from .counters import Stats, stats  # noqa: E402
from .registration import register as _register  # noqa: E402
from .store import devices  # noqa: E402

_register()

__all__ = ["Stats", "devices", "export", "no_fallback", "stats", "to_model"]


def __getattr__(name: str) -> _Any:
    """export and to_model, imported at first use, because the parts of torch that torch.export needs take
    seconds to import."""
    if name in ("export", "to_model"):
        from .compiled import exported

        return getattr(exported, name)
    raise _no_attribute(__name__, name, __all__)
