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
    assert one["tags"] == ["baseline", "lr-0.1"]
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
    assert (await client.post(f"/jobs/{job['id']}/rerun", json={})).json()["tags"] == ["baseline"]
    other = (await client.post(f"/jobs/{job['id']}/rerun", json={"tags": ["a", "b"]})).json()
    assert other["rerun"]["text"] == "Run again of one: tags baseline → a, b."


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


@pytest.mark.parametrize("tags", NO_TAGS)
async def test_what_is_no_word_is_no_tag(running: Any, tags: Any) -> None:
    answer = await running.as_("susan").post("/jobs", json={"argv": ["true"], "tags": tags})
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
