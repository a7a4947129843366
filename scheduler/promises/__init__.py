"""The nine promises, checked: on a plan, on a pool at rest, over a history, on a replay.

`check_plan` looks at one plan. `Watch` follows a history change by change and checks what was touched; the
simulator and the engine carry it along. `check_history` runs a `Watch` over a recorded history.
"""

from springtide.scheduler.model import Plan, Snapshot
from springtide.scheduler.promises.books import Books
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.promises.guarantee import GuaranteeMeter
from springtide.scheduler.promises.plan_checks import check_decisions
from springtide.scheduler.promises.replay import check_replay
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
]


def check_plan(snapshot: Snapshot, plan: Plan) -> tuple[Breach, ...]:
    """The promises that a plan for this snapshot would break; what the snapshot itself breaks comes first."""
    books = Books(snapshot)
    return (*check_state(books), *check_decisions(books, plan, snapshot.now))
