"""SpringtideJobs that are refused in words, and taken in once what was missing is there."""

from __future__ import annotations

from typing import Any

import pytest
from clusters.train_job_objects import finalizers, state, told

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings

REFUSED: Any = {
    "image": ({"image": "evil.test/miner:1"}, "Image", "registry.test/team/*"),
    "gpus": ({"gpus": 64}, "Invalid", "the largest train node has 4"),
    "grace": ({"grace": "2h"}, "Invalid", "spec.grace"),
    "dataset": ({"datasets": ["imagenet"]}, "Dataset", "There is no dataset “imagenet”"),
    "code": ({"command": ["{code}/train.py"], "files": {}}, "Invalid", "spec.files: The command uses {code}"),
}


async def test_what_a_manifest_cannot_have_is_refused_in_its_conditions(pool, team):
    for name, (spec, _, _) in REFUSED.items():
        await team.apply(name, **spec)
    for name, (_, why, words) in REFUSED.items():
        found = await team.until_true(lambda found: state(found) == "refused" and not finalizers(found), name)
        assert told(found)["Accepted"][:2] == ("False", why), name
        assert words in told(found)["Accepted"][2], name
        assert told(found)["Finished"][:2] == ("True", why), name
        assert told(found)["Succeeded"][:2] == ("False", why), name
        assert words in found["status"]["reason"], name
    assert await pool.jobs() == []


async def test_durations_are_seconds_or_text(pool, team):
    for name, limit in {"text": "1h30m", "number": 5400}.items():
        await team.apply(name, timeLimit=limit)
        found = await team.until_true(lambda found: found.get("status", {}).get("jobId"), name)
        assert (await pool.engine.job(found["status"]["jobId"])).options.time_limit == 5400


async def test_a_manifest_that_claims_another_project_is_refused(pool, team):
    for kind in ("labels", "annotations"):
        await team.apply(kind, metadata={kind: {"springtide.io/project": "speech"}})
        found = await team.until("refused", kind)
        assert "the project “vision”" in told(found)["Accepted"][2]


async def test_a_namespace_without_project_is_told_and_taken_in_once_it_has_one(pool, team):
    await team.label(project=None)
    await team.apply()
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "NoProject"
    assert f"kubectl label namespace {team.namespace} springtide.io/project=" in found["status"]["reason"]
    assert told(found)["Finished"][:2] == ("True", "NoProject")
    await team.label(project="vision")
    running = await team.until("running")
    assert told(running)["Finished"][:2] == ("False", "Running")


async def test_an_unknown_project_is_told_and_taken_in_once_it_is_there(pool, team):
    await team.label(project="audio")
    await team.apply()
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "UnknownProject"
    await pool.engine.create_project("audio", wire.ProjectEdit(quota=0), "admin", members={})
    found = await team.until_true(lambda found: told(found)["Accepted"][1] == "NoQuota")
    assert "The project “audio” has no quota" in found["status"]["reason"]
    vision = wire.ProjectEdit(quota=3)
    await pool.engine.edit_project("vision", vision, "admin", members={})
    await pool.engine.edit_project("audio", wire.ProjectEdit(quota=1), "admin", members={})
    running = await team.until("running")
    assert running["status"]["project"] == "audio"


async def test_more_gpus_than_there_are_is_told_and_taken_in_once_there_are(pool, team):
    await team.apply(gpus=6)
    await team.until("refused")
    pool.add_gpus(4)
    await team.until_true(lambda found: told(found)["Accepted"][:2] == ("True", "Accepted"))
    assert [job.options.gpus for job in await pool.jobs()] == [6]


@pytest.mark.parametrize("settings", [{"queue_cap_per_user": 1}, {"queue_cap": 1}], ids=str)
async def test_one_too_many_waits_until_another_has_ended(pool, team, settings):
    pool.settings = EngineSettings(**settings)
    await pool.restart()
    await team.apply()
    await team.until("running")
    await team.apply("second")
    pending = await team.until("pending", "second")
    assert told(pending)["Accepted"][0] == "False"
    assert told(pending)["Finished"][0] == "False"
    team.let()
    await team.until("running", "second")
    team.let("second")
    await team.until("succeeded", "second")
