"""Ends of attempts and jobs, requests of users, and starts that cannot be predicted."""

from __future__ import annotations

import re

from springtide.scheduler.sentences.decisions import label, quoted_name
from springtide.scheduler.sentences.sentence import (
    Params,
    Role,
    Sentence,
    Sentences,
    Table,
    cause,
    change,
    detail,
    first_drains,
    follows,
    number,
    real,
    state,
)
from springtide.scheduler.wording import amount, count, duration, exactly, roughly, sentence

OWN_FILES = "unless the program finds files of its own"
"""The exception for jobs without reported checkpoints, which the pool cannot check."""
NO_PROGRESS = "without progress, which is a later step or, in a job that reports no steps, a checkpoint"
_MISSING_ABOVE = re.compile(r"(?i:no such file or directory).*['\"]\.\./")
"""The error of a program that opens a file by a relative path that leads above its folder."""


def _held(p: Params) -> Sentences:
    by = quoted_name(p, "by")
    yield cause(f"It is kept paused by {by}." if p.get("kept") else f"It was paused by {by}.")
    yield follows("It runs again when it is resumed.")


def _drained(p: Params) -> Sentences:
    yield cause(f"The node {label(p, 'node')} was drained by {quoted_name(p, 'by')}.")
    yield from detail(p)
    yield follows("It runs again by itself as soon as GPUs are free for it.")


def _drained_without_gpus(p: Params) -> Sentences:
    yield cause(f"The node {label(p, 'node')} was drained by {quoted_name(p, 'by')}.")
    yield from detail(p)


def _gpu_drained(p: Params) -> Sentences:
    whose = f"by {quoted_name(p, 'by')}" if p.get("by") else "because of a fault"
    yield cause(f"The GPU {number(p, 'gpu')} of {label(p, 'node')} was drained {whose}.")
    yield from detail(p)
    yield follows("It runs again by itself as soon as GPUs are free for it.")


def _moved_off(p: Params) -> Sentences:
    yield cause(f"Moved by {quoted_name(p, 'by')} off GPUs that no longer belong to the pool.")
    yield follows("It runs again by itself as soon as GPUs are free for it.")


def _cancelled(p: Params) -> Sentences:
    yield cause(f"It was cancelled by {quoted_name(p, 'by')}.")


def _time_limit(p: Params) -> Sentences:
    yield cause(f"It reached its time limit of {exactly(real(p, 'seconds'))}.")


def _how_it_ended(p: Params) -> str:
    """Return the end of a process as the rest of a sentence, empty if it is unknown."""
    if "signal" in p:
        return f"was ended by {p['signal']}"
    return f"ended with exit code {p['code']}" if "code" in p else ""


def _succeeded(p: Params) -> Sentences:
    yield cause("It has finished.")
    if not p.get("returned", 1):
        yield cause("Its process ended with exit code 0 before the function or cell returned: it has no result.")
    if how := _how_it_ended(p):
        yield cause(f"Its function or notebook had returned; then its process {how}.")
    if p.get("lost_result"):
        yield cause("Its result could not be kept, only its text.")
        yield Sentence(Role.DETAIL, sentence(str(p["lost_result"])))


def _finished(p: Params) -> Sentences:
    yield cause(f"It was marked as finished by {quoted_name(p, 'by')}.")


def _ended_cleanly(p: Params) -> Sentences:
    where = " from its checkpoint" if p.get("saved") else ""
    yield cause(f"It ended with 0 when asked to pause; it runs again{where}.")
    yield follows("Mark it as finished if its work is complete.")


def _never_saved(p: Params) -> Sentences:
    lost = real(p, "lost")
    known = f"No checkpoint was known: {duration(lost)} of work was lost, {OWN_FILES}."
    yield cause(known if lost >= 1 else "No checkpoint was known.")
    yield follows("It starts again from the beginning.")


def _evicted(p: Params) -> Sentences:
    yield cause("It was ended from outside the pool.")
    yield from detail(p)
    yield follows("It runs again by itself as soon as GPUs are free for it.")


def _held_and_resumed(p: Params) -> Sentences:
    yield cause(f"It was paused by {quoted_name(p, 'by')}, and resumed before it had stopped.")
    yield follows("It runs again by itself as soon as GPUs are free for it.")


def _paused(_: Params) -> Sentences:
    yield cause("It was asked to pause.")


def _again(p: Params) -> Sentences:
    yield cause("It made progress and asked to be run again (exit code 75).")
    if p.get("quick"):
        times = count(number(p, "quick"), "time")
        yield follows(
            f"It did so {times} in a row within a minute of its start, so it waits"
            f" {duration(real(p, 'wait'))} before it is run again, and longer each time."
        )


