"""Starting Ray on this machine, or joining a cluster of it; refusing one that would let strangers in.

A Ray of this machine alone listens on loopback, and has a token that every call needs: a random one where the
environment names none. A cluster on other machines listens on all interfaces and needs Ray's token
authentication and TLS, which the user switches on, for all its nodes:

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

from ...base.errors import ClusterError, GraphRuntimeError
from ...base.loopback import is_loopback
from ..transport.sockets import Tls
from .ray_address import require_ray_at
from .ray_folder import new_folder, private_files, require_closed_folder

__all__ = [
    "auth_token",
    "import_ray",
    "join",
    "leave",
    "own_address",
    "own_tls",
    "require_closed",
    "require_folder",
    "require_ray",
    "start_nodes",
    "tls_authority",
    "tls_files",
]

LOCAL = "local"
_TRIES = 3  # to start a Ray of this machine's own
_STORE = 512 << 20  # bytes of Ray's object store: tensors that are on their way
_WAIT = "RAY_raylet_start_wait_time_s"
# what a Ray of this machine alone reads when it is imported and started
_OWN = {
    # where it is off, Ray says that this machine's address is 127.0.0.1, and listens on that alone
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # seconds between two reports of replicas by which --replicas auto decides; Ray's own are ten
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
    _WAIT: "100",  # Ray's own is 30, which a busy machine does not keep
    "RAY_worker_niceness": "0",  # Ray's own is 15: replicas would starve beside other work
    # what is not read here takes a twentieth of a core: counters of Ray, events of its tasks, statistics of
    # its loops; the controller looks at replicas three times a second instead of ten
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
    """A module of Ray. Raises ClusterError, with what to install, where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own dependencies, when it is first imported
            return importlib.import_module(name)
    except ImportError as error:
        text = f"Ray is not installed ({error}): pip install 'graph-runtime[cluster]'"
        raise ClusterError(text, got=name) from None


def require_ray() -> None:
    """Raise ClusterError, with what to install, where there is no Ray. Does not import it: it reads the
    environment when it is imported."""
    if importlib.util.find_spec("ray") is None:
        raise ClusterError("Ray is not installed: pip install 'graph-runtime[cluster]'", got="ray")


def require_closed(host: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise ClusterError for an address that other machines reach, where Ray's token authentication and TLS
    are not both on; the text says how to switch them on."""
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
    """Ray's token as the environment has it, "" where it has none. Raises ClusterError for a file that cannot
    be read, or that others may read."""
    if token := environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    path = environ.get("RAY_AUTH_TOKEN_PATH", "")
    if not path:
        return ""
    try:
        if Path(path).stat().st_mode & 0o077:
            raise ClusterError(f"{path} may be read by others: chmod 600 {path}", got=path)
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ClusterError(f"RAY_AUTH_TOKEN_PATH: {error}", got=path) from None


def tls_files(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Ray's certificate and its key, where TLS is on."""
    return (environ[_TLS[0]], environ[_TLS[1]]) if environ.get("RAY_USE_TLS") == "1" else None


def tls_authority(environ: Mapping[str, str] = os.environ) -> str | None:
    """The certificate of the authority that signed those of the cluster, where TLS is on."""
    return environ.get(_TLS[2]) if environ.get("RAY_USE_TLS") == "1" else None


def own_tls(environ: Mapping[str, str] = os.environ) -> Tls | None:
    """All three, where TLS is on."""
    files, authority = tls_files(environ), tls_authority(environ)
    return None if files is None or authority is None else (*files, authority)


def join(address: str = LOCAL, cores: int | None = None) -> Any:
    """Ray's module, connected: to a Ray of this machine's own, which is started with ``cores``, or to the
    cluster at HOST:PORT. Raises ClusterError."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address != LOCAL:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or len(port) > 5:
            raise ClusterError(f"an address is 'local' or HOST:PORT, got {address!r}", got=address)
        require_closed(host)
        require_ray_at(host, int(port), tls_files(), tls_authority())
    else:
        for name, value in _OWN.items():
            os.environ.setdefault(name, value)
        _make_token()
    ray = import_ray()
    words = {
        "address": address,
        "namespace": "graph_runtime",
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    try:
        if address == LOCAL:
            own = {"num_cpus": cores, "object_store_memory": _STORE, "include_dashboard": False}
            with private_files(new_folder()):
                _init(ray, **words, **own)
        else:
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
        for node in ray.nodes() if address != LOCAL else ():  # a loopback may be one of several machines
            if node["Alive"] and node["NodeManagerAddress"] != own_address():
                require_closed(node["NodeManagerAddress"])
    except BaseException:
        leave()
        raise
    return ray


def _init(ray: Any, **words: Any) -> None:
    """ray.init, again where a process of Ray's took too long to start: its raylet ends where its agents need
    more than 15 s, which they do where other work has all cores, and there is no setting for it."""
    for left in reversed(range(_TRIES)):
        before = _children()
        try:
            ray.init(**words)
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
            for pid in _children() - before:  # what that try has started
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        else:
            return


def _children() -> set[int]:
    """The processes that this one has started; none where the system does not say."""
    texts = []
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            texts.append(file.read_text())
    return set(map(int, " ".join(texts).split()))


def require_folder() -> None:
    """Raise ClusterError where other users get into the folder of the Ray that is joined, on this machine."""
    node = import_ray("ray._private.worker")._global_node
    require_closed_folder(Path(node.get_session_dir_path()))


def own_address() -> str:
    """This machine's address in the cluster that is joined."""
    return str(import_ray("ray.util").get_node_ip_address())


def start_nodes(count: int, cores: int | None = None) -> Callable[[], None]:
    """Start a Ray of this machine's own with ``count`` nodes, which are processes here, and join it. Returns
    what ends it. Raises ClusterError."""
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
            ray.init(made.address, namespace="graph_runtime", log_to_driver=False, logging_level="ERROR")
        require_folder()
    except Exception as error:
        end()
        text = f"Ray did not start {count} nodes: {type(error).__name__}: {error}"
        raise ClusterError(text, got=count) from error
    return end


def _make_token() -> None:
    """A Ray of this machine's own has a token: a random one, unless the environment has one."""
    if os.environ.get("RAY_AUTH_MODE"):
        return
    if "ray" in sys.modules:
        text = "Ray is imported already and reads its token then: set RAY_AUTH_MODE=token before"
        raise ClusterError(text, got="ray")
    os.environ["RAY_AUTH_MODE"] = "token"
    if not auth_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def leave() -> None:
    """Disconnect; a Ray that was started here ends."""
    import_ray().shutdown()
