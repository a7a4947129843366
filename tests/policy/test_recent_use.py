"""Fair order over time: recent use decides between otherwise equal projects, then the older request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from pools.small_pools import NODE, NOW, kinds, on, pool, running, waiting

from springtide.scheduler.forecast import forecast
from springtide.scheduler.history.recent_use import renewed, used_by
from springtide.scheduler.model import Plan, Project, RecentUse, Reserve, Start, UseChanged
from springtide.scheduler.policy import Planner

DAY = 86_400.0
EQUAL = (Project("a", quota=4), Project("b", quota=4, age=1))


def first_started(*use: RecentUse, projects: tuple[Project, ...] = EQUAL, at: tuple[float, float] = (1, 1)) -> str:
    """Return which of two projects starts its job, if the pool holds one of them."""
    jobs = (
        waiting("of-a", "a", 6, submitted=NOW - at[0]),
        waiting("of-b", "b", 6, submitted=NOW - at[1]),
    )
    snapshot = replace(pool(*jobs, projects=projects), recent_use=use)
    (start,) = (each for each in Planner(snapshot).plan(NOW).decisions if isinstance(each, Start))
    return start.job


def test_the_project_with_less_recent_use_goes_first() -> None:
    assert first_started(RecentUse("a", gpu_seconds=100.0, at=NOW)) == "of-b"
    assert first_started(RecentUse("b", gpu_seconds=100.0, at=NOW)) == "of-a"


def test_use_counts_by_weight() -> None:
    heavier = (replace(EQUAL[0], weight=3.0), EQUAL[1])
    both = (RecentUse("a", gpu_seconds=200.0, at=NOW), RecentUse("b", gpu_seconds=100.0, at=NOW))

    assert first_started(*both) == "of-b"
    assert first_started(*both, projects=heavier) == "of-a"


def test_half_of_it_is_forgotten_in_each_half_life() -> None:
    long_ago = RecentUse("a", gpu_seconds=300.0, at=NOW - 2 * DAY)

    assert first_started(long_ago, RecentUse("b", gpu_seconds=100.0, at=NOW)) == "of-a"
    assert first_started(long_ago, RecentUse("b", gpu_seconds=50.0, at=NOW)) == "of-b"


def test_of_equal_ones_the_older_request_goes_first() -> None:
    assert first_started(at=(1, 2)) == "of-b"
    assert first_started(at=(2, 1)) == "of-a"
    assert first_started(at=(1, 1)) == "of-a"  # the older project, at the same instant


def test_a_planner_that_learns_of_it_plans_as_one_that_knew_it() -> None:
    use = RecentUse("a", gpu_seconds=100.0, at=NOW)
    jobs = (waiting("of-a", "a", 6), waiting("of-b", "b", 6))
    learns = Planner(pool(*jobs, projects=EQUAL))
    learns.plan(NOW)
    learns.apply(UseChanged(use))

    assert learns.plan(NOW) == Planner(replace(pool(*jobs, projects=EQUAL), recent_use=(use,))).plan(NOW)


@pytest.mark.parametrize(("hours", "gives_way"), [(1, []), (9, ["Pause", "Reserve"])])
def test_a_gpu_left_over_by_rounding_changes_hands_once_its_project_used_much(
    hours: int, gives_way: list[str]
) -> None:
    """Nine GPUs for two equal projects: eight in halves, and one."""
    projects = (Project("a"), Project("b", age=1))
    held = [running(f"a{gpu}", "a", on("dgx", gpu), started=NOW - gpu) for gpu in range(4)]
    held += [running("a8", "a", on("odd", 0), started=NOW)]
    held += [running(f"b{gpu}", "b", on("dgx", gpu), started=NOW - gpu) for gpu in range(4, 8)]
    nodes = (NODE, structs.replace(NODE, name="odd", gpus=1))
    use = RecentUse("a", gpu_seconds=hours * 3600.0, at=NOW)
    snapshot = replace(pool(*held, waiting("b", "b"), nodes=nodes, projects=projects), recent_use=(use,))

    decided: Plan = Planner(snapshot).plan(NOW)

    assert [kind for kind, _ in kinds(decided)] == gives_way
    assert all(each.job == "b" for each in decided.decisions if isinstance(each, Reserve))


def test_what_is_said_to_let_a_job_start_counts_the_use_of_the_jobs_that_run() -> None:
    """Two projects take turns: the one that runs has used more by now than the other had before."""
    runs = running("a1", "a", on("dgx", *range(6)), started=NOW - 20)
    jobs = (runs, waiting("a2", "a", 6, submitted=NOW - 19), waiting("b1", "b", 6, submitted=NOW - 10))
    use = (RecentUse("a", borrowed=2, at=NOW - 20), RecentUse("b", gpu_seconds=30.0, at=NOW - 20))
    snapshot = replace(pool(*jobs, projects=EQUAL), recent_use=use)

    said = forecast(snapshot, (), diagnosed=("a2", "b1")).starts_if

    assert [each.remove_jobs for each in said["b1"].alternatives][:1] == [("a1",)]
    assert ("a1",) not in [each.remove_jobs for each in said["a2"].alternatives]


class TestTheRecord:
    BORROWS = RecentUse("a", borrowed=2, at=0.0)

    def test_what_is_borrowed_adds_up_and_fades(self) -> None:
        assert used_by(self.BORROWS, 60.0, DAY) == pytest.approx(120.0, rel=1e-3)
        assert used_by(RecentUse("a", gpu_seconds=80.0), DAY, DAY) == pytest.approx(40.0)
        assert used_by(self.BORROWS, 1e9, DAY) == pytest.approx(2 * DAY / 0.693147, rel=1e-5)

    def test_a_clock_that_is_behind_takes_nothing_away(self) -> None:
        assert used_by(structs.replace(self.BORROWS, gpu_seconds=100.0), -5.0, DAY) == 100.0

    def test_it_changes_where_more_or_less_is_borrowed_with_that_of_all_who_borrow(self) -> None:
        other = RecentUse("b", borrowed=1, at=0.0)
        records = {each.key: each for each in (self.BORROWS, other)}

        assert renewed(records, {self.BORROWS.key: 2}, 60.0, DAY) == []
        ended, goes_on = renewed(records, {self.BORROWS.key: 0}, 30.0, DAY)
        assert (ended.borrowed, goes_on.borrowed) == (0, 1)
        assert ended.gpu_seconds == pytest.approx(60.0, rel=1e-3)
        assert goes_on.gpu_seconds == pytest.approx(30.0, rel=1e-3)

    def test_who_never_borrowed_has_none(self) -> None:
        assert renewed({}, {self.BORROWS.key: 0}, 100.0, DAY) == []
