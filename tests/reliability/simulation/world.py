"""The machines of a pool and the programs that run on them, on virtual time. They outlive the service."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import structs

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptSpec,
    AttemptStatus,
    ExecutorError,
    Exit,
    ExitKind,
    InventoryChanged,
    Observation,
    Report,
    Reported,
)
from springtide.scheduler.model import Environment, Node

START = 1_000_000_000.0
"""System time at the start of a loop, in seconds since the epoch."""
STOPPING = 0.5
"""Time a program takes to save and stop when asked to, in seconds."""
KILL_AFTER = 5.0


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulated job does; it is the job's only argument.

    ``work`` is how long it computes, in seconds. It saves every ``save_every`` seconds, and also when asked to
    pause unless it is ``deaf``. Its first ``failures`` attempts fail halfway. After each ``chunk`` seconds it
    saves and exits with 75.
    """

    work: float
    save_every: float = 0.0
    deaf: bool = False
    failures: int = 0
    chunk: float = 0.0

    def argv(self) -> list[str]:
        """Return the arguments of this program's jobs."""
        return ["simulated", msgspec.json.encode(self).decode()]


@dataclass(slots=True)
class Attempt:
    """Processes of one attempt; ``base`` is the work that it found saved."""

    spec: AttemptSpec
    program: Program
    base: float
    status: AttemptStatus
    began: float = 0.0
    reported: Reported | None = None
    pausing: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class World:
    """Nodes, running attempts, checkpoints and results.

    ``violations`` are sentences about GPUs given twice, attempts that overlap, and programs that ran on wrong
    GPUs. ``log`` has every event with its time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, nodes: tuple[Node, ...], start_delay: float = 0.2) -> None:
        self.loop = loop
        self.nodes = nodes
        self.start_delay = start_delay
        self.wall_step = 0.0
        self.boot = 1
        self.boot_at = 0.0
        self.epoch = 0
        self.attempts: dict[AttemptKey, Attempt] = {}
        self.discarded: dict[AttemptKey, Attempt] = {}
        self.ever: Counter[AttemptKey] = Counter()
        self.failed: Counter[str] = Counter()
        self.saved: dict[str, float] = {}
        self.results: dict[str, list[float]] = {}
        self.reports: Counter[str] = Counter()
        self.removed: set[str] = set()
        self.violations: list[str] = []
        self.log: list[str] = []
        self.listeners: list[Callable[[Observation], None]] = []

    # ---------- clocks

    def wall(self) -> float:
        """Return the system time, which `set_clock` changes."""
        return START + self.loop.time() + self.wall_step

    def steady(self) -> float:
        """Return the time since the boot."""
        return self.loop.time() - self.boot_at

    def set_clock(self, by: float) -> None:
        """Set the system clock forward or back."""
        self.note(f"clock {by:+g}")
        self.wall_step += by

    # ---------- requests

    def launch(self, spec: AttemptSpec) -> None:
        """Start an attempt, once."""
        key = spec.key
        if self.ever[key]:
            return
        self.ever[key] += 1
        self.note(f"launch {key.job}.{key.attempt} on {_gpus(spec)}")
        self._check(spec)
        program = msgspec.json.decode(spec.argv[1], type=Program)
        status = AttemptStatus(key, AttemptPhase.STARTING, placement=spec.placement)
        attempt = Attempt(spec, program, self.saved.get(key.job, 0.0), status)
        self.attempts[key] = attempt
        self._tell(status)
        attempt.timers.append(self.loop.call_later(self.start_delay, self._run, attempt))

    def pause(self, key: AttemptKey) -> None:
        """Ask an attempt to save and stop, and kill it after its grace period."""
        self._must_know(key)
        attempt = self._live(key)
        if attempt is None or attempt.pausing:
            return
        self.note(f"pause {key.job}.{key.attempt}")
        attempt.pausing = True
        if not attempt.program.deaf:
            attempt.timers.append(self.loop.call_later(STOPPING, self._save_and_stop, attempt))
        attempt.timers.append(self.loop.call_later(attempt.spec.grace, self._kill, attempt))

    def kill(self, key: AttemptKey, *, now: bool) -> None:
        """Ask an attempt to end for good, and kill it after its grace period; ``now``: soon."""
        self._must_know(key)
        attempt = self._live(key)
        if attempt is None:
            return
        self.note(f"kill {key.job}.{key.attempt}")
        deaf = KILL_AFTER if now else attempt.spec.grace
        delay = deaf if attempt.program.deaf else STOPPING
        attempt.timers.append(self.loop.call_later(delay, self._kill, attempt))

    def discard(self, key: AttemptKey) -> None:
        """Forget an attempt that has ended."""
        if key in self.attempts and self._live(key) is None:
            self.note(f"discard {key.job}.{key.attempt}")
            self.discarded[key] = self.attempts.pop(key)

    def recall(self, key: AttemptKey) -> AttemptStatus | None:
        """Remember an attempt that may have been discarded."""
        if key in self.discarded:
            self.attempts[key] = self.discarded.pop(key)
        return self.attempts[key].status if key in self.attempts else None

    def _must_know(self, key: AttemptKey) -> None:
        if key not in self.attempts and key not in self.discarded:
            raise ExecutorError(f"Attempt {key.attempt} of {key.job} is not known here.")

    def live(self) -> list[AttemptKey]:
        """Return the attempts of which processes live."""
        return [key for key in self.attempts if self._live(key) is not None]

    # ---------- what happens by itself

    def lose(self, name: str) -> None:
        """End a node and everything on it."""
        self._set_available(name, available=False)
        for key in self.live():
            attempt = self.attempts[key]
            if any(worker.node == name for worker in attempt.spec.placement):
                self._lost(attempt, "Its node vanished.")

    def cut_off(self, name: str) -> None:
        """Take a node out of service; its jobs keep running."""
        self._set_available(name, available=False)

    def regain(self, name: str) -> None:
        """Bring a node back."""
        self._set_available(name, available=True)

    def reboot(self) -> None:
        """End every process; no one is there to hear of it."""
        self.note("reboot")
        self.boot += 1
        self.boot_at = self.loop.time()
        for key in self.live():
            self._lost(self.attempts[key], "The machine was restarted while it ran.")

    def take_away(self, key: AttemptKey) -> None:
        """End an attempt as if its supervisor had been killed."""
        attempt = self._live(key)
        if attempt is not None:
            self._lost(attempt, "Its supervisor was killed.")

    def _set_available(self, name: str, *, available: bool) -> None:
        if any(node.name == name and node.available != available for node in self.nodes):
            self.note(f"node {name} {'back' if available else 'away'}")
            self.nodes = tuple(
                structs.replace(node, available=available) if node.name == name else node for node in self.nodes
            )
            self._tell(InventoryChanged())

    def _run(self, attempt: Attempt) -> None:
        attempt.began = self.loop.time()
        self._set(attempt, structs.replace(attempt.status, phase=AttemptPhase.RUNNING, started=self.loop.time()))
        program, job = attempt.program, attempt.spec.key.job
        left = program.work - attempt.base
        if self.failed[job] < program.failures:
            attempt.timers.append(self.loop.call_later(left / 2, self._fail, attempt))
        elif 0 < program.chunk < left:
            attempt.timers.append(self.loop.call_later(program.chunk, self._save_and_stop, attempt))
        else:
            attempt.timers.append(self.loop.call_later(left, self._succeed, attempt))
        if program.save_every:
            attempt.timers.append(self.loop.call_later(program.save_every, self._save_and_go_on, attempt))

    def _succeed(self, attempt: Attempt) -> None:
        done = attempt.base + self.loop.time() - attempt.began
        self.results.setdefault(attempt.spec.key.job, []).append(round(done, 3))
        self._end(attempt, code=0)

    def _fail(self, attempt: Attempt) -> None:
        self.failed[attempt.spec.key.job] += 1
        self._end(attempt, code=1)

    def _save(self, attempt: Attempt) -> None:
        if attempt.status.phase is AttemptPhase.RUNNING:
            done = attempt.base + self.loop.time() - attempt.began
            key, at, saved = attempt.spec.key, self.wall(), min(done, attempt.program.work)
            self.saved[key.job] = saved
            self.reports[key.job] += 1
            last = Report(self.reports[key.job], at, key.attempt, saved, attempt.program.work, {}, saved=True)
            attempt.reported = Reported(key, last, at, saved)
            self._tell(attempt.reported)

    def _save_and_go_on(self, attempt: Attempt) -> None:
        self._save(attempt)
        attempt.timers.append(self.loop.call_later(attempt.program.save_every, self._save_and_go_on, attempt))

    def _save_and_stop(self, attempt: Attempt) -> None:
        self._save(attempt)
        self._end(attempt, code=75)

    def _kill(self, attempt: Attempt) -> None:
        self._end(attempt, signal=9, killed=True)

    def _lost(self, attempt: Attempt, detail: str) -> None:
        self._end(attempt, kind=ExitKind.LOST, detail=detail)

    def _end(
        self,
        attempt: Attempt,
        *,
        kind: ExitKind = ExitKind.EXITED,
        code: int | None = None,
        signal: int | None = None,
        killed: bool = False,
        detail: str = "",
    ) -> None:
        for timer in attempt.timers:
            timer.cancel()
        attempt.timers.clear()
        ran = None if attempt.status.started is None else self.loop.time() - attempt.began
        ended = Exit(
            kind, self.loop.time(), code, signal, attempt.pausing, killed, detail, ran, complete=code == 0
        )
        self.note(f"end {attempt.spec.key.job}.{attempt.spec.key.attempt} {kind} {code} {signal}")
        self._set(attempt, structs.replace(attempt.status, phase=AttemptPhase.GONE, exit=ended))

    # ---------- underneath

    def present(self, status: AttemptStatus) -> AttemptStatus:
        """Return a status, whose times are of the loop, with times of the system clock as it is set now."""
        wall = self.wall() - self.loop.time()
        started = None if status.started is None else status.started + wall
        ended = None if status.exit is None else replace(status.exit, at=status.exit.at + wall)
        return structs.replace(status, started=started, exit=ended)

    def _live(self, key: AttemptKey) -> Attempt | None:
        attempt = self.attempts.get(key)
        return attempt if attempt is not None and attempt.status.phase is not AttemptPhase.GONE else None

    def _set(self, attempt: Attempt, status: AttemptStatus) -> None:
        attempt.status = status
        self._tell(status)

    def _tell(self, observation: Observation) -> None:
        for listener in list(self.listeners):
            listener(observation)

    def note(self, event: str) -> None:
        """Add a line to the log."""
        self.log.append(f"{self.loop.time():.3f} {event}")

    def _check(self, spec: AttemptSpec) -> None:
        """Check the promises that only the world can: who really runs where."""
        mine = _gpus(spec)
        if len(set(mine)) < len(mine):
            self.violations.append(f"{spec.key} has a GPU twice: {mine}")
        for key in self.live():
            if key.job == spec.key.job:
                self.violations.append(f"{spec.key} overlaps {key}")
            if both := set(mine) & set(_gpus(self.attempts[key].spec)):
                self.violations.append(f"{spec.key} was given {sorted(both)}, which {key} has")
        train = {node.name: node.gpus for node in self.nodes if node.environment is Environment.TRAIN}
        if wrong := [gpu for gpu in mine if gpu[1] >= train.get(gpu[0], 0)]:
            self.violations.append(f"{spec.key} was given {wrong}, which are no train GPUs")
        if spec.key.job in self.results:
            self.violations.append(f"{spec.key} was started after its job had succeeded")
        if spec.key.job in self.removed:
            self.violations.append(f"{spec.key} was started after its job was deleted")


def _gpus(spec: AttemptSpec) -> list[tuple[str, int]]:
    return [(worker.node, index) for worker in spec.placement for index in worker.gpus]
