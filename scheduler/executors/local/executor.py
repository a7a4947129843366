"""The executor for one machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Literal

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptSpec,
    AttemptStatus,
    Executor,
    ExecutorError,
    Exit,
    ExitKind,
    InventoryChanged,
    LogPiece,
    Observation,
    Report,
)
from springtide.scheduler.executors.files.epoch import EpochGate
from springtide.scheduler.executors.files.layout import (
    DISCARDED,
    Layout,
    leave_request,
    read_exit,
    read_record,
    record_exit,
)
from springtide.scheduler.executors.files.reader import Reader
from springtide.scheduler.executors.local.foreign import Foreign
from springtide.scheduler.executors.local.launch import SYSTEM_PATH, Launcher, read_spec
from springtide.scheduler.executors.local.supervision import Supervision
from springtide.scheduler.executors.local.tracked import Tracked, track
from springtide.scheduler.model import Node
from springtide.scheduler.telemetry import Machine

LOG_CAP = 64 << 20
NOT_STARTED = "It was asked to stop before it started."


def service_environment() -> dict[str, str]:
    """What a job finds where all run as the service's own account: where Python is, and nothing of the service."""
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SHELL", "TZ") if name in os.environ}
    path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
    return {**kept, "PATH": path, "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


class LocalExecutor(Executor):
    """Runs attempts as processes of this machine.

    ``accounts`` is ``"service"`` where one trusted user owns everything, or ``"own"``: each job runs as the
    account that is named like its user, for which the service has to run as root. ``base_env``, ``limits``,
    ``log_cap`` and ``cgroup`` are as in `Launcher`. ``now`` tells the time.
    """

    name = "local"

    def __init__(
        self,
        state_dir: Path,
        machine: Machine,
        *,
        accounts: Literal["own", "service"] = "service",
        base_env: Mapping[str, str] | None = None,
        limits: Mapping[str, tuple[int, int]] | None = None,
        log_cap: int = LOG_CAP,
        cgroup: Path | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._layout = Layout(Path(state_dir).absolute())
        self._machine = machine
        self._own_accounts = accounts == "own"
        self._launcher = Launcher(
            layout=self._layout,
            nodes=machine.nodes,
            own_accounts=self._own_accounts,
            base_env=service_environment() if base_env is None else base_env,
            limits=limits or {},
            log_cap=log_cap,
            cgroup=cgroup,
        )
        self._now = now
        self._reader = Reader(self._layout, now)
        self._epoch = EpochGate(self._layout)
        self._locks: dict[AttemptKey, asyncio.Lock] = {}
        self._begun = AsyncExitStack()

    # ---------- beginning and end

    async def start(self, listener: Callable[[Observation], None]) -> None:
        if self._own_accounts and os.geteuid() != 0:
            raise ExecutorError("Jobs can run as their users' own accounts only if the service runs as root.")
        self._make_root()
        try:
            self._supervision = Supervision(self._launcher, listener, self._ended, self._now)
        except OSError as error:
            raise ExecutorError(f"The kernel gives no inotify instance: {error.strerror}.") from error
        self._begun.push_async_callback(self._supervision.close)
        self._foreign = Foreign(self._machine, self._held, lambda: listener(InventoryChanged()))
        self._begun.callback(self._foreign.close)
        for tracked in await asyncio.to_thread(self._scan):
            self._supervision.adopt(tracked, quietly=True)
            if not tracked.gone and read_record(tracked.directory, "supervisor.json") is None:
                self._supervision.spawn(tracked)
        await self._foreign.look()

    async def stop(self) -> None:
        await self._begun.aclose()

    def _make_root(self) -> None:
        mode = 0o711 if self._own_accounts else 0o700
        try:
            self._layout.state.mkdir(parents=True, exist_ok=True, mode=mode)
            self._layout.jobs.mkdir(exist_ok=True, mode=mode)
        except OSError as error:
            raise ExecutorError(f"{self._layout.jobs} cannot be made: {error.strerror}.") from error
        if self._own_accounts:
            self._layout.jobs.chmod(mode)
            for path in (self._layout.state, *self._layout.state.parents):
                if not path.stat().st_mode & 0o001:
                    raise ExecutorError(
                        f"Jobs of other accounts cannot reach their files: {path} may not be entered by others. "
                        f"Allow it (chmod o+x {path}) or put the state directory elsewhere."
                    )

    def _scan(self) -> list[Tracked]:
        jobs = ((job, self._layout.job(job)) for job in self._layout.all_jobs())
        keys = [AttemptKey(job, number) for job, places in jobs for number in places.numbers()]
        found = [self._load(key) for key in keys if not (self._layout.attempt(key) / DISCARDED).exists()]
        return [tracked for tracked in found if tracked is not None]

    def _load(self, key: AttemptKey) -> Tracked | None:
        """An attempt as it lies on disk; None if it was never ordered completely, and so never started."""
        directory = self._layout.attempt(key)
        spec = read_spec(directory)
        if spec is None and read_exit(directory) is None:
            return None
        tracked = track(key, directory, self._layout.job(key.job), spec or {})
        tracked.growth.read_all(self._now())
        return tracked

    # ---------- acts

    async def launch(self, spec: AttemptSpec) -> None:
        key = spec.key
        directory = self._layout.attempt(key)
        self._epoch.check(spec.epoch)
        async with self._lock(key):
            if key not in self._supervision.tracked:
                try:
                    tracked = await asyncio.to_thread(self._order, spec, directory)
                except OSError as error:
                    why = error.strerror or str(error)
                    raise ExecutorError(
                        f"The job could not be put on disk: {why} ({self._layout.jobs})."
                    ) from error
                self._supervision.adopt(tracked)
            tracked = self._supervision.tracked[key]
            if tracked.gone or tracked.handle is not None or await self._taken(tracked):
                return
            self._supervision.spawn(tracked)

    def _order(self, spec: AttemptSpec, directory: Path) -> Tracked:
        """Put the attempt on disk unless it is there; one that can never start gets its exit at once."""
        tracked = self._load(spec.key)
        if tracked is None:
            self._launcher.make_places(spec)
            try:
                self._launcher.prepare(spec, directory)
            except ExecutorError as refused:
                record_exit(directory, Exit(ExitKind.REFUSED, self._now(), detail=str(refused)))
            tracked = self._load(spec.key)
            assert tracked is not None
        return tracked

    async def _taken(self, tracked: Tracked) -> bool:
        """Whether something outside the pool is on the attempt's GPUs; then it is recorded as lost."""
        await self._foreign.look()
        pids = sorted({pid for uuid in tracked.uuids for pid in self._foreign.taken.get(uuid, ())})
        if not pids:
            return False
        detail = f"Something outside the pool uses its GPUs (process {', '.join(map(str, pids))})."
        record_exit(tracked.directory, Exit(ExitKind.LOST, self._now(), detail=detail))
        self._supervision.look(tracked)
        return tracked.gone

    async def pause(self, key: AttemptKey) -> None:
        await self._ask(key, "pause")

    async def kill(self, key: AttemptKey) -> None:
        await self._ask(key, "kill")

    async def _ask(self, key: AttemptKey, request: str) -> None:
        """Leave a request in the attempt's directory and have its supervisor look at it."""
        self._epoch.check()
        async with self._lock(key):
            tracked = self._supervision.tracked.get(key)
            if tracked is None and read_exit(self._layout.attempt(key)) is None:
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} is not known here.")
            if tracked is None or tracked.gone:
                return
            try:
                leave_request(tracked.directory, request)
            except OSError as error:
                raise ExecutorError(f"The job cannot be asked to stop: {error.strerror}.") from error
            if self._supervision.ask(tracked) or read_record(tracked.directory, "supervisor.json") is not None:
                return
            ended = Exit(ExitKind.EXITED, self._now(), paused=request == "pause", detail=NOT_STARTED)
            record_exit(tracked.directory, ended)
            self._supervision.look(tracked)

    async def discard(self, key: AttemptKey) -> None:
        async with self._lock(key):
            tracked = self._supervision.tracked.get(key)
            if tracked is None:
                return
            if not tracked.gone:
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} has not ended.")
            await asyncio.to_thread((tracked.directory / DISCARDED).touch)
            self._supervision.forget(key)
        self._locks.pop(key, None)

    async def remove(self, job: str) -> None:
        places = self._layout.job(job)
        mine = [tracked for key, tracked in self._supervision.tracked.items() if key.job == job]
        if any(not tracked.gone for tracked in mine):
            raise ExecutorError(f"The job {job} has not ended.")
        for tracked in mine:
            self._supervision.forget(tracked.key)
        with suppress(FileNotFoundError):
            await asyncio.to_thread(shutil.rmtree, places.root)

    # ---------- what there is

    async def inventory(self) -> tuple[Node, ...]:
        return self._foreign.nodes()

    async def attempts(self) -> tuple[AttemptStatus, ...]:
        tracked = self._supervision.tracked
        return tuple(tracked[key].status for key in sorted(tracked))

    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        return await self._reader.log(job, rank, offset, limit)

    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        return await self._reader.reports(job, after, limit)

    async def read_output(self, job: str, name: str, limit: int) -> bytes | None:
        return await self._reader.output(job, name, limit)

    # ---------- underneath

    def _ended(self, tracked: Tracked) -> None:
        """GPUs became free: see that nothing outside the pool is on them before they are given away."""
        if tracked.uuids:
            self._supervision.begin(self._foreign.look)

    def _held(self) -> set[str]:
        tracked = self._supervision.tracked.values()
        return {uuid for each in tracked if each.handle is not None or each.settling for uuid in each.uuids}

    def _lock(self, key: AttemptKey) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
