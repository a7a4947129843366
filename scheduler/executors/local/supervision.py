"""Follows the supervisors of attempts: reports their records, and ends the processes left by dead ones."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    ExecutorError,
    Exit,
    Observation,
)
from springtide.scheduler.executors.files.layout import JobPlaces, opened, read_exit, read_record, read_run_time
from springtide.scheduler.executors.files.tail import Tail
from springtide.scheduler.executors.local.launch import Launcher
from springtide.scheduler.executors.local.running import MARK, described, environment, make_places, owner
from springtide.scheduler.executors.local.watch import Watcher
from springtide.scheduler.executors.supervisor.records import REQUESTS, take_lock, write_record
from springtide.scheduler.executors.supervisor.table import (
    ENDED,
    Process,
    boot_id,
    descendants,
    process,
    processes,
    seconds_since_boot,
    send,
    still_alive,
)
from springtide.scheduler.model import Placement, Worker

log = logging.getLogger(__name__)
FIRST_DELAY = 0.02
LONGEST_DELAY = 1.0


@dataclass(slots=True)
class Tracked:
    """An attempt: its files, its status, its supervisor, and the position up to which its files were read.

    ``cgroup`` is the control group of its processes, None if they have none of their own. ``grace`` is its grace
    period in seconds. ``handle`` is the
    pidfd of its supervisor, None unless that is known to live. ``settling`` is set while the processes that a
    dead supervisor left are ended. ``uids`` are those of its processes, ``sessions`` the sessions of its workers
    by their leaders, with the start of each.
    """

    key: AttemptKey
    directory: Path
    places: JobPlaces
    uids: frozenset[int]
    uuids: frozenset[str]
    cgroup: Path | None
    grace: float
    status: AttemptStatus
    placement: Placement
    tail: Tail
    handle: int | None = None
    settling: bool = False
    sessions: dict[int, int] = field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Whether all its processes are proven to have ended."""
        return self.status.phase is AttemptPhase.GONE

    def set_phase(self, phase: AttemptPhase, started: float | None, ended: Exit | None = None) -> None:
        """Set the status of the attempt."""
        self.status = AttemptStatus(self.key, phase, started, ended, self.placement)


def _placement(spec: dict[str, Any]) -> Placement:
    """Return the placement of a ``spec.json``; those of earlier versions have all UUIDs in one list."""
    uuids, placed = list(spec.get("uuids", ())), []
    for worker in spec.get("workers", ()):
        gpus = tuple(worker["gpus"])
        shown, uuids = uuids[: len(gpus)], uuids[len(gpus) :]
        placed.append(Worker(worker["rank"], worker["node"], gpus, tuple(worker.get("uuids", shown))))
    return tuple(placed)


def track(key: AttemptKey, directory: Path, places: JobPlaces, spec: dict[str, Any]) -> Tracked:
    """Return an attempt from its ``spec.json``, which is empty if the attempt was refused."""
    placement = _placement(spec)
    return Tracked(
        key,
        directory,
        places,
        uids=frozenset(spec.get("uids", [spec["uid"]] if "uid" in spec else ())),
        uuids=frozenset(spec.get("uuids", ())),
        cgroup=Path(spec["cgroup"]) if spec.get("cgroup") else None,
        grace=float(spec.get("grace", 0.0)),
        status=AttemptStatus(key, AttemptPhase.STARTING, placement=placement),
        placement=placement,
        tail=Tail(key, directory, places, [worker.rank for worker in placement]),
    )


def _of_session(each: Process, sessions: Mapping[int, int]) -> bool:
    """Return whether the process is in a worker's session; ``sessions`` maps their leaders to their start times.

    The kernel does not reuse the number of a session with processes: without its leader it is the worker's, too.
    """
    if each.session not in sessions:
        return False
    leader = process(each.session)
    return leader is None or leader.state in ENDED or leader.start == sessions[each.session]


def leftovers(pause_file: Path, uids: Collection[int], sessions: Mapping[int, int], since: int) -> list[Process]:
    """Return the live processes of the attempt.

    These are of its account, started after its supervisor, and have the attempt's mark in their environment or are
    in a worker's session, in case they have overwritten the mark.
    """
    live = []
    for each in processes():
        if each.state in ENDED or each.start < since:
            continue
        try:
            uid = owner(each)
        except OSError:
            continue
        marked = uid in uids and environment(each.pid).get(MARK) == str(pause_file)
        if marked or (uid in uids and _of_session(each, sessions)):
            live.append(each)
    return live


