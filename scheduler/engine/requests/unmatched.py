"""An admin's word on what keeps GPUs out of the pool: it has ended, or is to end."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Exit, ExitKind
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wording import given


def find(unmatched: Sequence[wire.UnmatchedView], holder: str) -> wire.UnmatchedView:
    """Return what keeps GPUs out of the pool by its name. Raises `Refusal` (404) for another."""
    found = next((each for each in unmatched if each.holder == holder), None)
    if found is None:
        names = ", ".join(each.holder for each in unmatched)
        raise Refusal(
            404,
            "unknown_holder",
            f"Nothing called {given(holder)} keeps GPUs out of the pool.",
            field="holder",
            hint=f"What does: {names}." if names else "Nothing does.",
        )
    return found


def attempt_of(found: wire.UnmatchedView) -> AttemptKey:
    """Return the attempt that a holder is."""
    job, _, number = found.holder.rpartition(".")
    return AttemptKey(job, int(number))


def still_runs(found: wire.UnmatchedView, alive: str) -> Refusal:
    """Return the refusal to take GPUs from what lives; ``alive`` says what does."""
    return Refusal(
        409,
        "still_runs",
        f"{given(found.holder)} has not ended ({alive}). Its GPUs are free only when it has.",
        field="holder",
        hint="End it first.",
    )


def leave(transaction: Transaction, found: wire.UnmatchedView, by: str) -> None:
    """Pause a job, so that it goes on on GPUs of the pool, for the admin ``by``."""
    job = transaction.job(found.job)
    if job is not None and job.live is not None and job.live.asked is None:
        transaction.apply(lifecycle.pause(job, messages.moved_off(by), transaction.now))
    record(transaction, found, by, end=True)


def record(transaction: Transaction, found: wire.UnmatchedView, by: str, *, end: bool) -> None:
    """Add the admin's word to the audit trail."""
    what = "gpu.end_holder" if end else "gpu.free"
    transaction.add_audit_entry(by, what, found.holder, {"gpus": found.gpus, "why": found.why}, {})


def gone(key: AttemptKey, by: str, now: float) -> AttemptStatus:
    """Return the observation that an attempt has ended, by the word of the admin ``by``."""
    detail = f"Nothing of it was left, and {given(by)} said that its GPUs are free."
    return AttemptStatus(key, AttemptPhase.GONE, exit=Exit(ExitKind.LOST, now, detail=detail))
