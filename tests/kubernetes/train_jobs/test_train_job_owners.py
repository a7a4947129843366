"""Whose SpringtideJobs are whose."""

from __future__ import annotations

from springtide.scheduler import wire

CLAIM = {"springtide.io/claimed-by": "another"}


async def test_the_namespaces_user_is_whose_jobs_they_are(pool, team):
    annotations = {"metadata": {"annotations": {"springtide.io/user": "susan"}}}
    await team.ask("PATCH", f"/api/v1/namespaces/{team.namespace}", annotations)
    made = await team.apply()
    await team.until("running")
    job = await pool.job(made["metadata"]["uid"], "susan")
    assert job.user == "susan"
    other = {"metadata": {"annotations": {"springtide.io/user": "joe"}}}
    await team.ask("PATCH", f"/api/v1/namespaces/{team.namespace}", other)
    await pool.restart()
    team.let()
    ended = await team.until("succeeded")
    assert (ended["status"]["user"], ended["status"]["jobId"]) == ("susan", job.id)
    assert len(await pool.jobs()) == 1


async def test_a_forged_status_gives_no_power_over_others_jobs(pool, team):
    theirs = await pool.engine.submit(wire.Submission(argv=["sleep", "600"]), "joe", "vision")
    await pool.stop()
    claim = {"springtide.io/claimed-by": pool.name, "springtide.io/claimed-for": "joe"}
    await team.apply(metadata={"annotations": claim})
    forged = {"status": {"state": "running", "jobId": theirs.id, "user": "joe", "conditions": []}}
    await team.ask("PATCH", f"{team.path}/digits/status", forged)
    await pool.start()
    await team.until("forgotten")
    await team.delete()
    await team.until_gone()
    assert (await pool.engine.job(theirs.id)).state in {"queued", "starting", "running"}


async def test_another_pools_namespace_is_left_alone_until_it_is_ours(pool, team):
    await team.label(pool="another")
    await team.apply()
    claim = {"annotations": CLAIM, "finalizers": ["springtide.io/cancel"]}
    await team.apply("claimed", metadata=claim)
    await team.label(pool=pool.name)
    found = await team.until("running")
    assert found["metadata"]["annotations"]["springtide.io/claimed-by"] == pool.name
    assert "status" not in await team.get("claimed")


async def test_a_claim_that_somebody_writes_holds_up_nothing(pool, team):
    await team.apply("written", metadata={"annotations": CLAIM})
    await team.until("running", "written")
    await team.patch("written", {"metadata": {"annotations": CLAIM}})
    await team.until_true(
        lambda found: found["metadata"]["annotations"]["springtide.io/claimed-by"] == pool.name, "written"
    )
    await pool.stop()
    await team.patch("written", {"metadata": {"annotations": {**CLAIM, "springtide.io/claimed-for": "joe"}}})
    team.let("written")
    await pool.start()
    await team.until("succeeded", "written")
    assert len(await pool.jobs()) == 1


async def test_rights_in_one_namespace_are_enough(narrow_pool, team):
    await team.apply()
    await team.until("running")
    team.let()
    await team.until("succeeded")
    await team.apply("second")
    await team.until("running", "second")
    await team.delete("second")
    await team.until_gone("second")