def kill_leftovers(
    pause_file: Path, uids: Collection[int], sessions: Mapping[int, int], since: int, killed: Collection[Process]
) -> list[Process]:
    """Kill the processes of the attempt; return them and the ``killed`` ones of earlier calls that still live."""
    live = leftovers(pause_file, uids, sessions, since)
    for survivor in live:
        send(survivor, signal.SIGKILL)
    return still_alive([*killed, *live])


def kill_cgroup(path: Path) -> bool:
    """Kill all processes of an attempt's control group, which none can leave; return whether there were any.

    An empty group is removed.
    """
    try:
        pids = [int(pid) for pid in (path / "cgroup.procs").read_text(encoding="ascii").split()]
    except FileNotFoundError:
        return False
    if not pids:
        with suppress(OSError):
            path.rmdir()
        return False
    try:
        (path / "cgroup.kill").write_text("1", encoding="ascii")
    except OSError:  # before Linux 5.14
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return True


class Supervision:
    """The attempts that are not discarded, by key in ``tracked``.

    ``report`` gets the observations; ``on_end`` is called after an attempt was reported as gone.
    """

    def __init__(
        self,
        launcher: Launcher,
        report: Callable[[Observation], None],
        on_end: Callable[[Tracked], None],
        now: Callable[[], float],
    ) -> None:
        self.tracked: dict[AttemptKey, Tracked] = {}
        self._launcher = launcher
        self._report = report
        self._on_end = on_end
        self._now = now
        self._boot = boot_id()
        self._loop = asyncio.get_running_loop()
        self._watcher = Watcher(self._recorded, self._grew)
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: dict[int, tuple[str, asyncio.Future[None]]] = {}

    async def close(self) -> None:
        """Stop following; supervisors and jobs keep running."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in list(self.tracked):
            self.discard(key)
        for handle in list(self._leaving):
            self._let_go(handle)
        self._watcher.close()

    def adopt(self, tracked: Tracked, *, quietly: bool = False) -> None:
        """Follow an attempt with its records on disk; ``quietly`` does not report its status."""
        self.tracked[tracked.key] = tracked
        self.refresh(tracked, quietly=quietly)
        if not tracked.gone:
            self._watcher.watch(tracked.key, tracked.directory, tracked.places.reports)

    def discard(self, key: AttemptKey) -> None:
        """Stop following an attempt."""
        tracked = self.tracked.pop(key)
        self._watcher.unwatch(key)
        if tracked.handle is not None:
            handle = tracked.handle
            self._loop.remove_reader(handle)
            tracked.handle = None
            self._leaving[handle] = key.job, self._loop.create_future()
            self._loop.add_reader(handle, self._reap, handle)

    def _reap(self, handle: int) -> None:
        """Take note of the end of a supervisor that nothing follows any more: else it stays a zombie."""
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG)
        self._let_go(handle)

    def _let_go(self, handle: int) -> None:
        _, ended = self._leaving.pop(handle)
        self._loop.remove_reader(handle)
        os.close(handle)
        if not ended.done():
            ended.set_result(None)

    async def have_left(self, job: str, within: float) -> bool:
        """Wait, at most ``within`` seconds, until the supervisors of an unfollowed job have ended.

        Return whether they have. One that has recorded its end may still make its directory again.
        """
        ends = [ended for leaving, ended in self._leaving.values() if leaving == job]
        return not ends or not (await asyncio.wait(ends, timeout=within))[1]

    def spawn(self, tracked: Tracked) -> None:
        """Start a supervisor, which exits at once if the attempt has one. Raises `ExecutorError`."""
        try:
            uid = min(tracked.uids, default=os.geteuid())
            supervised = described(uid, tracked.placement, tracked.cgroup, tracked.grace)
            pid = self._launcher.start(tracked.directory, supervised)
        except OSError as error:
            raise ExecutorError(f"The job's supervisor could not be started: {error.strerror}.") from error
        self._watch_supervisor(tracked, os.pidfd_open(pid))

    def refresh(self, tracked: Tracked, *, quietly: bool = False) -> None:
        """Update the status from the records, and report it if it changed."""
        if tracked.gone:
            return
        before = tracked.status
        ended = read_exit(tracked.directory)
        record = read_record(tracked.directory, "supervisor.json")
        started = tracked.status.started or (self._started(record) if record else None)
        if ended is not None:
            self._watcher.unwatch(tracked.key)
            for observation in tracked.tail.read_rest(self._now()):
                self._report(observation)
            ended = replace(ended, complete=tracked.tail.complete, returned=tracked.tail.returned)
            tracked.set_phase(AttemptPhase.GONE, started, ended)
        elif record is not None:
            tracked.sessions |= dict(record.get("workers", ()))
            if tracked.handle is None:
                self._follow(tracked, record)
            if started is not None:
                tracked.set_phase(AttemptPhase.RUNNING, started)
        if tracked.status != before and not quietly:
            self._report(tracked.status)
        if tracked.gone:
            self._on_end(tracked)

    def _started(self, record: dict[str, Any]) -> float | None:
        """Return when the processes started, by the system clock as it is set now if this is the same boot."""
        started, since_boot = record.get("started"), record.get("since_boot")
        if started is None or since_boot is None or record.get("boot") != self._boot:
            return started
        then, now = ClockAnchor(0, started - since_boot), ClockAnchor(0, self._now() - seconds_since_boot())
        return float(started + then.step_to(now))

    def make_directory(self, tracked: Tracked) -> bool:
        """Make the directory of an attempt if it is missing; return whether it was made."""
        if tracked.directory.is_dir():
            return False
        log.error("The directory of %s was removed while it ran: %s", tracked.key, tracked.directory)
        make_places(tracked.places, tracked.directory, self._launcher.mode)
        return True

    def watch_again(self, tracked: Tracked) -> None:
        """Watch the files of an attempt whose directory was made again."""
        self._watcher.unwatch(tracked.key)
        self._watcher.watch(tracked.key, tracked.directory, tracked.places.reports)

    def end_by_force(self, tracked: Tracked, supervisor: int, after: float) -> None:
        """Kill the processes of the supervisor with this pid, unless they end within ``after`` seconds.

        A supervisor of an earlier version finds no requests in a recreated directory.
        """

        async def end() -> None:
            await asyncio.sleep(after)
            backoff = _backoff()
            while tracked.handle is not None:
                for descendant in await asyncio.to_thread(descendants, supervisor):
                    send(descendant, signal.SIGKILL)
                await asyncio.sleep(backoff.next_delay())

        self.run_in_background(end)

    def signal_supervisor(self, tracked: Tracked) -> bool:
        """Signal the supervisor to read the requests; return False if none is known to live."""
        return self._signal(tracked, signal.SIGTERM)

    def wake_supervisor(self, tracked: Tracked) -> bool:
        """Have the supervisor look for sessions; return False if none is known to live.

        SIGTERM without a request is that of a machine that shuts down.
        """
        return self._signal(tracked, signal.SIGCHLD)

    def _signal(self, tracked: Tracked, number: signal.Signals) -> bool:
        if tracked.handle is None:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(tracked.handle, number)
        return True

    def run_in_background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do ``work`` in the background, until `close` at the latest."""

        async def run() -> None:
            try:
                await work()
            except Exception:
                log.exception("An attempt could not be followed")

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------- supervisors

    def _follow(self, tracked: Tracked, record: dict[str, Any]) -> None:
        """Watch the supervisor of the record if it lives, else settle its attempt."""
        handle = self._handle_of(record)
        if handle is None:
            self._settle_soon(tracked, seen=False)
            return
        self._take_over(tracked, handle)

    def _handle_of(self, record: dict[str, Any]) -> int | None:
        """Return a pidfd of the process in the record, None if it has ended."""
        if record.get("boot") != self._boot:
            return None
        try:
            handle = os.pidfd_open(record["pid"])
        except (OSError, KeyError, TypeError, OverflowError):
            return None
        now = process(record["pid"])
        if now is None or now.start != record.get("start") or now.state in ENDED:
            os.close(handle)
            return None
        return handle

    def _take_over(self, tracked: Tracked, handle: int) -> None:
        """Watch a supervisor that another service started, and pass on requests that were made meanwhile."""
        self._watch_supervisor(tracked, handle)
        if any((tracked.directory / request).exists() for request in REQUESTS):
            self.signal_supervisor(tracked)

    def _watch_supervisor(self, tracked: Tracked, handle: int) -> None:
        tracked.handle = handle
        self._loop.add_reader(handle, self._supervisor_ended, tracked)

    def _unwatch_supervisor(self, tracked: Tracked) -> None:
        assert tracked.handle is not None
        self._loop.remove_reader(tracked.handle)
        os.close(tracked.handle)
        tracked.handle = None

    def _supervisor_ended(self, tracked: Tracked) -> None:
        assert tracked.handle is not None
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, tracked.handle, os.WEXITED | os.WNOHANG)
        self._unwatch_supervisor(tracked)
        if not tracked.gone:
            if read_exit(tracked.directory) is not None:
                self.refresh(tracked)
            else:
                self._settle_soon(tracked, seen=True)

    # ---------- dead supervisors

    def _settle_soon(self, tracked: Tracked, *, seen: bool) -> None:
        """Settle the attempt of a dead supervisor; ``seen``: it has died just now."""
        if not tracked.settling:
            tracked.settling = True
            self.run_in_background(lambda: self._settle(tracked, seen=seen))

    async def _settle(self, tracked: Tracked, *, seen: bool) -> None:
        """End the processes of an attempt and record its loss, unless a new supervisor has taken it over."""
        try:
            backoff = _backoff()
            while True:
                self.make_directory(tracked)
                with _lock(tracked) as alone:
                    if alone:
                        if read_exit(tracked.directory) is None:
                            await self._end_leftovers(tracked)
                            await self._record_lost(tracked, seen=seen)
                        break
                    record = read_record(tracked.directory, "supervisor.json")
                    handle = self._handle_of(record) if record else None
                    if handle is not None:
                        self._take_over(tracked, handle)
                        break
                await asyncio.sleep(backoff.next_delay())
        finally:
            tracked.settling = False
        self.refresh(tracked)

    async def _end_leftovers(self, tracked: Tracked) -> None:
        record = read_record(tracked.directory, "supervisor.json") or {}
        if record.get("boot", self._boot) != self._boot:
            return
        sessions = tracked.sessions | dict(record.get("workers", ()))
        pause_file, since = tracked.directory.resolve() / "pause", record.get("start", 0)
        backoff = _backoff()
        killed: list[Process] = []
        while True:
            killed = await asyncio.to_thread(kill_leftovers, pause_file, tracked.uids, sessions, since, killed)
            grouped = tracked.cgroup is not None and await asyncio.to_thread(kill_cgroup, tracked.cgroup)
            if not killed and not grouped:
                return
            await asyncio.sleep(backoff.next_delay())

    async def _record_lost(self, tracked: Tracked, *, seen: bool) -> None:
        record = read_record(tracked.directory, "supervisor.json")
        if record is None and tracked.status.started is not None:
            detail = "Its files were removed while it ran, and its supervisor was killed; what ran was ended."
        elif record is None:
            detail = "Its supervisor ended before it started the job."
        elif record.get("boot") != self._boot:
            detail = "The machine was restarted while it ran."
        else:
            detail = "Its supervisor was killed; what it had started was ended."
        with suppress(OSError):
            detail += f" ({(tracked.directory / 'supervisor.err').read_text(encoding='utf-8')[-500:].strip()})"
        paused = (tracked.directory / "pause").exists()
        ran = None if seen else read_run_time(tracked.directory)
        ended = {"kind": "lost", "at": self._now(), "ran": ran, "paused": paused, "detail": detail}
        backoff = _backoff()
        while True:
            try:
                with opened(tracked.directory) as directory:
                    write_record(directory, "exit.json", ended)
            except OSError as error:
                log.warning("The end of %s cannot be recorded yet: %s", tracked.key, error)
                await asyncio.sleep(backoff.next_delay())
            else:
                return

    # ---------- files

    def _recorded(self, key: AttemptKey) -> None:
        if key in self.tracked:
            self.refresh(self.tracked[key])

    def _grew(self, key: AttemptKey) -> bool:
        return key in self.tracked and self._flush(self.tracked[key])

    def _flush(self, tracked: Tracked) -> bool:
        """Report new log sizes and reports; return whether there were any."""
        observed, grew = tracked.tail.read_new(self._now())
        for observation in observed:
            self._report(observation)
        return grew


@contextmanager
def _lock(tracked: Tracked) -> Iterator[bool]:
    """Yield whether the attempt has no supervisor; if so, none can start within the context."""
    with opened(tracked.directory) as directory:
        lock = take_lock(directory)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _backoff() -> Backoff:
    return Backoff(FIRST_DELAY, LONGEST_DELAY, factor=1.5)
