"""The check that decisions can be replayed: the same snapshot gives the same plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest

from springtide.scheduler.model import Plan, Snapshot
from springtide.scheduler.promises.breach import Breach, Promise


def check_replay(snapshot: Snapshot, plan: Plan, decide: Callable[[Snapshot], Plan]) -> tuple[Breach, ...]:
    """Return the breach when the policy decides differently for the same snapshot."""
    return compare_plans(plan, decide(snapshot))


def compare_plans(plan: Plan, again: Plan) -> tuple[Breach, ...]:
    """Return the breach when a plan and its replay differ.

    A plan may request an earlier wake-up than its replay, for a reason that no longer applies, but not
    a later one.
    """
    for recorded, replayed in zip_longest(plan.decisions, again.decisions):
        if recorded != replayed:
            return (Breach(Promise.REPLAYABLE, f"replayed, the plan has {replayed} instead of {recorded}"),)
    late = math.inf if plan.wake_at is None else plan.wake_at
    due = math.inf if again.wake_at is None else again.wake_at
    if late > due:
        return (Breach(Promise.REPLAYABLE, f"replayed, the plan wakes at {due:g}, and not at {late:g}"),)
    return ()
