"""Views of jobs, sweeps, trials, workspaces and audit entries, built from records; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from springtide.scheduler import arguments, model, resuming, sentences, wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.environments import environment_view
from springtide.scheduler.engine.placements.slow import SlowPlacement
from springtide.scheduler.engine.state.borrowing import Borrowing
from springtide.scheduler.engine.state.lifecycle import last_end, pause_reason
from springtide.scheduler.engine.state.pace import expected_end, likely_end
from springtide.scheduler.engine.state.points_of_return import left_behind, starts_over
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.engine.views.diagnoses import Diagnosed, Sees
from springtide.scheduler.engine.views.job_timeline import timeline
from springtide.scheduler.engine.views.node_views import GpuLabels
from springtide.scheduler.engine.views.shown_state import shown_attempt, shown_state
from springtide.scheduler.engine.views.trial_pauses import pauses
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.metrics import Extremes, Goal, best_of, goal_of
from springtide.scheduler.model import JobState
from springtide.scheduler.population import Population
from springtide.scheduler.sentences import Sentence
from springtide.scheduler.store.ledger import Borrowed, Holding, HoldingKey
from springtide.scheduler.store.records import (
    Asked,
    AttemptRecord,
    AuditRecord,
    BestTrial,
    Generation,
    JobRecord,
    SweepStanding,
    TestRun,
)
from springtide.scheduler.store.tables import WorkspaceRecord
from springtide.scheduler.wire.jobs import Named
from springtide.scheduler.workload import Line, Workload

LISTED_ATTEMPTS = 5
"""Number of latest attempts of a job in lists and events."""


def counts(sweep: JobRecord, unfinished: Sequence[JobRecord], borrowing: Borrowing) -> wire.TrialCounts:
    """Return the trials of a sweep by state, of which these are unfinished."""
    standing, spec = sweep.standing.sweep, sweep.spec.trials
    assert standing is not None
    assert spec is not None
    left = standing.number - standing.ended - standing.unfinished
    cancelled = left if sweep.state.final else 0
    live = [trial for trial in unfinished if trial.live is not None]
    return wire.TrialCounts(
        number=standing.number,
        queued=standing.waiting + left - cancelled,
        running=standing.running,
        paused=standing.paused,
        succeeded=standing.succeeded,
        pruned=standing.pruned,
        failed=standing.failed,
        cancelled=standing.cancelled + cancelled,
        gpus=sum(trial.attempts[-1].gpus for trial in live),
        borrowed=sum(map(borrowing.of, live)),
        at_most=standing.at_most,
        at_least=standing.at_least,
        metric=spec.metric,
        goal=spec.goal,
        best=None if standing.best is None else _best(standing.best),
        population=_population(spec.population, sweep, standing.generation),
    )


def _generation(sweep: JobRecord, present: Generation) -> int:
    """Return the generation that a population is in; one whose checkpoints are being copied has begun."""
    return present.number + controller.awaits_generation(sweep)


def _population(
    population: Population | None, sweep: JobRecord, present: Generation | None
) -> wire.PopulationView | None:
    if population is None or present is None:
        return None
    return wire.PopulationView(
        members=population.members,
        generation=_generation(sweep, present),
        generations=population.generations,
        every=population.every,
        quantile=population.quantile,
        resample=population.resample,
        factors=population.factors,
        seed=population.seed,
    )


def _best(best: BestTrial) -> wire.Best:
    return wire.Best(trial=best.number, job=best.job, value=best.value, parameters=_copied(best.parameters))


def _copied(parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if parameters is None else dict(parameters)


def outcome(trial: JobRecord) -> wire.Outcome:
    """Return the view of a trial's outcome."""
    known = controller.outcome_of(trial)
    return wire.Outcome(
        parameters=_copied(known.parameters),
        value=known.value,
        curve=list(known.curve),
        pruned=known.pruned,
        pauses=pauses(trial),
        **_whose(trial),
    )


