"""An executor in memory with configurable misbehaviour, which records its requests."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from springtide.scheduler.executors.base import (
    NO_WORKSPACES,
    AttemptKey,
    AttemptPhase,
    AttemptSpec,
    AttemptStatus,
    Executor,
    ExecutorError,
    Exit,
    ExitKind,
    InventoryChanged,
    LogPiece,
    Observation,
    OutputFile,
    Report,
    Reported,
    SavedCheckpoint,
    StaleEpochError,
    TrialReport,
)
from springtide.scheduler.model import Drop, Environment, Gpu, JobChanged, Node, Plan, Reason, Start, Worker
from springtide.scheduler.policy.planner import Planner

__all__ = [
    "AttemptKey",
    "AttemptPhase",
    "AttemptStatus",
    "Drop",
    "JobChanged",
    "Plan",
    "Planner",
    "Reason",
    "Start",
    "TrialReport",
    "Worker",
]


def node(name="train", gpus=8, environment=Environment.TRAIN, **more: Any) -> Node:
    devices = tuple(Gpu(f"GPU-{name}-{i}", i, "test", 1024, simulated=True) for i in range(gpus))
    return Node(name, gpus, environment=environment, devices=devices, **more)


EIGHT = (node("train", 8), node("build", 3, Environment.BUILD))


class Clock:
    """Time that moves only by hand."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class MemoryExecutor(Executor):
    """What runs is a dictionary; it outlives the engine, as processes do.

    Attempts start and stop at once unless `slow_start`, `ignores_pause` or `launch_errors` say otherwise.
    `refuses` returns how one ends that cannot start; with `checks_starts` it can be asked beforehand.
    `ran` counts how often each attempt began to run: more than once means that it ran twice. ``checkpoints`` are
    the saved ones by job; a copy waits for ``before_copy``, which may raise.
    """

    name = "memory"

    def __init__(self, nodes=EIGHT, clock=None) -> None:
        self.nodes = tuple(nodes)
        self.clock = clock or Clock()
        self.refuses: Callable[[AttemptSpec], Exit | None] = lambda _: None
        self.checks_starts = False
        self.checked: list[AttemptKey] = []
        self.world: dict[AttemptKey, AttemptStatus] = {}
        self.specs: dict[AttemptKey, AttemptSpec] = {}
        self.ran: Counter[AttemptKey] = Counter()
        self.asked: list[tuple[str, AttemptKey]] = []
        self.discarded: dict[AttemptKey, AttemptStatus] = {}
        self.removed: list[str] = []
        self.violations: list[str] = []
        self.epoch = 0
        self.slow_start = False
        self.ignores_pause = False
        self.ignores_kill = False
        self.launch_errors = 0
        self.pause_exit = 75
        self.pause_completes = False
        self.listener: Callable[[Observation], None] | None = None
        self.logs: dict[str, bytes] = {}
        self.reports: dict[str, list[Report]] = {}
        self.outputs: dict[tuple[str, str], bytes] = {}
        self.during_launch: Callable[[AttemptKey], None] | None = None
        self.begun_by_copies: set[str] = set()
        self.checkpoints: dict[str, list[SavedCheckpoint]] = {}
        self.before_copy: Callable[[str, str], Awaitable[None]] | None = None

    # ---------- the interface

    async def start(self, listener):
        self.listener = listener

    async def stop(self):
        self.listener = None

    async def inventory(self, workspaces=NO_WORKSPACES):  # noqa: ARG002
        return self.nodes

    async def newest_epoch(self):
        return self.epoch

    async def take_over(self, epoch):
        self.epoch = max(self.epoch, epoch)

    async def attempts(self):
        return tuple(self.world.values())

    async def launch(self, spec):
        self._obey(spec.epoch)
        self.asked.append(("launch", spec.key))
        if self.launch_errors:
            self.launch_errors -= 1
            raise ExecutorError("The machine is busy.")
        if await self.recall(spec.key) is not None:
            self.tell(self.world[spec.key])
            return
        self._no_overlap(spec)
        self.specs[spec.key] = spec
        self._set(AttemptStatus(spec.key, AttemptPhase.STARTING, placement=spec.placement))
        refused = self.refuses(spec)
        if refused is not None:
            self._set(replace(self.world[spec.key], phase=AttemptPhase.GONE, exit=refused))
        if self.during_launch is not None:
            self.during_launch(spec.key)
        if not self.slow_start and self.world[spec.key].phase is AttemptPhase.STARTING:
            self.run(spec.key)

    async def check(self, spec):
        if not self.checks_starts:
            return await super().check(spec)
        self.checked.append(spec.key)
        return self.refuses(spec)

    async def pause(self, key):
        self.asked.append(("pause", key))
        self._must_know(key)
        if key in self.world and not self.ignores_pause:
            self.end(key, code=self.pause_exit, paused=True, complete=self.pause_completes)

    async def kill(self, key, *, now=False):
        self.asked.append(("now" if now else "kill", key))
        self._must_know(key)
        if key in self.world and not self.ignores_kill:
            self.end(key, signal=15, paused=True)

    def _must_know(self, key):
        if key not in self.world and key not in self.discarded:
            raise ExecutorError(f"Attempt {key.attempt} of {key.job} is not known here.")

    async def discard(self, key):
        self.asked.append(("discard", key))
        if key in self.world and self.world[key].phase is AttemptPhase.GONE:
            self.discarded[key] = self.world.pop(key)

    async def recall(self, key):
        if key not in self.world and key in self.discarded:
            self.world[key] = self.discarded[key]
        return self.world.get(key)

    async def remove(self, job):
        self.removed.append(job)
        self.checkpoints.pop(job, None)
        self.begun_by_copies.discard(job)

    async def unrecorded(self):
        return sorted(self.begun_by_copies)

    async def recorded(self, job):
        self.begun_by_copies.discard(job)

    async def list_checkpoints(self, spec, also=""):  # noqa: ARG002 - it has none of frameworks
        return tuple(reversed(self.checkpoints.get(spec.key.job, [])))

    async def delete_checkpoints(self, spec, names, also=""):  # noqa: ARG002
        kept = [each for each in self.checkpoints.get(spec.key.job, []) if each.name not in names]
        self.checkpoints[spec.key.job] = kept

    async def copy_checkpoint(self, spec, name, fork, also=""):  # noqa: ARG002
        self.begun_by_copies.add(fork.key.job)
        if self.before_copy is not None:
            await self.before_copy(spec.key.job, fork.key.job)
        source = next(each for each in self.checkpoints[spec.key.job] if each.name == name)
        if self.checkpoints.get(fork.key.job):
            raise ExecutorError("Something is in the place of the copy.")
        self.checkpoints[fork.key.job] = [source]

    async def read_log(self, job, rank, offset, limit):  # noqa: ARG002 - all ranks have one log
        log = self.logs.get(job, b"")
        start = max(0, len(log) + offset) if offset < 0 else offset
        return LogPiece(log[start : start + limit], start, len(log), 1)

    async def read_reports(self, job, after, limit):
        return tuple(r for r in self.reports.get(job, []) if r.seq > after)[:limit]

    async def list_outputs(self, job, most, own=None):  # noqa: ARG002
        names = [name for of, name in self.outputs if of == job]
        return tuple(OutputFile(name, len(self.outputs[job, name]), self.clock()) for name in names)[:most]

    async def open_output(self, job, name, limit, own=None):  # noqa: ARG002
        content = self.outputs.get((job, name))
        if content is not None and len(content) > limit:
            raise ExecutorError("The file is too large.")
        return None if content is None else io.BytesIO(content)

    # ---------- what happens by itself

    def run(self, key):
        self.ran[key] += 1
        self._set(replace(self.world[key], phase=AttemptPhase.RUNNING, started=self.clock()))

    def end(
        self, key, code=None, signal=None, kind=ExitKind.EXITED, paused=False, detail="", ran=None, complete=False
    ):
        status = self.world[key]
        if status.phase is AttemptPhase.GONE:
            return
        exit_ = Exit(kind, self.clock(), code, signal, paused, detail=detail, ran=ran, complete=complete)
        self._set(replace(status, phase=AttemptPhase.GONE, exit=exit_))

    def report(self, key, step=None, of=None, saved=False, trial=None, **values: float):
        seq = len(self.reports.setdefault(key.job, [])) + 1
        last = Report(seq, self.clock(), key.attempt, step, of, values, saved, trial=trial)
        self.reports[key.job].append(last)
        self.tell(Reported(key, last, last.at if saved else None, step if saved else None, trial=trial))

    def save(self, key, step):
        """Save a checkpoint of an attempt's job, and report it."""
        saved = self.checkpoints.setdefault(key.job, [])
        saved.append(SavedCheckpoint(f"{len(saved) + 1:08}", True, step, 10, self.clock()))
        self.report(key, step, saved=True)

    def appear(self, key, placement=()):
        """An attempt that was never launched here."""
        self._set(AttemptStatus(key, AttemptPhase.RUNNING, self.clock(), placement=placement))

    def change_nodes(self, *nodes: Node):
        self.nodes = nodes
        self.tell(InventoryChanged())

    def live(self):
        return {key for key, status in self.world.items() if status.phase is not AttemptPhase.GONE}

    def tell(self, observation):
        if self.listener is not None:
            self.listener(observation)

    def _set(self, status):
        self.world[status.key] = status
        self.tell(status)

    def _obey(self, epoch):
        if epoch < self.epoch:
            raise StaleEpochError(f"epoch {epoch} is older than {self.epoch}")
        self.epoch = epoch

    def _no_overlap(self, spec):
        taken = {(w.node, i) for k in self.live() for w in self.specs[k].placement for i in w.gpus}
        mine = {(w.node, i) for w in spec.placement for i in w.gpus}
        if taken & mine:
            self.violations.append(f"{spec.key} was launched on GPUs that are held")
        if [key for key in self.live() if key.job == spec.key.job]:
            self.violations.append(f"{spec.key} overlaps an earlier attempt")
