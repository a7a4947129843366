"""The service of SpringtideJobs, or the API server, goes and comes back: each runs once and is shown as it is."""

from __future__ import annotations

from clusters.train_job_objects import OURS, told

from springtide.scheduler import wire


async def test_a_service_that_restarts_in_the_middle_changes_nothing(pool, team):
    await team.apply()
    before = await team.until("running")
    await pool.restart()
    team.let()
    after = await team.until("succeeded")
    assert after["status"]["jobId"] == before["status"]["jobId"]
    assert after["status"]["attempt"] == 1
    assert len(await pool.jobs()) == 1


async def test_what_ended_while_the_service_was_away_is_shown_when_it_is_back(pool, team):
    await team.apply()
    await team.until("running")
    await pool.stop()
    team.let()
    await team.apply("second")
    team.let("second")
    await pool.start()
    await team.until("succeeded")
    await team.until("succeeded", "second")
    assert len(await pool.jobs()) == 2


async def test_a_service_that_died_right_after_submitting_does_not_submit_again(pool, team):
    await pool.stop()
    claim = {"springtide.io/claimed-by": pool.name, "springtide.io/claimed-for": "susan"}
    made = await team.apply(metadata={"finalizers": [OURS], "annotations": claim})
    await pool.start(listening=False)
    sent = wire.Submission(argv=["sleep", "600"], key=made["metadata"]["uid"])
    first = await pool.engine.submit(sent, "susan", "vision")
    await pool.restart()
    found = await team.until("running")
    assert found["status"]["jobId"] == first.id
    assert len(await pool.jobs()) == 1


async def test_a_job_that_the_pool_has_lost_is_not_run_again(pool, team):
    await team.apply()
    await team.until("running")
    uid = (await team.get())["metadata"]["uid"]
    await pool.engine.cancel((await pool.job(uid)).id, "test")
    await team.until("cancelled")
    await pool.stop()
    lost = {"status": {"state": "running", "conditions": []}}
    await team.ask("PATCH", f"{team.path}/digits/status", lost)
    pool.lose_everything()
    await pool.start()
    found = await team.until("forgotten")
    assert told(found)["Finished"][:2] == ("True", "Forgotten")
    assert await pool.jobs() == []


async def test_what_happens_while_the_api_is_away_is_made_up_for(distant_pool, team, api_relay):
    await team.apply()
    await team.until("running")
    uid = (await team.get())["metadata"]["uid"]
    api_relay.cut()
    team.let()
    await distant_pool.until_state(uid, "succeeded")
    api_relay.restore()
    ended = await team.until("succeeded")
    assert told(ended)["Finished"][:2] == ("True", "Succeeded")