def _whose(trial: JobRecord) -> dict[str, int | None]:
    """Return the member and generation of a trial of a population, and the trial that it continues from."""
    member = None if trial.spec.trial is None else trial.spec.trial.member
    if member is None:
        return {}
    return {
        "member": member.member,
        "generation": member.generation,
        "parent": member.parent,
        "copied_from": member.copied_from,
    }


def served(job: JobRecord, now: float) -> float:
    """Return the GPU-seconds of all attempts of a job."""
    live = job.live
    running = 0.0 if live is None or live.started is None else max(0.0, now - live.started) * live.gpus
    return job.standing.served + running


def row(trial: JobRecord, borrowing: Borrowing, now: float) -> wire.TrialRow:
    """Return a trial that has begun, as a row of a table."""
    spec, standing, known = trial.spec.trial, trial.standing, controller.outcome_of(trial)
    assert spec is not None
    pruned = known.pruned and trial.state is JobState.SUCCEEDED
    return wire.TrialRow(
        trial=spec.number,
        **_whose(trial),
        job=trial.id,
        state="pruned" if pruned else trial.state.value,
        shown="pruned" if pruned else shown_state(trial),
        parameters=_copied(known.parameters),
        value=known.value,
        values=dict(standing.values),
        step=standing.step,
        of=standing.of,
        curve=list(known.curve),
        attempt=standing.attempt,
        started=standing.started,
        ended=standing.ended,
        gpu_seconds=served(trial, now),
        borrowed=borrowing.of(trial),
        pauses=pauses(trial),
        error=standing.error,
    )


