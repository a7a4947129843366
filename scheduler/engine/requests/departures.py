"""A person leaves: her jobs are handed over or cancelled, and what she has of her own is given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from springtide.scheduler.engine import idle, messages
from springtide.scheduler.engine.requests import change_requests, control, project_admin
from springtide.scheduler.engine.requests.control import JobChange, with_parts
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.notifications import Channel, NotificationChoice
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import Hold, JobRecord
from springtide.scheduler.store.tables import POOL, HubStanding, RuleScope
from springtide.scheduler.wording import given, listed, quoted

LEAVES = "{name} leaves, and the job goes to {to} once it is paused"


@dataclass(frozen=True, slots=True)
class Leaver:
    """Who leaves, and to whom her jobs go; None has them cancelled.

    ``members`` are the members by project, ``channels`` all channels of notifications.
    """

    name: str
    to: str | None
    members: Mapping[str, Sequence[str]]
    channels: Collection[Channel] = ()


@dataclass(slots=True)
class Left:
    """What became of what she has, in sentences, and the ids of jobs that are being paused."""

    steps: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


def leave(transaction: Transaction, leaver: Leaver, by: str) -> Left:
    """End what a person has in the pool. Doing it again continues with the rest, or changes nothing.

    Raises `Refusal`: 404 for an unknown person, 422 for an heir who is not in the projects of her jobs.
    """
    jobs = _unfinished(transaction, leaver.name)
    _check(transaction, leaver, jobs)
    left = Left()
    for job in jobs:
        _leave_job(transaction, job, leaver, by, left)
    _give_back(transaction, leaver, by, left)
    return left


def _unfinished(transaction: Transaction, name: str) -> list[JobRecord]:
    jobs = {**transaction.state.jobs, **transaction.jobs}.values()
    hers = [job for job in jobs if job.spec.user == name and not job.state.final and job.rules.announced]
    return sorted((job for job in hers if job.standing.stopping != messages.CANCEL), key=lambda job: job.spec.seq)


def _check(transaction: Transaction, leaver: Leaver, jobs: Sequence[JobRecord]) -> None:
    known = {*transaction.hub_users, *transaction.people, *(name for of in leaver.members.values() for name in of)}
    if leaver.name not in known and not jobs:
        close = get_close_matches(leaver.name, sorted(known), n=1)
        hint = f"Did you mean {given(close[0])}?" if close else "`springtide people` lists those of projects."
        raise Refusal(404, "not_found", f"There is no person named {given(leaver.name)}.", field="name", hint=hint)
    if leaver.to is None:
        return
    if leaver.to == leaver.name:
        raise Refusal(422, "invalid", "Jobs cannot be handed over to the person who leaves.", field="to")
    outside = sorted(
        {job.spec.project for job in jobs if leaver.to not in leaver.members.get(job.spec.project, ())}
    )
    if outside:
        raise Refusal(
            422,
            "invalid",
            f"{given(leaver.to)} is not a member of {listed([quoted(project) for project in outside])}, on whose "
            "account the jobs run.",
            field="to",
            hint="Add this person to these projects first.",
        )


def _leave_job(transaction: Transaction, job: JobRecord, leaver: Leaver, by: str, left: Left) -> None:
    shown = f"The job {quoted(job.spec.name)} ({job.id}) of {quoted(job.spec.project)}"
    if leaver.to is None:
        control.change_job(transaction, job, JobChange.CANCEL, by)
        left.steps.append(f"{shown} is cancelled.")
        return
    parts = with_parts(transaction, job)
    if any(part.live is not None for part in parts):
        why = Hold(POOL, LEAVES.format(name=leaver.name, to=leaver.to), transaction.now)
        for part in parts:
            _pause(transaction, part, why)
        left.steps.append(f"{shown} is paused, and goes to {quoted(leaver.to)} then.{_entered(job, leaver.to)}")
        left.pending.append(job.id)
        return
    for part in parts:
        hold = part.standing.hold
        kept = (
            part
            if hold is None or hold.by != POOL
            else transaction.apply(lifecycle.release(part, by, transaction.now))
        )
        transaction.give_job(kept, leaver.to, by)
    about, after = {"user": leaver.name, "name": job.spec.name}, {"user": leaver.to}
    transaction.add_audit_entry(by, "job.give", job.id, about, after, project=job.spec.project)
    left.steps.append(
        f"{shown} goes to {quoted(leaver.to)}, with its outputs and checkpoints.{_entered(job, leaver.to)}"
    )


def _entered(job: JobRecord, heir: str) -> str:
    """Return a sentence about the directory that a job starts in; none about its own or a project's copy."""
    spec = job.spec
    if spec.cwd is None or spec.tree:
        return ""
    return f" It starts in {quoted(spec.cwd)}, which {quoted(heir)} has to be able to enter."


def _pause(transaction: Transaction, job: JobRecord, hold: Hold) -> None:
    held = job
    if job.standing.hold is None:
        held = transaction.apply(lifecycle.put_on_hold(job, hold, transaction.now))
    if held.live is not None and not held.standing.stopping:
        transaction.apply(lifecycle.pause(held, messages.paused_for_hold(hold), transaction.now))


def _give_back(transaction: Transaction, leaver: Leaver, by: str, left: Left) -> None:
    """Give back her own build quota and rule, and end her notifications."""
    name = leaver.name
    if name in transaction.people:
        others = {project: [each for each in names if each != name] for project, names in leaver.members.items()}
        project_admin.edit_person(transaction, name, None, by, others)
        left.steps.append("The build quota of her own is given back.")
    if (RuleScope.PERSON, name) in transaction.idle_rules:
        idle.set_rule(transaction, (RuleScope.PERSON, name), None, by)
        left.steps.append("The rule of her own for idle workspaces is gone.")
    if change_requests.withdraw_all(transaction, name, by):
        left.steps.append("Her pending requests end.")
    user = transaction.hub_users.get(name)
    silent = NotificationChoice(name, {channel: frozenset() for channel in leaver.channels})
    gone = user is not None and user.standing is HubStanding.LEFT
    if not gone and transaction.notification_choices.get(name) != silent:
        transaction.notification_choices.put(silent)
        left.steps.append("Her notifications end, and addresses for them are forgotten.")
    transaction.default_projects.remove(name)
