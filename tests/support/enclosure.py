"""Namespaces of their own, so that what runs as a node of a cluster leaves nothing behind on this machine."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from control_plane import Daemon, until
from processes import alive

ENTER = Path(__file__).parents[1] / "cluster" / "node" / "enter.sh"
CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "springtide-node"
START_TIMEOUT_S = 60.0
WEIGHTS = {"cpu.shares": "16384", "cpu.weight": "1600"}
"""All pods of a node together would else get no more of a busy machine than any one process."""
NEEDED = {
    "buildah": "buildah",
    "containerd": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "runc": "runc",
    "setpriv": "util-linux",
    "socat": "socat",
    "unshare": "util-linux",
}
_COUNTER = itertools.count()


class NoRealNodeError(Exception):
    """This machine cannot run a real node; the message says what it lacks and what to do."""


def check_machine() -> None:
    """Raise NoRealNodeError unless this machine can build images and run containers."""
    if os.geteuid() != 0:
        raise NoRealNodeError("A real node needs root (namespaces, mounts, cgroups): run these tests as root")
    if missing := sorted({package for name, package in NEEDED.items() if shutil.which(name, path=path()) is None}):
        raise NoRealNodeError(f"A real node needs the packages {', '.join(missing)}: run `make tools`")
    if not Path("/usr/lib/cni/ptp").exists():
        raise NoRealNodeError("A real node needs the package containernetworking-plugins: run `make tools`")


def path() -> str:
    """The programs of an administrator are looked for too, whoever runs the tests."""
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


class Enclosure:
    """Mount, process and host name namespaces of one's own, and a network unless another's is shared.

    Whatever runs in it ends with it, and it ends with the process that started it, however that ends.
    ``directory`` holds what is written to ``/var/lib`` and ``/var/log`` inside.
    """

    def __init__(self, directory: Path, pause: Path, network: Enclosure | None = None) -> None:
        self.directory = directory
        self.name = directory.name
        join = ["nsenter", f"--net=/proc/{network.pid}/ns/net"] if network else []
        own = ["--mount", "--pid", "--uts", "--ipc", *([] if network else ["--net"])]
        unshare = ["unshare", *own, "--fork", "--kill-child", "--mount-proc"]
        self._env = {"PATH": path(), "HOME": str(directory)}
        command = [*join, *unshare, "sh", ENTER, directory, pause]
        self._daemon = Daemon(command, directory / "enclosure.log", self._env)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The first process inside."""
        assert self._pid is not None, f"{self.name} was not started"
        return self._pid

    @property
    def root(self) -> Path:
        """The files as they are seen inside."""
        return Path(f"/proc/{self.pid}/root")

    def start(self) -> Self:
        """Make the namespaces; RuntimeError with what was said when that fails."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._daemon.start()
        until(self._entered, f"{self.name} has namespaces", timeout_s=START_TIMEOUT_S)
        return self

    def _entered(self) -> bool:
        if not self._daemon.runs():
            raise RuntimeError(f"The namespaces of {self.name} could not be made:\n{self._daemon.tail()}")
        outer = self._daemon.pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "pause":
                self._pid = int(child)
        return self._pid is not None

    def command(self, *command: str | Path) -> list[str]:
        """The command that runs ``command`` inside."""
        return ["nsenter", "--target", str(self.pid), "--all", *map(str, command)]

    def run(self, *command: str | Path) -> str:
        """Run a command inside to its end; RuntimeError with what it said when it fails."""
        return run(*self.command(*command))

    def daemon(self, *command: str | Path) -> Daemon:
        """Start a program inside, whose log is ``<its name>.log`` in the directory."""
        log = self.directory / f"{Path(command[0]).name}.log"
        daemon = Daemon(self.command(*command), log, self._env)
        daemon.start()
        return daemon

    def stop(self) -> None:
        """End all that runs inside."""
        self._daemon.kill()
        if self._pid is not None:
            until(lambda: not alive(self.pid), f"{self.name} has ended", timeout_s=START_TIMEOUT_S)


def run(*command: str | Path) -> str:
    """Run a command to its end, and tell its output; RuntimeError with what it said when it fails."""
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, "PATH": path()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def directory_of_its_own(parent: Path) -> Iterator[Path]:
    """A directory below ``parent`` and cgroups of its name, for a node; what others left behind is removed."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{PREFIX}-*"):
        if not Path(f"/proc/{left.name.split('-')[2]}").exists():
            _remove(left)
    directory = parent / f"{PREFIX}-{os.getpid()}-{next(_COUNTER)}"
    directory.mkdir()
    try:
        for hierarchy in _hierarchies():
            own = hierarchy / directory.name
            own.mkdir()
            for name, weight in WEIGHTS.items():
                if (own / name).exists():
                    (own / name).write_text(weight)
        yield directory
    finally:
        _remove(directory)


def _hierarchies() -> list[Path]:
    """The roots of the cgroup trees: one, or one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [each for each in CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()]


def _remove(directory: Path) -> None:
    for hierarchy in _hierarchies():
        own = hierarchy / directory.name
        if own.exists():
            until(lambda own=own: _removed(own), f"the cgroup {own} is empty", timeout_s=START_TIMEOUT_S)
    shutil.rmtree(directory)


def _removed(cgroup: Path) -> bool:
    try:
        for below, _, _ in os.walk(cgroup, topdown=False):
            Path(below).rmdir()
    except OSError:
        return False
    return True
