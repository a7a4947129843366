"""Checks of the promises: on a plan, on a pool at rest, over a history and on a replay.

`check_plan` checks one plan. `Watch` checks a history change by change, and only the parts that a change affects;
the simulator and the engine run one. `check_history` runs a `Watch` over a recorded history. The rules behind the
promises and the exceptions of the checks are in docs/policy.md.
"""

from springtide.scheduler.model import Plan, Snapshot
from springtide.scheduler.promises.books import Books
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.promises.guarantee import GuaranteeMeter
from springtide.scheduler.promises.plan_checks import check_decisions
from springtide.scheduler.promises.replay import check_replay, compare_plans
from springtide.scheduler.promises.rest import check_rest, check_state
from springtide.scheduler.promises.watch import Step, Watch, check_history

__all__ = [
    "Books",
    "Breach",
    "GuaranteeMeter",
    "Promise",
    "Step",
    "Watch",
    "check_decisions",
    "check_history",
    "check_plan",
    "check_replay",
    "check_rest",
    "check_state",
    "compare_plans",
]


def check_plan(snapshot: Snapshot, plan: Plan) -> tuple[Breach, ...]:
    """Return the promises that the snapshot breaks, then those that a plan for this snapshot would break."""
    books = Books(snapshot)
    return (*check_state(books), *check_decisions(books, plan, snapshot.now))
