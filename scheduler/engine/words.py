"""The engine's own reasons and their sentences; those of the planner are rendered by the policy."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from springtide.scheduler.executors.base import Exit, ExitKind
from springtide.scheduler.model import Reason
from springtide.scheduler.policy import reasons

CANCEL = "cancel"
TIME_LIMIT = "time-limit"
HELD = "engine-held"
PROJECTS = ("project", "for_project", "at")
"""The planner's params that name projects."""


def held_by(by: str) -> Reason:
    """A user paused the job."""
    return Reason(HELD, {"by": by})


def cancelled_by(by: str) -> Reason:
    """A user cancelled the job."""
    return Reason("engine-cancelled", {"by": by})


def time_limit(seconds: float) -> Reason:
    """The job ran as long as it may."""
    return Reason("engine-time-limit", {"seconds": seconds})


def succeeded() -> Reason:
    """The job is done."""
    return Reason("engine-succeeded")


def asked_to_pause() -> Reason:
    """The attempt was asked to pause, and nothing more is known."""
    return Reason("engine-paused")


def asked_again() -> Reason:
    """Exit 75 after progress."""
    return Reason("engine-again")


def asked_again_in_vain(times: int, limit: int) -> Reason:
    """Exit 75 without progress."""
    return Reason("engine-again-in-vain", {"times": times, "limit": limit})


def fruitless(times: int) -> Reason:
    """Exit 75 without progress, too often."""
    return Reason("engine-fruitless", {"times": times})


def lost(detail: str) -> Reason:
    """The attempt's node or supervisor vanished."""
    return Reason("engine-lost", {"detail": detail})


def not_launched(detail: str) -> Reason:
    """The executor could not start the attempt so far, and tries again."""
    return Reason("engine-not-launched", {"detail": detail})


def starts_unknown(why: str, days: float = 0.0) -> Reason:
    """When a job starts, or starts at the latest, cannot be told; ``days`` is how far was looked."""
    return Reason(f"engine-starts-{why}", {"days": days} if days else {})


def failed(ended: Exit, retry: int = 0, retries: int = 0) -> Reason:
    """The attempt failed; with ``retry``, it is tried again."""
    what = {ExitKind.REFUSED: "refused", ExitKind.LOST: "lost"}.get(ended.kind, "exit")
    params: dict[str, str | int | float | tuple[str, ...] | None] = {"kind": what, "detail": ended.detail}
    if ended.signal is not None:
        params["signal"] = _signal_name(ended.signal)
    elif ended.code is not None:
        params["code"] = ended.code
    if retry:
        params |= {"retry": retry, "retries": retries}
    return Reason("engine-failed", params)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def render(reason: Reason) -> str:
    """The reason as one or more whole sentences. Names in it are as users wrote them."""
    if reason.code.startswith("engine-"):
        return _OWN[reason.code](reason)
    return _whole(reasons.render(reason), reason.params)


def _whole(text: str, params: Mapping[str, object]) -> str:
    """The planner's words with a beginning and an end: a name keeps its letters, so a word goes before it."""
    end = "" if text.endswith((".", "!", "?")) else "."
    if text.startswith(f"{params.get('for_name')} of "):
        return f"The job {text}{end}"
    if any(text.startswith(f"{params[key]} ") for key in PROJECTS if params.get(key)):
        return f"The project {text}{end}"
    return f"{text[:1].upper()}{text[1:]}{end}"


def _duration(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{count} {unit}{'' if count == '1' else 's'}"
    return f"{seconds:g} seconds"


def _detail(reason: Reason) -> str:
    detail = str(reason.params.get("detail") or "").strip()
    if not detail:
        return ""
    return f" {detail}" if detail.endswith((".", "!", "?")) else f" {detail}."


def _failed(reason: Reason) -> str:
    params = reason.params
    if params.get("kind") == "refused":
        text = f"It could not be started.{_detail(reason)}"
    elif "signal" in params:
        hint = " That is often a lack of memory." if params["signal"] == "SIGKILL" else ""
        text = f"It was ended by {params['signal']}.{hint}{_detail(reason)}"
    else:
        text = f"It ended with exit code {params.get('code', 'unknown')}.{_detail(reason)}"
    if "retry" in params:
        text += f" It is tried again ({params['retry']} of {params['retries']})."
    return text


def _held(reason: Reason) -> str:
    return f"Paused by {reason.params['by']}. It goes on when somebody resumes it."


def _far(reason: Reason) -> str:
    seen = _duration(86_400 * float(str(reason.params.get("days", 0))))
    return f"It does not start within the next {seen}, as far as can be seen."


_OWN: Mapping[str, Callable[[Reason], str]] = {
    HELD: _held,
    "engine-cancelled": lambda reason: f"Cancelled by {reason.params['by']}.",
    "engine-time-limit": lambda reason: (
        f"It ran as long as its time limit of {_duration(float(str(reason.params['seconds'])))} allows."
    ),
    "engine-succeeded": lambda _: "Done.",
    "engine-paused": lambda _: "It was asked to pause.",
    "engine-again": lambda _: "It saved a checkpoint and asked to be run again (exit code 75).",
    "engine-again-in-vain": lambda reason: (
        "It asked to be run again (exit code 75) without having saved a checkpoint or reported a new step, "
        f"{reason.params['times']} of at most {reason.params['limit']} times in a row."
    ),
    "engine-fruitless": lambda reason: (
        f"It asked to be run again (exit code 75) {reason.params['times']} times in a row without saving a "
        "checkpoint or reporting a new step, so it is not run any more."
    ),
    "engine-lost": lambda reason: (
        f"Its node or supervisor was lost; it goes on from its last checkpoint.{_detail(reason)}"
    ),
    "engine-not-launched": lambda reason: f"It could not be started yet, and is tried again.{_detail(reason)}",
    "engine-failed": _failed,
    "engine-starts-working": lambda _: "When it starts is being worked out.",
    "engine-starts-failed": lambda _: "When it starts could not be worked out; the service's log says why.",
    "engine-starts-deep": lambda _: "Too many jobs are before it to tell when it starts.",
    "engine-starts-far": _far,
    "engine-starts-gone": lambda _: "It does not wait.",
    "engine-starts-large": lambda _: "So much runs and waits here that it takes too long to tell when it starts.",
    "engine-starts-never": lambda _: (
        "It does not start as long as the pool and its quotas stay as they are, even when all that runs has ended."
    ),
    "engine-starts-open": lambda _: (
        "Nothing bounds how long the jobs before it may run, so no latest time can be told: a time limit would."
    ),
}
