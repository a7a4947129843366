"""The status of a train job, built from the job or from the refusal. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from springtide.hub_extension.train_jobs.owner import Owner
from springtide.scheduler import wire
from springtide.scheduler.client.descriptions import lasting, state_words
from springtide.scheduler.model import CANCELLING, ENDING, JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.sentences import LONGEST_HEADLINE
from springtide.scheduler.wording import iso

Status: TypeAlias = dict[str, Any]

LONGEST_REASON: Final = 1_024
LONGEST_MESSAGE: Final = 4_096
LONGEST_LOG: Final = 2_000
"""Maximum length of the end of a log in a status, in characters."""
LOG_LINES: Final = 20
REFUSED: Final = "refused"
WORDS: Final = frozenset({"reason", "headline"})
UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of characters that may affect a terminal."""
RUNS: Final = frozenset({JobState.RUNNING, JobState.PAUSING})
STOPS: Final = frozenset({JobState.PAUSING, CANCELLING, ENDING})
"""The states of a status while the processes of its job are to end."""
LIVE: Final = frozenset({JobState.STARTING, JobState.RUNNING, *STOPS})


def of_job(
    job: wire.Job, generation: int, *, suspended: bool = False, priority: str | None = None, log: str = ""
) -> Status:
    """Return the status of a train job whose job the pool accepted; conditions still have no times.

    ``suspended`` says that its field ``suspend`` was carried out, ``priority`` is the one that was; ``log`` is the
    end of a failed job's log.
    """
    state = JobState(job.state)
    reason = None if job.reason is None else lasting(job.reason)
    why = printable(job.error or ("" if reason is None else reason.text))
    shown = state_words(job)
    word = camel(shown)
    succeeded = None if not state.final else state is JobState.SUCCEEDED
    return {
        "observedGeneration": generation,
        "state": shown,
        "jobId": job.id,
        "project": job.project,
        "user": job.user,
        "gpus": len(job.held),
        "attempt": job.attempt,
        "headline": "" if reason is None else printable(reason.headline),
        "reason": short(why, LONGEST_REASON),
        "suspended": suspended or None,
        "priority": priority,
        "startedAt": time_of(job.started),
        "finishedAt": time_of(job.ended),
        "exitCode": job.exit_code,
        "log": log or None,
        "conditions": [
            _condition("Accepted", True, "Accepted", accepted(job), generation),
            _condition("Running", state in RUNS, word, why, generation),
            *_nodes_ready(job, generation),
            _condition("Finished", state.final, word, why if state.final else "", generation),
            _condition("Succeeded", succeeded, word, why if state.final else "", generation),
        ],
    }


def _nodes_ready(job: wire.Job, generation: int) -> list[dict[str, Any]]:
    """Return the condition for whether a job's nodes are ready, if it holds GPUs; none for another job."""
    if JobState(job.state) not in LIVE:
        return []
    silent = nodes_not_ready(job)
    return [_condition("NodesReady", not silent, "NodeNotReady" if silent else "NodesReady", silent, generation)]


def nodes_not_ready(job: wire.Job) -> str:
    """Return the sentence about a job's nodes that are not ready; empty if all are."""
    if job.reason is None or job.reason.params.get("node_code") != "node-not-ready":
        return ""
    return printable(job.reason.sentences[0].text)


def accepted(job: wire.Job) -> str:
    """Return the sentence about the acceptance of a job."""
    return f"The pool accepted it as job {job.id} of project {job.project}."


def of_refusal(refusal: Refusal, generation: int, owner: Owner | None) -> Status:
    """Return the status of a refused train job, for good or (too many jobs, a full disk) for now."""
    text, word = refused(refusal), camel(refusal.code)
    over = not temporary(refusal)
    return {
        "observedGeneration": generation,
        "state": REFUSED if over else "pending",
        "jobId": None,
        "project": None if owner is None else owner.project,
        "user": None if owner is None else owner.user,
        "gpus": 0,
        "attempt": 0,
        "headline": headline(refusal),
        "reason": short(text, LONGEST_REASON),
        "suspended": None,
        "priority": None,
        "startedAt": None,
        "finishedAt": None,
        "exitCode": None,
        "log": None,
        "conditions": [
            _condition("Accepted", False, word, text, generation),
            _condition("Running", False, word, "", generation),
            _condition("Finished", over, word, text if over else "", generation),
            _condition("Succeeded", False if over else None, word, text if over else "", generation),
        ],
    }


