"""The executor for one machine."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import pwd
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from springtide.scheduler.executors import notebooks
from springtide.scheduler.executors.accounts import Account, AccountError, Accounts
from springtide.scheduler.executors.base import (
    NO_WORKSPACES,
    AttemptKey,
    AttemptSpec,
    AttemptStatus,
    BlockedError,
    ExecutorError,
    Exit,
    ExitKind,
    InventoryChanged,
    Observation,
    RunningNotebook,
    SavedCheckpoint,
    WorkspacePlaces,
    exit_of,
)
from springtide.scheduler.executors.checkpoint_files import CheckpointFiles
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.file_executor import FileExecutor
from springtide.scheduler.executors.files.layout import (
    DISCARDED,
    JobPlaces,
    Layout,
    leave_request,
    read_exit,
    read_record,
    record_exit,
)
from springtide.scheduler.executors.files.programs import write_programs
from springtide.scheduler.executors.local.foreign import Foreign
from springtide.scheduler.executors.local.launch import SYSTEM_PATH, Launcher, read_spec
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.executors.local.running import Running, restore, running_attempts
from springtide.scheduler.executors.local.sessions import open_session
from springtide.scheduler.executors.local.supervision import Supervision, Tracked, track
from springtide.scheduler.executors.packages.steps import PackageSettings
from springtide.scheduler.executors.session import Session, SessionSpec
from springtide.scheduler.executors.supervisor.attempt import KILL_AFTER
from springtide.scheduler.executors.supervisor.records import KILL, KILL_NOW, PAUSE
from springtide.scheduler.executors.supervisor.table import Process, is_alive
from springtide.scheduler.model import Checkpoint, Environment, Node
from springtide.scheduler.own_files import make_own_directory, make_root
from springtide.scheduler.telemetry import Computing, GpuSample, Machine
from springtide.scheduler.telemetry.processor import machine_capacity
from springtide.scheduler.wording import given, listed, plural

log = logging.getLogger(__name__)

log = logging.getLogger(__name__)

LOG_CAP = 64 << 20
ENDS_WITHIN = 5.0
"""Time for a supervisor to end after its record of the attempt's end, in seconds."""
NOT_STARTED = "It was asked to stop before it started."


