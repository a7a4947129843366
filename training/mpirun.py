"""Open MPI's ``mpirun`` on the workers of a gang, without ssh: ``python -m springtide.training.mpirun train.py``.

Every worker of a job runs this command. In the first worker it starts ``mpirun``, which has to start a daemon of
its own in each other worker. Where it would call ssh it calls a script that writes the daemon's command to a file
in the directory of checkpoints, which all workers share. Each other worker waits for its file and runs the
command. So the processes of a worker are children of that worker and have its GPUs and variables.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

LOOK_EVERY = 0.05
"""Interval between checks for the command of a daemon, in seconds."""
USAGE = 2
"""Exit code if no program was given."""
NO_PROGRAM = 127
"""Exit code if Open MPI is missing."""

_PREFIX = ".mpirun-of-attempt-"
_END = "\n.\n"
_STARTED = "started-"
_AGENT = "start-daemon"
_HOSTS = "hosts"
_OPEN_MPI = {
    "plm": "rsh",
    "plm_rsh_no_tree_spawn": "1",
    "orte_leave_session_attached": "1",
    "hwloc_base_binding_policy": "none",
    "btl_vader_single_copy_mechanism": "none",
}
"""Settings of Open MPI. Processes are bound to no cores, as jobs on one machine do not know of each other."""
_ON_ONE_MACHINE = {
    "btl": "^vader",
    "btl_tcp_if_include": "lo",
    "oob_tcp_if_include": "lo",
    "mpi_yield_when_idle": "1",
}
"""More settings: two workers are two nodes to Open MPI, whose files for shared memory would have the same names.

Processes that wait for others let programs of other jobs run.
"""
_RANKS = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
"""Environment variables with the numbers of an MPI process, and Open MPI's own names for them."""
_FOR_JAX = ("OMPI_COMM_WORLD_", "OMPI_MCA_orte_hnp_uri", "JAX_LOCAL_DEVICE_IDS")
"""Beginnings of the variables by which the pool describes the gang to JAX; Open MPI sets its own."""
_EXPORT = "export " + " ".join(f'{name}="${theirs}"' for name, theirs in _RANKS.items())


@dataclass(frozen=True)
class Workers:
    """The gang: number of workers, index of this one, processes of each, and the directory for commands."""

    count: int
    index: int
    slots: int
    directory: Path
    on_one_machine: bool

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Workers:
        """Return the gang of this process; outside a pool it is one worker with one process."""
        attempt = environment.get("SPRINGTIDE_ATTEMPT", "1")
        return cls(
            int(environment.get("PET_NNODES", "1")),
            int(environment.get("PET_NODE_RANK", "0")),
            int(environment.get("PET_NPROC_PER_NODE", "1")),
            Path(environment.get("SPRINGTIDE_CHECKPOINT_DIR", "checkpoints")) / f"{_PREFIX}{attempt}",
            environment.get("PET_MASTER_ADDR", "127.0.0.1") == "127.0.0.1",
        )

    def host(self, index: int) -> str:
        """Return a worker's name for Open MPI.

        That of another worker is an address that no host has: Open MPI only hands it to the script, and would look
        up any other name.
        """
        return socket.gethostname() if index == 0 else f"198.18.{index // 256}.{index % 256}"

    @property
    def started(self) -> Path:
        """The file that exists once a process of MPI has begun in this worker."""
        return self.directory / f"{_STARTED}{self.index}"


def first_command(workers: Workers, files: Path, program: Sequence[str]) -> List[str]:
    """Return the command of the first worker, and write the files that it refers to."""
    hosts = (f"{workers.host(index)} slots={workers.slots}\n" for index in range(workers.count))
    (files / _HOSTS).write_text("".join(hosts))
    directory = shlex.quote(str(workers.directory.resolve()))
    (files / _AGENT).write_text(f'node=$1; shift; printf "%s\\n.\\n" "$*" > {directory}/"$node"\n')
    shell = f': > {directory}/{_STARTED}"${{PET_NODE_RANK:-0}}"; {_EXPORT}; exec "$0" "$@"'
    size = str(workers.count * workers.slots)
    return ["mpirun", "--quiet", "--hostfile", str(files / _HOSTS), "-np", size, "/bin/sh", "-c", shell, *program]


