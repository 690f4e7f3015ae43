"""Models served to others, by replicas on Ray, and graphs over machines (graphs/). The extra ``cluster``
installs Ray, which is imported when it is needed.

Read: datatypes, ports (what a model takes), http/ (the inference protocol's bytes), batch_rows and
independent_rows (which rows run together), batcher (queue, batches, deadlines), replays (what is done about a
lost worker), metrics, runner (a bundle that answers batches); catalog (names and versions), front (HTTP in
ASGI's terms); transport/ (messages between processes), dispatcher, replica. On Ray: ray/ (starting and
joining it), installation, travel (bundles to other machines), deployment, offers (what a user wants served),
server. status reads what a server says of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.errors import no_attribute

if TYPE_CHECKING:  # imported when they are first used
    from .graphs.connecting import Cluster as Cluster
    from .graphs.connecting import connect as connect
    from .graphs.connecting import connected as connected

__all__ = ["Cluster", "connect", "connected"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise no_attribute(__name__, name, __all__)
    from .graphs import connecting

    return getattr(connecting, name)
