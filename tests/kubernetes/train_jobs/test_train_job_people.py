"""SpringtideJobs that name their person, for whom an admission policy of the chart vouches."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from clusters.chart import Helm, of_kind, service_settings
from clusters.cluster import Cluster, ClusterError
from clusters.control_plane import until
from clusters.train_job_objects import told

from springtide.hub_extension.train_jobs import SPRINGTIDE_JOB, TRAIN_JOB, owner
from springtide.hub_extension.train_jobs.kinds import Kind
from springtide.hub_extension.train_jobs.owner import EFFECT_S, Owner, with_person
from springtide.scheduler.refusal import Refusal

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BOUND = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"
PEOPLE = ("oidc:susan", "oidc:joe")
NAMED = "springtide.io/user"


def people(*names: str) -> list[dict[str, str]]:
    return [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in names]


def manifest(user: str | None, name: str = "digits", kind: Kind = SPRINGTIDE_JOB, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "springtide.io/v1alpha1",
        "kind": kind.name,
        "metadata": {"name": name, "annotations": {} if user is None else {NAMED: user}},
        "spec": {"command": ["sleep", "600"], **spec},
    }


@pytest.fixture
def policies(cluster: Cluster, team, namespace: str, tmp_path: Path) -> Iterator[dict[Kind, str]]:
    """The chart's policies for the namespace of the team, in which two people may do all with train jobs."""
    values = {"trainJobs": {"namespaces": [team.namespace], "people": {"enabled": True, "prefix": "oidc:"}}}
    objects = Helm(tmp_path / "helm").template(values, namespace=namespace)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "people"}
    rules = [{"apiGroups": ["springtide.io"], "resources": ["springtidejobs", "trainjobs"], "verbs": ["*"]}]
    at = RBAC.format(team.namespace)
    cluster.request("POST", f"{at}/roles", {"metadata": {"name": "people"}, "rules": rules})
    binding = {"metadata": {"name": "people"}, "roleRef": role, "subjects": people(*PEOPLE)}
    cluster.request("POST", f"{at}/rolebindings", binding)
    settings = service_settings(objects)
    named = {SPRINGTIDE_JOB: settings["springtide_job_policy"], TRAIN_JOB: settings["train_job_policy"]}
    made = {POLICIES: "ValidatingAdmissionPolicy", BINDINGS: "ValidatingAdmissionPolicyBinding"}
    for (path, kind), name in product(made.items(), named.values()):
        cluster.request("POST", path, copy.deepcopy(of_kind(objects, kind)[name]))

    def applied(kind: Kind) -> bool:
        path = {SPRINGTIDE_JOB: team.path, TRAIN_JOB: team.earlier.path}[kind]
        try:
            cluster.request("POST", path, manifest("joe", kind=kind), as_user=PEOPLE[0], dryRun="All")
        except ClusterError as error:
            return "name yourself" in str(error)
        return False

    until(lambda: all(map(applied, named)), "the policies are in force")
    yield named
    for path, name in product(made, named.values()):
        cluster.request("DELETE", f"{path}/{name}")


@pytest.fixture
async def vouching_pool(pool, policies, monkeypatch: pytest.MonkeyPatch):
    """A pool that takes the users whom SpringtideJobs name, as soon as the policy is older than they are."""
    monkeypatch.setattr(owner, "EFFECT_S", 0.0)
    pool.policies = policies
    await pool.restart()
    return pool


@pytest.fixture
async def charted_service(vouching_pool, cluster: Cluster, namespace: str, tmp_path: Path):
    """That pool, with the account of the chart, which may do all here."""
    account = {"metadata": {"name": "springtide"}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "springtide", "namespace": namespace}
    binding = {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]}
    cluster.request("POST", BOUND, binding)
    token = cluster.token_of(namespace, "springtide")
    vouching_pool.kubeconfig = cluster.kubeconfig_for(token, tmp_path / "kubeconfig")
    await vouching_pool.restart()
    yield vouching_pool
    cluster.request("DELETE", f"{BOUND}/{namespace}")


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
async def test_nobody_creates_one_for_another_person(policies, team, by):
    with pytest.raises(
        ClusterError, match=r"The annotation springtide.io/user is susan, and .* creates the object"
    ):
        await create(team, "susan", by)


@pytest.mark.parametrize("user", ["joe", None])
async def test_the_name_cannot_be_changed(policies, team, user):
    await create(team, "susan", "oidc:susan")
    change = {"metadata": {"annotations": {NAMED: user}}}
    for by in PEOPLE:
        with pytest.raises(ClusterError, match=r"springtide.io/user cannot be changed"):
            await team.ask("PATCH", f"{team.path}/digits", change, as_user=by)


async def test_one_from_before_the_policy_is_refused(pool, team, request):
    await pool.stop()
    await team.apply(metadata={"annotations": {NAMED: "susan"}})
    pool.policies = await asyncio.to_thread(request.getfixturevalue, "policies")
    await pool.start()
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "Unvouched"
    assert "Create the train job again" in found["status"]["reason"]


async def test_a_train_job_that_names_its_person_is_converted_for_her(charted_service, team):
    made = await team.ask("POST", team.earlier.path, manifest("susan", kind=TRAIN_JOB), as_user="oidc:susan")
    await team.earlier.until_gone()
    running = await team.until("running")
    assert running["metadata"]["annotations"][NAMED] == running["status"]["user"] == "susan"
    [job] = await charted_service.jobs()
    assert job.user == "susan"
    assert running["metadata"]["annotations"]["springtide.io/converted-from"] == made["metadata"]["uid"]


async def test_a_train_job_for_whose_person_nobody_vouches_stays_one(pool, team, request):
    await pool.stop()
    await team.earlier.apply(metadata={"annotations": {NAMED: "susan"}})
    pool.policies = await asyncio.to_thread(request.getfixturevalue, "policies")
    await pool.start()
    await team.earlier.apply("second")
    await team.earlier.until_gone("second")
    await team.until("running", "second")
    found = await team.earlier.until("refused")
    assert told(found)["Accepted"][1] == "Unvouched"
    assert not await team.exists()


async def test_the_policy_of_train_jobs_vouches_for_no_springtide_job(pool, policies, team, monkeypatch):
    monkeypatch.setattr(owner, "EFFECT_S", 0.0)
    pool.policies = {TRAIN_JOB: policies[TRAIN_JOB]}
    await pool.restart()
    await create(team, "susan", "oidc:susan")
    found = await team.until("refused")
    assert told(found)["Accepted"][1] == "Forbidden"


async def test_a_policy_that_is_missing_vouches_for_nobody(pool, team):
    pool.policies = {SPRINGTIDE_JOB: "springtide-missing"}
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
