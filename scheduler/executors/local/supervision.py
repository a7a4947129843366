"""Follows the supervisors of attempts: what they record is told, what they leave behind is ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, ExecutorError, Observation
from springtide.scheduler.executors.files.layout import opened, read_exit, read_record
from springtide.scheduler.executors.local.launch import Launcher
from springtide.scheduler.executors.local.leftovers import kill_leftovers
from springtide.scheduler.executors.local.tracked import Tracked
from springtide.scheduler.executors.local.watch import Watcher
from springtide.scheduler.executors.supervisor.records import take_lock, write_record
from springtide.scheduler.executors.supervisor.table import boot_id, process

log = logging.getLogger(__name__)

SOONEST = 0.02
LATEST = 1.0


class Supervision:
    """The attempts that are not discarded, by key in ``tracked``.

    ``tell`` gets what is observed; ``ended`` is called after an attempt was told to be gone.
    """

    def __init__(
        self,
        launcher: Launcher,
        tell: Callable[[Observation], None],
        ended: Callable[[Tracked], None],
        now: Callable[[], float],
    ) -> None:
        self.tracked: dict[AttemptKey, Tracked] = {}
        self._launcher = launcher
        self._tell = tell
        self._ended = ended
        self._now = now
        self._boot = boot_id()
        self._loop = asyncio.get_running_loop()
        self._watcher = Watcher(self._recorded, self._grew)
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Let go of everything; what runs goes on."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in list(self.tracked):
            self.forget(key)
        self._watcher.close()

    def adopt(self, tracked: Tracked, *, quietly: bool = False) -> None:
        """Begin to follow an attempt as it lies on disk; ``quietly`` does not tell its status."""
        self.tracked[tracked.key] = tracked
        self.look(tracked, quietly=quietly)
        if not tracked.gone:
            self._watcher.watch(tracked.key, tracked.directory, tracked.places.reports)

    def forget(self, key: AttemptKey) -> None:
        """Follow an attempt no more."""
        tracked = self.tracked.pop(key)
        self._watcher.forget(key)
        if tracked.handle is not None:
            self._let_go(tracked)

    def spawn(self, tracked: Tracked) -> None:
        """Start a supervisor. If the attempt has one already, the new one leaves at once."""
        try:
            pid = self._launcher.start(tracked.directory)
        except OSError as error:
            raise ExecutorError(f"The job's supervisor could not be started: {error.strerror}.") from error
        self._hold(tracked, os.pidfd_open(pid))

    def look(self, tracked: Tracked, *, quietly: bool = False) -> None:
        """Bring the status up to what the records say, and tell."""
        if tracked.gone:
            return
        before = tracked.status
        ended = read_exit(tracked.directory)
        record = read_record(tracked.directory, "supervisor.json")
        started = record.get("started") if record else None
        if ended is not None:
            self._watcher.forget(tracked.key)
            for observation in tracked.growth.last_looks(self._now()):
                self._tell(observation)
            tracked.stand(AttemptPhase.GONE, started, ended)
        elif record is not None:
            if tracked.handle is None:
                self._follow(tracked, record)
            if started is not None:
                tracked.stand(AttemptPhase.RUNNING, started)
        if tracked.status != before and not quietly:
            self._tell(tracked.status)
        if tracked.gone:
            self._ended(tracked)

    def ask(self, tracked: Tracked) -> bool:
        """Tell its supervisor to look what it is asked for; False if none is known to live."""
        if tracked.handle is None:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(tracked.handle, signal.SIGTERM)
        return True

    def begin(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something in the background for as long as this is open."""

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
        """Hold on to the supervisor of the record if it lives, else settle what it left."""
        handle = self._handle_of(record)
        if handle is None:
            self._settle_soon(tracked)
            return
        self._take_over(tracked, handle)

    def _handle_of(self, record: dict[str, Any]) -> int | None:
        """A pidfd of the very process that wrote the record, None if that is gone."""
        if record.get("boot") != self._boot:
            return None
        try:
            handle = os.pidfd_open(record["pid"])
        except (OSError, KeyError, TypeError, OverflowError):
            return None
        now = process(record["pid"])
        if now is None or now.start != record.get("start") or now.state in ("Z", "X"):
            os.close(handle)
            return None
        return handle

    def _take_over(self, tracked: Tracked, handle: int) -> None:
        """Hold on to a supervisor that was not started here, and pass on what was asked while nobody held it."""
        self._hold(tracked, handle)
        if any((tracked.directory / request).exists() for request in ("pause", "kill")):
            self.ask(tracked)

    def _hold(self, tracked: Tracked, handle: int) -> None:
        tracked.handle = handle
        self._loop.add_reader(handle, self._supervisor_left, tracked)

    def _let_go(self, tracked: Tracked) -> None:
        assert tracked.handle is not None
        self._loop.remove_reader(tracked.handle)
        os.close(tracked.handle)
        tracked.handle = None

    def _supervisor_left(self, tracked: Tracked) -> None:
        assert tracked.handle is not None
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, tracked.handle, os.WEXITED | os.WNOHANG)
        self._let_go(tracked)
        if not tracked.gone:
            if read_exit(tracked.directory) is not None:
                self.look(tracked)
            else:
                self._settle_soon(tracked)

    # ---------- what a dead supervisor leaves

    def _settle_soon(self, tracked: Tracked) -> None:
        if not tracked.settling:
            tracked.settling = True
            self.begin(lambda: self._settle(tracked))

    async def _settle(self, tracked: Tracked) -> None:
        """End what is left of an attempt without supervisor and record that it is lost, unless another has it."""
        try:
            for pause in _pauses():
                with _lock(tracked) as alone:
                    if alone:
                        if read_exit(tracked.directory) is None:
                            await self._end_leftovers(tracked)
                            await self._record_lost(tracked)
                        break
                    record = read_record(tracked.directory, "supervisor.json")
                    handle = self._handle_of(record) if record else None
                    if handle is not None:
                        self._take_over(tracked, handle)
                        break
                await asyncio.sleep(pause)
        finally:
            tracked.settling = False
        self.look(tracked)

    async def _end_leftovers(self, tracked: Tracked) -> None:
        record = read_record(tracked.directory, "supervisor.json")
        if record is None or record.get("boot") != self._boot:
            return
        sessions = dict(record.get("workers", ()))
        pause_file = tracked.directory.resolve() / "pause"
        for pause in _pauses():
            if not await asyncio.to_thread(kill_leftovers, pause_file, tracked.uid, sessions, record["start"]):
                return
            await asyncio.sleep(pause)

    async def _record_lost(self, tracked: Tracked) -> None:
        record = read_record(tracked.directory, "supervisor.json")
        if record is None:
            detail = "Its supervisor ended before it started the job."
        elif record.get("boot") != self._boot:
            detail = "The machine was restarted while it ran."
        else:
            detail = "Its supervisor was killed; what it had started was ended."
        with suppress(OSError):
            detail += f" ({(tracked.directory / 'supervisor.err').read_text(encoding='utf-8')[-500:].strip()})"
        paused = (tracked.directory / "pause").exists()
        ended = {"kind": "lost", "at": self._now(), "paused": paused, "detail": detail}
        for pause in _pauses():
            try:
                with opened(tracked.directory) as directory:
                    write_record(directory, "exit.json", ended)
            except OSError as error:
                log.warning("The end of %s cannot be recorded, trying again: %s", tracked.key, error)
                await asyncio.sleep(pause)
            else:
                return

    # ---------- growth

    def _recorded(self, key: AttemptKey) -> None:
        if key in self.tracked:
            self.look(self.tracked[key])

    def _grew(self, key: AttemptKey) -> bool:
        return key in self.tracked and self._flush(self.tracked[key])

    def _flush(self, tracked: Tracked) -> bool:
        """Tell how far log and reports have come; whether they had grown."""
        observed, grew = tracked.growth.look(self._now())
        for observation in observed:
            self._tell(observation)
        return grew


@contextmanager
def _lock(tracked: Tracked) -> Iterator[bool]:
    """Whether the attempt has no supervisor; while that is so none can start."""
    with opened(tracked.directory) as directory:
        lock = take_lock(directory)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _pauses() -> Iterator[float]:
    """How long to wait before the next try, for ever."""
    pause = SOONEST
    while True:
        yield pause
        pause = min(LATEST, pause * 1.5)
