"""Writes the files of an attempt, and starts its supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.accounts import Account, AccountError, Accounts
from springtide.scheduler.executors.accounts.account import hand_over
from springtide.scheduler.executors.base import AttemptSpec, BlockedError, ExecutorError
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.environment import (
    check_declared,
    command,
    contract,
    gpu_environment,
    job_environment,
    search,
    tree_step,
    working_directory,
)
from springtide.scheduler.executors.files.layout import JobPlaces, Layout, make_places, opened, write_packed
from springtide.scheduler.executors.files.plain import sync
from springtide.scheduler.executors.library import LIBRARY
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.executors.local.running import PROGRAM
from springtide.scheduler.executors.packages.steps import PackageSettings, in_environment, prepare_step
from springtide.scheduler.executors.rendezvous import Rendezvous, template, worker_environment
from springtide.scheduler.executors.supervisor.attempt import KILL_AFTER
from springtide.scheduler.executors.supervisor.records import write_record
from springtide.scheduler.executors.supervisor.secret_files import read_secret
from springtide.scheduler.model import Block, BlockScope, Environment, Node, Worker
from springtide.scheduler.own_files import make_own_directory
from springtide.scheduler.wording import LONG_GIVEN, given

ADDRESS = "127.0.0.1"
RUN_TIME_INTERVAL = 30.0
"""Interval at which a supervisor records how long its attempt has run, in seconds."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts attempts on this machine.

    With ``accounts``, each job runs as its user's account, else as the service's own. ``base_env`` is the common
    environment of all jobs, which the variables of a submission's environment override; ``cores`` are those of
    this machine; ``log_cap`` bounds each worker's log per attempt, in bytes; ``packages`` are the
    settings for the installation of required packages; with ``credentials`` jobs can use the pool's API.
    ``programs`` is the directory of those that the pool brings, from the state directory.
    """

    layout: Layout
    nodes: tuple[Node, ...]
    accounts: Accounts | None
    base_env: Mapping[str, str]
    limits: Limits
    log_cap: int
    packages: PackageSettings
    cores: float
    credentials: Credentials | None = None
    programs: str = ""

    def make_places(self, spec: AttemptSpec) -> Path:
        """Create the attempt's directory; the job's writable directories are given to its account later."""
        places = self.layout.job(spec.key.job)
        directory = self.layout.attempt(spec.key)
        for path in (places.root, places.attempts, directory):
            make_own_directory(path, self.mode)
        return directory

    def prepare(self, spec: AttemptSpec, directory: Path) -> None:
        """Write the job's files and the attempt's ``spec.json``.

        Raises `ExecutorError` if the attempt can never start, `OSError` if the disk cannot be written to.
        """
        places = self.layout.job(spec.key.job)
        account = self.account(spec.user)
        owner = account.owner if account else None
        if owner is not None:
            for path in (places.work, places.checkpoints, places.output, places.code, places.reports):
                if os.path.lexists(path):
                    hand_over(path, owner, whosever=True)
        make_places(places, spec.files, owner, spec.history)
        if spec.tree is not None:
            write_packed(places, spec.tree.root, spec.packed, owner)
        if self.credentials is not None:
            self.credentials.write(spec.key, directory, owner)
        record = self._record(spec, places, directory, account)
        with opened(directory) as handle:
            places.write_beginning(handle)
            write_record(handle, "spec.json", record)
        sync(places.attempts)
        sync(places.root)
        sync(self.layout.jobs)

    def account(self, user: str) -> Account | None:
        """Return the account of the job, None for the service's own. Raises `BlockedError` if none is allowed."""
        if self.accounts is None:
            return None
        try:
            return self.accounts.of(user)
        except AccountError as error:
            raise BlockedError(str(error), Block(BlockScope.USER, user)) from error

    @property
    def mode(self) -> int:
        """The mode of the directories of jobs, which the accounts of jobs pass through."""
        return 0o700 if self.accounts is None else 0o711

    def start(self, directory: Path, supervised: Mapping[str, str]) -> int:
        """Start the attempt's supervisor in a session of its own; return its pid.

        ``supervised`` are the variables that describe its attempt.
        """
        silent = [
            (os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0)  # the only ones that it inherits
            for descriptor in (0, 1, 2)
        ]
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", str(PROGRAM), str(directory)],
            {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", **supervised},
            file_actions=silent,
            setsid=True,
            setsigmask=[signal.SIGTERM, signal.SIGCHLD],
            setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP],
        )

    def _record(
        self, spec: AttemptSpec, places: JobPlaces, directory: Path, account: Account | None
    ) -> dict[str, Any]:
        if not spec.placement:
            raise ExecutorError("The job was given no worker to run.")
        _check_declared(spec)
        resolved = JobPlaces(places.root.resolve())
        gpus = [self._uuids(worker) for worker in spec.placement]
        limits = self.limits.of_job(spec.options.cpus or 0.0, spec.options.memory or 0)
        cgroup = limits.cgroup
        base = {**self.base_env, **(account.environment if account else {}), **spec.found.variables}
        if self.credentials is not None:
            base |= self.credentials.variables(directory.resolve())
        argv, required = command(spec, resolved, spec.found.path), spec.options.requirements
        python = spec.found.python or "python3"
        return {
            "job": spec.key.job,
            "attempt": spec.key.attempt,
            "epoch": spec.epoch,
            "uid": account.uid if account else os.getuid(),
            "uuids": [uuid for shown in gpus for uuid in shown],
            "prepare": prepare_step(argv, python, required, self.packages, base) if required else None,
            "argv": in_environment(argv, python, required, self.packages) if required else argv,
            "tree": tree_step(spec, resolved),
            "cwd": working_directory(spec, resolved),
            "env": job_environment(
                spec,
                base,
                resolved,
                contract(spec, resolved, directory.resolve()),
                self.layout.state.resolve() / self.programs / LIBRARY,
                cores=self._cores(len(gpus[0])),
            ),
            "workers": [
                {
                    "rank": worker.rank,
                    "node": worker.node,
                    "gpus": list(worker.gpus),
                    "uuids": list(shown),
                    "env": {**gpu_environment(shown), **gang},
                }
                for worker, shown, gang in zip(spec.placement, gpus, _gangs(spec), strict=True)
            ],
            "account": account.record if account else None,
            "secrets": [secret.file for secret in spec.secrets],
            "grace": spec.grace,
            "kill_after": KILL_AFTER,
            "limits": {name: list(pair) for name, pair in limits.rlimits().items()},
            "log_cap": self.log_cap,
            "search": search(spec, resolved),
            "disk": self.limits.disk_cap(resolved),
            "run_time_interval": RUN_TIME_INTERVAL,
            "cgroup": str(cgroup / f"{spec.key.job}.{spec.key.attempt}") if cgroup else None,
            "cgroup_files": limits.files(len(spec.placement)) if cgroup else {},
        }

    def _cores(self, gpus: int) -> float:
        """Return the cores of a worker that asks for none: its part of the machine's, by GPUs, at most its limit.

        A worker without GPUs has the part of one.
        """
        share = self.cores * max(1, gpus) / max(1, sum(node.gpus for node in self.nodes))
        return min(share, self.limits.cores) if self.limits.cores and self.limits.cgroup else share

    def _uuids(self, worker: Worker) -> Sequence[str]:
        """Return the UUIDs of a worker's GPUs. Raises `BlockedError` if one of them is no train GPU here now."""
        if not worker.gpus:
            return []
        train = [node for node in self.nodes if node.environment is Environment.TRAIN]
        if worker.uuids:
            there = {gpu.uuid for node in train for gpu in node.devices}
            gone = [uuid for uuid in worker.uuids if uuid not in there]
            if gone:
                raise BlockedError(f"No train GPU of this machine any more: {', '.join(gone)}.")
            return worker.uuids
        for node in train:
            if node.name == worker.node:
                if all(0 <= index < node.gpus for index in worker.gpus):
                    return [node.devices[index].uuid for index in worker.gpus]
                raise BlockedError(
                    f"Node {given(node.name)} has {node.gpus} GPUs, not those numbered {worker.gpus}."
                )
        raise BlockedError(f"There is no train node {given(worker.node)} on this machine.")