def first_environment(workers: Workers, files: Path, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of ``mpirun``; settings of Open MPI that the job has made itself hold."""
    agent = {"plm_rsh_agent": f"/bin/sh {files / _AGENT}"}
    settings = {**_OPEN_MPI, **agent, **(_ON_ONE_MACHINE if workers.on_one_machine else {})}
    ours = {f"OMPI_MCA_{name}": value for name, value in settings.items()}
    # The pool has chosen the account: in a container it may be root, and it may be one without a name and a shell.
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "SHELL": "/bin/sh"}
    return {**ours, **allowed, **environment}


def without_jax(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment without the variables that would make each of its processes one of MPI."""
    return {name: value for name, value in environment.items() if not name.startswith(_FOR_JAX)}


def daemon_command(workers: Workers) -> List[str]:
    """Wait for the command of this worker's daemon and return it.

    A network file system may keep an absent name for a minute, but not across the creation of it.
    """
    path = workers.directory / workers.host(workers.index)
    while True:
        with suppress(OSError):
            file = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "rb") as opened:
                text = opened.read().decode()
            if text.endswith(_END):
                return ["/bin/sh", "-c", text[: -len(_END)]]
        time.sleep(LOOK_EVERY)


class Child:
    """``mpirun`` or its daemon, whose processes SIGTERM is passed on to; Open MPI itself would kill them.

    Once they have begun (``started`` exists) Open MPI ends after them, and would fail if it were asked to end.
    """

    def __init__(self, started: Path) -> None:
        self.process: Optional["subprocess.Popen[bytes]"] = None
        self._started = started
        self._starting = False
        self._asked = False
        signal.signal(signal.SIGTERM, self._pass_on)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the command to its end; return its exit code, as a shell does."""
        self._starting = True
        self.process = subprocess.Popen(command, env=dict(environment))
        if self._asked:
            self._pass_on()
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def _pass_on(self, *_: Any) -> None:
        self._asked = True
        if self.process is None:
            if self._starting:
                return
            raise SystemExit(128 + signal.SIGTERM)
        ranks = list(_ranks(self.process.pid))
        for pid in ranks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if not ranks and not self._started.exists():
            self.process.terminate()


def _ranks(parent: int) -> Iterator[int]:
    """Yield the processes of MPI below a process."""
    for pid in _children(parent):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if b"\0OMPI_COMM_WORLD_RANK=" in b"\0" + environment:
            yield pid
        else:
            yield from _ranks(pid)


def _children(parent: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(entry.parent.name)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program in all processes of the gang; return the exit code of this worker."""
    if not arguments:
        sys.stderr.write("springtide: give the program that MPI is to run, such as train.py with its arguments.\n")
        return USAGE
    program = [sys.executable, *arguments] if arguments[0].endswith(".py") else list(arguments)
    workers, environment = Workers.of(environment), without_jax(environment)
    child = Child(workers.started)
    workers.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if workers.index != 0:
        return child.run(daemon_command(workers), environment)
    for path in workers.directory.parent.glob(f"{_PREFIX}*"):
        if path != workers.directory:
            shutil.rmtree(str(path), ignore_errors=True)
    with TemporaryDirectory(prefix="springtide-mpirun-") as place:
        files = Path(place)
        command = first_command(workers, files, program)
        try:
            return child.run(command, first_environment(workers, files, environment))
        except FileNotFoundError:
            sys.stderr.write("springtide: there is no mpirun here: install Open MPI, in Debian openmpi-bin.\n")
            return NO_PROGRAM


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
