"""The API objects of an attempt, and the launch records that they are made from."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jobs.launched_attempts import GPU_NODE, SETTINGS, record, spec
from msgspec import structs

from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptSpec,
    AttemptStatus,
    ExecutorError,
    Exit,
    ExitKind,
    FoundProgram,
)
from springtide.scheduler.executors.credentials import CREDENTIAL, Credentials
from springtide.scheduler.executors.environment import job_environment
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.kubernetes.homes import Home, HomeRule, home_in_jobs
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.api_types import (
    ObjectMeta,
    VolumeClaim,
    VolumeClaimSpec,
    VolumeClaimStatus,
)
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import HomeAccess, Worker
from springtide.scheduler.resources.per_gpu import PerGpu


def pod(settings: KubernetesSettings = SETTINGS, place: int = 0, **more: Any) -> dict[str, Any]:
    return manifests.pod(record(settings, **more), place, settings)


def test_a_pod_says_whose_it_is_and_nothing_delays_its_deletion() -> None:
    meta = pod(place=1)["metadata"]
    assert meta["name"] == "st-abc-3-1"
    assert meta["namespace"] == "pool"
    assert {names.JOB: "abc", names.ATTEMPT: "3", names.RANK: "1", names.EPOCH: "7"}.items() <= meta[
        "labels"
    ].items()
    assert meta["labels"][names.POOL] == "springtide"
    assert (meta["annotations"][names.PROJECT], meta["annotations"][names.USER]) == ("vision", "susan")
    assert manifests.read_worker(meta["annotations"][names.WORKER]) == Worker(1, "n2", (4, 5))
    assert "finalizers" not in meta


def test_a_pod_declares_its_namespace_as_its_controller() -> None:
    owner = manifests.namespace_owner({"metadata": {"name": "pool", "uid": "6f0c"}})
    meta = manifests.pod(record(), 0, SETTINGS, owner=owner)["metadata"]
    assert meta["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Namespace", "name": "pool", "uid": "6f0c", "controller": True}
    ]
    assert "ownerReferences" not in pod()["metadata"], "the service may not read the namespace"


@pytest.mark.parametrize(
    ("shared_memory", "volume"),
    [
        ("memory", {"emptyDir": {"medium": "Memory"}}),
        (
            {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        ),
        ({"csi": {"driver": "tmpfs.example.com"}}, {"csi": {"driver": "tmpfs.example.com"}}),
        ("runtime", None),
    ],
)
def test_shared_memory_is_what_the_admin_says(shared_memory: Any, volume: dict[str, Any] | None) -> None:
    made = pod(replace(SETTINGS, shared_memory=shared_memory))["spec"]
    found = [each for each in made["volumes"] if each["name"] == "shared-memory"]
    mounted = [each for each in made["containers"][0]["volumeMounts"] if each["mountPath"] == "/dev/shm"]
    assert found == ([] if volume is None else [{"name": "shared-memory", **volume}])
    assert len(mounted) == len(found)


def test_a_pod_goes_to_its_node_and_nowhere_else() -> None:
    affinity = pod(place=1)["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}


def test_a_pod_without_gpus_goes_to_any_selected_node_asks_for_none_and_sees_none() -> None:
    settings = replace(SETTINGS, node_selector={"pool": "a"}, cpu_per_gpu=2.0)
    made = pod(settings, placement=(Worker(0, "", ()),), workers=1, resources=("",))["spec"]
    assert made["nodeSelector"] == {"pool": "a"}
    (preferred,) = made["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"] == [
        {"key": "springtide.io/environment", "operator": "DoesNotExist"}
    ]
    (container,) = made["containers"]
    assert container["resources"] == {"requests": {"cpu": "2000m"}, "limits": {}}
    assert container["env"] == [
        {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    ]


def test_a_pod_fits_the_restricted_standard() -> None:
    """Each rule of the Pod Security Standard ``restricted``."""
    made = pod(home=Home("claim-susan"))["spec"]
    (container,) = made["containers"]
    assert made["securityContext"]["runAsNonRoot"]
    assert made["securityContext"]["runAsUser"] == 1000
    assert made["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert not made["automountServiceAccountToken"]
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(made)
    assert all({"persistentVolumeClaim", "emptyDir"} & volume.keys() for volume in made["volumes"])


def test_a_cluster_that_assigns_users_is_told_none() -> None:
    """OpenShift's restricted-v2 refuses pods that name a user or group outside the range of their namespace."""
    made = pod(replace(SETTINGS, run_as=None, fs_group=None))["spec"]
    assert made["securityContext"].keys().isdisjoint({"runAsUser", "runAsGroup", "fsGroup"})
    assert made["securityContext"]["runAsNonRoot"]
    (container,) = made["containers"]
    assert container["env"] == [{"name": "HOME", "value": "/springtide/job/work"}], "such a user has no home"


