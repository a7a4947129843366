"""Events of SpringtideJobs in the cluster: what happened to their jobs, each thing once."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from patience import PATIENCE_S

from springtide.hub_extension.train_jobs.announcer import BURST, Announcer
from springtide.hub_extension.train_jobs.happenings import Happening
from springtide.scheduler import wire
from springtide.scheduler.kube import connect

EVENTS = "/api/v1/namespaces/{}/events"


async def events(team, name="digits"):
    """The events of a SpringtideJob, oldest first."""
    uid = (await team.get(name))["metadata"]["uid"]
    path = EVENTS.format(team.namespace)
    found = await asyncio.to_thread(team.cluster.items, path, fieldSelector=f"involvedObject.uid={uid}")
    return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))


async def until_events(team, *reasons: str, name="digits"):
    """Wait until there are events with these reasons, which come after the status; all events by reason."""
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not found.keys() >= set(reasons):
                await asyncio.sleep(0.05)
                found = {event["reason"]: event for event in await events(team, name)}
    except TimeoutError:
        pytest.fail(f"The events are {[(event['reason'], event['message']) for event in found.values()]}")
    return found


async def test_the_life_of_a_job_shows_in_events(pool, team):
    made = await team.apply(gpus=2)
    await team.until("running")
    job = await pool.job(made["metadata"]["uid"])
    await pool.engine.pause(job.id, "susan")
    await team.until("paused")
    await pool.engine.resume(job.id, "susan")
    await team.until("running")
    team.let()
    found = await until_events(team, "Queued", "Scheduled", "Started", "Paused", "Resumed", "Succeeded")
    assert f"The pool accepted it as job {job.id} of project vision." in found["Queued"]["message"]
    assert "Running on 2 GPUs" in found["Started"]["message"]
    assert found["Paused"]["message"] == "It was paused by “susan”. No checkpoint was known."
    assert found["Succeeded"]["message"] == "It has finished."
    assert {event["type"] for event in found.values()} == {"Normal"}
    assert {event["source"]["component"] for event in found.values()} == {"springtide"}


async def test_a_failure_is_a_warning_with_the_words_of_the_status(pool, team):
    await team.apply(command=[sys.executable, "-c", "import sys; sys.exit('no data')"])
    ended = await team.until("failed")
    found = await until_events(team, "Failed")
    assert (found["Failed"]["type"], found["Failed"]["message"]) == ("Warning", ended["status"]["reason"])


async def test_a_refusal_is_a_warning_and_comes_once_however_often_the_service_starts(pool, team):
    await team.apply(gpus=64)
    await team.until("refused")
    await pool.restart()
    await pool.restart()
    found = await until_events(team, "Refused")
    assert found.keys() == {"Refused"}
    assert found["Refused"]["type"] == "Warning"
    assert "the largest train node has 4" in found["Refused"]["message"]
    assert found["Refused"]["count"] == 1


async def test_what_happens_while_the_service_is_away_is_told_afterwards(pool, team):
    made = await team.apply()
    await team.until("running")
    await pool.restart()
    job = await pool.job(made["metadata"]["uid"])
    await pool.engine.cancel(job.id, "jemma")
    found = await until_events(team, "Cancelled")
    assert found["Cancelled"]["message"] == "It was cancelled by “jemma”."


async def test_the_same_event_is_counted_and_too_many_are_left_out(team):
    about = await team.apply()
    api = connect(team.cluster.kubeconfig)
    announcer = Announcer(api, clock=lambda: 1_700_000_000.0)
    try:
        same = Happening("Blocked", "The registry does not answer.", warning=True)
        await announcer.announce(about, [same, same, same])
        await announcer.announce(about, [Happening("Other", f"Number {number}.") for number in range(100)])
    finally:
        await api.close()
    found = await events(team)
    blocked = [event for event in found if event["reason"] == "Blocked"]
    assert [event["count"] for event in blocked] == [3]
    assert len(found) == 1 + BURST - 3


async def test_a_service_that_may_write_no_events_keeps_its_train_jobs_all_the_same(narrow_pool, team):
    team.let()
    await team.apply()
    await team.until("succeeded")
    assert await events(team) == []


async def test_the_chart_gives_the_rights_to_write_events_and_to_delete_what_has_ended(charted_pool, doomed_team):
    await doomed_team.apply()
    await until_events(doomed_team, "Queued", "Started")
    doomed_team.let()
    await doomed_team.patch("digits", {"spec": {"ttlSecondsAfterFinished": 0}})
    await doomed_team.until_gone()


async def test_a_priority_that_the_project_does_not_allow_is_said_and_stays_as_it_was(pool, team):
    made = await team.apply(suspend=True)
    await team.until("paused")
    job = await pool.job(made["metadata"]["uid"])
    ranges = wire.JobRanges(max_priority=60)
    await pool.engine.edit_project(job.project, wire.ProjectEdit(ranges=ranges), "admin", members={})
    await team.patch("digits", {"spec": {"priority": "high"}})
    kept = (await until_events(team, "PriorityKept"))["PriorityKept"]
    assert kept["message"].startswith("The priority stays as it is. spec.priority: The priority is 75; jobs of")
    assert (await pool.engine.job(job.id)).options.priority == 50
    await team.until_true(lambda found: found["status"].get("priority") == "high")
