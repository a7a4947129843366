"""What happened to the job of a train job since its last status, for the events of the object. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from springtide.hub_extension.train_jobs import status
from springtide.scheduler import wire
from springtide.scheduler.client.descriptions import lasting, state_words
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.sentences import Role

SAID: Final = frozenset({Role.STATE.value, Role.CAUSE.value, Role.DETAIL.value})
"""The roles of sentences that say what happened, and not what may come."""
LONGEST_TEXT: Final = 1_024
_LIVE: Final = status.LIVE
_ENDS: Final = {
    "paused": ("Paused", False),
    "blocked": ("Blocked", True),
    "lost": ("Lost", True),
    "failed": ("AttemptFailed", True),
}
"""Ends of attempts after which the job goes on: the reason of the event, and whether it is a warning."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a job: its ``reason`` in one word for programs, and a text for people."""

    reason: str
    text: str
    warning: bool = False


def of_job(before: Mapping[str, Any], job: wire.Job) -> list[Happening]:
    """Return what happened to a job since the status ``before``, oldest first."""
    if status.finished(before):
        return []
    found = [*_acceptance(before, job), *_attempts(before, job), *_without_attempt(before, job)]
    found += _nodes(before, job)
    state = JobState(job.state)
    if state.final:
        text = status.printable(job.error) or _said(job.reason)
        found.append(_happening(status.camel(job.state), text, warning=state is JobState.FAILED))
    return found


def of_refusal(before: Mapping[str, Any], after: Mapping[str, Any], refusal: Refusal) -> list[Happening]:
    """Return what happened to a train job that gets the status ``after`` because it was refused."""
    if (before.get("state"), before.get("reason")) == (after["state"], after["reason"]):
        return []
    return [_happening(status.camel(after["state"]), status.refused(refusal), warning=True)]


def of_kept_priority(refusal: Refusal) -> Happening:
    """Return what happened to a train job whose job cannot have the priority that it asks for."""
    return _happening("PriorityKept", f"The priority stays as it is. {status.refused(refusal)}", warning=True)


CONVERTED: Final = Happening("Converted", "It was a TrainJob of the same name, and goes on as a SpringtideJob.")
"""What happened to a SpringtideJob that was made of a TrainJob."""


def of_unconverted(why: str) -> Happening:
    """Return what happened to a TrainJob that cannot become a SpringtideJob."""
    return _happening("NotConverted", f"It stays a TrainJob. {why}", warning=True)


def _acceptance(before: Mapping[str, Any], job: wire.Job) -> Iterator[Happening]:
    if "jobId" not in before:
        waits = f" {_said(job.reason)}" if job.state in {JobState.QUEUED, JobState.PAUSED} else ""
        yield _happening("Queued", f"{status.accepted(job)}{waits}")


def _attempts(before: Mapping[str, Any], job: wire.Job) -> Iterator[Happening]:
    """Yield the starts and ends of the attempts that the status does not show."""
    shown = int(before.get("attempt") or 0)
    state = before.get("state") if shown else None
    for attempt in job.attempts:
        if attempt.number < shown or (attempt.number == shown and state not in _LIVE):
            continue
        known = state if attempt.number == shown else None
        if known is None:
            yield _happening("Scheduled", _said(attempt.why))
        if attempt.started is not None and known not in {JobState.RUNNING, *status.STOPS}:
            resumed = job.started is not None and job.started < attempt.started
            text = _said(job.reason) if attempt.state == JobState.RUNNING else _workers(attempt)
            yield _happening("Resumed" if resumed else "Started", text)
        stops = state_words(attempt)
        if stops in status.STOPS and known != stops:
            yield _happening(status.camel(stops), _said(job.reason))
        last = JobState(job.state).final and attempt.number == job.attempt
        if attempt.state in _ENDS and not last:
            reason, warning = _ENDS[attempt.state]
            yield _happening(reason, _said(attempt.ended_why), warning=warning)


def _nodes(before: Mapping[str, Any], job: wire.Job) -> Iterator[Happening]:
    """Yield that the nodes of a job are not ready any more, or ready again."""
    conditions = {each["type"]: each["status"] for each in before.get("conditions", ())}
    was, silent = conditions.get("NodesReady") == "False", status.nodes_not_ready(job)
    if silent and not was:
        yield _happening("NodeNotReady", silent, warning=True)
    if was and not silent and job.state in _LIVE and before.get("attempt") == job.attempt:
        yield _happening("NodeReady", "Its nodes are ready again.")


def _without_attempt(before: Mapping[str, Any], job: wire.Job) -> Iterator[Happening]:
    """Yield the pause and the resumption of a job while it waits."""
    if before.get("attempt") != job.attempt or before.get("state") in _LIVE:
        return
    if (before.get("state"), job.state) == (JobState.QUEUED, JobState.PAUSED):
        yield _happening("Paused", _said(job.reason))
    if job.state == JobState.QUEUED and before.get("state") == JobState.PAUSED:
        yield _happening("Queued", _said(job.reason))


def _workers(attempt: wire.Attempt) -> str:
    """Return the sentence about an attempt that has run already."""
    return f"Attempt {attempt.number} ran on {', '.join(gpu.label for gpu in attempt.gpus) or 'no GPUs'}."


def _said(reason: wire.Reason | None) -> str:
    """Return the sentences of a reason that say what happened."""
    if reason is None:
        return ""
    reason = lasting(reason)
    return " ".join(each.text for each in reason.sentences if each.role in SAID) or reason.text


def _happening(reason: str, text: str, *, warning: bool = False) -> Happening:
    return Happening(reason, status.short(status.printable(text), LONGEST_TEXT), warning)