def _again_in_vain(p: Params) -> Sentences:
    times, limit = number(p, "times"), number(p, "limit")
    yield cause(f"It asked to be run again (exit code 75) {NO_PROGRESS}.")
    row = "one such attempt" if limit == 1 else f"{amount(limit)} such attempts in a row"
    yield follows(f"After {row} it is not run again; this was number {amount(times)}.")


def _fruitless(p: Params) -> Sentences:
    times = count(number(p, "times"), "time")
    yield cause(f"It asked to be run again (exit code 75) {times} in a row {NO_PROGRESS}.")
    yield follows("It is not run again.")


def _lost(p: Params) -> Sentences:
    yield cause(sentence(str(p.get("detail") or "")) or "Its node or supervisor was lost.")
    if p.get("saved", 1):
        yield follows("It resumes from its last checkpoint.")


def _blocked(p: Params) -> Sentences:
    yield cause("It could not be started, for a reason outside the job.")
    yield from detail(p)
    yield follows("The pool tries again by itself, less and less often.")


def _closed_to_owner(p: Params) -> Sentences:
    user = quoted_name(p, "user")
    yield cause(f"It was the job of {quoted_name(p, 'former')}, and cannot start as that of {user}.")
    yield from detail(p)
    yield change(f"Let {user} use what it needs and release it, give it to another person, or cancel it.")


def _withheld(p: Params) -> Sentences:
    yield cause("Launching has stopped: several jobs could not be started, for reasons outside them.")
    yield from detail(p)
    yield follows("The pool tries again from time to time, and then starts this job by itself.")


def _store(p: Params) -> Sentences:
    yield state("The pool starts no jobs at present.")
    yield from detail(p)
    yield follows("It keeps its place, and can start once an administrator has corrected that.")


def _not_launched(p: Params) -> Sentences:
    yield cause("It could not be started so far.")
    yield from detail(p)
    yield follows("It is tried again.")


def _not_stopped(p: Params) -> Sentences:
    yield state("It runs on: it could not be asked to end so far.")
    yield from detail(p)
    yield follows("It is asked again.")


def _failed(p: Params) -> Sentences:
    if p.get("kind") == "refused":
        yield cause("It could not be started.")
    elif p.get("kind") == "lost":
        yield cause("How it ended is unknown.")
    elif p.get("kind") == "over-disk":
        yield cause("It was ended: it keeps too much on the disk.")
    elif "signal" in p:
        yield cause(f"It was ended by {p['signal']}.")
        if p["signal"] == "SIGKILL":
            yield Sentence(Role.DETAIL, "That is often a lack of memory.")
    elif "code" in p and not p.get("detail"):
        yield cause(f"It ended with exit code {p['code']}.")
    elif "code" not in p:
        yield cause("It ended without an exit code.")
    yield from detail(p)
    if _MISSING_ABOVE.search(str(p.get("detail") or "")):
        yield Sentence(
            Role.DETAIL, "A job in a copy of its project needs the absolute path of what lies outside of it."
        )
    if "retry" in p:
        yield follows(f"It is run again: retry {amount(number(p, 'retry'))} of {amount(number(p, 'retries'))}.")


def _unforeseen(text: str) -> Sentences:
    yield state(text)


def _far(p: Params) -> Sentences:
    yield state(f"No start is foreseen within the next {duration(86_400 * real(p, 'days'))}.")


def _unmeasured(p: Params) -> Sentences:
    bound = f", in {roughly(real(p, 'within'))} at the latest" if "within" in p else ""
    yield state(f"When it starts is unknown{bound}: none like the jobs before it have ended, or ran so long.")


def _starts_drained(p: Params) -> Sentences:
    if (drains := first_drains(p)) is not None:
        yield state(f"No start is foreseen before {drains.end}, when the drain of {drains.what} ends.")


def _starts_budget(p: Params) -> Sentences:
    of, until = quoted_name(p, "budget_of"), p.get("budget_until")
    yield state(f"No start is foreseen before {until}, when the next budget of {of} begins.")


def _hold_by(p: Params) -> str:
    by = quoted_name(p, "by") if p.get("by") else "the pool"
    return f"It was put on hold by {by}: {sentence(str(p.get('detail')))}"


def _on_hold(p: Params) -> Sentences:
    yield state(_hold_by(p))
    yield change("It can start once an administrator of the project or the pool releases it.")