def test_gpus_are_asked_for_and_limited_alike() -> None:
    resources = pod()["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    more = replace(SETTINGS, cpu_per_gpu=1.5, memory_per_gpu=16)
    resources = pod(more, resources=("amd.com/gpu",) * 2)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"amd.com/gpu": "2", "cpu": "3000m", "memory": "32768Mi"}
    assert resources["limits"] == {"amd.com/gpu": "2", "memory": "32768Mi"}


def test_a_worker_has_a_limit_of_its_nodes_disk_of_which_nothing_is_set_aside() -> None:
    resources = pod(replace(SETTINGS, disk_limit="50Gi"))["spec"]["containers"][0]["resources"]
    assert (resources["limits"]["ephemeral-storage"], resources["requests"]["ephemeral-storage"]) == ("50Gi", "0")


def test_a_pod_requests_the_cores_and_the_memory_that_its_job_asked_for() -> None:
    defaults = replace(SETTINGS, cpu_per_gpu=1.5, memory_per_gpu=16)
    resources = pod(defaults, cpus=0.5, memory=3 << 30)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"nvidia.com/gpu": "2", "cpu": "500m", "memory": str(3 << 30)}
    assert resources["limits"] == {"nvidia.com/gpu": "2", "memory": str(3 << 30)}
    without_gpus = pod(defaults, cpus=8.0, placement=(Worker(0, "", ()),), workers=1, resources=("",))
    resources = without_gpus["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "8000m", "memory": "16384Mi"}, "without GPUs too"


def test_the_defaults_are_no_more_than_what_the_gpus_of_the_node_come_with() -> None:
    defaults = replace(SETTINGS, cpu_per_gpu=4, memory_per_gpu=16)
    resources = pod(defaults, per_gpu=PerGpu(2.5, 6 << 30))["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"nvidia.com/gpu": "2", "cpu": "5000m", "memory": "12288Mi"}
    resources = pod(defaults, per_gpu=PerGpu(64.0, 0))["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"nvidia.com/gpu": "2", "cpu": "8000m", "memory": "32768Mi"}


def test_the_defaults_without_gpus_are_those_of_one_and_no_more_than_a_node_has() -> None:
    defaults = replace(SETTINGS, cpu_per_gpu=4, memory_per_gpu=16)
    alone: dict[str, Any] = {"placement": (Worker(0, "", ()),), "workers": 1, "resources": ("",)}
    resources = pod(defaults, per_gpu=PerGpu(1.5, 6 << 30), **alone)["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1500m", "memory": "6144Mi"}, "limits": {"memory": "6144Mi"}}
    resources = pod(defaults, per_gpu=PerGpu(8.0, 0), **alone)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "4000m", "memory": "16384Mi"}


def test_another_request_is_another_pod_and_none_is_that_of_earlier_versions() -> None:
    asked = {
        record(cpus=cpus, memory=memory).digest for cpus, memory in ((0.0, 0), (1.0, 0), (2.0, 0), (0.0, 1 << 30))
    }
    assert len(asked) == 4


def test_threads_are_as_many_as_cores_unless_the_job_says_otherwise() -> None:
    def threads(asked: AttemptSpec, cores: float = 0.0) -> dict[str, str]:
        places, library = JobPlaces(Path("/job")), Path("/library")
        found = job_environment(asked, {"OMP_NUM_THREADS": "9"}, places, {}, library, cores=cores)
        return {name: value for name, value in found.items() if name.endswith("_THREADS")}

    assert set(threads(spec(cpus=5.0)).values()) == {"2"}, "one process on each of two GPUs"
    assert threads(spec(cpus=5.0)).keys() >= {"MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"}
    assert set(threads(spec(cpus=0.5)).values()) == {"1"}
    assert set(threads(spec(), cores=6.9).values()) == {"3"}
    own = threads(spec(cpus=8.0, env={"OMP_NUM_THREADS": "3"}))
    assert (own["OMP_NUM_THREADS"], own["MKL_NUM_THREADS"]) == ("3", "4")
    assert threads(spec()) == {"OMP_NUM_THREADS": "9"}


def test_each_worker_asks_for_the_resource_of_its_own_gpus() -> None:
    slices = (Worker(0, "n1/mig-1g.5gb", (0, 1)), Worker(1, "n2", (0,)))
    made = [
        pod(place=place, placement=slices, resources=("nvidia.com/mig-1g.5gb", "nvidia.com/gpu"))["spec"]
        for place in (0, 1)
    ]
    assert [each["containers"][0]["resources"]["limits"] for each in made] == [
        {"nvidia.com/mig-1g.5gb": "2"},
        {"nvidia.com/gpu": "1"},
    ]
    terms = made[0]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n1"]
    tolerated = {each["key"] for each in made[0]["tolerations"]}
    assert {"nvidia.com/gpu", "amd.com/gpu"} <= tolerated


def test_a_launch_record_of_an_earlier_version_asks_for_the_first_resource() -> None:
    made = manifests.pod(structs.replace(record(), resources=()), 0, SETTINGS)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_the_job_sees_its_own_places_only() -> None:
    made = pod(replace(SETTINGS, jobs_sub_path="state"))["spec"]
    mounts = {mount["mountPath"]: mount.get("subPath") for mount in made["containers"][0]["volumeMounts"]}
    places = {path: sub for path, sub in mounts.items() if path.startswith("/springtide/job")}
    assert places == {
        f"/springtide/job/{place}": f"state/jobs/abc/{place}"
        for place in ("code", "work", "checkpoints", "output", "reports.jsonl", "attempts/3")
    }
    assert {"name": "jobs", "persistentVolumeClaim": {"claimName": "jobs"}} in made["volumes"]


def test_a_home_is_mounted_where_notebooks_have_it() -> None:
    made = pod(home=Home("claim-susan"))["spec"]
    assert {"name": "home", "mountPath": "/home/jovyan"} in made["containers"][0]["volumeMounts"]
    assert {"name": "HOME", "value": "/home/jovyan"} in made["containers"][0]["env"]
    assert "home" not in {volume["name"] for volume in pod()["spec"]["volumes"]}


def test_a_home_that_jobs_may_read_is_mounted_read_only() -> None:
    made = pod(home=Home("claim-susan", HomeAccess.READ_ONLY))
    claim = {"claimName": "claim-susan", "readOnly": True}
    assert {"name": "home", "persistentVolumeClaim": claim} in made["spec"]["volumes"]
    mount = {"name": "home", "mountPath": "/home/jovyan", "readOnly": True}
    assert mount in made["spec"]["containers"][0]["volumeMounts"]
    assert made["metadata"]["annotations"]["springtide.io/home"] == "read-only"
    assert "springtide.io/home" not in pod(home=Home("claim-susan"))["metadata"]["annotations"]
    assert record(home=Home("claim-susan", HomeAccess.READ_ONLY)).digest != record(home=Home("claim-susan")).digest


ONE, MANY, READ = "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"


@pytest.mark.parametrize(
    ("asked", "has", "rule", "expected"),
    [
        ((MANY,), (), "auto", ("claim", HomeAccess.USUAL)),
        ((READ,), (), "auto", ("claim", HomeAccess.READ_ONLY)),
        ((ONE,), (), "auto", (None, HomeAccess.ONE_NODE)),
        (("ReadWriteOncePod",), (), "auto", (None, HomeAccess.ONE_NODE)),
        ((ONE, READ), (), "auto", ("claim", HomeAccess.READ_ONLY)),
        ((ONE,), (ONE, MANY), "auto", ("claim", HomeAccess.USUAL)),
        ((ONE, MANY), (ONE,), "auto", (None, HomeAccess.ONE_NODE)),
        ((ONE,), (), "mount", ("claim", HomeAccess.USUAL)),
        ((READ,), (), "mount", ("claim", HomeAccess.READ_ONLY)),
        ((MANY,), (), "read-only", ("claim", HomeAccess.READ_ONLY)),
        ((ONE,), (), "read-only", (None, HomeAccess.ONE_NODE)),
        ((MANY,), (), "none", (None, HomeAccess.LEFT_OUT)),
    ],
)
def test_jobs_have_the_homes_whose_volume_their_node_can_attach(
    asked: tuple[str, ...], has: tuple[str, ...], rule: HomeRule, expected: tuple[str | None, HomeAccess]
) -> None:
    """The modes of the volume count once there is one, which is more or less than what the claim asks for."""
    claim = VolumeClaim(ObjectMeta("claim"), VolumeClaimSpec(asked), VolumeClaimStatus("Bound", has))
    assert home_in_jobs("claim", claim.access_modes, rule) == expected


def test_the_clusters_patience_outlasts_the_grace_period() -> None:
    assert pod()["spec"]["terminationGracePeriodSeconds"] > 20


def test_a_silent_node_does_not_drop_the_pod_behind_our_back() -> None:
    tolerations = pod()["spec"]["tolerations"]
    for trouble in ("not-ready", "unreachable"):
        expected = {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": "NoExecute"}
        assert expected in tolerations


def test_a_worker_alone_needs_no_place_to_meet() -> None:
    alone = pod(placement=(Worker(0, "n1", (0,)),), workers=1)["spec"]
    assert "subdomain" not in alone
    service = manifests.service(record(), SETTINGS)
    assert service["metadata"]["name"] == "st-abc-3" == pod()["spec"]["subdomain"]
    assert service["spec"]["selector"] == {names.JOB: "abc", names.ATTEMPT: "3"}


def test_another_order_has_another_digest() -> None:
    assert record().digest == record().digest
    assert len({record().digest, record(argv=("other",)).digest, record(home=Home("x")).digest}) == 3


def test_the_image_is_the_jobs_own_or_the_first_of_the_admin() -> None:
    assert manifests.choose_image("hub/other:2", SETTINGS) == "hub/other:2"
    assert manifests.choose_image(None, SETTINGS) == "hub/train:1"
    with pytest.raises(ExecutorError, match="default"):
        manifests.choose_image(None, replace(SETTINGS, images=()))


@pytest.mark.parametrize("job", ["", "Upper", "a_b", "-a", "a-", "a.b", "x" * 41])
def test_what_cannot_be_part_of_a_name_is_no_job(job: str) -> None:
    with pytest.raises(ExecutorError, match="cannot be the id of a job"):
        names.check_job(job)


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    records = LaunchRecords(replace(SETTINGS, state_dir=tmp_path), None)
    records.prepare_volume()
    made = records.make_record(spec(env={"A": "{code}/x"}), "hub/train:1", Home(), [GPU_NODE] * 2)
    records.save_record(made, {"main.py": b"pass"})
    assert records.load_record(made.key) == made
    assert records.load_record(AttemptKey("abc", 4)) is None
    assert (tmp_path / records.program / "supervisor" / "__main__.py").exists()
    assert (tmp_path / "jobs" / "abc" / "code" / "main.py").read_bytes() == b"pass"


def test_a_launch_record_of_an_earlier_version_keeps_its_options(tmp_path: Path) -> None:
    settings = replace(SETTINGS, state_dir=tmp_path)
    records = LaunchRecords(settings, None)
    records.prepare_volume()
    made = record(settings, cpus=2.0, memory=1 << 30, env={"A": "1"})
    records.save_record(made, {})
    path = tmp_path / "jobs" / "abc" / "launches" / "3.json"
    written = json.loads(path.read_text())
    options = written["spec"].pop("options")
    former = {name: options[name] for name in ("env", "image", "requirements", "cpus", "memory", "rdma")}
    path.write_text(json.dumps({**written, "spec": {**written["spec"], **former}}))
    records.prepare_volume()
    assert records.load_record(made.key) == made


def test_an_attempt_of_one_pod_keeps_its_order_its_requests_and_its_end(tmp_path: Path) -> None:
    records = LaunchRecords(replace(SETTINGS, state_dir=tmp_path), None)
    records.prepare_volume()
    alone = spec(workers=1, placement=spec().placement[:1])
    made = records.make_record(alone, "hub/train:1", Home(), [GPU_NODE])
    records.save_record(made, {})
    assert records.load_record(made.key) == made
    assert records.read_flags(made.key).requested is None
    assert (tmp_path / "jobs" / "abc" / "code").is_dir()

    records.record_request(made.key, "pause")
    assert records.read_flags(made.key).requested == "pause"
    assert (records.layout.attempt(made.key) / "pause").exists()

    ended = AttemptStatus(made.key, AttemptPhase.GONE, exit=Exit(ExitKind.EXITED, 5.0, code=0))
    assert records.recorded_end(made.key) is None
    records.mark_done(ended)
    assert records.recorded_end(made.key) == ended

    (tmp_path / "jobs" / "abc" / "launches" / f"{made.key.attempt}.done").write_text("{")
    with pytest.raises(msgspec.DecodeError):
        records.recorded_end(made.key)


def test_the_workers_of_a_gang_reach_each_other_where_nobody_else_reaches_them() -> None:
    made = manifests.network_policy(record(), SETTINGS)
    gang = {"matchLabels": {names.JOB: "abc", names.ATTEMPT: "3"}}
    assert made["metadata"]["name"] == names.gang_name(AttemptKey("abc", 3))
    assert made["metadata"]["namespace"] == "pool"
    assert made["spec"] == {
        "podSelector": gang,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": gang}]}],
    }
    assert all(gang["matchLabels"].items() <= pod(place=place)["metadata"]["labels"].items() for place in (0, 1))


def test_pods_find_the_credential_of_their_attempt_in_a_file_and_not_among_their_variables(tmp_path: Path) -> None:
    credentials = Credentials("http://springtide.pool:8090/services/springtide", b"secret")
    records = LaunchRecords(replace(SETTINGS, state_dir=tmp_path), None, credentials)
    made = records.make_record(spec(), "hub/train:1", Home(), [GPU_NODE] * 2)
    records.prepare_volume()
    records.save_record(made, {})
    directory = tmp_path / f"jobs/{made.key.job}/attempts/{made.key.attempt}"
    file = directory / CREDENTIAL
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert credentials.attempt(file.read_text()) == made.key
    supervised = (directory / "spec.json").read_text()
    assert file.read_text() not in supervised + json.dumps(manifests.pod(made, 0, SETTINGS))
    env = json.loads(supervised)["env"]
    assert env["SPRINGTIDE_URL"] == credentials.url
    assert env["SPRINGTIDE_TOKEN_FILE"] == f"/springtide/job/attempts/{made.key.attempt}/{CREDENTIAL}"


ACTIVATED = FoundProgram(
    "/home/jovyan/venv/bin/python",
    "/home/jovyan/venv/bin/python",
    {"PATH": "/home/jovyan/venv/bin:/usr/bin", "VIRTUAL_ENV": "/home/jovyan/venv"},
    "hub/train:1",
)
"""An environment in the home of a notebook."""


@pytest.mark.parametrize(
    ("found", "home"),
    [
        pytest.param(ACTIVATED, Home(), id="without the home"),
        pytest.param(structs.replace(ACTIVATED, image="hub/other:1"), Home("home"), id="in another image"),
        pytest.param(structs.replace(ACTIVATED, image=""), Home("home"), id="from another machine"),
    ],
)
def test_elsewhere_pods_get_nothing_of_the_place_of_the_submission(
    found: FoundProgram, home: Home, tmp_path: Path
) -> None:
    records = LaunchRecords(replace(SETTINGS, state_dir=tmp_path), None)
    records.prepare_volume()
    asked = spec(argv=("python", "train.py"), found=found)
    made = records.make_record(asked, "hub/train:1", home, [GPU_NODE] * 2)
    records.save_record(made, {})
    written = (records.layout.attempt(made.key) / "spec.json").read_text()
    kept = (tmp_path / "jobs" / "abc" / "launches" / "3.json").read_text()
    assert json.loads(written)["argv"] == ["python", "train.py"]
    assert "venv" not in written + kept


def test_pods_of_the_notebooks_image_with_the_home_have_its_activated_environment(tmp_path: Path) -> None:
    records = LaunchRecords(replace(SETTINGS, state_dir=tmp_path), None)
    records.prepare_volume()
    asked = spec(argv=("python", "train.py"), found=ACTIVATED)
    records.save_record(records.make_record(asked, "hub/train:1", Home("home"), [GPU_NODE] * 2), {})
    kept = records.load_record(asked.key)
    assert kept is not None
    records.save_record(kept, {})
    written = json.loads((records.layout.attempt(asked.key) / "spec.json").read_text())
    assert written["argv"] == [ACTIVATED.path, "train.py"]
    assert ACTIVATED.variables.items() <= written["env"].items()


def test_libraries_in_pods_start_the_threads_of_their_cores(tmp_path: Path) -> None:
    for settings, cores in ((SETTINGS, "2"), (replace(SETTINGS, cpu_per_gpu=1.0), "1")):
        records = LaunchRecords(replace(settings, state_dir=tmp_path), None)
        records.prepare_volume()
        made = records.make_record(spec(), "hub/train:1", Home(), [GPU_NODE] * 2)
        records.save_record(made, {})
        written = (records.layout.attempt(made.key) / "spec.json").read_text()
        assert json.loads(written)["env"]["OMP_NUM_THREADS"] == cores


def test_variables_of_secrets_come_from_the_cluster_and_are_in_no_record() -> None:
    secrets = (NamedSecret("wandb", secret="wandb-token"), NamedSecret("hf", secret="hub"))
    made = record(secrets=secrets)
    (container,) = manifests.pod(made, 0, SETTINGS)["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "wandb-token"}}, {"secretRef": {"name": "hub"}}]
    assert made.digest != record().digest


def test_the_pods_of_a_job_whose_secret_was_withdrawn_are_never_made() -> None:
    with pytest.raises(ExecutorError, match="The secret “wandb” is no longer there for project “vision”"):
        record(secrets=(NamedSecret("wandb"),))
