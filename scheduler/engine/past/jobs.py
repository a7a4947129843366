"""Recorded jobs as those of a scenario: what they ran, and what kept them from it; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from springtide.scheduler.engine import messages
from springtide.scheduler.engine.past.period import Period
from springtide.scheduler.engine.state.ledger import lost_work
from springtide.scheduler.history.run_times import RunTimes
from springtide.scheduler.model import JobState
from springtide.scheduler.scenario.shape import JobPart
from springtide.scheduler.store.ledger import PAUSED, LedgerEntry
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord
from springtide.scheduler.wording import count, plural

PLANNED = (
    "workers",
    "gpus",
    "min_workers",
    "cpus",
    "memory",
    "rdma",
    "priority",
    "preemptible",
    "rotate",
    "gpu_types",
    "require",
    "prefer",
    "time_limit",
)
"""Options of jobs that decide where and when they run."""
SAVED_IN_TIME = 5.0
"""Seconds before the end of a paused attempt in which its last checkpoint counts as one that it was asked for."""
BUDGETS = (
    "Jobs that a spent budget paused stay paused until they ran again; budgets keep no other job waiting here."
)
PAUSED_JOB, RESUMED_JOB = f"{messages.DID}pause", f"{messages.DID}resume"
UNKNOWN_RUN_TIME = 3_600.0
"""Run time of a job of which nothing is known, in seconds."""


@dataclass(frozen=True, slots=True)
class Stops:
    """When people kept jobs from running, by job and by project: stretches that begin and end.

    ``pauses`` are when people paused jobs, by the trail, which does not say when they resumed them.
    """

    jobs: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    projects: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    pauses: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobParts:
    """Jobs of a scenario, and sentences about unknown facts of them; ``restarts`` are seconds of attempts."""

    parts: list[JobPart]
    notes: list[str]
    restarts: list[float]


def job_parts(
    jobs: Iterable[JobRecord], forgotten: Iterable[LedgerEntry], period: Period, stops: Stops, types: Sequence[str]
) -> JobParts:
    """Return the jobs of a period. Of the types that they accept those stay that are among its ``types``."""
    running = [job for job in jobs if job.rules.runs]
    ends = {job.id: job.standing.ended for job in running}
    known = _run_times(running)
    parts, restarts, guessed, held, edited = [], [], 0, 0, 0
    restrained = any(any(_paused_by_budget(job, period)) for job in running)
    for job in running:
        away, paused = _away(job, period, stops, ends)
        held += paused
        edited += any(act.why.code == messages.DID_EDIT and act.at > period.start for act in job.standing.acts)
        work = _Work(job, period)
        guess = not job.state.final or not work.total
        guessed += guess
        restarts += work.restarts
        parts.append(
            _part(job, period, work, away=away, usual=known.usual(job.spec) if guess else None, types=types)
        )
    deleted = list(_deleted(forgotten, period, types))
    notes = _notes(guessed, held, edited, len(deleted))
    return JobParts([*parts, *deleted], [*notes, BUDGETS] if restrained else notes, restarts)


def _notes(guessed: int, held: int, edited: int, deleted: int) -> list[str]:
    notes = []
    if guessed:
        notes.append(
            f"{count(guessed, 'job')} had not ended, or never ran: how long they take is that of similar jobs."
        )
    if held:
        notes.append(
            f"When {count(held, 'job')} that people had paused {plural(held, 'was', 'were')} resumed is not "
            "recorded; it is taken to be when they ran again."
        )
    if edited:
        notes.append(f"Of {count(edited, 'edited job')} the latest options count for the whole time.")
    if deleted:
        notes.append(f"Of {count(deleted, 'deleted job')} only the GPUs that they held are known.")
    return notes


class _Work:
    """What the attempts of a job did, in seconds with all its workers; ``before`` the period, and in ``total``.

    ``reached`` is the most that it has done without an end: more than ``total`` if a pause lost some of it.
    """

    def __init__(self, job: JobRecord, period: Period) -> None:
        full = job.spec.workers * job.spec.gpus
        self.total = self.before = self.reached = 0.0
        self.restarts: list[float] = []
        self.live: AttemptRecord | None = None
        self.spacings: list[float] = []
        self.saves = job.standing.saved is not None or not job.attempts
        for attempt in job.attempts:
            ended = period.end if attempt.ended is None else attempt.ended
            begun = attempt.created
            if attempt.number > 1 and attempt.started is not None:
                self.restarts.append(attempt.started - attempt.created)
                begun = attempt.started
            lost = lost_work(attempt) if attempt.state is AttemptState.PAUSED else 0.0
            rate = attempt.gpus / full
            ran = max(0.0, ended - begun) * rate
            done = ran - lost / full
            self.reached = max(self.reached, self.total + ran)
            self.total += done
            if ended <= period.start:
                self.before += done
            elif begun < period.start:
                self.before += min(done, (period.start - begun) * rate)
            if attempt.created <= period.start < ended:
                self.live = attempt
            if attempt.state is AttemptState.PAUSED:
                self._follow_pause(attempt, ended)

    def _follow_pause(self, attempt: AttemptRecord, ended: float) -> None:
        if attempt.saved is None:
            return
        self.saves = True
        if ended - attempt.saved > SAVED_IN_TIME:
            self.spacings.append(2.0 * (ended - attempt.saved))

    @property
    def checkpoint_every(self) -> float | None:
        """The interval of checkpoints that fits what pauses lost, None if they lost nothing."""
        return round(median(self.spacings), 3) if self.spacings else None


def _part(
    job: JobRecord,
    period: Period,
    work: _Work,
    *,
    away: tuple[tuple[float, float], ...],
    usual: float | None,
    types: Sequence[str],
) -> JobPart:
    spec, standing = job.spec, job.standing
    options = {name: getattr(spec.options, name) for name in PLANNED}
    options["gpu_types"] = tuple(name for name in spec.options.gpu_types if name in types)
    duration = work.total
    if not job.state.final:
        duration = max(usual or 0.0, 2.0 * work.reached) or UNKNOWN_RUN_TIME
    elif not job.attempts:
        duration = usual or UNKNOWN_RUN_TIME
    elif job.state is not JobState.SUCCEEDED:
        duration = work.reached
    started = standing.started is not None and standing.started < period.start
    never_ran = job.state is JobState.CANCELLED and standing.started is None and standing.ended is not None
    failed_to_start = job.state is JobState.FAILED and standing.started is None
    return JobPart(
        **options,
        name=f"{spec.name[:200]}-{spec.seq}",
        project=spec.project,
        user=spec.user,
        submitted=period.time(spec.submitted),
        duration=round(duration, 3),
        placed=_placed(work.live, spec.workers),
        worked=round(min(work.before, duration), 3),
        started=period.time(standing.started) if started and standing.started is not None else None,
        away=away,
        cancelled=period.time(standing.ended) if never_ran and standing.ended is not None else None,
        stopped=job.state is JobState.CANCELLED or failed_to_start,
        saves=work.saves,
        checkpoint_every=work.checkpoint_every,
        usual_runtime=None if standing.usual_runtime is None else round(standing.usual_runtime, 3),
    )


def _placed(live: AttemptRecord | None, workers: int) -> tuple[str | None, ...]:
    if live is None:
        return ()
    nodes = {worker.rank: worker.node for worker in live.placement}
    return tuple(nodes.get(rank) for rank in range(workers))


def _run_times(jobs: Iterable[JobRecord]) -> RunTimes:
    known = RunTimes()
    ended = [job for job in jobs if job.state.final and job.rules.learnt and job.standing.ended is not None]
    for job in sorted(ended, key=lambda job: job.standing.ended or 0.0):
        known.learn(job.spec, job.standing.served / (job.spec.workers * job.spec.gpus))
    return known


def _away(
    job: JobRecord, period: Period, stops: Stops, ends: Mapping[str, float | None]
) -> tuple[tuple[tuple[float, float], ...], bool]:
    """Return when a job was kept from running, and whether a pause by a person ends when it ran again."""
    known = stops.jobs.get(job.id, ())
    found = [*known, *stops.projects.get(job.spec.project, ())]
    test = job.standing.test_run
    if test is not None:
        found.append((job.spec.submitted, ends.get(test.job) or _first_created(job, period)))
    asked = _paused_by_people(job, period, stops.pauses.get(job.id, ()))
    paused = [each for each in asked if not any(start <= each.start < end for start, end in known)]
    last = period.end if job.standing.ended is None else job.standing.ended
    stretches = [*found, *((each.start, each.end) for each in paused), *_paused_by_budget(job, period)]
    return tuple(_joined(stretches, period, job.spec.submitted, last)), any(each.guessed for each in paused)


def _first_created(job: JobRecord, period: Period) -> float:
    return job.attempts[0].created if job.attempts else period.end


class _Pause(NamedTuple):
    """A pause by a person, from when to when; ``guessed``: nothing says when the job was resumed but its run."""

    start: float
    end: float
    guessed: bool


def _paused_by_people(job: JobRecord, period: Period, trail: Iterable[float]) -> Iterator[_Pause]:
    """Yield the pauses by people, as attempts, the acts on the job, and the audit ``trail`` have them."""
    acts = job.standing.acts
    running = (
        attempt.asked_at
        for attempt in job.attempts
        if attempt.asked_why is not None and attempt.asked_why.code == messages.HELD
    )
    pauses = (act.at for act in acts if act.why.code == PAUSED_JOB)
    for at in sorted({at for at in (*running, *pauses, *trail) if at is not None}):
        resumed = next((act.at for act in acts if act.why.code == RESUMED_JOB and act.at >= at), None)
        again = _ran_again(job, period, at)
        ran = any(attempt.created == again for attempt in job.attempts)
        yield _Pause(at, again if resumed is None else min(resumed, again), resumed is None and ran)


def _paused_by_budget(job: JobRecord, period: Period) -> Iterator[tuple[float, float]]:
    """Yield the stretches from each pause for which a budget was spent until the job ran again."""
    for attempt in job.attempts:
        why, at = attempt.asked_why, attempt.asked_at
        if why is not None and at is not None and "budget_of" in why.params:
            yield at, _ran_again(job, period, at)


def _ran_again(job: JobRecord, period: Period, paused: float) -> float:
    """Return when a job that was paused ran again, or ended, or the end of the period."""
    again = next((each.created for each in job.attempts if each.created > paused), job.standing.ended)
    return period.end if again is None else again


def _joined(
    stretches: Iterable[tuple[float, float]], period: Period, first: float, last: float
) -> Iterator[tuple[float, float]]:
    """Yield stretches of the life of a job as times of the scenario, those that touch as one."""
    joined: list[list[float]] = []
    for start, end in sorted((max(start, first), min(end, last)) for start, end in stretches):
        if end <= max(start, period.start):
            continue
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    yield from ((period.time(start), period.time(end)) for start, end in joined)


def _deleted(entries: Iterable[LedgerEntry], period: Period, types: Sequence[str]) -> Iterator[JobPart]:
    """Yield the jobs that only the ledger knows."""
    by_job: dict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        by_job[entry.job].append(entry)
    for number, own in enumerate(by_job.values(), 1):
        first = own[0]
        sizes = set(first.nodes.values())
        workers, gpus = (len(first.nodes), sizes.pop()) if len(sizes) == 1 else (first.gpus, 1)
        full = workers * gpus
        work = [(each, (each.end - each.start) * each.gpus / full) for each in own]
        begun = min(each.start for each in own)
        nodes = [name for name, held in first.nodes.items() for _ in range(held // gpus)]
        runs = begun <= period.start
        yield JobPart(
            name=f"deleted job {number}",
            project=first.project,
            user=first.user,
            workers=workers,
            gpus=gpus,
            gpu_types=(first.gpu_type,) if first.gpu_type in types and len(types) > 1 else (),
            submitted=period.time(begun - (first.wait or 0.0)),
            duration=round(sum(done - each.lost / full * (each.ended == PAUSED) for each, done in work), 3),
            placed=tuple(nodes) if runs else (),
            started=period.time(begun) if runs and first.wait is None else None,
            stopped=own[-1].ended == AttemptState.CANCELLED,
        )
