"""Separate namespaces, so that a cluster node on this machine leaves nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

from clusters.control_plane import GOGC, ONE_THREAD, Daemon, until
from machines.processes import alive
from machines.system_packages import missing_for_nodes
from patience import PATIENCE_S
from programs.commands import run, search_path

ENTER = Path(__file__).parents[2] / "cluster" / "node" / "enter.sh"
CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "springtide-node"
WEIGHTS = {"cpu.shares": "16384", "cpu.weight": "1600"}
"""Processor weights of a node; without them all its pods together get as much as one process."""
_COUNTER = itertools.count()


class NoRealNodeError(Exception):
    """This machine cannot run a real node; the message names the missing part and how to get it."""


def check_machine() -> None:
    """Raise NoRealNodeError unless this machine can build images and run containers."""
    if os.geteuid() != 0:
        raise NoRealNodeError("A real node needs root (namespaces, mounts, cgroups): run these tests as root")
    if missing := missing_for_nodes():
        raise NoRealNodeError(f"A real node needs the packages {', '.join(missing)}: run `make tools`")


class Enclosure:
    """Separate mount, process and host name namespaces, and a network namespace unless another one is shared.

    All processes inside end with it, and it ends with the process that started it, however that ends.
    ``directory`` holds the files that are written to ``/var/lib`` and ``/var/log`` inside.
    """

    def __init__(self, directory: Path, pause: Path, network: Enclosure | None = None) -> None:
        self.directory = directory
        self.name = directory.name
        join = ["nsenter", f"--net=/proc/{network.pid}/ns/net"] if network else []
        own = ["--mount", "--pid", "--uts", "--ipc", *([] if network else ["--net"])]
        unshare = ["unshare", *own, "--fork", "--kill-child", "--mount-proc"]
        self._env = {"PATH": search_path(), "HOME": str(directory), "GOGC": GOGC, **ONE_THREAD}
        command: list[str | Path] = [*join, *unshare, "sh", ENTER, directory, pause]
        self._daemon = Daemon(command, directory / "enclosure.log", self._env)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The pid of the first process inside."""
        assert self._pid is not None, f"{self.name} was not started"
        return self._pid

    @property
    def root(self) -> Path:
        """The root of the file system inside."""
        return Path(f"/proc/{self.pid}/root")

    def start(self) -> Self:
        """Create the namespaces; raise RuntimeError with the output when that fails."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._daemon.start()
        until(self._entered, f"{self.name} has namespaces", timeout_s=PATIENCE_S)
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
        """Return the command that runs ``command`` inside."""
        return ["nsenter", "--target", str(self.pid), "--all", *map(str, command)]

    def run(self, *command: str | Path) -> str:
        """Run a command inside to completion; raise CommandError with its output when it fails."""
        return run(*self.command(*command))

    def daemon(self, *command: str | Path) -> Daemon:
        """Start a program inside, whose log is ``<its name>.log`` in the directory."""
        log = self.directory / f"{Path(command[0]).name}.log"
        daemon = Daemon(self.command(*command), log, self._env)
        daemon.start()
        return daemon

    def stop(self) -> None:
        """End all processes inside."""
        self._daemon.kill()
        if self._pid is not None:
            until(lambda: not alive(self.pid), f"{self.name} has ended", timeout_s=PATIENCE_S)


@contextlib.contextmanager
def directory_of_its_own(parent: Path) -> Iterator[Path]:
    """Yield a directory below ``parent`` and cgroups of its name, for a node; remove those of earlier runs."""
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
    """Return the roots of the cgroup trees: one, or one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [each for each in CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()]


def _remove(directory: Path) -> None:
    for hierarchy in _hierarchies():
        own = hierarchy / directory.name
        if own.exists():
            until(partial(_removed, own), f"the cgroup {own} is empty", timeout_s=PATIENCE_S)
    shutil.rmtree(directory)


def _removed(cgroup: Path) -> bool:
    try:
        for below, _, _ in os.walk(cgroup, topdown=False):
            Path(below).rmdir()
    except OSError:
        return False
    return True
