"""TrainJobs that name their person, for whom an admission policy of the chart vouches."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chart import Helm, of_kind
from cluster import Cluster, ClusterError
from control_plane import until
from train_job_objects import told

from springtide.hub_extension.train_jobs import owner
from springtide.hub_extension.train_jobs.owner import EFFECT_S, Owner, with_person
from springtide.scheduler.refusal import Refusal

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"
PEOPLE = ("oidc:susan", "oidc:joe")
NAMED = "springtide.io/user"


def people(*names: str) -> list[dict[str, str]]:
    return [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in names]


def manifest(user: str | None, name: str = "digits", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "springtide.io/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "annotations": {} if user is None else {NAMED: user}},
        "spec": {"command": ["sleep", "600"], **spec},
    }


@pytest.fixture
def policy(cluster: Cluster, team, namespace: str, tmp_path: Path) -> Iterator[str]:
    """The chart's policy for the namespace of the team, in which two people may do all with TrainJobs."""
    values = {"trainJobs": {"namespaces": [team.namespace], "people": {"enabled": True, "prefix": "oidc:"}}}
    objects = Helm(tmp_path / "helm").template(values, namespace=namespace)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "people"}
    rules = [{"apiGroups": ["springtide.io"], "resources": ["trainjobs"], "verbs": ["*"]}]
    at = RBAC.format(team.namespace)
    cluster.request("POST", f"{at}/roles", {"metadata": {"name": "people"}, "rules": rules})
    binding = {"metadata": {"name": "people"}, "roleRef": role, "subjects": people(*PEOPLE)}
    cluster.request("POST", f"{at}/rolebindings", binding)
    name = next(name for name in of_kind(objects, "ValidatingAdmissionPolicy") if name.endswith("-train-jobs"))
    made = {POLICIES: "ValidatingAdmissionPolicy", BINDINGS: "ValidatingAdmissionPolicyBinding"}
    for path, kind in made.items():
        cluster.request("POST", path, copy.deepcopy(of_kind(objects, kind)[name]))

    def applied() -> bool:
        try:
            cluster.request("POST", team.path, manifest("joe"), as_user=PEOPLE[0], dryRun="All")
        except ClusterError as error:
            return "name yourself" in str(error)
        return False

    until(applied, "the policy is in force")
    yield name
    for path in made:
        cluster.request("DELETE", f"{path}/{name}")


@pytest.fixture
async def vouching_pool(pool, policy, monkeypatch: pytest.MonkeyPatch):
    """A pool that takes the users whom TrainJobs name, as soon as the policy is older than they are."""
    monkeypatch.setattr(owner, "EFFECT_S", 0.0)
    pool.policy = policy
    await pool.restart()
    return pool


async def create(team, user: str | None, by: str | None, **more: Any):
    return await team.ask("POST", team.path, manifest(user, **more), as_user=by)


async def test_a_train_job_runs_for_the_person_who_creates_it(vouching_pool, team):
    made = await create(team, "susan", "oidc:susan")
    running = await team.until("running")
    assert running["status"]["user"] == "susan"
    job = await vouching_pool.job(made["metadata"]["uid"], "susan")
    assert (job.user, job.project) == ("susan", "vision")
    await vouching_pool.restart()
    await team.delete()
    await team.until_gone()
    assert len(await vouching_pool.jobs()) == 1


async def test_without_a_name_it_runs_for_the_namespace(vouching_pool, team):
    await create(team, None, "oidc:susan")
    running = await team.until("running")
    assert running["status"]["user"] == "kubernetes:vision"


@pytest.mark.parametrize("by", ["oidc:joe", None])
async def test_nobody_creates_one_for_another_person(policy, team, by):
    with pytest.raises(
        ClusterError, match=r"The annotation springtide.io/user is susan, and .* creates the TrainJob"
    ):
        await create(team, "susan", by)


@pytest.mark.parametrize("user", ["joe", None])
async def test_the_name_cannot_be_changed(policy, team, user):
    await create(team, "susan", "oidc:susan")
    change = {"metadata": {"annotations": {NAMED: user}}}
    for by in PEOPLE:
        with pytest.raises(ClusterError, match=r"springtide.io/user cannot be changed"):
            await team.ask("PATCH", f"{team.path}/digits", change, as_user=by)


async def test_one_from_before_the_policy_is_refused(pool, team, request):
    await pool.stop()
    await team.apply(metadata={"annotations": {NAMED: "susan"}})
    pool.policy = await asyncio.to_thread(request.getfixturevalue, "policy")
    await pool.start()
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "Unvouched"
    assert "Create the TrainJob again" in found["status"]["reason"]


async def test_a_policy_that_is_missing_vouches_for_nobody(pool, team):
    pool.policy = "springtide-missing"
    await pool.restart()
    await team.apply(metadata={"annotations": {NAMED: "susan"}})
    found = await team.until("refused")
    assert "its admission policy for that is missing" in found["status"]["reason"]


async def test_without_a_policy_no_train_job_names_a_person(pool, team):
    await team.apply(metadata={"annotations": {NAMED: "susan"}})
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "Forbidden"


def aged(created: str) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created, "annotations": {NAMED: "susan"}}}


def test_the_cluster_vouches_from_a_minute_after_the_policy_on():
    namespace, policy = Owner("team-a", "vision", "kubernetes:vision"), aged("2026-01-01T00:00:00Z")
    assert EFFECT_S == 60
    late = aged("2026-01-01T00:01:00Z")
    assert with_person(namespace, late, (policy, policy)) == Owner("team-a", "vision", "susan")
    for parts in ((policy, None), (None, policy), (policy, aged("2026-01-01T00:00:01Z"))):
        with pytest.raises(Refusal, match="did not check the name"):
            with_person(namespace, late, parts)


def test_a_person_without_a_name_is_refused():
    nobody = {"metadata": {"creationTimestamp": "2026-01-01T00:01:00Z", "annotations": {NAMED: ""}}}
    with pytest.raises(Refusal, match="cannot be a name"):
        with_person(Owner("team-a", "vision", "kubernetes:vision"), nobody, ())
