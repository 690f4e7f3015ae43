"""Two machines on one: network namespaces with a link between them, each with a node of Ray and a disk of its
own. Needs root, iproute2 and openssl: ``why_not`` says what is missing.

    with TwoNodes(folder, delay_ms=5, rate="1gbit") as nodes:
        nodes.first([python, "-m", "graph_runtime.cli", "serve", ..., "--address", nodes.address])

The second node's /tmp is a tmpfs of 64 MiB, which ``fill_disk`` fills.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from certificates import make_certificates

__all__ = ["TwoNodes", "why_not"]

_DISK = "64m"
_ROOT = Path(__file__).resolve().parents[2]


def why_not() -> str:
    """What is missing, "" where nothing is."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "tc", "unshare", "mount", "openssl") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    probe = f"gr{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode:
        return "this container may not make network namespaces"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


class TwoNodes:
    """See the module. ``address``: of Ray; ``hosts``: of the two machines."""

    def __init__(self, folder: Path, cores: int = 1, delay_ms: float = 0.0, rate: str = ""):
        self.folder, self.cores = folder, cores
        self._shape = (delay_ms, rate)
        tag = secrets.token_hex(2)
        self.names = (f"gra{tag}", f"grb{tag}")
        self.links = (f"va{tag}", f"vb{tag}")
        self.hosts = ("10.77.1.1", "10.77.1.2")
        self.address = f"{self.hosts[0]}:6379"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.environ |= {"RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "100"}
        self.environ["GR_TRUST_DIR"] = str(folder / "trust")  # both have the key of one user
        self._ray_folder = Path(tempfile.mkdtemp(prefix="gr", dir="/tmp"))  # paths of sockets are short
        self.environ["GR_CACHE_DIR"] = str(self._ray_folder / "cache")  # on each machine's own disk

    def __enter__(self) -> TwoNodes:
        try:
            self._make_link()
            self._make_secrets()
            head = ("--head", "--port", "6379", f"--temp-dir={self._ray_folder / 'ray'}")
            head += ("--include-dashboard=false", "--disable-usage-stats")
            self._ray(0, *head)
            self.start_second()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):  # SIGTERM would have Ray drain its node first
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        for pid in self.second():  # what has left its group
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        shutil.rmtree(self._ray_folder, ignore_errors=True)

    # **************** what befalls them ****************

    def first(self, command: list[str], **words) -> subprocess.Popen[bytes]:
        """Start a command on the first machine."""
        return self._start(0, command, **words)

    def start_second(self) -> None:
        """The second machine joins."""
        self._ray(1, f"--address={self.address}")

    def end_second(self) -> None:
        """It leaves as ``ray stop`` has it: SIGTERM to its processes."""
        os.killpg(self.processes[1].pid, signal.SIGTERM)
        self.processes.pop(1).wait(30)

    def kill_second(self) -> None:
        """It is lost: all its processes end at once."""
        for pid in self.second():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.processes.pop(1).wait(30)

    def pause_second(self, paused: bool) -> None:
        """All its processes stop, or go on."""
        for pid in self.second():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)

    def cut(self, cut: bool) -> None:
        """The link is cut, without a word to programs on either side, or whole again."""
        for name, link in zip(self.names, self.links, strict=True):
            _run("ip", "-n", name, "link", "set", link, "down" if cut else "up")

    def fill_disk(self) -> None:
        """No byte more can be written on the second machine's disk."""
        inside = f"/proc/{self.second()[0]}/root/tmp/filler"
        with open(inside, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        with open(inside, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x")

    def second(self) -> list[int]:
        """The processes of the second machine, oldest first."""
        found = subprocess.run(["ip", "netns", "pids", self.names[1]], capture_output=True, text=True)
        return sorted(map(int, found.stdout.split()))

    # **************** making them ****************

    def _make_link(self) -> None:
        a, b = self.links
        for name in self.names:
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run(
            "ip", "link", "add", a, "netns", self.names[0], "type", "veth", "peer", b, "netns", self.names[1]
        )
        for name, link, host in zip(self.names, self.links, self.hosts, strict=True):
            _run("ip", "-n", name, "addr", "add", f"{host}/24", "dev", link)
            _run("ip", "-n", name, "link", "set", link, "up")
        delay, rate = self._shape
        shape = ["netem", "delay", f"{delay / 2}ms", *(["rate", rate] if rate else [])]
        for name, link in zip(self.names, self.links, strict=True):
            if delay or rate:
                _run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", link, "root", *shape)

    def _make_secrets(self) -> None:
        """A token and certificates of an authority of the cluster's own, as docs/cluster.md has them."""
        into = self.folder / "secrets"
        certificate, key, authority = make_certificates(into, *self.hosts)
        (into / "token").write_text(secrets.token_hex(32))
        (into / "token").chmod(0o600)
        self.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(into / "token"),
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": certificate,
            "RAY_TLS_SERVER_KEY": key,
            "RAY_TLS_CA_CERT": authority,
        }

    def _ray(self, machine: int, *words: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *words]
        command += [f"--node-ip-address={self.hosts[machine]}", f"--num-cpus={self.cores}"]
        command += ["--object-store-memory=100000000"]
        log = self.folder / f"ray{machine}.log"
        self.processes.append(self._start(machine, command, log=log))
        end = time.monotonic() + 150
        while "Ray runtime started" not in log.read_text():
            if self.processes[-1].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"Ray did not start: {log.read_text()}")
            time.sleep(0.2)

    def _start(
        self, machine: int, command: list[str], log: Path | None = None, **words
    ) -> subprocess.Popen[bytes]:
        if machine == 1:
            command = ["unshare", "-m", "sh", "-c", f'{self._own_disk()} && exec "$0" "$@"', *command]
        entered = ["ip", "netns", "exec", self.names[machine], *command]
        with contextlib.ExitStack() as stack:
            if log is not None:
                words["stdout"] = words["stderr"] = stack.enter_context(log.open("wb"))
            return subprocess.Popen(entered, env=self.environ, start_new_session=True, **words)

    def _own_disk(self) -> str:
        """A disk at /tmp, through which are seen the folder with the secrets, Python and the project."""
        needed = [p for p in (self.folder, Path(sys.prefix), _ROOT) if p.is_relative_to("/tmp")]
        steps = ["mount -t tmpfs tmpfs /mnt"]
        steps += [f"mkdir /mnt/{i} && mount --bind {path} /mnt/{i}" for i, path in enumerate(needed)]
        steps += [f"mount -t tmpfs -o size={_DISK} tmpfs /tmp"]
        steps += [f"mkdir -p {path} && mount --bind /mnt/{i} {path}" for i, path in enumerate(needed)]
        return " && ".join(steps)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
