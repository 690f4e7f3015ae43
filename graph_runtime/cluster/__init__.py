"""Serving of models by replicas on Ray, and of graphs that run on several machines (graphs/). The extra
``cluster`` installs Ray, which is imported when first needed.

Read: ports (inputs and outputs of a model), http/ (bytes of the inference protocol), batch_rows and
independent_rows (which rows run together), batcher (queue, batches, deadlines, lost workers), metrics, runner
(runs batches of a bundle); catalog (names and versions), front (paths of HTTP); transport/ (messages between
processes), dispatcher, replica. On Ray: ray/ (starting and joining it), installation, travel (bundles sent to
other machines), deployment, offers (models that a user names), server. status shows the state of a running
server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.late_names import LateNames

if TYPE_CHECKING:  # public names: read by type checkers, and by LateNames
    from .graphs.connecting import Cluster as Cluster
    from .graphs.connecting import connect as connect
    from .graphs.connecting import connected as connected

_late = LateNames(__name__)


def __getattr__(name: str) -> Any:
    return _late.find(name)
