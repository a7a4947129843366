"""The present state and the end of sweeps."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import holds_split
from springtide.scheduler.sentences.sentence import Params, Sentences, Table, change, number, state
from springtide.scheduler.wording import count, listed, plural


def _sweep(p: Params) -> Sentences:
    running, ended, all_trials = number(p, "running"), number(p, "ended"), number(p, "number")
    if running:
        held = holds_split(number(p, "gpus"), number(p, "borrowed"))
        yield state(f"Running {count(running, 'trial')} on {held}.")
    if ended:
        yield state(f"So far {ended} of {count(all_trials, 'trial')} {plural(ended, 'has', 'have')} ended.")
    elif running:
        yield state(f"None of {count(all_trials, 'trial')} has ended yet.")
    else:
        yield state(f"None of {count(all_trials, 'trial')} runs yet.")


def _stopping(p: Params) -> Sentences:
    trials = number(p, "trials")
    yield state(
        f"It is cancelled, and ends when {count(trials, 'trial')} {plural(trials, 'has', 'have')} stopped."
    )


def _ended(p: Params) -> Sentences:
    good, failed, cancelled = number(p, "good"), number(p, "failed"), number(p, "cancelled")
    parts = [f"{good} succeeded"] if good else []
    if failed:
        parts.append(f"{failed} failed")
    if cancelled:
        parts.append(f"{cancelled} {plural(cancelled, 'was', 'were')} cancelled")
    trials = number(p, "number")
    if len(parts) == 1:
        every = "Its trial" if trials == 1 else f"All {trials} trials"
        yield state(f"{every} {'were cancelled' if cancelled and trials > 1 else parts[0].partition(' ')[2]}.")
    else:
        yield state(f"Of {count(trials, 'trial')}, {listed(parts)}.")


def _failing(p: Params) -> Sentences:
    yield state(f"The sweep paused itself: the last {count(number(p, 'failed'), 'trial')} all failed.")
    yield change(
        "The logs of these trials say why. Resume it to begin the other trials all the same, or cancel it."
    )


def _waits(_: Params) -> Sentences:
    yield state("The next trial waits.")


SWEEPS: Table = {
    "sweep": _sweep,
    "sweep-waits": _waits,
    "sweep-stopping": _stopping,
    "sweep-ended": _ended,
    "sweep-failing": _failing,
}
