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

from ..base.late_names import LateNames

if TYPE_CHECKING:  # the public names: type checkers see them, and LateNames reads them
    from .graphs.connecting import Cluster as Cluster
    from .graphs.connecting import connect as connect
    from .graphs.connecting import connected as connected

_late = LateNames(__name__)


def __getattr__(name: str) -> Any:
    return _late.find(name)
