"""What can be changed about a SpringtideJob while it exists: suspend, its priority, and how long it is kept."""

from __future__ import annotations

import sys

from clusters.train_job_objects import told

from springtide.scheduler import wire

KEPT = 3600


async def change(team, **spec: object) -> None:
    """Change fields of the spec, as ``kubectl patch`` does."""
    await team.patch("digits", {"spec": spec})


async def test_suspend_pauses_a_running_job_and_lets_it_go_on(pool, team):
    await team.apply()
    await team.until("running")
    await change(team, suspend=True)
    paused = await team.until("paused")
    assert paused["status"]["suspended"] is True
    assert f"suspend of SpringtideJob {team.namespace}/digits" in paused["status"]["reason"]
    await change(team, suspend=False)
    again = await team.until("running")
    assert again["status"]["attempt"] == 2
    assert "suspended" not in again["status"]


async def test_a_train_job_that_is_suspended_from_the_start_does_not_start(pool, team):
    made = await team.apply(suspend=True)
    paused = await team.until("paused")
    assert (paused["status"]["attempt"], paused["status"]["gpus"]) == (0, 0)
    job = await pool.job(made["metadata"]["uid"])
    assert (job.held_by_user, job.attempts) == (True, [])
    await pool.restart()
    assert (await pool.until_state(made["metadata"]["uid"], "paused")).attempt == 0
    await change(team, suspend=False)
    await team.until("running")


async def test_a_change_of_suspend_while_the_service_is_away_is_caught_up_on(pool, team):
    made = await team.apply()
    await team.until("running")
    await pool.stop()
    await change(team, suspend=True)
    await pool.start()
    await pool.until_state(made["metadata"]["uid"], "paused")


async def test_a_pause_from_the_page_stays_while_suspend_does_not_change(pool, team):
    made = await team.apply()
    await team.until("running")
    job = await pool.job(made["metadata"]["uid"])
    await pool.engine.pause(job.id, "susan")
    await team.until("paused")
    await change(team, ttlSecondsAfterFinished=KEPT)
    await pool.restart()
    found = await team.until_true(lambda found: found["status"].get("observedGeneration") == 2)
    assert found["status"]["state"] == "paused"
    assert (await pool.engine.job(job.id)).held_by_user


async def test_a_waiting_job_gets_another_priority_and_one_that_runs_when_it_next_waits(pool, team):
    made = await team.apply(suspend=True)
    await team.until("paused")
    await change(team, priority="high")
    await team.until_true(lambda found: found["status"].get("priority") == "high")
    assert (await pool.job(made["metadata"]["uid"])).options.priority == 75
    await change(team, suspend=False)
    await team.until("running")
    await change(team, priority=60)
    found = await team.until_true(lambda found: found["status"].get("observedGeneration") == 4)
    assert found["status"]["priority"] == "high"
    await pool.restart()
    await change(team, suspend=True)
    await team.until_true(lambda found: found["status"].get("priority") == "60")
    assert (await pool.job(made["metadata"]["uid"])).options.priority == 60


async def test_a_priority_that_was_changed_elsewhere_stays(pool, team):
    made = await team.apply(suspend=True)
    await team.until("paused")
    job = await pool.job(made["metadata"]["uid"])
    await pool.engine.edit(job.id, wire.JobEdit(priority=60), "susan")
    await pool.restart()
    await change(team, ttlSecondsAfterFinished=KEPT)
    await team.until_true(lambda found: found["status"].get("observedGeneration") == 2)
    assert (await pool.engine.job(job.id)).options.priority == 60


async def test_an_ended_train_job_is_deleted_after_the_time_that_it_names(pool, team):
    team.let()
    made = await team.apply(ttlSecondsAfterFinished=0)
    await team.until_gone()
    assert (await pool.job(made["metadata"]["uid"])).state == "succeeded"


async def test_a_refused_train_job_is_deleted_after_the_time_that_it_names(pool, team):
    await team.apply(gpus=64, ttlSecondsAfterFinished=0)
    await team.until_gone()
    assert await pool.jobs() == []


async def test_the_time_counts_from_the_end_also_over_a_restart_and_can_be_changed(pool, team):
    await team.apply(command=[sys.executable, "-c", "pass"], ttlSecondsAfterFinished=KEPT)
    ended = await team.until("succeeded")
    await pool.restart()
    await team.apply("second")
    await team.until("running", "second")
    assert told(await team.get()) == told(ended)
    await change(team, ttlSecondsAfterFinished=1)
    await team.until_gone()


async def test_a_running_train_job_is_kept_whatever_time_it_names(pool, team):
    await team.apply(ttlSecondsAfterFinished=0)
    await team.until("running")
    await pool.restart()
    await team.until_true(lambda found: found["status"]["state"] == "running")
