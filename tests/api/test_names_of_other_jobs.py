"""What a member of one project gets in a busy pool: no name and no id of a job of another project."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from patience import PATIENCE_S

from springtide.hub_extension.service.site import ROUTES
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.executors.base import AttemptKey

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET, HERS = "secret-merger-model", "unpublished-borrower"
STUBBORN = "trap '' TERM; echo started; until [ -e {flag} ]; do sleep 0.05; done"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy(started: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """A pool in which jobs of `speech` pause a job of `vision`, and hold GPUs that another one waits for."""
    running = await started()
    running.people.callers["observer"] = Caller("observer", token="observer")
    running.people.callers["both"] = Caller("both", frozenset({"vision", "speech"}), token="both")
    flag = tmp_path_factory.mktemp("flags") / "enough"
    stubborn = ("sh", "-c", STUBBORN.format(flag=flag))
    running.borrower = await running.submit("susan", *stubborn, name=HERS, gpus=4, grace=3000)
    await running.until("susan", running.borrower["id"], lambda job: job["state"] == "running")
    running.secret = await running.submit("jemma", name=SECRET, gpus=2)
    await running.until("susan", running.borrower["id"], lambda job: job["state"] == "pausing")
    running.waits = await running.submit("susan", name="waits", gpus=4)
    yield running
    flag.touch()


async def everything_for(running: Any, name: str, own: list[str]) -> AsyncIterator[tuple[str, str]]:
    """All that the routes to read answer to a person, with her own jobs in the places of jobs."""
    client = running.as_(name)
    for route in (each for each in ROUTES if each.method == "GET" and "events" not in each.path):
        for job in own if "{" in route.path else [""]:
            path = route.path
            while "{" in path:
                begin, _, rest = path.partition("{")
                path = f"{begin}{job}{rest.partition('}')[2]}"
            for query in ("", "?starts=60&mine=1") if path == "/jobs" else ("",):
                with contextlib.suppress(httpx.HTTPError):
                    answer = await client.get(path + query)
                    yield f"{path}{query}", answer.text
    for question in ({}, {"job": {"gpus": 4}, "smaller": True}, {"starts": own[:1]}):
        answer = await client.post("/forecast", json=question)
        yield f"/forecast {question}", answer.text


async def events_for(running: Any, name: str, query: str, enough: Any) -> str:
    """The stream of events up to the first that is ``enough``."""
    found = ""
    async with asyncio.timeout(PATIENCE_S), running.as_(name).stream("GET", f"/events{query}") as answer:
        async for line in answer.aiter_lines():
            found += f"{line}\n"
            if line.startswith("data: ") and enough(json.loads(line.removeprefix("data: "))):
                return found
    return found


def hides(text: str, name: str, job: dict[str, Any]) -> bool:
    return name not in text and job["id"] not in text


async def test_an_administrator_reads_the_names(busy: Any) -> None:
    named = await busy.until("admin", busy.borrower["id"], lambda job: SECRET in job["reason"]["text"])
    assert SECRET in named["reason"]["headline"]
    assert SECRET in (await busy.as_("both").get(f"/jobs/{busy.borrower['id']}")).text, "of both projects"


@pytest.mark.parametrize("name", ["susan", "jemma", "observer"])
async def test_no_answer_names_a_job_of_another_project(busy: Any, name: str) -> None:
    hidden = {SECRET: busy.secret, HERS: busy.borrower}
    if name != "observer":
        del hidden[SECRET if name == "jemma" else HERS]
    own = [busy.secret["id"]] if name == "jemma" else [busy.borrower["id"], busy.waits["id"]]
    looked = 0
    async for path, text in everything_for(busy, name, own if name != "observer" else []):
        assert all(hides(text, *each) for each in hidden.items()), f"{path}: {text}"
        looked += 1
    assert looked > 30


async def test_a_sentence_names_the_project_instead(busy: Any) -> None:
    found = (await busy.as_("susan").get(f"/jobs/{busy.borrower['id']}")).json()
    assert "speech" in found["reason"]["text"]
    assert (found["reason"]["params"]["for_name"], found["reason"]["params"]["for_job"]) == ("", "")
    assert found["reason"]["params"]["for_project"] == "speech"


async def test_the_events_of_a_job_name_others_only_to_those_who_see_them(busy: Any) -> None:
    job = busy.borrower["id"]

    def is_there(data: dict[str, Any]) -> bool:
        return data.get("id") == job and data["state"] in {"pausing", "paused"}

    for query in (f"?job={job}", "?last_event_id=0"):
        shown = await events_for(busy, "susan", query, is_there)
        assert hides(shown, SECRET, busy.secret)
        assert '"named"' not in shown
        full = await events_for(busy, "admin", query, is_there)
        assert '"named"' not in full
    assert SECRET in await events_for(busy, "admin", f"?job={job}", is_there)


async def test_a_program_of_a_job_reads_no_more_than_its_project(busy: Any) -> None:
    job = busy.borrower["id"]
    program = busy.as_(busy.credentials.token(AttemptKey(job, 1)))
    answer = await program.get(f"/jobs/{job}")
    assert answer.status_code == 200
    assert hides(answer.text, SECRET, busy.secret)