def _on_hold_runs(p: Params) -> Sentences:
    yield state(_hold_by(p))
    yield follows("It runs on, and does not start again before it is released.")


def _given(p: Params) -> str:
    """Return the end of a sentence: the reason that a person gave, if there is one."""
    return f": {sentence(str(p['detail']))}" if p.get("detail") else "."


def _frozen_by(p: Params) -> str:
    return f"The project {quoted_name(p, 'project')} was frozen by {quoted_name(p, 'by')}{_given(p)}"


def _frozen(p: Params) -> Sentences:
    yield state(_frozen_by(p))
    if p.get("ends"):
        yield follows(f"The freeze ends by itself at {p['ends']}, and the job can start again then.")
    else:
        yield change("It can start once an administrator of the project or the pool unfreezes the project.")


def _frozen_runs(p: Params) -> Sentences:
    yield state(_frozen_by(p))
    until = f"before {p['ends']}, when the freeze ends by itself" if p.get("ends") else "before the freeze ends"
    yield follows(f"It runs on, and does not start again {until}.")


def _paused_for_freeze(p: Params) -> Sentences:
    yield cause(
        f"It was paused when {quoted_name(p, 'by')} froze the project {quoted_name(p, 'project')}{_given(p)}"
    )


def _paused_for_hold(p: Params) -> Sentences:
    yield cause(f"It was paused when {quoted_name(p, 'by')} put it on hold: {sentence(str(p.get('detail')))}")


ATTEMPTS: Table = {
    "engine-on-hold": _on_hold,
    "engine-on-hold-runs": _on_hold_runs,
    "engine-paused-for-hold": _paused_for_hold,
    "engine-frozen": _frozen,
    "engine-frozen-runs": _frozen_runs,
    "engine-paused-for-freeze": _paused_for_freeze,
    "engine-held": _held,
    "engine-drained": _drained,
    "without-gpus-paused": _drained_without_gpus,
    "engine-gpu-drained": _gpu_drained,
    "engine-moved-off": _moved_off,
    "engine-cancelled": _cancelled,
    "engine-time-limit": _time_limit,
    "engine-succeeded": _succeeded,
    "engine-finished": _finished,
    "engine-ended-cleanly": _ended_cleanly,
    "engine-never-saved": _never_saved,
    "engine-evicted": _evicted,
    "engine-held-and-resumed": _held_and_resumed,
    "engine-paused": _paused,
    "engine-again": _again,
    "engine-again-in-vain": _again_in_vain,
    "engine-fruitless": _fruitless,
    "engine-lost": _lost,
    "engine-blocked": _blocked,
    "engine-closed-to-owner": _closed_to_owner,
    "engine-withheld": _withheld,
    "engine-store": _store,
    "engine-not-launched": _not_launched,
    "engine-not-stopped": _not_stopped,
    "engine-failed": _failed,
}

STARTS: Table = {
    "engine-starts-working": lambda _: _unforeseen("Estimating the start time."),
    "engine-starts-failed": lambda _: _unforeseen(
        "The start time could not be estimated; the service's log says why."
    ),
    "engine-starts-deep": lambda _: _unforeseen("Too many jobs are before it to predict its start."),
    "engine-starts-far": _far,
    "engine-starts-gone": lambda _: _unforeseen("It does not wait."),
    "engine-starts-large": lambda _: _unforeseen(
        "The pool has too many jobs to predict its start within a reasonable time."
    ),
    "engine-starts-never": lambda _: _unforeseen(
        "With the present nodes, quotas and limits it never starts, even when all running jobs have ended."
    ),
    "engine-starts-drained": _starts_drained,
    "engine-starts-budget": _starts_budget,
    "engine-starts-grows": lambda _: _unforeseen(
        "It may have to wait for a new node of the cluster, whose arrival cannot be predicted."
    ),
    "engine-starts-occupied": lambda _: _unforeseen(
        "Processes outside the pool use GPUs: when these end cannot be predicted."
    ),
    "engine-starts-open": lambda _: _unforeseen(
        "Jobs before it have no time limit, so its latest start is unknown."
    ),
    "engine-starts-endless": lambda _: _unforeseen(
        "When it starts is unknown: jobs before it have no time limit, and none like them ran so long."
    ),
    "engine-starts-unmeasured": _unmeasured,
    "engine-starts-missed": lambda _: _unforeseen(
        "When it starts is unknown: it was expected several times and did not start."
    ),
    "engine-starts-overdue": lambda _: _unforeseen(
        "It starts once a stopping job has left its GPUs, which is overdue: no time can be given."
    ),
}
