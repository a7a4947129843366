"""Budgets of projects: told once at each level, and kept to by the rule that an admin chose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engine_worlds import MemoryExecutor, node
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.hub_extension.commands.pool import budget_lines, header, project_rows
from springtide.scheduler import wire
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.engine.settings import EngineSettings, Retries
from springtide.scheduler.model import Settings, Surplus
from springtide.scheduler.notifications import NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal

HOUR = 3_600.0
JANUARY_ENDS = 31 * 86_400.0
"""The tests begin on 12 January 1970."""
TOLD = NotificationSettings(
    CHANNELS,
    WITH_ADDRESS,
    {EMAIL: frozenset({NotificationEvent.BUDGET})},
    fault_recipients=frozenset({"admin"}),
)
SETTINGS = EngineSettings(
    policy=Settings(grace=5.0),
    retries=Retries(first=1.0),
    notifications=TOLD,
    gpu_hour_prices={"t4": 2.0},
    currency="€",
)
PROJECTS = {
    "lab": {"quota": 4},
    "susan": {"quota": 2, "parent": "lab"},
    "joe": {"quota": 2},
    "jemma": {"quota": 2},
}


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    executor = MemoryExecutor((node("train", 8, gpu_type="t4"),))
    return await make_pool(executor=executor, settings=SETTINGS, projects=PROJECTS)


async def budget(pool: Any, amount: float, beyond: Any = "tell", *, project: str = "susan", unit: Any = "money"):
    request = wire.BudgetRequest(amount=amount, beyond=beyond, unit=unit)
    await pool.engine.budgets.set(project, request, "admin")


async def runs(pool: Any, user: str = "susan", **fields: Any) -> str:
    job = await pool.submit(user, **fields)
    await pool.state(job.id, "running")
    return job.id


async def passes(pool: Any, hours: float) -> None:
    """Let hours pass, and the pool look what was spent."""
    await pool.later(hours * HOUR)
    await pool.engine.budgets.follow()
    await pool.idle()


async def only_paused(pool: Any, jobs: list[str]) -> str:
    """Wait until one of two jobs is paused while the other runs, and return it."""

    async def states() -> list[str]:
        return [(await pool.job(each)).state for each in jobs]

    async def settled() -> bool:
        return sorted(await states()) == ["paused", "running"]

    await pool.until(settled)
    return jobs[(await states()).index("paused")]


def view(pool: Any, project: str = "susan") -> wire.BudgetView:
    return next(each for each in pool.engine.admin({}).budgets if each.project == project)


async def mails(pool: Any, user: str) -> list[str]:
    waiting = await pool.engine.outbox.waiting((user, EMAIL))
    return [f"{each.notification.title} {each.notification.text}" for each in waiting]


async def trail(pool: Any, number: int) -> list[tuple[str, str, str]]:
    return [(each.who, each.what, each.subject) for each in (await pool.engine.audit(None, number)).items]


async def test_admins_and_leads_are_told_once_at_80_and_once_at_100_percent(pool: Any) -> None:
    await pool.engine.follow_hub(Seen({}, {}, {"lab": ["lena"], "joe": ["other"]}))
    await budget(pool, 20.0)
    await runs(pool, gpus=2)
    await passes(pool, 3.0)
    assert await mails(pool, "admin") == []
    assert view(pool).text == "The project “susan” has spent 12 of 20 € of its budget for January."
    await passes(pool, 1.2)
    spent = "The project “susan” has spent 80 % of its budget for January: 16.80 of 20 €."
    near = f"{spent} Once it is spent, its jobs run as before."
    assert await mails(pool, "admin") == await mails(pool, "lena") == [near]
    await passes(pool, 0.1)
    await pool.restart()
    await passes(pool, 0.1)
    assert await mails(pool, "admin") == [near]
    await passes(pool, 1.0)
    await passes(pool, 1.0)
    first, second = await mails(pool, "admin")
    over = "The project “susan” is over its budget for January: 21.60 of 20 €; its jobs run as before."
    assert (first, second.startswith(f"{over} A new budget begins on 1970-02-01 00:00.")) == (near, True)
    assert await mails(pool, "other") == await mails(pool, "susan") == []
    assert await trail(pool, 2) == [
        ("springtide", "budget.spent", "susan"),
        ("admin", "project.budget", "susan"),
    ]


async def test_beyond_it_jobs_run_only_within_the_quota_until_the_month_ends(pool: Any) -> None:
    await budget(pool, 10.0, "no-borrowing")
    jobs = [await runs(pool, gpus=2), await runs(pool, gpus=2)]
    await passes(pool, 1.5)
    beyond = await only_paused(pool, jobs)
    paused = await pool.job(beyond)
    spent = "The project “susan” is over its budget for January: 12 of 10 €"
    rule = f"{spent}; its jobs run only within its quota until 1970-02-01 00:00."
    assert rule in paused.reason.text
    assert "lowered" not in paused.reason.text
    assert pool.engine.idle_gpus().why == ["1 job waits for the budget of its project."]
    assert paused.reason.text.count(spent) == 1
    assert paused.reason.headline == "“susan” was over its budget, which left it 2 GPUs."
    assert view(pool).text == rule
    seen = pool.engine.pool()
    susan = next(each for each in seen.projects if each.name == "susan")
    assert susan.limit is None
    text = "The budget for January is spent: its jobs run only within its quota until 1970-02-01 00:00."
    assert susan.spent_budget == wire.SpentBudget(beyond="no-borrowing", text=text)
    assert list(budget_lines(seen.projects)) == [f"susan: {text}"]
    assert dict(zip(header(seen), project_rows("susan", susan, seen)[0], strict=True))["LIMIT"] == 2

    await pool.restart()
    await pool.idle()
    assert (await pool.job(beyond)).state == "paused"
    pool.clock.now = JANUARY_ENDS + 1.0
    await passes(pool, 0.0)
    await pool.state(beyond, "running")
    assert view(pool).month == "1970-02"
    assert not view(pool).over
    assert list(budget_lines(pool.engine.pool().projects)) == []


async def test_a_larger_budget_or_none_lets_its_jobs_borrow_again(pool: Any) -> None:
    await budget(pool, 10.0, "no-borrowing")
    jobs = [await runs(pool, gpus=2), await runs(pool, gpus=2)]
    await passes(pool, 1.5)
    await pool.state(await only_paused(pool, jobs), "running", "paused")
    await budget(pool, 100.0, "no-borrowing")
    assert [(await pool.state(each, "running")).state for each in jobs] == ["running", "running"]
    await budget(pool, 12.0, "no-borrowing")
    beyond = await only_paused(pool, jobs)
    await pool.engine.budgets.remove("susan", "admin")
    await pool.state(beyond, "running")
    assert pool.engine.admin({}).budgets == []


async def test_beyond_it_jobs_go_last_and_never_at_the_cost_of_the_own_guarantee(pool: Any) -> None:
    await budget(pool, 1.0, "last", project="joe")
    await runs(pool, "joe", gpus=1)
    await passes(pool, 1.0)
    full = await runs(pool, "jemma", gpus=7)
    theirs = await pool.submit("joe", gpus=3, name="last")
    await pool.later(1.0)
    others = await pool.submit("susan", gpus=6, name="first")
    await pool.idle()
    waits = await pool.job(theirs.id)
    spent = "The project “joe” is over its budget for January: 2 of 1 €"
    assert f"{spent}; its jobs beyond its quota go last until 1970-02-01 00:00." in waits.reason.text
    assert "budget" not in (await pool.job(others.id)).reason.text
    pool.executor.end(pool.key(full), code=0)
    await pool.state(others.id, "running")
    own = await pool.submit("joe", gpus=1, name="own")
    await pool.state(own.id, "running")
    await pool.idle()
    assert (await pool.job(theirs.id)).state == "queued"


async def test_the_projects_inside_count_and_are_kept_within_the_quota_of_the_department(pool: Any) -> None:
    await budget(pool, 5.0, "no-borrowing", project="lab", unit="gpu-hours")
    one, other = await runs(pool, gpus=4), await runs(pool, gpus=2)
    await passes(pool, 1.0)
    states = sorted([(await pool.job(one)).state, (await pool.job(other)).state])
    assert states == ["paused", "running"]
    assert view(pool, "lab").text.startswith("The project “lab” is over its budget for January: 6 of 5 GPU-hours;")


async def test_each_month_begins_in_the_time_zone_of_the_pool(make_pool: Any) -> None:
    settings = replace(SETTINGS, time_zone="Asia/Tokyo")
    executor = MemoryExecutor((node("train", 8, gpu_type="t4"),))
    pool = await make_pool(executor=executor, settings=settings, projects=PROJECTS)
    await budget(pool, 100.0, unit="gpu-hours")
    pool.clock.now = JANUARY_ENDS - 10 * HOUR
    await runs(pool, gpus=2)
    await passes(pool, 0.5)
    assert (view(pool).month, view(pool).spent) == ("1970-01", 1.0)
    await passes(pool, 2.5)
    assert (view(pool).month, view(pool).spent) == ("1970-02", 4.0)


async def test_what_ended_jobs_spent_is_known_after_they_are_summed_up(pool: Any) -> None:
    await budget(pool, 100.0)
    job = await runs(pool, gpus=2)
    await passes(pool, 2.0)
    before = view(pool).spent
    pool.executor.end(pool.key(job), code=0)
    await pool.state(job, "succeeded")
    await passes(pool, 0.0)
    await pool.engine._parts.ledger_sums.sum_up()
    await passes(pool, 30.0)
    assert (before, view(pool).spent) == (8.0, 8.0)


@pytest.mark.parametrize(
    ("project", "request_", "field"),
    [
        ("nobody", {"amount": 1.0}, None),
        ("susan", {"amount": float("inf")}, "amount"),
        ("susan", {"amount": 1.005}, "amount"),
        ("susan", {"amount": 0.001}, "amount"),
    ],
)
async def test_wrong_budgets_are_refused(pool: Any, project: str, request_: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as refused:
        await pool.engine.budgets.set(project, wire.BudgetRequest(**request_), "admin")
    assert refused.value.field == field


async def test_a_budget_in_money_needs_prices_and_jobs_go_last_only_where_projects_have_shares(
    make_pool: Any,
) -> None:
    policy = replace(SETTINGS.policy, surplus=Surplus.LEAST_SERVED)
    pool = await make_pool(settings=replace(SETTINGS, gpu_hour_prices={}, policy=policy), projects=PROJECTS)
    with pytest.raises(Refusal, match="GPU-hours have no prices here"):
        await budget(pool, 10.0)
    with pytest.raises(Refusal, match="so that none goes last"):
        await budget(pool, 10.0, "last", unit="gpu-hours")
    with pytest.raises(Refusal, match="has no budget"):
        await pool.engine.budgets.remove("susan", "admin")


async def test_a_deleted_project_leaves_no_budget(pool: Any) -> None:
    await budget(pool, 10.0, project="jemma")
    await pool.engine.delete_project("jemma", "admin")
    assert pool.engine.admin({}).budgets == []
