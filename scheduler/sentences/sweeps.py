"""The present state and the end of sweeps."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import on_held
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    change,
    detail,
    follows,
    number,
    state,
)
from springtide.scheduler.wording import count, listed, plural


def _sweep(p: Params) -> Sentences:
    running, ended, all_trials = number(p, "running"), number(p, "ended"), number(p, "number")
    if running:
        yield state(f"Running {count(running, 'trial')}{on_held(p)}.")
    if ended:
        yield state(f"So far {ended} of {count(all_trials, 'trial')} {plural(ended, 'has', 'have')} ended.")
    elif all_trials == 1:
        yield state("Its trial has not ended yet." if running else "Its trial does not run yet.")
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


def _population(p: Params) -> Sentences:
    running, ended, members = number(p, "running"), number(p, "ended"), number(p, "members")
    generation = f"Generation {number(p, 'generation')} of {number(p, 'generations')}"
    if running:
        yield state(f"{generation}: {running} of {members} members {plural(running, 'runs', 'run')}{on_held(p)}.")
    else:
        yield state(f"{generation}: none of {members} members runs yet." if not ended else f"{generation}.")
    if ended:
        yield state(f"So far {ended} of {members} members {plural(ended, 'has', 'have')} finished it.")


def _population_copies(p: Params) -> Sentences:
    yield state(f"All members have finished generation {number(p, 'generation') - 1}.")
    yield follows(
        f"Generation {number(p, 'generation')} of {number(p, 'generations')} begins when the checkpoints of its "
        "members are copied."
    )


def _population_lost(p: Params) -> Sentences:
    generation, members, gone = number(p, "generation"), number(p, "members"), number(p, "gone")
    if gone:
        rest = "" if gone == members else " Of the others none reached a value."
        of = f"all {members}" if gone == members else f"{gone} of {members}"
        yield state(
            f"The population ended in generation {generation}: the checkpoints of {of} members are not there any "
            f"more, so there is none to continue from.{rest}"
        )
        yield change("They were deleted, by a person or a program. Send the population again.")
        return
    yield state(
        f"The population ended in generation {generation}: none of its {members} members reached a value, so "
        "there is none to continue from."
    )
    yield change(
        "A member has a value if its trial succeeds and it reports a finite value of the metric at the step that "
        "ends the generation."
    )


def _population_stuck(p: Params) -> Sentences:
    yield state(
        f"The sweep paused itself: the checkpoints for generation {number(p, 'generation')} could not be copied."
    )
    yield from detail(p)
    yield change("Resume it to copy them again, or cancel it.")


SWEEPS: Table = {
    "sweep": _sweep,
    "sweep-waits": _waits,
    "sweep-stopping": _stopping,
    "sweep-ended": _ended,
    "sweep-failing": _failing,
    "population": _population,
    "population-copies": _population_copies,
    "population-lost": _population_lost,
    "population-stuck": _population_stuck,
}
