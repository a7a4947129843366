"""What becomes of a job whose SpringtideJob is deleted, and of finalizers."""

from __future__ import annotations

import asyncio

import msgspec
from clusters.cluster import until
from clusters.train_job_objects import OURS, ended_and_released, finalizers
from patience import PATIENCE_S


async def test_deleting_cancels(pool, team):
    made = await team.apply()
    await team.until("running")
    await team.delete()
    await team.until_gone()
    job = await pool.until_state(made["metadata"]["uid"], "cancelled")
    assert f"SpringtideJob {team.namespace}/digits" in job.reason.text


async def test_deleting_while_the_service_is_away_cancels_when_it_is_back(pool, team):
    made = await team.apply()
    await team.until("running")
    await pool.stop()
    await team.delete()
    assert "deletionTimestamp" in (await team.get())["metadata"]
    await pool.start()
    await team.until_gone()
    await pool.until_state(made["metadata"]["uid"], "cancelled")


async def test_deleting_by_force_cancels_too(pool, team):
    made = await team.apply()
    await team.until("running")
    await team.patch("digits", {"metadata": {"finalizers": None}})
    await team.delete()
    await team.until_gone()
    await pool.until_state(made["metadata"]["uid"], "cancelled")


async def test_a_deletion_that_is_told_after_an_answer_of_later_is_not_missed(pool, team):
    made = await team.apply()
    before = await team.until("running")
    for informer in pool.front._informers.values():
        await informer.stop()
    await team.delete()
    deleted = await team.get()
    changed = msgspec.structs.replace(await pool.job(made["metadata"]["uid"]), held=[])
    entry = pool.front._ledger.entries[made["metadata"]["uid"]]
    async with asyncio.timeout(PATIENCE_S):
        while not entry.deleting:
            pool.hear(changed)  # again, as the engine may tell of the unchanged job before the status is written
            await asyncio.sleep(0.01)
    pool.front._object_changed(before, deleted)
    await team.until_gone()
    await pool.until_state(made["metadata"]["uid"], "cancelled")


async def test_what_has_ended_is_deleted_without_the_service(pool, team):
    team.let()
    await team.apply()
    await team.until_true(ended_and_released)
    await pool.stop()
    await team.delete()
    assert not await team.exists()
    await pool.start()


async def test_others_finalizers_are_left_alone(pool, team):
    await team.apply(metadata={"finalizers": ["example.com/backup"]})
    running = await team.until("running")
    assert sorted(finalizers(running)) == ["example.com/backup", OURS]
    await team.delete()
    left = await team.until_true(lambda found: finalizers(found) == ["example.com/backup"])
    await team.patch("digits", {"metadata": {"finalizers": None, "uid": left["metadata"]["uid"]}})
    await team.until_gone()


async def test_a_finalizer_that_a_replacement_lost_comes_back(pool, team):
    await team.apply()
    await team.until("running")
    await team.patch("digits", {"metadata": {"finalizers": None}})
    await team.until_true(lambda found: finalizers(found) == [OURS])


async def test_a_namespace_with_a_running_train_job_can_be_deleted(charted_pool, doomed_team):
    """The rights that the chart gives for `trainJobs.namespaces` outlive its roles, which may go first."""
    made = await doomed_team.apply()
    await doomed_team.until("running")
    namespace = f"/api/v1/namespaces/{doomed_team.namespace}"
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{doomed_team.namespace}"
    for kind in ("rolebindings", "roles"):
        await doomed_team.ask("DELETE", f"{rights}/{kind}")
    await doomed_team.ask("DELETE", namespace)
    exists = doomed_team.cluster.exists
    await asyncio.to_thread(until, lambda: not exists(namespace), "the namespace is gone")
    await charted_pool.until_state(made["metadata"]["uid"], "cancelled")
