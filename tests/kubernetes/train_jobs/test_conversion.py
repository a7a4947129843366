"""TrainJobs become SpringtideJobs that go on with their jobs, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest
import yaml
from clusters.chart import CHART
from clusters.cluster import until
from clusters.train_job_definition import DEFINITIONS, is_established
from clusters.train_job_objects import OURS, finalizers, told
from patience import PATIENCE_S

from springtide.hub_extension.train_jobs import status
from springtide.hub_extension.train_jobs.manifest import submission_of, suspended
from springtide.hub_extension.train_jobs.owner import Owner
from springtide.scheduler import wire
from springtide.scheduler.kube import ApiError

USER = "kubernetes:vision"
EARLIER = "springtide.io/converted-from"


async def left(pool, team, name: str = "digits", state: str = "running", **given: Any) -> tuple[Any, wire.Job]:
    """A TrainJob as an earlier service left it, with its job, which waits for its file."""
    await pool.stop()
    metadata = {
        "finalizers": [OURS],
        "annotations": {"springtide.io/claimed-by": pool.name, "springtide.io/claimed-for": USER},
        "labels": {"experiment": "seven"},
        **given.pop("metadata", {}),
    }
    made = await team.earlier.apply(name, metadata=metadata, **given)
    await pool.start(listening=False)
    owner = Owner(team.namespace, "vision", USER)
    paused_by = "suspend" if suspended(made) else ""
    job = await pool.engine.submit(submission_of(made, owner), USER, "vision", paused_by=paused_by)
    job = await pool.until_state(made["metadata"]["uid"], state)
    shown = status.of_job(
        job, 1, suspended=suspended(made), priority=made["spec"]["priority"], log="" if state != "failed" else "x"
    )
    await write_status(team, name, shown)
    if state == "succeeded":
        await team.earlier.patch(name, {"metadata": {"finalizers": None}})
    return await team.earlier.get(name), job


async def write_status(team, name: str, shown: status.Status) -> None:
    path = f"{team.earlier.path}/{name}/status"
    await team.ask("PATCH", path, {"status": status.timed(shown, {}, time.time())})


async def follow(pool, team, job: wire.Job, name: str = "digits") -> Any:
    """Wait until only the SpringtideJob is there, and has the job; return it."""
    await team.earlier.until_gone(name)
    found = await team.until_true(lambda found: found.get("status", {}).get("jobId") == job.id, name)
    assert (await pool.job(found["metadata"]["uid"])).id == job.id
    return found


async def until_cancelled(pool, job: wire.Job) -> None:
    """Wait until the job, which is the only one, is cancelled, under whichever key."""
    async with asyncio.timeout(PATIENCE_S):
        while (await pool.engine.job(job.id)).state != "cancelled":
            await asyncio.sleep(0.02)
    assert [each.id for each in await pool.jobs()] == [job.id]


async def test_a_running_job_goes_on_under_the_new_name(pool, team):
    old, job = await left(pool, team)
    await pool.restart()
    found = await follow(pool, team, job)
    assert found["spec"] == old["spec"]
    assert found["metadata"]["labels"] == {"experiment": "seven"}
    assert found["metadata"]["annotations"][EARLIER] == old["metadata"]["uid"]
    assert finalizers(found) == [OURS]
    team.let()
    ended = await team.until("succeeded")
    assert ended["status"]["attempt"] == 1
    assert [each.id for each in await pool.jobs()] == [job.id]


async def test_deleting_the_new_one_cancels_its_job(pool, team):
    _, job = await left(pool, team)
    await pool.restart()
    found = await follow(pool, team, job)
    await team.delete()
    await team.until_gone()
    ended = await pool.until_state(found["metadata"]["uid"], "cancelled")
    assert f"SpringtideJob {team.namespace}/digits" in ended.reason.text


async def test_a_waiting_job_keeps_its_place(pool, team):
    first = await left(pool, team, "first", gpus=4)
    others = [await left(pool, team, name, "queued", gpus=4) for name in ("second", "third")]
    await pool.restart()
    for name, (_, job) in zip(("first", "second", "third"), (first, *others), strict=True):
        await follow(pool, team, job, name)
    places = {each.id: each.place for each in await pool.jobs() if each.state == "queued"}
    assert places[others[0][1].id] < places[others[1][1].id]


async def test_a_suspended_job_stays_so_until_the_new_one_says_otherwise(pool, team):
    _, job = await left(pool, team, state="paused", suspend=True)
    await pool.restart()
    found = await follow(pool, team, job)
    assert (found["status"]["state"], found["status"]["suspended"]) == ("paused", True)
    await team.patch("digits", {"spec": {"suspend": False}})
    await team.until("running")


async def test_one_that_has_ended_is_shown_as_it_ended(pool, team):
    team.let()
    old, job = await left(pool, team, state="succeeded")
    await pool.restart()
    found = await follow(pool, team, job)
    assert finalizers(found) == []
    ended, before = ({each["type"]: each for each in one["status"]["conditions"]} for one in (found, old))
    assert ended["Finished"]["lastTransitionTime"] == before["Finished"]["lastTransitionTime"]
    assert ended["Finished"]["observedGeneration"] == found["metadata"]["generation"]
    await team.patch("digits", {"spec": {"ttlSecondsAfterFinished": 0}})
    await team.until_gone()
    assert len(await pool.jobs()) == 1


async def test_one_that_has_outlived_its_time_is_deleted_and_not_converted(pool, team):
    team.let()
    await left(pool, team, state="succeeded", ttlSecondsAfterFinished=0)
    await pool.restart()
    await team.earlier.until_gone()
    assert not await team.exists()


async def test_one_whose_job_the_pool_has_deleted_is_not_run_again(pool, team):
    team.let()
    await left(pool, team, state="succeeded")
    await pool.stop()
    pool.directory = pool.directory.with_name("another")
    pool.directory.mkdir()
    await pool.start()
    await team.earlier.until_gone()
    found = await team.until("succeeded")
    assert told(found)["Finished"][:2] == ("True", "Succeeded")
    assert await pool.jobs() == []


async def test_one_that_was_deleted_before_is_cancelled(pool, team):
    old, _ = await left(pool, team)
    await team.earlier.delete()
    await pool.restart()
    await team.earlier.until_gone()
    await pool.until_state(old["metadata"]["uid"], "cancelled")
    assert not await team.exists()


async def test_one_that_is_refused_is_converted_with_its_reason(pool, team):
    await pool.stop()
    await team.earlier.apply(image="registry.example/other:1")
    await pool.start()
    await team.earlier.until_gone()
    found = await team.until("refused")
    assert "image" in found["status"]["reason"]
    assert await pool.jobs() == []


async def test_an_old_manifest_that_is_applied_later_is_warned_of_and_converted(pool, team):
    client = team.cluster._client
    answers: list[httpx.Response] = []
    client.event_hooks["response"].append(answers.append)
    try:
        await team.earlier.apply()
    finally:
        client.event_hooks["response"].clear()
    [warning] = [each.headers["Warning"] for each in answers if each.request.method == "POST"]
    assert "TrainJob is deprecated: write" in warning
    assert "kind: SpringtideJob" in warning
    await team.earlier.until_gone()
    await team.until("running")
    assert len(await pool.jobs()) == 1
    reasons = {each["reason"] for each in team.cluster.items(f"/api/v1/namespaces/{team.namespace}/events")}
    assert "Converted" in reasons


async def test_an_old_manifest_that_is_applied_again_starts_nothing(pool, team):
    first = await team.apply()
    await team.until("running")
    await team.earlier.apply()
    await team.earlier.until_gone()
    assert (await team.get())["metadata"]["uid"] == first["metadata"]["uid"]
    assert len(await pool.jobs()) == 1


async def test_an_old_manifest_that_says_something_else_is_refused_as_long_as_the_name_is_taken(pool, team):
    await team.apply()
    await team.until("running")
    await team.earlier.apply(gpus=2)
    refused = await team.earlier.until("refused")
    assert told(refused)["Accepted"][1] == "NameTaken"
    assert "another name" in refused["status"]["reason"]
    assert len(await pool.jobs()) == 1
    await team.delete()
    await team.earlier.until_gone()
    found = await team.until("running")
    assert found["spec"]["gpus"] == 2


async def test_a_namespace_that_another_pool_serves_is_left_alone(pool, team):
    await team.label(pool="other")
    await team.earlier.apply()
    await team.apply("mine")
    await team.label(pool=pool.name)
    await team.until("running", "mine")
    await team.earlier.until_gone()


async def test_a_new_one_that_waits_for_its_train_job_gets_a_job_as_soon_as_that_is_gone(pool, team):
    claim = {"springtide.io/claimed-by": "other", "springtide.io/claimed-for": USER}
    held = {"annotations": claim, "finalizers": ["springtide.io/cancel"]}
    old = await team.earlier.apply(metadata=held)
    await team.apply(metadata={"annotations": {EARLIER: old["metadata"]["uid"]}})
    async with asyncio.timeout(PATIENCE_S):
        while not pool.front._ledger.of_name:
            await asyncio.sleep(0.02)
    assert await pool.jobs() == []
    await team.earlier.delete()
    await team.until("running")
    assert not pool.front._ledger.of_name


# ---------- a service that dies


STEPS = ("create", "status", "rekey", "delete", "release")
"""What a service does to convert a TrainJob whose job runs."""


WRITES = {
    ("POST", "springtidejobs"): "create",
    ("PATCH", "springtidejobs/status"): "status",
    ("DELETE", "trainjobs"): "delete",
    ("PATCH", "trainjobs"): "release",
}


class Death:
    """The end of a service before one of the steps of a conversion: nothing that it does after that arrives."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.died = asyncio.Event()
        self.seen: list[str] = []

    async def on_request(self, method: str, path: str) -> None:
        _, plural, _, subresource = [*path.partition("/namespaces/")[2].split("/"), "", "", ""][:4]
        self._take(WRITES.get((method, f"{plural}/{subresource}".rstrip("/"))))

    def on_rekey(self) -> None:
        self._take("rekey")

    def _take(self, step: str | None) -> None:
        if step is not None and not self.died.is_set():
            self.seen.append(step)
        if step == self.step:
            self.died.set()
        if self.died.is_set():
            raise ApiError(0, "Unreachable", "The service is dead.")