def service_environment() -> dict[str, str]:
    """Return the environment of jobs under the service's own account, without the service's settings."""
    own = {}
    with suppress(KeyError):  # an account of a container may have no entry
        entry = pwd.getpwuid(os.getuid())
        own = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell}
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SHELL", "TZ") if name in os.environ}
    path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
    return {**own, **kept, "PATH": path, "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


class LocalExecutor(FileExecutor):
    """Runs attempts as processes of this machine.

    ``accounts`` are the accounts of jobs, for which the service has to run as root; None if all users trust each
    other and jobs run as the service's own account. ``base_env``, ``limits``, ``log_cap``, ``packages`` and
    ``credentials`` are as in `Launcher`. ``now`` is the wall clock.
    """

    name = "local"
    measures_gpus = True
    takes_sessions = True

    def __init__(
        self,
        state_dir: Path,
        machine: Machine,
        *,
        accounts: Accounts | None = None,
        base_env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        log_cap: int = LOG_CAP,
        packages: PackageSettings | None = None,
        credentials: Credentials | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(Layout(Path(state_dir).absolute()), CheckpointFiles(strict=False), now)
        self._machine = machine
        self._accounts = accounts
        self._limits = limits or Limits()
        self._launcher = Launcher(
            layout=self._layout,
            nodes=machine.nodes,
            accounts=accounts,
            base_env=service_environment() if base_env is None else base_env,
            limits=self._limits,
            log_cap=log_cap,
            packages=packages or PackageSettings(),
            credentials=credentials,
            cores=machine_capacity()[0],
        )
        self._left: Mapping[AttemptKey, Running] = {}
        self._started = AsyncExitStack()

    # ---------- start and stop

    async def start(self, listener: Callable[[Observation], None]) -> None:
        """Adopt the attempts of the state directory, and start supervisors that were ordered and never ran."""
        await asyncio.to_thread(self._make_root)
        await asyncio.to_thread(self._limits.prepare)
        try:
            self._supervision = Supervision(self._launcher, listener, self._ended, self._now)
        except OSError as error:
            raise ExecutorError(f"The kernel gives no inotify instance: {error.strerror}.") from error
        self._started.push_async_callback(self._supervision.close)
        self._foreign = Foreign(self._machine, self._held, lambda: listener(InventoryChanged()))
        self._started.callback(self._foreign.close)
        await self._believe_processes()
        for tracked in await asyncio.to_thread(self._scan):
            self._supervision.adopt(tracked, quietly=True)
            if not tracked.gone and read_record(tracked.directory, "supervisor.json") is None:
                self._supervision.spawn(tracked)
        await self._foreign.check()

    async def stop(self) -> None:
        """Stop following supervisors; they keep running."""
        await self._started.aclose()

    def _make_root(self) -> None:
        """Create the directory of jobs, which other accounts can enter only if jobs run as these."""
        try:
            if self._accounts is not None:
                self._accounts.prepare()
            else:
                make_root(self._layout.state, 0o700)
                make_own_directory(self._layout.jobs, 0o700)
            programs = write_programs(self._layout.state, {}, None, readable=True)
            self._launcher = dataclasses.replace(self._launcher, programs=programs)
        except AccountError as error:
            raise ExecutorError(str(error)) from error
        except OSError as error:
            raise ExecutorError(f"{error.filename} cannot be made: {error.strerror}.") from error

    async def _believe_processes(self) -> None:
        """Restore the records of attempts with a live supervisor, which counts more than the records.

        Raises `ExecutorError` if they cannot be written.
        """
        self._left = await asyncio.to_thread(running_attempts, self._layout)
        for key, running in self._left.items():
            if running.supervisor is None:
                continue
            try:
                await self._restore(key, running)
                await self._until_ended(key, running.supervisor)
            except OSError as error:
                raise ExecutorError(
                    f"The records of attempt {key.attempt} of {key.job}, which runs, cannot be written: "
                    f"{error.strerror} ({self._layout.attempt(key)})."
                ) from error

    async def _restore(self, key: AttemptKey, running: Running) -> None:
        mode = self._launcher.mode
        await asyncio.to_thread(restore, self._layout, key, running, mode=mode, now=self._now())

    async def _until_ended(self, key: AttemptKey, supervisor: Process) -> None:
        """Wait for a supervisor with a recorded end; if it does not end, the record is of another one."""
        directory = self._layout.attempt(key)
        until = asyncio.get_running_loop().time() + ENDS_WITHIN
        while read_exit(directory) is not None and is_alive(supervisor):
            if asyncio.get_running_loop().time() > until:
                log.error("%s is recorded to have ended, and runs; the record is removed.", key)
                for name in ("exit.json", DISCARDED):
                    (directory / name).unlink(missing_ok=True)
                return
            await asyncio.sleep(ENDS_WITHIN / 100)

    def _scan(self) -> list[Tracked]:
        jobs = ((job, self._layout.job(job)) for job in self._layout.all_jobs())
        keys = [AttemptKey(job, number) for job, places in jobs for number in places.numbers()]
        loaded = [self._load(key) for key in keys if not (self._layout.attempt(key) / DISCARDED).exists()]
        return [tracked for tracked in loaded if tracked is not None]

    def _load(self, key: AttemptKey) -> Tracked | None:
        """Return an attempt from its records; None if they are incomplete, so that it never started."""
        directory = self._layout.attempt(key)
        spec = read_spec(directory)
        if spec is None and read_exit(directory) is None:
            return None
        tracked = track(key, directory, self._layout.job(key.job), spec or {})
        tracked.tail.read_history(self._now())
        return tracked

    # ---------- launch, pause, kill

    async def launch(self, spec: AttemptSpec) -> None:
        """Put the attempt on disk, then start its supervisor unless its GPUs are taken by other processes."""
        key = spec.key
        directory = self._layout.attempt(key)
        self._epoch.check(spec.epoch)
        async with self._lock(key):
            if key not in self._supervision.tracked:
                try:
                    tracked = await asyncio.to_thread(self._prepare, spec, directory)
                except OSError as error:
                    why = error.strerror or str(error)
                    raise ExecutorError(
                        f"The job's files cannot be written: {why} ({self._layout.jobs})."
                    ) from error
                self._supervision.adopt(tracked)
            tracked = self._supervision.tracked[key]
            if tracked.gone or tracked.handle is not None or await self._is_taken(tracked):
                return
            self._supervision.spawn(tracked)

    def _prepare(self, spec: AttemptSpec, directory: Path) -> Tracked:
        """Write the attempt's files unless they exist; record the exit of one that can never start."""
        tracked = self._load(spec.key)
        if tracked is None:
            self._launcher.make_places(spec)
            try:
                self._launcher.prepare(spec, directory)
            except ExecutorError as refused:
                record_exit(directory, exit_of(refused, self._now()))
            tracked = self._load(spec.key)
            assert tracked is not None
        return tracked

    async def _is_taken(self, tracked: Tracked) -> bool:
        """Return whether processes outside the pool use the attempt's GPUs; if so, record that they block it."""
        await self._foreign.check()
        pids = sorted({pid for uuid in tracked.uuids for pid in self._foreign.taken.get(uuid, ())})
        if not pids:
            return False
        detail = f"Something outside the pool uses its GPUs (process {', '.join(map(str, pids))})."
        record_exit(tracked.directory, exit_of(BlockedError(detail), self._now()))
        self._supervision.refresh(tracked)
        return tracked.gone

    async def pause(self, key: AttemptKey) -> None:
        """Write the request to the attempt's directory, and signal its supervisor."""
        await self._request_end(key, PAUSE)

    async def kill(self, key: AttemptKey, *, now: bool = False) -> None:
        """Write the request to the attempt's directory, and signal its supervisor."""
        await self._request_end(key, KILL_NOW if now else KILL)

    async def _request_end(self, key: AttemptKey, request: str) -> None:
        """Write a request to the attempt's directory, and signal its supervisor."""
        self._epoch.check()
        async with self._lock(key):
            tracked = self._supervision.tracked.get(key)
            if tracked is None and read_exit(self._layout.attempt(key)) is None:
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} is not known here.")
            if tracked is None or tracked.gone:
                return
            try:
                await self._reach(tracked)
                leave_request(tracked.directory, request)
            except OSError as error:
                raise ExecutorError(f"The job cannot be asked to stop: {error.strerror}.") from error
            record = read_record(tracked.directory, "supervisor.json")
            if record is not None and record.get("restored") and request != PAUSE:
                patience = 2 * KILL_AFTER + (tracked.grace if request == KILL else 0.0)
                self._supervision.end_by_force(tracked, record["pid"], patience)
            if self._supervision.signal_supervisor(tracked) or record is not None:
                return
            ended = Exit(ExitKind.EXITED, self._now(), paused=request == PAUSE, detail=NOT_STARTED)
            record_exit(tracked.directory, ended)
            self._supervision.refresh(tracked)

    async def _reach(self, tracked: Tracked) -> None:
        """Make the directory of an attempt again if it was removed while it ran. Raises `OSError`."""
        if self._supervision.make_directory(tracked):
            running = (await asyncio.to_thread(running_attempts, self._layout)).get(tracked.key, Running())
            await self._restore(tracked.key, running)
            self._supervision.watch_again(tracked)

    async def discard(self, key: AttemptKey) -> None:
        """Mark the attempt's directory as discarded."""
        async with self._lock(key):
            tracked = self._supervision.tracked.get(key)
            if tracked is None:
                return
            if not tracked.gone:
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} has not ended.")
            await asyncio.to_thread((tracked.directory / DISCARDED).touch)
            self._supervision.discard(key)
        self._locks.pop(key, None)

    async def recall(self, key: AttemptKey) -> AttemptStatus | None:
        """Follow an attempt again that has a recorded end or live processes."""
        async with self._lock(key):
            if key not in self._supervision.tracked:
                left = self._left.get(key)
                if read_exit(self._layout.attempt(key)) is None:
                    if left is None:
                        return None
                    await self._restore(key, left)
                loaded = await asyncio.to_thread(self._load, key)
                assert loaded is not None
                self._supervision.adopt(loaded, quietly=True)
            return self._supervision.tracked[key].status

    async def living(self, key: AttemptKey) -> str:
        """Return the processes of an attempt, by the process table."""
        running = (await asyncio.to_thread(running_attempts, self._layout)).get(key, Running())
        found = [*filter(None, [running.supervisor]), *running.marked]
        return _processes([process.pid for process in found]) if found else ""

    async def open_session(self, key: AttemptKey, spec: SessionSpec) -> Session:
        """Have the attempt's supervisor start a program."""
        tracked = self._supervision.tracked.get(key)
        record = None if tracked is None else read_record(tracked.directory, "supervisor.json")
        if tracked is None or record is None or tracked.gone or "started" not in record:
            raise ExecutorError(f"Attempt {key.attempt} of {key.job} does not run.")
        try:
            return await open_session(
                tracked.directory, record["pid"], lambda: self._supervision.wake_supervisor(tracked), spec
            )
        except OSError as error:
            raise ExecutorError(f"The job's directory cannot be written to: {error.strerror}.") from error

    async def remove(self, job: str) -> None:
        """Delete the directory of an ended job."""
        attempts = [tracked for key, tracked in self._supervision.tracked.items() if key.job == job]
        if any(not tracked.gone for tracked in attempts):
            raise ExecutorError(f"The job {job} has not ended.")
        for tracked in attempts:
            async with self._lock(tracked.key):
                self._supervision.discard(tracked.key)
            self._locks.pop(tracked.key, None)
        if not await self._supervision.have_left(job, ENDS_WITHIN):
            raise ExecutorError(f"The supervisor of the job {job} has not ended yet.")
        await self._remove_files(job)

    # ---------- state and files

    async def inventory(self, workspaces: WorkspacePlaces = NO_WORKSPACES) -> tuple[Node, ...]:  # noqa: ARG002
        """Return the nodes that the GPUs of this machine are divided into, with the limits of jobs on them."""
        as_root = self._accounts is None and os.geteuid() == 0
        limits = self._limits.described(as_root=as_root)
        return tuple(
            replace(node, limits=limits) if node.environment is Environment.TRAIN else node
            for node in self._foreign.nodes()
        )

    async def gpu_samples(self, workspaces: WorkspacePlaces) -> Sequence[GpuSample]:  # noqa: ARG002 - GPUs are chosen here
        """Return the present readings of this machine's GPUs."""
        live = [
            tracked
            for tracked in self._supervision.tracked.values()
            if tracked.handle is not None and tracked.uuids
        ]
        return await asyncio.to_thread(self._samples, live)

    def _samples(self, live: Sequence[Tracked]) -> Sequence[GpuSample]:
        records = [(tracked, read_record(tracked.directory, "supervisor.json")) for tracked in live]
        return self._machine.samples(
            [
                Computing(record["pid"], each.uuids, len(each.placement))
                for each, record in records
                if record is not None
            ]
        )

    async def notebooks(self) -> Sequence[RunningNotebook]:
        """Return the notebook servers of this pool that are in the process table."""
        try:
            found = await asyncio.to_thread(notebooks.running, self._layout.state, self._uids_of)
        except notebooks.NotebooksUnknownError as error:
            raise ExecutorError(str(error)) from error
        return [
            RunningNotebook(
                notebook.mark.user,
                notebook.mark.server,
                notebook.mark.gpus,
                notebook.mark.gpu_type,
                _place(notebook),
            )
            for notebook in found
        ]

    async def end_notebook(self, user: str, server: str) -> None:
        """End all processes of a notebook server."""
        try:
            left = await asyncio.to_thread(notebooks.end, self._layout.state, user, server, self._uids_of)
        except notebooks.NotebooksUnknownError as error:
            raise ExecutorError(str(error)) from error
        if left:
            pids = listed([str(process.pid) for process in left])
            raise ExecutorError(f"The notebook server {given(server)} of {user} does not end (process {pids}).")

    async def follow_users(self, names: Mapping[str, str]) -> None:
        """See `Executor`. Accounts that cannot be read or written stay as they are."""
        if self._accounts is None:
            return
        try:
            await asyncio.to_thread(self._accounts.follow_users, names)
        except AccountError as error:
            log.warning("Accounts do not follow the users of JupyterHub: %s", error)

    def _uids_of(self, user: str) -> Collection[int]:
        return () if self._accounts is None else self._accounts.uids_of(user)

    async def attempts(self) -> tuple[AttemptStatus, ...]:
        """Return the attempts that are followed."""
        tracked = self._supervision.tracked
        return tuple(tracked[key].status for key in sorted(tracked))

    async def list_checkpoints(self, spec: AttemptSpec, also: str = "") -> tuple[SavedCheckpoint, ...]:
        """Read the job's folders with the rights of its account."""
        places, account = self._places_of(spec), self._launcher.account(spec.user)
        return await self._checkpoints.listed(spec, places, _record(account), also)

    async def delete_checkpoints(self, spec: AttemptSpec, names: Collection[str], also: str = "") -> None:
        """Delete checkpoints with the rights of the job's account."""
        places, account = self._places_of(spec), self._launcher.account(spec.user)
        await self._checkpoints.delete(spec, names, places, _record(account), also)

    async def copy_checkpoint(
        self, spec: AttemptSpec, name: str, fork: AttemptSpec, also: str = ""
    ) -> Checkpoint | None:
        """Copy a checkpoint with the rights of the job's account."""
        account = self._launcher.account(spec.user)
        root = self._layout.job(fork.key.job).root
        await asyncio.to_thread(self._unrecorded.begin, fork.key.job)
        make_own_directory(root, self._launcher.mode)
        its = self._places_of(fork)
        return await self._checkpoints.copy(
            spec,
            name,
            fork,
            places=(self._places_of(spec), its),
            seen=its,
            account=_record(account),
            owner=None if account is None else account.owner,
            also=also,
        )

    def _places_of(self, spec: AttemptSpec) -> JobPlaces:
        """Return a job's places as its processes see them."""
        return JobPlaces(self._layout.job(spec.key.job).root.resolve())

    # ---------- underneath

    def _ended(self, tracked: Tracked) -> None:
        """Check the GPUs that became free for processes outside the pool, before they are used again."""
        if tracked.uuids:
            self._supervision.run_in_background(self._foreign.check)

    def _held(self) -> set[str]:
        tracked = self._supervision.tracked.values()
        return {
            uuid for attempt in tracked if attempt.handle is not None or attempt.settling for uuid in attempt.uuids
        }


def _record(account: Account | None) -> dict[str, Any] | None:
    return None if account is None else account.record


def _place(notebook: notebooks.Notebook) -> str:
    return _processes([process.pid for process in notebook.processes])


def _processes(pids: Sequence[int]) -> str:
    return f"{plural(len(pids), 'process', 'processes')} {listed([str(pid) for pid in pids])} of this machine"
