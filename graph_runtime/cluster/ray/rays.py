"""Starting Ray on this machine, or joining a Ray cluster, unless the cluster is open to strangers.

This machine's own Ray listens on loopback, and every call needs a token: a random one if the environment
names none. A cluster of several machines listens on all interfaces and needs Ray's token authentication and
TLS, which the user switches on for all its nodes:

    RAY_AUTH_MODE=token  RAY_AUTH_TOKEN_PATH=FILE (or RAY_AUTH_TOKEN)
    RAY_USE_TLS=1  RAY_TLS_SERVER_CERT=FILE  RAY_TLS_SERVER_KEY=FILE  RAY_TLS_CA_CERT=FILE
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import secrets
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...base.absent import installing
from ...base.errors import ClusterError, GraphRuntimeError
from ...base.loopback import is_loopback
from ..transport.sockets import Tls
from .ray_address import require_ray_at
from .ray_folder import new_folder, private_files, require_closed_folder

LOCAL = "local"
_TRIES = 3  # most attempts to start this machine's own Ray
_STORE = 512 << 20  # bytes of Ray's object store, for tensors in transit
_WAIT = "RAY_raylet_start_wait_time_s"
_JOINED: dict[str, Any] = {"namespace": "graph_runtime", "log_to_driver": False, "logging_level": "ERROR"}
# settings of this machine's own Ray, which it reads when it is imported and when it starts
_OWN = {
    # if this setting is off, Ray takes 127.0.0.1 for this machine's address, and listens only there
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # seconds between reports of replicas, for --replicas auto; Ray's default is ten
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
    _WAIT: "100",  # seconds; Ray's default of 30 is too short for a busy machine
    "RAY_worker_niceness": "0",  # Ray's default of 15 would starve replicas beside other work
    # Ray's counters, task events and loop statistics are off, because nothing here uses them and they take a
    # twentieth of a core. The controller checks replicas three times a second instead of ten times
    "RAY_enable_metrics_collection": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_event_stats": "0",
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "5000",
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.3",
}
_TLS = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_HOW = (
    "set RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH=FILE, RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, "
    "RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT on all machines (docs/cluster.md)"
)


def import_ray(name: str = "ray") -> Any:
    """A module of Ray. Raises ClusterError, with the command that installs it, if it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's dependencies warn at the first import
            return importlib.import_module(name)
    except ImportError as error:
        text = f"Ray is not installed ({error}): {installing('cluster')}"
        raise ClusterError(text, got=name) from None


def require_ray() -> None:
    """Raise ClusterError, with the command that installs Ray, if Ray is missing. Does not import Ray, because
    Ray reads the environment when it is imported."""
    if importlib.util.find_spec("ray") is None:
        raise ClusterError(f"Ray is not installed: {installing('cluster')}", got="ray")