def _check_declared(spec: AttemptSpec) -> None:
    """Raise `ExecutorError` for a withdrawn dataset or secret, `BlockedError` for one whose files are missing."""
    check_declared(spec)
    for dataset in spec.datasets:
        if not Path(dataset.path).is_dir():
            raise BlockedError(
                f"The dataset {given(dataset.name)} is not there: {given(dataset.path, LONG_GIVEN)} is no "
                "directory of this machine. An admin of the pool can mount it, or declare another directory."
            )
    for secret in spec.secrets:
        try:
            read_secret(secret.file)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise BlockedError(
                f"The secret {given(secret.name)} cannot be read: {why}. An admin of the pool can correct it."
            ) from None


def _gangs(spec: AttemptSpec) -> list[dict[str, str]]:
    """Return the rendezvous variables of each worker."""
    port, *ports = _free_ports(len(spec.placement) + 1)
    addresses = tuple(f"{ADDRESS}:{port}" for port in ports)
    meeting = Rendezvous(ADDRESS, port, addresses, len(spec.placement[0].gpus))
    variables = template(meeting, gang=spec.workers > 1)
    return [worker_environment(variables, place) for place in range(len(addresses))]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((ADDRESS, 0))
        return [listener.getsockname()[1] for listener in sockets]


def read_spec(directory: Path) -> dict[str, Any] | None:
    """Return the ``spec.json`` of an attempt, None if it is missing or incomplete."""
    try:
        decoded = json.loads((directory / "spec.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return decoded if isinstance(decoded, dict) else None
