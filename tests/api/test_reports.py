"""Reports through the API: each caller gets as much as she may see, and a question that is wrong a sentence."""

from __future__ import annotations

from typing import Any

import pytest


async def held(running: Any) -> None:
    """Two jobs that have held GPUs, of susan's in vision and of jemma's in speech."""
    for name in ("susan", "jemma"):
        job = await running.submit(name, name=f"{name}s job")
        await running.until(name, job["id"], lambda job: job["state"] == "running")


async def report(running: Any, name: str | None, **query: str) -> Any:
    return await running.as_(name).get("/report", params=query)


async def test_a_report_has_what_the_caller_may_see(running: Any) -> None:
    await held(running)

    async def people(name: str) -> set[tuple[str, str]]:
        rows = (await report(running, name, by="project,person")).json()["rows"]
        return {(row["by"]["project"], row["by"]["person"]) for row in rows}

    assert await people("admin") == {("vision", "susan"), ("speech", "jemma")}
    assert await people("susan") == {("vision", "susan")}
    assert await people("jemma") == {("speech", "jemma")}
    assert await people("joe") == set(), "he is a member of vision, and leads nothing"
    assert (await report(running, None)).status_code == 401


async def test_quotas_are_those_of_projects_that_the_caller_leads(running: Any) -> None:
    await held(running)

    async def quotas(name: str) -> dict[str, bool]:
        rows = (await report(running, name)).json()["rows"]
        return {row["by"]["project"]: row["gpu_hours_quota"] is not None for row in rows}

    assert (await quotas("admin")).items() >= {"vision": True, "speech": True}.items()
    assert await quotas("susan") == {"vision": False}


async def test_a_report_says_whose_use_it_has(running: Any) -> None:
    await held(running)
    scopes = {name: (await report(running, name)).json()["scope"] for name in ("admin", "susan")}
    assert scopes == {"admin": "", "susan": "It has your own use alone."}


async def test_what_is_held_now_counts(running: Any) -> None:
    await held(running)
    found = (await report(running, "admin", by="kind")).json()
    assert [row["by"] for row in found["rows"]] == [{"kind": "training"}]
    assert found["total"]["jobs"] == 2
    assert found["total"]["people"] == 2
    assert found["total"]["wait_p50_s"] >= 0
    assert found["total"]["gpu_hours_used"] is None
    assert found["simulated"], "the GPUs of the tests are"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ({"start": "2026-02-30"}, "start", "is not a day"),
        ({"start": "20260101"}, "start", "is not a day"),
        ({"end": "9999-12-31"}, "end", "“9999-12-31” is not from 1970-01-01 to 2199-12-31."),
        ({"end": "2026-W05-1"}, "end", "is not a day"),
        ({"start": "2026-02-01", "end": "2026-01-31"}, "end", "before it starts"),
        ({"start": "1980-01-01", "end": "2026-01-31"}, "start", "at most 3,660"),
        ({"start": "2026-01-01", "end": "2026-03-31", "by": "hour"}, "start", "at most 31 are possible by hour"),
        ({"by": "colour"}, "by", "cannot be by"),
    ],
)
async def test_a_wrong_question_is_refused_with_a_hint(
    shared: Any, query: dict[str, str], field: str, message: str
) -> None:
    answer = await report(shared, "susan", **query)
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, field)
    assert message in problem["message"]
    assert problem["hint"]