@pytest.fixture
async def dying(pool, team):
    """Convert a TrainJob until before a step, and return it, its job and what was done."""

    async def die(step: str) -> tuple[Any, wire.Job, Death]:
        old, job = await left(pool, team)
        death = Death(step)
        pool.on_request, pool.on_rekey = death.on_request, death.on_rekey
        await pool.restart()
        async with asyncio.timeout(PATIENCE_S):
            await death.died.wait()
        await pool.stop()
        pool.on_request = pool.on_rekey = None
        return old, job, death

    return die


@pytest.mark.parametrize("step", STEPS)
async def test_a_service_that_dies_between_two_steps_goes_on_where_it_was(dying, pool, team, step):
    _, job, death = await dying(step)
    assert death.seen == list(STEPS[: STEPS.index(step) + 1])
    await pool.start()
    await follow(pool, team, job)
    team.let()
    ended = await team.until("succeeded")
    assert ended["status"]["attempt"] == 1
    assert [each.id for each in await pool.jobs()] == [job.id]


@pytest.mark.parametrize("step", ["status", "rekey"])
@pytest.mark.parametrize("deleted", ["TrainJob", "SpringtideJob"])
async def test_a_deletion_before_the_job_changes_hands_cancels_it(dying, pool, team, step, deleted):
    _, job, _ = await dying(step)
    await (team.earlier if deleted == "TrainJob" else team).delete()
    await pool.start()
    await team.earlier.until_gone()
    await team.until_gone()
    await until_cancelled(pool, job)


