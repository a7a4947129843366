"""TrainJobs in a real cluster: taken in, run, shown, cancelled, and refused in words."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from cluster import ClusterError

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENT = Path(__file__).parents[3] / "docs/trainjob.md"
OURS = "springtide.io/cancel"


def told(found):
    """The conditions of a TrainJob: status, reason and message by type."""
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found["status"]["conditions"]}


def finalizers(found):
    return found["metadata"].get("finalizers", [])


def state(found):
    return found.get("status", {}).get("state")


def ended_and_released(found):
    return state(found) == "succeeded" and not finalizers(found)


# ---------- one life


async def test_a_manifest_becomes_a_job_that_runs_and_ends(pool, team):
    made = await team.apply(gpus=2)
    running = await team.until("running")
    assert running["status"]["gpus"] == 2
    assert {kind: (true, why) for kind, (true, why, _) in told(running).items()} == {
        "Accepted": ("True", "Accepted"),
        "Running": ("True", "Running"),
        "Finished": ("False", "Running"),
    }
    team.let()
    ended = await team.until_true(lambda found: not found["metadata"].get("finalizers"))
    status = ended["status"]
    assert (status["state"], status["gpus"], status["exitCode"]) == ("succeeded", 0, 0)
    assert (status["project"], status["user"], status["attempt"]) == ("vision", "kubernetes:vision", 1)
    assert told(ended)["Finished"][:2] == ("True", "Succeeded")
    assert made["metadata"]["creationTimestamp"] <= status["startedAt"] <= status["finishedAt"]
    job = await pool.job(made["metadata"]["uid"])
    assert (job.id, job.name, job.project) == (status["jobId"], "digits", "vision")


async def test_kubectl_get_shows_state_gpus_reason_and_age(pool, team):
    await team.apply(gpus=3)
    await team.until("running")
    row = await team.row()
    assert list(row) == ["Name", "State", "GPUs", "Reason", "Age"]
    assert (row["Name"], row["State"], row["GPUs"]) == ("digits", "running", 3)
    await team.apply("second", gpus=2)
    await team.until("queued", "second")
    row = await team.row("second")
    assert (row["State"], row["GPUs"]) == ("queued", 0)
    assert row["Reason"] == (await pool.jobs())[0].reason.text


async def test_a_failure_says_how_it_ended(pool, team):
    await team.apply(command=[sys.executable, "-c", "import sys; sys.exit(3)"])
    ended = await team.until("failed")
    assert ended["status"]["exitCode"] == 3
    assert told(ended)["Finished"][:2] == ("True", "Failed")
    assert "exit code 3" in told(ended)["Finished"][2]


async def test_a_pause_shows_and_so_does_going_on(pool, team):
    made = await team.apply()
    await team.until("running")
    job = await pool.job(made["metadata"]["uid"])
    await pool.engine.pause(job.id, "susan")
    paused = await team.until("paused")
    assert told(paused)["Running"][:2] == ("False", "Paused")
    assert "susan" in paused["status"]["reason"]
    await pool.engine.resume(job.id, "susan")
    again = await team.until_true(lambda found: found["status"]["state"] == "running")
    assert again["status"]["attempt"] == 2


async def test_what_the_web_page_cancels_shows_in_the_cluster(pool, team):
    made = await team.apply()
    await team.until("running")
    await pool.engine.cancel((await pool.job(made["metadata"]["uid"])).id, "jemma")
    ended = await team.until("cancelled")
    assert told(ended)["Finished"][:2] == ("True", "Cancelled")
    assert "jemma" in told(ended)["Finished"][2]


async def test_the_documents_example_runs(pool, team):
    namespace, manifest = (yaml.safe_load(text) for text in YAML.findall(DOCUMENT.read_text()))
    assert namespace["metadata"]["labels"] == {"springtide.io/project": "vision"}
    manifest["spec"]["command"][0] = sys.executable
    made = await team.ask("POST", team.path, manifest)
    await team.until("succeeded")
    log = await pool.engine.log((await pool.job(made["metadata"]["uid"])).id, 0, 0, 65536, 0)
    assert "total 190" in log.text


# ---------- deleting


async def test_deleting_cancels(pool, team):
    made = await team.apply()
    await team.until("running")
    await team.delete()
    await team.until_gone()
    job = await pool.until_state(made["metadata"]["uid"], "cancelled")
    assert f"TrainJob {team.namespace}/digits" in job.reason.text


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
    for mirror in pool.front._mirrors.values():
        await mirror.stop()
    await team.delete()
    deleted = await team.get()
    pool.hear(msgspec.structs.replace(await pool.job(made["metadata"]["uid"]), held=[]))
    entry = pool.front._ledger.entries[made["metadata"]["uid"]]
    async with asyncio.timeout(30):
        while not entry.deleting:
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


# ---------- restarts


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
    sent = wire.Submission(argv=["sleep", "60"], key=made["metadata"]["uid"])
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


async def test_what_happens_while_the_api_is_away_is_made_up_for(pool, team):
    await team.apply()
    await team.until("running")
    uid = (await team.get())["metadata"]["uid"]
    await asyncio.to_thread(team.cluster.stop_api)
    team.let()
    await pool.until_state(uid, "succeeded")
    await asyncio.to_thread(team.cluster.start_api)
    ended = await team.until("succeeded")
    assert told(ended)["Finished"][:2] == ("True", "Succeeded")


# ---------- refused in words


REFUSED = {
    "host-network": ({"hostNetwork": True}, "PodField", "spec.hostNetwork: A TrainJob cannot set hostNetwork"),
    "project": ({"project": "speech"}, "Forbidden", 'asks for the project "speech"'),
    "user": ({"user": "root"}, "Forbidden", 'asks for the user "root"'),
    "unknown": ({"gpuCount": 2}, "UnknownField", "spec.gpuCount: There is no field"),
    "image": ({"image": "evil.test/miner:1"}, "Image", "registry.test/team/*"),
    "gpus": ({"gpus": 64}, "Invalid", "the largest train node has 4"),
    "priority": ({"priority": "urgent"}, "Invalid", "There is no priority 'urgent'"),
    "directory": ({"workingDirectory": "work"}, "Invalid", "spec.workingDirectory"),
    "files": ({"files": {"../escape": "x"}}, "Invalid", "spec.files"),
    "env": ({"env": {"A=B": "x"}}, "Invalid", "spec.env"),
}


async def test_what_a_manifest_cannot_have_is_refused_in_its_conditions(pool, team):
    for name, (spec, _, _) in REFUSED.items():
        await team.apply(name, **spec)
    for name, (_, why, words) in REFUSED.items():
        found = await team.until_true(lambda found: state(found) == "refused" and not finalizers(found), name)
        assert told(found)["Accepted"][:2] == ("False", why), name
        assert words in told(found)["Accepted"][2], name
        assert words in found["status"]["reason"], name
    assert await pool.jobs() == []


async def test_a_manifest_that_claims_another_project_is_refused(pool, team):
    for kind in ("labels", "annotations"):
        await team.apply(kind, metadata={kind: {"springtide.io/project": "speech"}})
        found = await team.until("refused", kind)
        assert "the project 'vision'" in told(found)["Accepted"][2]


WRONG = (
    ({"gpus": 0}, "spec.gpus"),
    ({"gpus": -1}, "spec.gpus"),
    ({"gpus": 1.5}, "spec.gpus"),
    ({"gpus": True}, "spec.gpus"),
    ({"gpus": 10**30}, "spec.gpus"),
    ({"command": []}, "spec.command"),
    ({"command": "python"}, "spec.command"),
    ({"workers": 2, "minWorkers": 3}, "minWorkers is more than workers"),
    ({"timeLimitSeconds": 0}, "spec.timeLimitSeconds"),
    ({"env": {"A": 1}}, "spec.env.A"),
)


async def test_what_the_schema_knows_to_be_wrong_never_gets_into_the_cluster(team):
    for spec, words in WRONG:
        with pytest.raises(ClusterError, match=re.escape(words)):
            await team.apply(**spec)


async def test_a_spec_cannot_be_changed(team):
    await team.apply()
    for change in ({"gpus": 2}, {"hostNetwork": True}, {"env": {"A": "b"}}, {"image": "registry.test/team/x"}):
        with pytest.raises(ClusterError, match="cannot be changed"):
            await team.patch("digits", {"spec": change})


async def test_a_namespace_without_project_is_told_and_taken_in_once_it_has_one(pool, team):
    await team.label(project=None)
    await team.apply()
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "NoProject"
    assert f"kubectl label namespace {team.namespace} springtide.io/project=" in found["status"]["reason"]
    await team.label(project="vision")
    await team.until("running")


async def test_an_unknown_project_is_told_and_taken_in_once_it_is_there(pool, team):
    await team.label(project="audio")
    await team.apply()
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "UnknownProject"
    await pool.engine.create_project("audio", wire.ProjectEdit(quota=0), "admin", members={})
    found = await team.until_true(lambda found: told(found)["Accepted"][1] == "NoQuota")
    assert "The project 'audio' has no quota" in found["status"]["reason"]
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
    assert [job.gpus for job in await pool.jobs()] == [6]


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


@pytest.mark.parametrize("settings", [{"max_unfinished_per_user": 1}, {"max_unfinished": 1}], ids=str)
async def test_one_too_many_waits_until_another_has_ended(pool, team, settings):
    pool.settings = EngineSettings(**settings)
    await pool.restart()
    await team.apply()
    await team.until("running")
    await team.apply("second")
    pending = await team.until("pending", "second")
    assert told(pending)["Accepted"][0] == "False"
    team.let()
    await team.until("running", "second")
    team.let("second")
    await team.until("succeeded", "second")


# ---------- whose TrainJobs are whose


async def test_a_forged_status_gives_no_power_over_others_jobs(pool, team):
    theirs = await pool.engine.submit(wire.Submission(argv=["sleep", "60"]), "joe", "vision")
    await pool.stop()
    claim = {"springtide.io/claimed-by": pool.name, "springtide.io/claimed-for": "joe"}
    await team.apply(metadata={"annotations": claim})
    forged = {"status": {"state": "running", "jobId": theirs.id, "user": "joe", "conditions": []}}
    await team.ask("PATCH", f"{team.path}/digits/status", forged)
    await pool.start()
    await team.until("forgotten")
    await team.delete()
    await team.until_gone()
    assert (await pool.engine.find(theirs.id)).state in {"queued", "starting", "running"}


async def test_another_pools_namespace_is_left_alone_until_it_is_ours(pool, team):
    await team.label(pool="another")
    await team.apply()
    await team.apply("claimed", metadata={"annotations": {"springtide.io/claimed-by": "another"}})
    await team.label(pool=pool.name)
    found = await team.until("running")
    assert found["metadata"]["annotations"]["springtide.io/claimed-by"] == pool.name
    assert "status" not in await team.get("claimed")


async def test_rights_in_one_namespace_are_enough(narrow_pool, team):
    await team.apply()
    await team.until("running")
    team.let()
    await team.until("succeeded")
    await team.apply("second")
    await team.until("running", "second")
    await team.delete("second")
    await team.until_gone("second")


# ---------- many


async def test_many_at_once_each_run_once(pool, team):
    names = [f"many-{number}" for number in range(40)]
    for name in names:
        team.let(name)
    await asyncio.gather(*(team.apply(name) for name in names))
    await pool.restart()
    for name in names:
        await team.until("succeeded", name)
    assert sorted(job.name for job in await pool.jobs()) == sorted(names)


async def test_other_words_alone_are_not_written_all_the_time(pool, team):
    pool.seconds = 0.0
    await pool.restart()
    await team.apply()
    before = await team.until("running")
    entry = next(iter(pool.front._ledger.by_job.values()))
    words = [wire.Reason(code="x", text=f"Words {number}.") for number in range(50)]
    for reason in words:
        pool.hear(msgspec.structs.replace(entry.job, reason=reason))
        await asyncio.sleep(0.001)
    held = (await team.get())["metadata"]["resourceVersion"]
    assert held == before["metadata"]["resourceVersion"]
    pool.seconds = 10.0
    pool.hear(entry.job)
    after = await team.until_true(lambda found: found["metadata"]["resourceVersion"] != held)
    assert after["status"]["reason"] == "Words 49."


async def test_an_event_costs_nothing_for_those_it_is_not_about(pool, team):
    names = [f"done-{number}" for number in range(20)]
    for name in names:
        team.let(name)
    await asyncio.gather(*(team.apply(name) for name in names))
    settled = {}
    for name in names:
        found = await team.until_true(ended_and_released, name)
        settled[name] = found["metadata"]["resourceVersion"]
    team.let()
    before = pool.requests
    await team.apply()
    await team.until_true(ended_and_released)
    assert pool.requests - before < 12
    assert {name: (await team.get(name))["metadata"]["resourceVersion"] for name in names} == settled
