"""Tags: words of one's own by which jobs are found."""

from __future__ import annotations

from typing import Any

import pytest


async def found(running: Any, user: str, **query: str) -> list[str]:
    answer = await running.as_(user).get("/jobs", params=query)
    return sorted(job["name"] for job in answer.json()["items"])


async def test_jobs_are_found_by_a_whole_tag_and_by_words_of_it(running: Any) -> None:
    one = await running.submit("susan", name="one", tags=["baseline", "lr-0.1", "baseline"])
    await running.submit("susan", name="two", tags=["baseline-2"])
    await running.submit("jemma", name="hers", tags=["baseline"])
    await running.submit("susan", name="none")
    assert one["options"]["tags"] == ["baseline", "lr-0.1"]
    assert await found(running, "susan", tag="baseline") == ["one"]
    assert await found(running, "joe", tag="baseline", order="running") == ["one"]
    assert await found(running, "susan", tag="base") == []
    assert await found(running, "susan", tag="BASELINE") == []
    assert await found(running, "susan", tag="%") == []
    assert await found(running, "susan", search="baseline") == ["one", "two"]
    assert await found(running, "admin", tag="baseline") == ["hers", "one"]


async def test_a_run_again_has_the_tags_of_the_first_or_others(running: Any) -> None:
    job = await running.submit("susan", name="one", tags=["baseline"])
    client = running.as_("susan")
    assert (await client.post(f"/jobs/{job['id']}/rerun", json={})).json()["options"]["tags"] == ["baseline"]
    other = (await client.post(f"/jobs/{job['id']}/rerun", json={"tags": ["a", "b"]})).json()
    assert other["rerun"]["text"] == "Run again of “one”: tags baseline → a, b."


NO_TAGS = [
    [""],
    ["two words"],
    ["\N{NO-BREAK SPACE}"],
    ["a,b"],
    ["x" * 65],
    ["a\u202e"],
    [f"t{n}" for n in range(21)],
    [f"{n}{'€' * 60}" for n in range(3)],
    "word",
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("tags", NO_TAGS)
async def test_what_is_no_word_is_no_tag(shared: Any, tags: Any) -> None:
    answer = await shared.as_("susan").post("/jobs", json={"argv": ["true"], "tags": tags})
    assert (answer.status_code, answer.json()["field"]) == (422, "tags")


async def test_tags_typed_into_a_form_are_checked_as_well(running: Any) -> None:
    job = await running.submit("susan", name="one")
    client = running.as_("susan")
    many = ",".join(f"t{n}" for n in range(21))
    for typed in ("two words", many):
        answer = await client.post(f"/jobs/{job['id']}/rerun", json={"typed": {"tags": typed}})
        assert (answer.status_code, answer.json()["field"]) == (422, "tags")
    assert await found(running, "susan") == ["one"]


async def test_a_list_by_what_cannot_be_a_tag_is_refused(running: Any) -> None:
    answer = await running.as_("susan").get("/jobs", params={"tag": "two words"})
    assert (answer.status_code, answer.json()["field"]) == (422, "tag")


def has_ended(job: dict[str, Any]) -> bool:
    return job["state"] == "cancelled"


async def audited(running: Any, job: dict[str, Any]) -> list[dict[str, Any]]:
    entries = (await running.as_("admin").get("/audit")).json()["items"]
    return [entry for entry in entries if entry["subject"] == job["id"]]


async def test_tags_are_changed_while_a_job_waits_and_after_its_end(running: Any) -> None:
    job = await running.submit("susan", name="one", tags=["baseline"])
    client = running.as_("susan")
    path = f"/jobs/{job['id']}/tags"
    assert (await client.patch(path, json={"add": ["best", "baseline"]})).json()["options"]["tags"] == [
        "baseline",
        "best",
    ]
    assert await found(running, "susan", tag="best") == ["one"]
    await client.post(f"/jobs/{job['id']}/cancel")
    await running.until("susan", job["id"], has_ended)
    ended = (await client.patch(path, json={"remove": ["baseline"], "add": ["kept"]})).json()
    assert (ended["state"], ended["options"]["tags"]) == ("cancelled", ["best", "kept"])
    assert await found(running, "susan", tag="baseline") == []
    assert await found(running, "susan", tag="kept") == ["one"]
    assert (await client.patch(path, json={"tags": []})).json()["options"]["tags"] == []
    assert (await client.get(f"/jobs/{job['id']}")).json()["options"]["tags"] == []
    assert await audited(running, job) == []


async def test_an_ended_trial_that_is_tagged_is_not_counted_again(running: Any) -> None:
    sweep = await running.submit("susan", name="search", trials={"number": 1})
    client = running.as_("susan")
    await running.until("susan", f"{sweep['id']}t0", lambda trial: trial["state"] == "running")
    await client.post(f"/jobs/{sweep['id']}t0/cancel")
    before = (await running.until("susan", sweep["id"], has_ended))["trials"]
    answer = await client.patch(f"/jobs/{sweep['id']}t0/tags", json={"add": ["best"]})
    assert (answer.json()["state"], answer.json()["options"]["tags"]) == ("cancelled", ["best"])
    assert (await client.get(f"/jobs/{sweep['id']}")).json()["trials"] == before


async def test_a_change_of_anothers_tags_is_audited_and_one_by_strangers_refused(running: Any) -> None:
    job = await running.submit("susan", name="one", tags=["baseline"])
    path = f"/jobs/{job['id']}/tags"
    assert (await running.as_("joe").patch(path, json={"tags": []})).status_code == 403
    noted = await running.as_("joe").patch(f"/jobs/{job['id']}", json={"note": "hers"})
    assert noted.json()["message"].endswith("only susan and administrators may change its note and marks.")
    assert (await running.as_("admin").patch(path, json={"add": ["best"]})).json()["options"]["tags"] == [
        "baseline",
        "best",
    ]
    (entry,) = await audited(running, job)
    assert (entry["who"], entry["what"]) == ("admin", "job.tags")
    assert (entry["before"]["tags"], entry["after"]["tags"]) == (["baseline"], ["baseline", "best"])


@pytest.mark.parametrize("change", [{"tags": ["two words"]}, {"add": [""]}, {"add": [f"t{n}" for n in range(20)]}])
async def test_a_change_to_what_cannot_be_tags_is_refused_and_changes_nothing(running: Any, change: Any) -> None:
    job = await running.submit("susan", name="one", tags=["baseline"])
    client = running.as_("susan")
    assert (await client.patch(f"/jobs/{job['id']}/tags", json=change)).status_code == 422
    assert (await client.get(f"/jobs/{job['id']}")).json()["options"]["tags"] == ["baseline"]


async def test_a_change_of_tags_is_an_event_of_the_job(running: Any) -> None:
    job = await running.submit("susan", name="one")
    events = running.pool.engine.subscribe()
    await anext(events)
    await running.as_("susan").patch(f"/jobs/{job['id']}/tags", json={"add": ["best"]})
    told = [event for event in await anext(events) if event.kind == "job"]
    assert [event.data["options"]["tags"] for event in told if event.data["id"] == job["id"]] == [["best"]]
