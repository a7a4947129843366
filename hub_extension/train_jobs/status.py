"""The status of a TrainJob, built from the job or from the refusal. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from springtide.hub_extension.train_jobs.owner import Owner
from springtide.scheduler import wire
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal

Status: TypeAlias = dict[str, Any]

LONGEST_REASON: Final = 1_024
LONGEST_MESSAGE: Final = 4_096
UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of characters that may affect a terminal."""
RUNS: Final = frozenset({JobState.RUNNING, JobState.PAUSING})


def of_job(job: wire.Job, generation: int) -> Status:
    """Return the status of a TrainJob whose job the pool accepted; conditions still have no times."""
    state = JobState(job.state)
    why = _text(job.error or (job.reason.text if job.reason is not None else ""))
    word = _camel(job.state)
    accepted = f"The pool accepted it as job {job.id} of project {job.project}."
    return {
        "observedGeneration": generation,
        "state": job.state,
        "jobId": job.id,
        "project": job.project,
        "user": job.user,
        "gpus": len(job.held),
        "attempt": job.attempt,
        "reason": _short(why, LONGEST_REASON),
        "startedAt": _time(job.started),
        "finishedAt": _time(job.ended),
        "exitCode": job.exit_code,
        "conditions": [
            _condition("Accepted", True, "Accepted", accepted, generation),
            _condition("Running", state in RUNS, word, why, generation),
            _condition("Finished", state.final, word, why if state.final else "", generation),
        ],
    }


def of_refusal(refusal: Refusal, generation: int, owner: Owner | None) -> Status:
    """Return the status of a refused TrainJob, for good or (too many jobs, a full disk) for now."""
    path = f"{refusal.field}: " if refusal.field else ""
    text = _text(f"{path}{refusal.message} {refusal.hint}".strip())
    word = _camel(refusal.code)
    return {
        "observedGeneration": generation,
        "state": "pending" if temporary(refusal) else "refused",
        "jobId": None,
        "project": None if owner is None else owner.project,
        "user": None if owner is None else owner.user,
        "gpus": 0,
        "attempt": 0,
        "reason": _short(text, LONGEST_REASON),
        "startedAt": None,
        "finishedAt": None,
        "exitCode": None,
        "conditions": [
            _condition("Accepted", False, word, text, generation),
            _condition("Running", False, word, "", generation),
            _condition("Finished", False, word, "", generation),
        ],
    }


def of_forgotten(status: Mapping[str, Any], generation: int) -> Status:
    """Return the status of a TrainJob whose job the pool has forgotten: it is not run again."""
    text = (
        f"The pool does not know job {status.get('jobId')} any more, and does not run it again. To run it "
        "once more, delete this TrainJob and create it again."
    )
    return {
        **status,
        "observedGeneration": generation,
        "state": "forgotten",
        "gpus": 0,
        "reason": text,
        "conditions": [
            *(c for c in status.get("conditions", ()) if c["type"] == "Accepted"),
            _condition("Running", False, "Forgotten", text, generation),
            _condition("Finished", True, "Forgotten", text, generation),
        ],
    }


def temporary(refusal: Refusal) -> bool:
    """Return whether the same manifest may be accepted later."""
    return refusal.status == 429 or refusal.status >= 500


def finished(status: Mapping[str, Any]) -> bool:
    """Return whether the job has ended according to a status."""
    return any(c["type"] == "Finished" and c["status"] == "True" for c in status.get("conditions", ()))


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
        since = former["lastTransitionTime"] if unchanged else _time(now)
        conditions.append({**condition, "lastTransitionTime": since})
    return {**new, "conditions": conditions}


def _bare(status: Mapping[str, Any], *, words: bool = True) -> dict[str, Any]:
    left_out = {"lastTransitionTime"} if words else {"lastTransitionTime", "message"}
    bare = {key: value for key, value in status.items() if value is not None and (words or key != "reason")}
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions", ())
    bare["conditions"] = [{k: v for k, v in c.items() if k not in left_out} for c in conditions]
    return bare


def _condition(kind: str, true: bool, reason: str, message: str, generation: int) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True" if true else "False",
        "reason": reason,
        "message": _short(message, LONGEST_MESSAGE),
        "observedGeneration": generation,
    }


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _camel(code: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", code)) or "Unknown"


def _text(text: str) -> str:
    """Return users' text with spaces in place of characters that affect a terminal."""
    return "".join(" " if unicodedata.category(sign) in UNSEEN else sign for sign in text)


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