def _sees_all(_user: str, _project: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ViewContext:
    """The inputs of a job's view besides its record.

    ``borrowing`` gives the number of a job's borrowed GPUs. By a waiting job's id, ``waiting_reason`` gives why it
    waits, ``place_in_line`` its place counted from 1, ``expected_starts`` the forecast of its start and
    ``starts_if`` what lets it start, if known; ``usage`` gives the measured use of a running job, if any, by its
    id, ``trials_of`` the unfinished trials of a sweep by its id, ``holding`` what a live attempt has held by its
    key in the ledger; ``has_ended`` says whether the job with this id has ended; ``slow_placement`` returns the
    placement with which a running job would be faster, if one is known; ``at_stake`` returns the seconds that a
    job has run, None unless it can be paused now; ``is_deleted`` says whether a person deleted the job with this
    id; ``closes`` returns which maintenance a running job will be paused for; ``grace`` is the pool's grace period
    in seconds; ``sees`` says which jobs are named to the reader.
    """

    labels: GpuLabels
    borrowing: Borrowing
    waiting_reason: Callable[[str], model.Reason | None]
    place_in_line: Callable[[str], int | None]
    expected_starts: Callable[[str], wire.Starts | None]
    starts_if: Callable[[str, Sees], Diagnosed | None]
    usage: Callable[[str], wire.JobUsage | None]
    trials_of: Callable[[str], Sequence[JobRecord]]
    holding: Callable[[HoldingKey], Holding | None]
    has_ended: Callable[[str], bool]
    slow_placement: Callable[[JobRecord], SlowPlacement | None]
    at_stake: Callable[[JobRecord], float | None]
    is_deleted: Callable[[str], bool]
    closes: Callable[[JobRecord], model.Reason | None]
    grace: float
    sees: Sees = _sees_all

    def apart(self, record: JobRecord) -> ViewContext:
        """Return the context of a job for readers who see the jobs of its project only.

        Its reasons lose the ids of other jobs: whether the one it was paused for has ended is decided before.
        """
        project, own = record.spec.project, record.standing.reason
        over = own is not None and _is_over(own, self)

        def sees(_user: str, of: str) -> bool:
            return of == project

        def waiting_reason(job_id: str) -> model.Reason | None:
            why = self.waiting_reason(job_id)
            return None if why is None else _apart(why, project)

        def trials_of(sweep: str) -> Sequence[JobRecord]:
            return [_record_apart(trial) for trial in self.trials_of(sweep)]

        return replace(
            self, waiting_reason=waiting_reason, trials_of=trials_of, sees=sees, has_ended=lambda _job: over
        )


def _apart(why: model.Reason, project: str) -> model.Reason:
    """Return a reason that names no jobs of other projects than one."""
    return sentences.without_names(why, project.__eq__)


def _record_apart(record: JobRecord) -> JobRecord:
    """Return a job whose reasons name no jobs of other projects."""

    def apart(why: model.Reason | None) -> model.Reason | None:
        return None if why is None else _apart(why, record.spec.project)

    attempts = tuple(
        structs.replace(
            each,
            why=_apart(each.why, record.spec.project),
            asked_why=apart(each.asked_why),
            ended_why=apart(each.ended_why),
        )
        for each in record.attempts
    )
    acts = tuple(each._replace(why=_apart(each.why, record.spec.project)) for each in record.standing.acts)
    shown = JobRecord(record.spec, record.standing, attempts)
    return shown.with_standing(reason=apart(record.standing.reason), acts=acts)


def reason(why: model.Reason | None) -> wire.Reason | None:
    """Return a reason with its sentences."""
    return None if why is None else _rendered(why)


def _rendered(why: model.Reason, *parts: model.Reason) -> wire.Reason:
    """Return a reason with the headline and the sentences of its parts; without parts, with its own."""
    parts = parts or (why,)
    found = structs.replace(wire.Reason(code=why.code, text="", params=dict(why.params)), **_lines(*parts))
    return _with_sentences(found, [each for part in parts for each in sentences.render(part)])


def _lines(*parts: model.Reason) -> Mapping[str, str]:
    return {"headline": sentences.headline(*parts), "brief": sentences.brief_headline(*parts)}


def _with_sentences(why: wire.Reason, said: Sequence[Sentence]) -> wire.Reason:
    written = [wire.Sentence(role=each.role.value, text=each.text) for each in said]
    return structs.replace(why, text=sentences.joined(said), sentences=written)


def job_reason(job: JobRecord, context: ViewContext, at: float) -> wire.Reason | None:
    """Return why the job is as it is at a time, since when a metric of it is not finite, and who edited it.

    A job that holds GPUs: what it does with them. A paused one: why it was paused and what it waits for. An ended
    one: how it ended.
    """
    why, edit = _state_reason(job, context, at), job.standing.edited
    edited = None if edit is None or job.state.final else messages.edited(edit, job.spec.project)
    more = [each for each in (messages.not_finite(job.standing.not_finite), edited) if each is not None]
    if why is None or not more:
        return why
    said = [Sentence(sentences.Role(each.role), each.text) for each in why.sentences]
    longer = structs.replace(why, headline=sentences.longer_headline(why.headline, *more))
    return _with_sentences(longer, [*said, *(each for reason in more for each in sentences.render(reason))])


def _state_reason(job: JobRecord, context: ViewContext, at: float) -> wire.Reason | None:
    own = job.standing.reason
    if job.live is not None:
        return _with_closed_node(_present(job, job.live, context, at), job.live, context)
    if job.state.final:
        return reason(own)
    left = [] if job.last_run is None else left_behind(job, job.last_run)
    if job.standing.hold is not None:
        return reason(messages.on_hold(job.standing.hold))
    if job.standing.held:
        return None if own is None else _with_first_cause(_rendered(own, own, *left), job)
    if job.standing.withheld is not None:
        return reason(messages.withheld(job.standing.withheld.detail))
    if job.workload is Workload.SWEEP:
        return _sweep_reason(job, context, at)
    if job.standing.test_run is not None and job.awaits_test:
        return reason(messages.awaits_test(job.standing.test_run.stage))
    waits = context.waiting_reason(job.id)
    parts = (*([] if own is None else [own]), *left, *([] if waits is None else [waits]))
    if own is None or waits is None:
        why = own or waits
        return None if why is None else _rendered(why, *parts)
    both = _rendered(model.Reason(own.code, {**own.params, "waits": waits.code, **waits.params}), *parts)
    return structs.replace(both, **_lines(waits, *left)) if _is_over(own, context) else both


def _is_over(why: model.Reason, context: ViewContext) -> bool:
    """Return whether the cause of a pause is over: it no longer keeps the job from running."""
    beneficiary = why.params.get("for_job")
    return why.code in messages.OVER or (beneficiary is not None and context.has_ended(str(beneficiary)))


def _with_first_cause(why: wire.Reason, job: JobRecord) -> wire.Reason:
    """Return why a user keeps a job paused, after what had paused it."""
    before = last_end(job) if why.params.get("kept") else None
    if before is None:
        return why
    causes = [each for each in sentences.render(before) if each.role is sentences.Role.CAUSE]
    return _with_sentences(
        why, [*causes, *(Sentence(sentences.Role(each.role), each.text) for each in why.sentences)]
    )


def _with_closed_node(why: wire.Reason, live: AttemptRecord, context: ViewContext) -> wire.Reason:
    """Return what a job does, and which node of it the cluster has closed; that one is not ready comes first."""
    closed = messages.closed_node(live.placement, context.labels.node)
    if closed is None:
        return why
    said = [Sentence(sentences.Role(each.role), each.text) for each in why.sentences]
    first = closed.code == messages.NODE_NOT_READY
    lines = _lines(closed) if first else {"headline": sentences.longer_headline(why.headline, closed)}
    longer = structs.replace(why, params={**why.params, "node_code": closed.code, **closed.params}, **lines)
    return _with_sentences(longer, [*sentences.render(closed), *said])


def waiting_trial(trials: Sequence[JobRecord]) -> JobRecord | None:
    """Return the first trial in line of the unfinished ones of a sweep, None if none waits."""
    return next((each for each in trials if each.live is None and not each.awaits_person), None)


def place(record: JobRecord, context: ViewContext) -> int | None:
    """Return the place in line of a waiting job, or of a sweep's waiting trial; None if none waits."""
    waits = waiting_trial(context.trials_of(record.id)) if record.workload is Workload.SWEEP else record
    if waits is None or not _in_line(waits):
        return None
    return context.place_in_line(waits.id)


def _now(sweep: JobRecord, standing: SweepStanding, held: Mapping[str, int]) -> model.Reason:
    """Return what the trials of a sweep, or the members of a population, do now; ``held`` is what they hold."""
    population = None if sweep.spec.trials is None else sweep.spec.trials.population
    if population is None or standing.generation is None:
        return messages.sweep({"number": standing.number, "ended": standing.ended, **held})
    generation, of = _generation(sweep, standing.generation), population.generations
    if controller.awaits_generation(sweep):
        return messages.population_copies(generation, of)
    ended = standing.ended - (generation - 1) * population.members
    about = {"generation": generation, "generations": of, "members": population.members}
    return messages.population({**about, "ended": ended, **held})


def _sweep_reason(sweep: JobRecord, context: ViewContext, at: float) -> wire.Reason:
    """Return what the trials of a sweep do, and why the one that waits does so."""
    trials, standing = context.trials_of(sweep.id), sweep.standing.sweep
    assert standing is not None
    if sweep.standing.stopping:
        return _rendered(messages.sweep_stopping(len(trials)))
    live = [each for each in trials if each.live is not None]
    held = {
        "running": len(live),
        "gpus": sum(each.attempts[-1].gpus for each in live),
        "borrowed": sum(map(context.borrowing.of, live)),
    }
    now = _now(sweep, standing, held)
    waits = waiting_trial(trials)
    why = None if waits is None else job_reason(waits, context, at)
    if why is None:
        return _rendered(now)
    summary = _rendered(now, now, *([messages.sweep_waits()] if live else []))
    both = [*summary.sentences, *why.sentences]
    return structs.replace(
        summary,
        text=f"{summary.text} {why.text}",
        sentences=both,
        params={**why.params, **summary.params, "waits": why.params.get("waits", why.code)},
    )


def _with_alternatives(why: wire.Reason | None, found: Diagnosed | None) -> wire.Reason | None:
    """Return why a job waits, with the sentence that names what lets it start."""
    if why is None or found is None or not found.sentences:
        return why
    said = (*(Sentence(sentences.Role(each.role), each.text) for each in why.sentences), *found.sentences)
    return _with_sentences(why, said)


def agreed(why: wire.Reason | None, starts: wire.Starts | None) -> tuple[wire.Reason | None, wire.Starts | None]:
    """Return why a job waits and when it starts, without sentences that contradict each other."""
    if why is None or starts is None:
        return why, starts
    expected = sentences.Expected(
        None if starts.likely is None else starts.likely - starts.at, "" if starts.why is None else starts.why.code
    )
    said = [Sentence(sentences.Role(each.role), each.text) for each in why.sentences]
    kept, adds = sentences.agreed(said, expected)
    if len(kept) < len(said):
        why = _with_sentences(why, kept)
    return why, starts if adds else None


def _present(job: JobRecord, live: AttemptRecord, context: ViewContext, at: float) -> wire.Reason:
    own = job.standing.reason
    if live.asked is not None:
        saved, found = job.standing.saved is not None, job.standing.checkpoint
        pausing = live.asked is Asked.PAUSE
        path = "" if found is None else found.path
        now = (
            messages.pausing(live.gpus, saved=saved, found=path) if pausing else _stopping(job, live, context, at)
        )
        asked = pause_reason(job, live) if pausing and live.asked_why is not None else live.asked_why
        why = asked or own or now
        if pausing:
            why = replace(why, params={**why.params, "under_way": 1})
        if own is not None and own.code == messages.NOT_STOPPED:
            return _rendered(own, own, *([why] if why is not now else []))
        made = _rendered(why, now, *([why] if why is not now else []))
        return structs.replace(made, params={**made.params, **messages.counts_on(now)})
    if job.state is model.JobState.STARTING:
        if own is not None and own.code == messages.NOT_LAUNCHED:
            return _rendered(own)
        packages = len(job.spec.options.requirements)
        now = messages.starting(live.gpus, context.borrowing.of(job), packages, job.standing.home)
    else:
        borrowed, unsaved = context.borrowing.of(job), job.standing.unsaved is not None
        until = job.standing.room_until
        now = messages.running(
            live.gpus,
            borrowed,
            len(live.placement),
            job.spec.options.workers,
            unsaved=unsaved,
            room=None if until is None else (until - at, until),
            never_saved=_never_saved(job, context),
            deleted=job.checkpoints_deleted,
            unused=_unused(job, context),
            slow=_slow(job, context),
            home=job.standing.home,
        )
    hold = job.standing.hold
    more = [None if hold is None else messages.on_hold(hold, runs=True), context.closes(job)]
    return _rendered(now, now, *filter(None, more))


def _stopping(job: JobRecord, live: AttemptRecord, context: ViewContext, at: float) -> model.Reason:
    if live.asked is Asked.KILL_NOW or live.asked_at is None:
        return messages.stopping(live.gpus)
    until = live.asked_at + job.spec.options.grace_in(context.grace)
    return messages.stopping(live.gpus, until - at, until)


def checkpoint(record: JobRecord) -> wire.FoundCheckpoint | None:
    """Return the newest checkpoint recognised among a job's files; None if it reports its own."""
    found = record.standing.checkpoint
    if found is None:
        return None
    passed = resuming.names_checkpoint(record.spec.options.resume, found)
    return wire.FoundCheckpoint(path=found.path, size=found.size, by=found.by, passed=passed)


FIRST_LOSS = 300.0
"""Shortest run time that is mentioned as lost by a pause, in seconds. Each later one is twice as long."""


def _never_saved(job: JobRecord, context: ViewContext) -> float | None:
    """Return the run time that a pause would lose at least, as far as the pool knows; None if it loses nothing."""
    if job.standing.saved is not None or not job.rules.saves:
        return None
    ran = context.at_stake(job)
    if ran is None:
        return None
    return 0.0 if ran < FIRST_LOSS else next_loss(ran) / 2


def next_loss(ran: float) -> float:
    """Return the next run time that is mentioned as lost, after a run time in seconds."""
    loss = FIRST_LOSS
    while loss <= ran:
        loss *= 2
    return loss


def _unused(job: JobRecord, context: ViewContext) -> tuple[float, float] | None:
    """Return how long the job has hardly used its GPUs, in seconds, and how much it used them; None if it does."""
    usage = context.usage(job.id)
    if usage is None or usage.unused_for is None or usage.unused_share is None:
        return None
    return usage.unused_for, usage.unused_share


def _slow(job: JobRecord, context: ViewContext) -> messages.Params:
    """Return with which placement the job would be faster, as parameters of its reason; empty if none is known."""
    slow = context.slow_placement(job)
    if slow is None:
        return {}
    at, end = job.standing.reported, expected_end(job)
    left = None if at is None or end is None or slow.works else end - at
    return messages.slow_placement(
        slow.spread,
        slow.faster,
        slow.times,
        runs=(slow.faster_runs, slow.runs),
        works=slow.works,
        longer=0.0 if left is None else slow.longer(left),
    )


NAMING = ("reason", "starts_if", "attempts", "timeline")
"""The job's fields that may name others."""


def job(record: JobRecord, context: ViewContext, now: float, *, full: bool = True) -> wire.Job:
    """Return the view of a job; ``full`` adds its earlier attempts and its source.

    It names no jobs of other projects. Those that it could name are in its fields kept apart (`wire.Job.named`).
    """
    view, projects = _view(record, context, now, full=full)
    foreign = projects - {record.spec.project}
    if not foreign:
        return view
    apart, _ = _view(_record_apart(record), context.apart(record), now, full=full)
    return apart.with_names(Named(foreign, {name: getattr(view, name) for name in NAMING}))


def _projects_named(record: JobRecord, view: wire.Job) -> frozenset[str]:
    """Return the projects of the jobs that a view names: in its reason, its attempts and what happened."""
    named = [sentences.projects_named(why.params) for why in _kept_reasons(record) if why is not None]
    now = frozenset() if view.reason is None else sentences.projects_named(view.reason.params)
    return now.union(*named)


def _kept_reasons(record: JobRecord) -> Iterator[model.Reason | None]:
    for each in record.attempts:
        yield from (each.why, each.asked_why, each.ended_why)
    yield from (each.why for each in record.standing.acts)


def _view(record: JobRecord, context: ViewContext, now: float, *, full: bool) -> tuple[wire.Job, frozenset[str]]:
    """Return the view of a job, and the projects of the jobs that it names."""
    spec, standing, live = record.spec, record.standing, record.live
    waits = waiting_trial(context.trials_of(record.id)) if record.workload is Workload.SWEEP else record
    line = place(record, context)
    attempts = _attempts(record, context, 0 if full else -LISTED_ATTEMPTS)
    in_line = waits is not None and _in_line(waits)
    found = context.starts_if(waits.id, context.sees) if waits is not None and in_line else None
    why, starts = agreed(
        _with_alternatives(job_reason(record, context, now), found),
        context.expected_starts(waits.id) if waits is not None and in_line else None,
    )
    view = wire.Job(
        id=spec.id,
        name=spec.name,
        kind=spec.kind,
        user=spec.user,
        project=spec.project,
        state=record.state.value,
        shown=shown_state(record),
        options=_shown_options(spec.options.resolved()),
        chosen=chosen(spec.options) if full else [],
        gpu_type="" if live is None else context.labels.shown_type(live.gpu_type),
        submitted=spec.submitted,
        arguments=record.arguments,
        note=spec.marks.note,
        pinned=spec.marks.pinned,
        archived=spec.marks.archived,
        argv=arguments.without_secrets(spec.argv),
        source=spec.shown_source if full else "",
        started=standing.started,
        ended=standing.ended,
        held_by_user=standing.held and not (standing.stopping or record.state.final),
        hold=None if standing.hold is None else wire.Hold(**standing.hold._asdict()),
        held=attempts[-1].gpus if live is not None else [],
        attempt=standing.attempt,
        attempts=attempts,
        timeline=timeline(record) if full else [],
        from_start=starts_over(record, live),
        grace=spec.options.grace_in(context.grace),
        progress=progress(record),
        usage=context.usage(spec.id) if record.state is model.JobState.RUNNING else None,
        saved=standing.saved,
        saved_step=standing.saved_step,
        checkpoint=checkpoint(record),
        checkpoints_deleted=record.checkpoints_deleted,
        ended_cleanly=record.ended_cleanly,
        reason=why,
        place=line,
        starts=starts,
        starts_if=None if found is None else found.alternatives,
        impossible=found is not None and found.impossible,
        usual_runtime=None if record.state.final else standing.usual_runtime,
        failures=standing.failures,
        gpu_seconds=_served(record, context, now),
        exit_code=standing.exit_code,
        error=standing.error,
        sweep=record.sweep,
        trial=None if spec.trial is None else spec.trial.number,
        trials=counts(record, context.trials_of(spec.id), context.borrowing)
        if record.workload is Workload.SWEEP
        else None,
        outcome=None if spec.trial is None else outcome(record),
        rerun=_rerun_of(record, context.is_deleted),
        test_run=_test_run(standing.test_run),
        tests=spec.tests,
        submitted_by=spec.submitters[-1] if spec.submitters else None,
        environment=environment_view(spec) if full else None,
    )
    return view, _projects_named(record, view) | (frozenset() if found is None else found.projects)


def _shown_options(options: wire.JobOptions) -> wire.JobOptions:
    """Return the options without variables, and without the values of secrets in arguments."""
    resume = options.resume
    return structs.replace(options, env={}, resume=resume and arguments.without_secrets_in_words(resume))


def chosen(options: wire.JobOptions) -> list[wire.OptionValue]:
    """Return the options that are not at their defaults; of variables only the names."""
    return [
        wire.OptionValue(name=name, label=option.title, text=option.text(value))
        for name, option in wire.OPTIONS.items()
        if (value := getattr(options, name, option.default)) != option.default
    ]


def _rerun_of(job: JobRecord, is_deleted: Callable[[str], bool]) -> wire.RerunOf | None:
    """Return the run that a job repeats, and the differences; None for a job that repeats none."""
    spec, first = job.spec, job.spec.rerun
    if first is None:
        return None
    changes = [wire.OptionChange(name=each.name, before=each.before, after=each.after) for each in first.changes]
    differences = [(each.name, each.before, each.after) for each in first.changes]
    fork = None
    if first.fork is not None:
        of = first.fork
        fork = wire.ForkedFrom(checkpoint=of.checkpoint, step=of.step, written=of.written)
        passed = of.own or spec.kind != "command" or spec.options.resume is not None
        advised = not passed and not job.state.final
        text = sentences.fork_text(first.name, of.checkpoint, of.step, differences, advised=advised)
    else:
        text = sentences.rerun_text(first.name, differences)
    deleted = is_deleted(first.job)
    if deleted:
        text = f"{text} That job was deleted."
    return wire.RerunOf(job=first.job, name=first.name, changes=changes, text=text, fork=fork, deleted=deleted)


def _trials(record: JobRecord, context: ViewContext) -> wire.TrialCounts | None:
    if record.workload is not Workload.SWEEP:
        return None
    return counts(record, context.trials_of(record.id), context.borrowing)


def _test_run(test: TestRun | None) -> wire.TestRun | None:
    if test is None:
        return None
    text = sentences.test_run_text(test.stage, test.ran)
    return wire.TestRun(job=test.job, stage=test.stage, ran=test.ran, text=text)


def _in_line(record: JobRecord) -> bool:
    return record.line is not Line.NONE and not (record.state.final or record.state.holds_gpus or record.is_idle)


def _served(record: JobRecord, context: ViewContext, now: float) -> float:
    """Return the GPU-seconds of a job, or of all trials of a sweep."""
    if record.standing.sweep is None:
        return served(record, now)
    unfinished = context.trials_of(record.id)
    return record.standing.sweep.served + sum(served(each, now) for each in unfinished)


def _attempts(record: JobRecord, context: ViewContext, first: int) -> list[wire.Attempt]:
    now_borrowed = context.borrowing.of(record)
    return [
        attempt(
            item,
            context.labels,
            now_borrowed if item.state.live else item.borrowed,
            _borrowing(item, context),
            left_behind(record, item),
            from_start=starts_over(record, item),
            shown=shown_attempt(item, record),
            past=record.state.final or item is not record.attempts[-1],
        )
        for item in record.attempts[first:]
    ]


def _borrowing(item: AttemptRecord, context: ViewContext) -> Sequence[Borrowed]:
    """Return when GPUs of an attempt were borrowed; without a record of that, those of its start all the time."""
    if item.state.live:
        holding = context.holding((item.job, item.number, "", ""))
        return () if holding is None else holding.borrowed()
    if item.borrowing is None:
        return (Borrowed(item.created, item.ended, item.borrowed),) if item.borrowed else ()
    return item.borrowing


def best_value(name: str, extremes: Extremes, goal: Goal | None = None) -> wire.BestValue:
    """Return the best value of a metric; without a ``goal`` its name says which one that is."""
    chosen = goal or goal_of(name)
    best = best_of(extremes, chosen)
    return wire.BestValue(value=best.value, step=best.step, goal=chosen)


def progress(record: JobRecord) -> wire.Progress:
    """Return the progress that the job last reported."""
    standing, end = record.standing, likely_end(record)
    return wire.Progress(
        step=standing.step,
        of=standing.of,
        at=standing.reported,
        values=dict(standing.values),
        best={name: best_value(name, each) for name, each in standing.extremes.items()},
        not_finite=dict(standing.not_finite),
        ends=None if end is None else end.at,
        limited=end is not None and end.limited,
    )


def attempt(
    record: AttemptRecord,
    labels: GpuLabels,
    borrowed: int,
    spans: Sequence[Borrowed],
    left: Sequence[model.Reason] = (),
    *,
    from_start: bool,
    shown: str,
    past: bool,
) -> wire.Attempt:
    """Return the view of an attempt; the last ``borrowed`` of its GPUs are marked as borrowed.

    ``from_start`` says that it began again from the beginning, ``shown`` is its state in words. ``spans`` are
    those in which it borrowed. ``left`` are reasons that follow why it ended. Of a ``past`` attempt, after which
    the job ran again or ended, no sentence says what happens next: that has happened.
    """
    ended = None if record.ended_why is None else _rendered(record.ended_why, record.ended_why, *left)
    if ended is not None and past:
        said = [each for each in ended.sentences if each.role != sentences.Role.NEXT]
        ended = structs.replace(ended, text=" ".join(each.text for each in said), sentences=said)
    return wire.Attempt(
        number=record.number,
        state=record.state.value,
        shown=shown,
        workers=len(record.placement),
        gpus=labels.refs(record.placement, borrowed),
        borrowed=[wire.BorrowedSpan(start=each.start, end=each.end, gpus=each.gpus) for each in spans],
        gpu_type=labels.shown_type(record.gpu_type),
        created=record.created,
        started=record.started,
        asked=record.asked_at,
        ended=record.ended,
        exit_code=record.exit_code,
        exit_signal=record.exit_signal,
        saved=record.saved,
        resumed_from=record.resumed_from,
        had_checkpoint=record.had_checkpoint,
        from_start=from_start,
        why=reason(record.why),
        ended_why=ended,
    )


def workspace(record: WorkspaceRecord, labels: GpuLabels) -> wire.Workspace:
    """Return the view of a workspace."""
    node = labels.node(record.node)
    gpus = labels.of_worker(record.node, record.gpus, record.uuids)
    return wire.Workspace(
        user=record.user,
        server=record.server,
        gpus=len(record.gpus),
        uuids=[gpu.uuid for gpu in gpus],
        labels=[gpu.label for gpu in gpus],
        node=record.node,
        simulated=labels.simulated(record.node),
        since=record.since,
        gpu_type=record.gpu_type,
        resource="" if node is None else node.resource,
        host=machine_of(record.node),
    )


def audit(record: AuditRecord, *, undo: bool) -> wire.AuditEntry:
    """Return the view of an audit entry; ``undo`` says that it can be taken back."""
    return wire.AuditEntry(
        id=record.id,
        at=record.at,
        who=record.who,
        what=record.what,
        subject=record.subject,
        before=dict(record.before),
        after=dict(record.after),
        project=record.project,
        undo=undo,
    )