def require_closed(host: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise ClusterError for an address reachable by other machines unless Ray's token authentication and TLS
    are both on; the error text says how to switch them on."""
    if is_loopback(host):
        return
    missing = []
    if environ.get("RAY_AUTH_MODE", "").lower() != "token" or not auth_token(environ):
        missing.append("token authentication")
    if environ.get("RAY_USE_TLS") != "1" or any(not Path(environ.get(n, "")).is_file() for n in _TLS):
        missing.append("TLS")
    if missing:
        text = f"{host} is not this machine's loopback, and Ray's {' and '.join(missing)} is off: {_HOW}"
        raise ClusterError(text, got=host, wanted=missing)


def auth_token(environ: Mapping[str, str] = os.environ) -> str:
    """Ray's token in the environment, or in the file that the environment names; "" if the environment has
    neither. Raises ClusterError for a file that cannot be read, or that other users can read."""
    if token := environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    path = environ.get("RAY_AUTH_TOKEN_PATH", "")
    if not path:
        return ""
    try:
        if Path(path).stat().st_mode & 0o077:
            raise ClusterError(f"{path} can be read by other users: chmod 600 {path}", got=path)
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ClusterError(f"RAY_AUTH_TOKEN_PATH: {error}", got=path) from None


def tls_files(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """(path of Ray's certificate, path of its key), if TLS is on."""
    return (environ[_TLS[0]], environ[_TLS[1]]) if environ.get("RAY_USE_TLS") == "1" else None


def tls_authority(environ: Mapping[str, str] = os.environ) -> str | None:
    """The path of the certificate of the authority that signed the cluster's certificates, if TLS is on."""
    return environ.get(_TLS[2]) if environ.get("RAY_USE_TLS") == "1" else None


def own_tls(environ: Mapping[str, str] = os.environ) -> Tls | None:
    """The paths of the certificate, its key and the authority's certificate, if TLS is on."""
    files, authority = tls_files(environ), tls_authority(environ)
    return None if files is None or authority is None else (*files, authority)


def join(address: str = LOCAL, cores: int | None = None) -> Any:
    """The module ray, connected to this machine's own Ray, which is started with ``cores`` cores, or to the
    cluster at HOST:PORT. Raises ClusterError."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address != LOCAL:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or len(port) > 5:
            raise ClusterError(f"write an address as 'local' or HOST:PORT, got {address!r}", got=address)
        require_closed(host)
        require_ray_at(host, int(port), tls_files(), tls_authority())
    else:
        for name, value in _OWN.items():
            os.environ.setdefault(name, value)
        _make_token()
    ray = import_ray()
    words: dict[str, Any] = {"address": address, **_JOINED}
    files: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if address == LOCAL:
        words |= {"num_cpus": cores, "object_store_memory": _STORE, "include_dashboard": False}
        files = private_files(new_folder())
    try:
        with files:
            _init(ray, **words)
    except GraphRuntimeError:
        raise
    except Exception as error:
        text = f"Ray at {address}: {type(error).__name__}: {error}"
        if address != LOCAL:
            text += ": it may have another token (RAY_AUTH_TOKEN_PATH), or another version of Ray"
        raise ClusterError(text, got=address) from error
    try:
        require_folder()
        for node in ray.nodes() if address != LOCAL else ():  # nodes of a joined cluster may be elsewhere
            if node["Alive"] and node["NodeManagerAddress"] != own_address():
                require_closed(node["NodeManagerAddress"])
    except BaseException:
        leave()
        raise
    return ray


def _init(ray: Any, **words: Any) -> None:
    """Call ray.init, a few times if processes of Ray take too long to start. Ray's raylet ends if its agents
    need more than 15 s, which happens when other work occupies all cores, and no setting changes that."""
    for left in reversed(range(_TRIES)):
        before = _children()
        try:
            ray.init(**words)
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
            for pid in _children() - before:  # processes that this attempt has started
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        else:
            return


def _children() -> set[int]:
    """Ids of the processes that this process has started; none if the system does not list them."""
    texts = []
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            texts.append(file.read_text())
    return set(map(int, " ".join(texts).split()))


def require_folder() -> None:
    """Raise ClusterError if other users can enter the folder of the joined Ray on this machine."""
    node = import_ray("ray._private.worker")._global_node
    require_closed_folder(Path(node.get_session_dir_path()))


def own_address() -> str:
    """The address of this machine in the joined cluster."""
    return str(import_ray("ray.util").get_node_ip_address())


def start_nodes(count: int, cores: int | None = None) -> Callable[[], None]:
    """Start this machine's own Ray with ``count`` nodes, each a process on this machine, and join it. Returns
    a function that ends this Ray. Raises ClusterError."""
    if count == 1:
        join(LOCAL, cores)
        return leave
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault(_WAIT, _OWN[_WAIT])
    _make_token()
    ray = import_ray()
    made = import_ray("ray.cluster_utils").Cluster()
    words = {"num_cpus": cores or max(1, (os.cpu_count() or 1) // count), "object_store_memory": _STORE}
    folder = new_folder()

    def end() -> None:
        ray.shutdown()
        with private_files(folder):
            made.shutdown()

    try:
        with private_files(folder):
            for _ in range(count):
                made.add_node(include_dashboard=False, **words)
            ray.init(made.address, **_JOINED)
        require_folder()
    except Exception as error:
        end()
        text = f"Ray did not start {count} nodes: {type(error).__name__}: {error}"
        raise ClusterError(text, got=count) from error
    return end


def _make_token() -> None:
    """Give this machine's own Ray a token: the environment's token, or else a random one."""
    if os.environ.get("RAY_AUTH_MODE"):
        return
    if "ray" in sys.modules:
        text = "Ray has been imported already, and read its token then: set RAY_AUTH_MODE=token earlier"
        raise ClusterError(text, got="ray")
    os.environ["RAY_AUTH_MODE"] = "token"
    if not auth_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def leave() -> None:
    """Leave the cluster; a Ray that was started by this process ends."""
    import_ray().shutdown()