async def test_a_change_of_the_train_job_while_the_service_is_away_is_carried_out(dying, pool, team):
    _, job, _ = await dying("rekey")
    await team.earlier.patch("digits", {"spec": {"suspend": True}})
    await pool.start()
    await follow(pool, team, job)
    await team.until("paused")
    assert (await team.get())["spec"]["suspend"] is True


# ---------- people who act at the same time


@pytest.fixture
async def meanwhile(pool, team):
    """Convert a TrainJob, and act right before the service deletes it."""

    async def convert(act) -> tuple[Any, wire.Job]:
        old, job = await left(pool, team)
        acted: list[bool] = []

        async def hook(method: str, path: str) -> None:
            if method == "DELETE" and path.endswith("/trainjobs/digits") and not acted:
                acted.append(True)
                await act()

        pool.on_request = hook
        await pool.restart()
        return old, job

    return convert


async def test_a_deletion_of_the_train_job_right_before_the_service_deletes_it_cancels(meanwhile, pool, team):
    _, job = await meanwhile(team.earlier.delete)
    await team.earlier.until_gone()
    await team.until_gone()
    await until_cancelled(pool, job)


async def test_a_change_of_the_train_job_right_before_the_service_deletes_it_is_not_lost(meanwhile, pool, team):
    async def pause() -> None:
        await team.earlier.patch("digits", {"spec": {"suspend": True}})

    _, job = await meanwhile(pause)
    await follow(pool, team, job)
    await team.until("paused")