def refused(refusal: Refusal) -> str:
    """Return a refusal in words, with the field that is wrong."""
    path = f"{refusal.field}: " if refusal.field else ""
    return printable(f"{path}{refusal.message} {refusal.hint}".strip())


def headline(refusal: Refusal) -> str:
    """Return a refusal in one line."""
    return short(printable(refusal.message), LONGEST_HEADLINE)


def of_forgotten(status: Mapping[str, Any], generation: int) -> Status:
    """Return the status of a train job whose job the pool has forgotten: it is not run again."""
    text = (
        f"The pool does not know job {status.get('jobId')} any more, and does not run it again. To run it "
        "once more, delete this object and create it again."
    )
    return {
        **status,
        "observedGeneration": generation,
        "state": "forgotten",
        "gpus": 0,
        "headline": "The pool does not know its job any more.",
        "reason": text,
        "conditions": [
            *(c for c in status.get("conditions", ()) if c["type"] == "Accepted"),
            _condition("Running", False, "Forgotten", text, generation),
            _condition("Finished", True, "Forgotten", text, generation),
            _condition("Succeeded", False, "Forgotten", text, generation),
        ],
    }


def of_successor(status: Mapping[str, Any], generation: int) -> Status:
    """Return the status of a train job for the object of another kind that takes its place."""
    conditions = [{**each, "observedGeneration": generation} for each in status.get("conditions", ())]
    return {**status, "observedGeneration": generation, "conditions": conditions}


def temporary(refusal: Refusal) -> bool:
    """Return whether the same manifest may be accepted later."""
    return refusal.status == 429 or refusal.status >= 500


def finished(status: Mapping[str, Any]) -> bool:
    """Return whether the job has ended according to a status. A refused train job may still get one."""
    return _finish(status) is not None and status.get("state") != REFUSED


def finished_at(status: Mapping[str, Any]) -> float | None:
    """Return when a train job finished or was refused, in seconds since the epoch; None if it did not."""
    found = _finish(status)
    try:
        return None if found is None else datetime.fromisoformat(found["lastTransitionTime"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def _finish(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions", ())
    return next((c for c in conditions if c["type"] == "Finished" and c["status"] == "True"), None)


def log_end(text: str) -> str:
    """Return the last lines of a log as a status shows them."""
    lines = text.splitlines()[-LOG_LINES:]
    return "\n".join(map(printable, lines))[-LONGEST_LOG:].strip()


def same(new: Status, old: Mapping[str, Any]) -> bool:
    """Return whether two statuses are equal but for the times of conditions."""
    return _bare(new) == _bare(old)


def same_but_words(new: Status, old: Mapping[str, Any]) -> bool:
    """Return whether a new status differs in its sentences only."""
    return _bare(new, words=False) == _bare(old, words=False)


def timed(new: Status, old: Mapping[str, Any], now: float) -> Status:
    """Return the new status with the times of its conditions' last changes; ``now`` is seconds since the epoch."""
    before = {condition["type"]: condition for condition in old.get("conditions", ())}
    conditions = []
    for condition in new["conditions"]:
        former = before.get(condition["type"], {})
        unchanged = former.get("status") == condition["status"] and "lastTransitionTime" in former
        since = former["lastTransitionTime"] if unchanged else time_of(now)
        conditions.append({**condition, "lastTransitionTime": since})
    return {**new, "conditions": conditions}


def _bare(status: Mapping[str, Any], *, words: bool = True) -> dict[str, Any]:
    left_out = {"lastTransitionTime"} if words else {"lastTransitionTime", "message"}
    bare = {key: value for key, value in status.items() if value is not None and (words or key not in WORDS)}
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions", ())
    bare["conditions"] = [{k: v for k, v in c.items() if k not in left_out} for c in conditions]
    return bare


def _condition(kind: str, true: bool | None, reason: str, message: str, generation: int) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "Unknown" if true is None else str(true),
        "reason": reason,
        "message": short(message, LONGEST_MESSAGE),
        "observedGeneration": generation,
    }


def short(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def camel(code: str) -> str:
    """Return a code as the reason of a condition."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", code)) or "Unknown"


def printable(text: str) -> str:
    """Return users' text with spaces in place of characters that affect a terminal."""
    return "".join(" " if unicodedata.category(sign) in UNSEEN else sign for sign in text)


def time_of(seconds: float | None) -> str | None:
    """Return seconds since the epoch as objects of Kubernetes have them."""
    return iso(seconds) or None
