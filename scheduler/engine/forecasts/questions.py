"""Answers to what-if questions: the forecast of a hypothetical pool, and what to expect of a job there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.forecasts import booking_effects, estimates, what_if
from springtide.scheduler.engine.forecasts.cache import GROWS, ForecastCache
from springtide.scheduler.engine.forecasts.estimates import advice_view
from springtide.scheduler.engine.forecasts.what_if import Hypothesis, Members
from springtide.scheduler.engine.placements.advice import advice
from springtide.scheduler.engine.placements.placements import Placements
from springtide.scheduler.engine.requests import bookings
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.journal import JournaledPlanner
from springtide.scheduler.engine.state.line_without_gpus import LineView
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.engine.views.diagnoses import Sees
from springtide.scheduler.model import Reason, Snapshot
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord

MAX_JOBS_SMALLER = 1_000
"""Maximum number of jobs of a pool in which smaller jobs are tried: each of them takes another plan."""


@dataclass(frozen=True, slots=True)
class Asker:
    """The asking person, the project of the hypothetical job, and the person's permissions."""

    user: str
    project: str | None
    sees: Sees
    members: Members


class Questions:
    """Answers questions about the pool as it might be.

    ``line`` returns the lines of jobs without GPUs after changes of jobs, by id; ``waits`` why a job waits.
    """

    def __init__(
        self,
        *,
        state: State,
        nodes: ObservedNodes,
        settings: EngineSettings,
        planner: JournaledPlanner,
        forecasts: ForecastCache,
        placements: Placements,
        line: Callable[[Mapping[str, JobRecord]], LineView],
        waits: what_if.Waits,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._nodes = nodes
        self._settings = settings
        self._planner = planner
        self._forecasts = forecasts
        self.placements = placements
        self._line = line
        self._waits = waits
        self._clock = clock

    async def answer(self, question: wire.WhatIf, asker: Asker) -> wire.Forecast:
        """Return the forecast. Raises `Refusal` for changes that would be refused."""
        now = self._clock()
        hypothesis = self._hypothesis(question, asker, now)
        asked = what_if.asked_jobs(question, self._state, asker.sees)
        snapshot = hypothesis.applied_to(self._planner.snapshot(now))
        diagnosed = [] if question.starts is None or hypothesis.never == GROWS else asked
        if hypothesis.is_same_pool and hypothesis.job is None:
            outlook, starts = await self._forecasts.look(snapshot, asked, diagnosed)
        else:
            outlook = await self._forecasts.what_if(snapshot, [*asked, *hypothesis.jobs], diagnosed=diagnosed)
            starts = what_if.starts_there(outlook, hypothesis, now, waits=self._waits)
        forecast = what_if.forecast_view(
            outlook, starts, hypothesis, self._state, sees=asker.sees, now=now, waits=self._waits
        )
        if hypothesis.job is None or forecast.job is None:
            return forecast
        if not hypothesis.job.spec.options.gpus:
            return self._without_gpus(forecast, hypothesis.job, now)
        reasons = [
            estimates.estimate(outlook, hypothesis.job, snapshot, forecast.job, _named(snapshot, asker.sees))
        ]
        if question.smaller and estimates.start_of(outlook, hypothesis.job.id) is None:
            reasons += await self._smaller(question, hypothesis, snapshot, asker)
        reasons += self._advice(hypothesis.job)
        return msgspec.structs.replace(forecast, estimate=estimates.estimate_view(reasons))

    async def booking(self, request: wire.BookingRequest, by: str, sees: Sees) -> wire.BookingPreview:
        """Return what a booking would do. Raises `Refusal` (503) if that cannot be computed now."""
        transaction = Transaction(self._state, self._nodes, self._clock())
        transaction.follow_types()
        try:
            booking = bookings.proposed(transaction, request, by)
        except Refusal as refusal:
            at = bookings.fits_from(transaction, request, by)
            return wire.BookingPreview(refused=wire.problem_of(refusal), fits_from=at)
        before, displaced = bookings.replaced(transaction, request), []
        if booking.project:
            snapshot, others = self._planner.snapshot(self._clock()), bookings.others(transaction, before)
            used = booking_effects.in_use(snapshot, booking, others, transaction.types.train)
            outlook = await self._forecasts.what_if(used, [], horizon=0.0)
            displaced = [
                shift
                for each in outlook.shifts
                if each.kind in {"paused", "moved"}
                and (shift := what_if.shift_view(each, None, self._state, sees))
            ]
        said = booking_effects.said_of(transaction, booking, before, displaced)
        return wire.BookingPreview(said=tuple(said), displaced=tuple(displaced))

    def advise(self, wish: wire.Wish, asker: Asker) -> wire.Advice:
        """Return what earlier runs say about the GPUs of a job. Raises `Refusal` if it would be refused."""
        job = self._hypothesis(wire.WhatIf(job=wish), asker, self._clock()).job
        assert job is not None
        return advice_view(self.placements.of_same_work(job.spec), self._advice(job))

    def _advice(self, job: JobRecord) -> list[Reason]:
        """Return what earlier runs of the same work say about the GPUs of the job; nothing without a name."""
        known = self.placements.of_same_work(job.spec) if job.spec.name else {}
        return list(advice(known, job.spec, self._state.types.train))

    def _without_gpus(self, forecast: wire.Forecast, job: JobRecord, now: float) -> wire.Forecast:
        """Return the forecast with what to expect of a job without GPUs, by the line of its project."""
        why = self._line({job.id: job}).reason(job, now)
        starts_now = why is not None and why.code == messages.NEXT_WITHOUT_GPUS
        said = estimates.now_without_gpus() if starts_now else why
        assert said is not None
        at = now if starts_now else None
        view = None if starts_now else job_view.reason(said)
        starts = wire.Starts(earliest=at, likely=at, latest=at, why=view, at=now)
        return msgspec.structs.replace(forecast, job=starts, estimate=job_view.reason(said))

    def _hypothesis(self, question: wire.WhatIf, asker: Asker, now: float) -> Hypothesis:
        hypothesis = what_if.hypothesis_of(
            question,
            asker.user,
            asker.project,
            state=self._state,
            nodes=self._nodes,
            settings=self._settings,
            now=now,
            members=asker.members,
        )
        return hypothesis.with_usual_runtime(self._forecasts.expected_run_time)

    async def _smaller(
        self, question: wire.WhatIf, whole: Hypothesis, snapshot: Snapshot, asker: Asker
    ) -> list[Reason]:
        """Return that a smaller job would start at once, of the largest of those tried that would."""
        if question.job is None or whole.job is None or len(snapshot.jobs) > MAX_JOBS_SMALLER:
            return []
        others = replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.id not in whole.jobs))
        for wish in estimates.smaller(question.job, whole.job, others):
            try:
                less = self._hypothesis(msgspec.structs.replace(question, job=wish), asker, snapshot.now)
            except Refusal:
                continue
            if less.job is None:
                continue
            hypothetical = less.applied_to(others)
            outlook = await self._forecasts.what_if(hypothetical, less.jobs, horizon=0.0)
            start = estimates.start_of(outlook, less.job.id)
            if start is not None and estimates.starts_now(outlook, start, hypothetical):
                return [estimates.would_start_smaller(less.job)]
        return []


def _named(snapshot: Snapshot, sees: Sees) -> estimates.Named:
    known = {job.id: job for job in snapshot.jobs}

    def named(job_id: str) -> tuple[str, str, str]:
        job = known[job_id]
        return (job.name or job.id) if sees(job.user, job.project) else "", job.user, job.project

    return named