# ---------- jobs of others


@pytest.mark.parametrize(
    "forged",
    [
        {"spec": {"gpus": 2}},
        {"owner": "mine"},
        {"uid": "another"},
    ],
    ids=["another spec", "an owner", "another uid"],
)
async def test_a_forged_mark_takes_over_no_job(pool, team, forged):
    old, job = await left(pool, team)
    mark = {EARLIER: forged.get("uid", old["metadata"]["uid"])}
    owners = []
    if (name := forged.get("owner")) is not None:
        configmaps = f"/api/v1/namespaces/{team.namespace}/configmaps"
        owner = await team.ask("POST", configmaps, {"metadata": {"name": name}})
        owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]}]
    metadata = {"annotations": mark, "ownerReferences": owners}
    await team.apply(metadata=metadata, **forged.get("spec", {}))
    await pool.restart()
    found = await team.until("running")
    assert found["status"]["jobId"] != job.id
    assert (await pool.job(old["metadata"]["uid"])).id == job.id
    assert (await team.earlier.get())["status"]["jobId"] == job.id
    await team.delete()
    await team.until_gone()
    assert (await pool.engine.job(job.id)).state == "running"


async def test_a_mark_of_a_train_job_of_another_name_takes_over_no_job(pool, team):
    old, job = await left(pool, team, "theirs")
    await team.apply("mine", metadata={"annotations": {EARLIER: old["metadata"]["uid"]}})
    await pool.restart()
    await follow(pool, team, job, "theirs")
    mine = await team.until("running", "mine")
    assert mine["status"]["jobId"] != job.id


async def test_a_mark_of_a_train_job_that_is_gone_takes_over_no_job(pool, team):
    _, job = await left(pool, team)
    await pool.restart()
    found = await follow(pool, team, job)
    await pool.stop()
    await team.patch("digits", {"metadata": {"finalizers": None}})
    await team.delete()
    await team.until_gone()
    await team.apply(metadata={"annotations": found["metadata"]["annotations"]})
    await pool.start()
    again = await team.until("running")
    assert again["status"]["jobId"] != job.id


# ---------- beside Kubeflow


@pytest.fixture
def kubeflow(cluster, crd):
    """Kubeflow Trainer's definition of TrainJobs, as small as can be."""
    body = yaml.safe_load((CHART / "crds/trainjob.yaml").read_text())
    names = {"kind": "TrainJob", "listKind": "TrainJobList", "plural": "trainjobs", "singular": "trainjob"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    body["metadata"] = {"name": "trainjobs.trainer.kubeflow.org"}
    body["spec"] = {"group": "trainer.kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]}
    path = f"{DEFINITIONS}/trainjobs.trainer.kubeflow.org"
    cluster.request("POST", DEFINITIONS, body)
    until(lambda: is_established(cluster, path), "Kubeflow's TrainJobs are known")
    yield
    cluster.request("DELETE", path)
    until(lambda: not cluster.exists(path), "Kubeflow's definition is gone")


async def test_its_names_mean_nothing_else_where_kubeflow_is_installed(kubeflow, pool, team):
    """As ``kubectl get WORD NAME`` looks a word up: among the names of all groups."""
    groups = team.cluster.request("GET", "/apis")["groups"]
    versions = [group["preferredVersion"]["groupVersion"] for group in groups]

    def meant(word: str) -> set[str]:
        found = set()
        for version in versions:
            for each in team.cluster.request("GET", f"/apis/{version}")["resources"]:
                if word in {each["name"], each["singularName"], *each.get("shortNames", ())}:
                    found.add(f"{each['name']}.{version}")
        return found

    until(lambda: len(meant("trainjobs")) == 2, "both definitions are served")
    for word in ("springtidejobs", "springtidejob", "stj"):
        assert meant(word) == {"springtidejobs.springtide.io/v1alpha1"}
    await team.apply()
    await team.until("running")
