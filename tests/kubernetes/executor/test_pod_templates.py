"""What an admin adds to the pods of jobs: its merge, its place in the pod, and what it may not be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jobs.launched_attempts import SETTINGS, record

from springtide.hub_extension.cluster.settings import cluster_settings
from springtide.scheduler.executors.kubernetes.ends import end_of
from springtide.scheduler.executors.kubernetes.inventory import Inventory, pool_nodes
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.pod_template import PodTemplate, merge, template_of
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Worker
from springtide.scheduler.settings import SettingError

STATE = Path("/state")
PROXY: dict[str, Any] = {
    "name": "proxy",
    "image": "registry.test/proxy:1",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
}


def settings(**templates: Any) -> KubernetesSettings:
    given = {"namespace": "pool", "jobs_claim": "jobs", **templates}
    return cluster_settings(given, state_dir=STATE, images=("hub/train:1", "hub/*"))


def refused(template: dict[str, Any], **more: Any) -> str:
    with pytest.raises(SettingError) as error:
        settings(pod_template=template, **more)
    return str(error.value)


def pod(template: dict[str, Any], projects: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = settings(pod_template=template, project_pod_templates=projects or {})
    return manifests.pod(record(found, **more), 0, found)


def test_what_the_admin_adds_is_in_the_pod_beside_what_the_pool_sets() -> None:
    plain = manifests.pod(record(), 0, SETTINGS)
    made = pod(
        {
            "labels": {"example.com/cost-centre": "42"},
            "annotations": {"example.com/owner": "platform team, ext. 7"},
            "runtimeClassName": "nvidia",
            "schedulerName": "own-scheduler",
            "tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
            "imagePullSecrets": [{"name": "registry"}],
            "env": [
                {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "proxies"}}],
            "volumes": [{"name": "certificates", "configMap": {"name": "ca"}}],
            "volumeMounts": [{"name": "certificates", "mountPath": "/etc/ssl/own", "readOnly": True}],
        }
    )
    assert made["metadata"]["labels"] == {"example.com/cost-centre": "42", **plain["metadata"]["labels"]}
    assert made["metadata"]["annotations"]["example.com/owner"] == "platform team, ext. 7"
    assert "finalizers" not in made["metadata"]
    spec, before = made["spec"], plain["spec"]
    assert (spec["runtimeClassName"], spec["schedulerName"]) == ("nvidia", "own-scheduler")
    assert spec["tolerations"][-1] == {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    assert spec["tolerations"][:-1] == before["tolerations"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["volumes"] == [*before["volumes"], {"name": "certificates", "configMap": {"name": "ca"}}]
    assert (spec["affinity"], spec["securityContext"]) == (before["affinity"], before["securityContext"])
    (job,), (plain_job,) = spec["containers"], before["containers"]
    assert [each["name"] for each in job["env"]] == ["HTTPS_PROXY", "TOKEN"]
    assert job["envFrom"] == [{"configMapRef": {"name": "proxies"}}]
    assert job["volumeMounts"][-1] == {"name": "certificates", "mountPath": "/etc/ssl/own", "readOnly": True}
    unchanged = ("name", "image", "command", "resources", "securityContext")
    assert {key: job[key] for key in unchanged} == {key: plain_job[key] for key in unchanged}


def test_without_a_template_a_pod_is_as_ever() -> None:
    assert pod({}) == manifests.pod(record(), 0, SETTINGS)


def test_containers_of_the_admin_are_confined_and_see_no_gpu() -> None:
    prepare = {"name": "prepare", "image": "registry.test/tools:1", "command": ["fetch"]}
    made = pod({"initContainers": [prepare, {**PROXY, "securityContext": {"runAsUser": 2000}}]})["spec"]
    before, sidecar = made["initContainers"]
    assert (before["command"], sidecar["restartPolicy"]) == (["fetch"], "Always")
    assert sidecar["securityContext"]["runAsUser"] == 2000
    for container in (before, sidecar):
        assert container["env"][-1] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [each["name"] for each in made["containers"]] == ["job"]


def test_the_nearest_template_counts_and_lists_are_joined_by_name() -> None:
    everywhere = {
        "labels": {"cost": "0", "site": "x"},
        "runtimeClassName": "nvidia",
        "env": [{"name": "A", "value": "pool"}, {"name": "B", "value": "pool"}],
    }
    lab = {"labels": {"cost": "1", "lab": "yes"}, "env": [{"name": "B", "value": "lab"}]}
    team = {"labels": {"cost": "2"}, "runtimeClassName": "other", "env": [{"name": "C", "value": "team"}]}
    of_projects = {"lab": lab, "vision": team}
    within = pod(everywhere, of_projects, outer_projects=("lab",))
    assert {"cost": "2", "site": "x", "lab": "yes"}.items() <= within["metadata"]["labels"].items()
    assert within["spec"]["runtimeClassName"] == "other"
    assert {each["name"]: each["value"] for each in within["spec"]["containers"][0]["env"]} == {
        "A": "pool", "B": "lab", "C": "team",
    }  # fmt: skip
    alone = pod(everywhere, {"lab": lab})
    assert (alone["metadata"]["labels"]["cost"], alone["spec"]["runtimeClassName"]) == ("0", "nvidia")


def test_a_merge_with_nothing_changes_nothing_and_order_of_merges_is_free() -> None:
    parts = [
        msgspec.convert({"env": [{"name": name, "value": value}], "labels": {name: value}}, PodTemplate)
        for name, value in (("A", "1"), ("A", "2"), ("B", "3"))
    ]
    one, two, three = parts
    assert merge(one, PodTemplate()) == one == merge(PodTemplate(), one)
    assert merge(merge(one, two), three) == merge(one, merge(two, three))
    assert template_of(["in", "out"], one, {"in": two, "out": three}) == merge(merge(one, three), two)


def test_a_node_selector_is_for_pods_without_gpus() -> None:
    template = {"nodeSelector": {"disk": "fast"}}
    assert "nodeSelector" not in pod(template)["spec"]
    without: dict[str, Any] = {"placement": (Worker(0, "", ()),), "workers": 1, "resources": ("",)}
    assert pod(template, **without)["spec"]["nodeSelector"] == {"disk": "fast"}


def test_a_node_whose_taint_the_template_tolerates_is_in_the_pool() -> None:
    node = msgspec.convert(
        {
            "metadata": {"name": "n1", "labels": {"springtide.io/environment": "train"}},
            "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
            "status": {
                "capacity": {"nvidia.com/gpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        ClusterNode,
    )
    (closed,) = pool_nodes(node, settings())
    (offered,) = pool_nodes(node, settings(pod_template={"tolerations": [{"key": "team", "value": "a"}]}))
    assert (closed.available, offered.available) == (False, True)


def test_what_sidecars_request_is_kept_free_beside_each_gpu() -> None:
    node = msgspec.convert(
        {
            "metadata": {"name": "n1", "labels": {"springtide.io/environment": "train"}},
            "status": {
                "capacity": {"nvidia.com/gpu": "4"},
                "allocatable": {"nvidia.com/gpu": "4", "cpu": "32", "memory": "64Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        ClusterNode,
    )

    def per_gpu(found: KubernetesSettings) -> tuple[float, float]:
        inventory = Inventory(found)
        inventory.update_node(None, node)
        (seen,) = inventory.nodes({}, fresh=True)
        return seen.per_gpu.cpus, seen.per_gpu.memory

    assert per_gpu(settings()) == (8.0, 16 << 30)
    assert per_gpu(settings(pod_template={"initContainers": [PROXY]})) == (7.5, 15 << 30)
    assert per_gpu(settings(project_pod_templates={"vision": {"initContainers": [PROXY]}})) == (7.5, 15 << 30)
    prepare = {key: value for key, value in PROXY.items() if key != "restartPolicy"}
    assert per_gpu(settings(pod_template={"initContainers": [prepare]})) == (8.0, 16 << 30)


def test_an_init_container_that_fails_is_named_and_not_the_jobs_fault() -> None:
    init = {"name": "prepare", "state": {"terminated": {"exitCode": 3, "message": "no such bucket\n"}}}
    waiting = {"name": "job", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"phase": "Failed", "initContainerStatuses": [init], "containerStatuses": [waiting]}
    end = end_of(msgspec.convert({"spec": {"nodeName": "n1"}, "status": status}, Pod))
    assert end is not None
    assert end.kind.value == "blocked"
    assert end.detail == (
        "The init container prepare, which an admin of the pool added, ended with exit code 3: no such bucket"
    )


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({"affinity": {}}, "pod_template.affinity cannot be set: the pool plans the node of each pod with GPUs"),
        ({"nodeName": "n1"}, "pod_template.nodeName cannot be set: the pool plans the node"),
        ({"serviceAccountName": "x"}, "serviceAccountName cannot be set: pods of jobs have no account"),
        ({"hostNetwork": True}, "pod_template.hostNetwork cannot be set: pods of jobs keep to the restricted"),
        ({"command": ["x"]}, "pod_template.command cannot be set: the pool makes the container of the job"),
        ({"containers": []}, "pod_template.containers cannot be set"),
        ({"priorityClassName": "x"}, "pod_template.priorityClassName cannot be set: set priority_class instead"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "volumes[0].hostPath cannot be set"),
        ({"volumes": [{"name": "a", "nfs": {}}]}, "volumes[0].nfs cannot be set: pods of jobs keep to the"),
        (
            {"volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            "volumes[0].projected.sources[0].serviceAccountToken cannot be set: pods of jobs have no account",
        ),
        (
            {"initContainers": [{**PROXY, "securityContext": {"privileged": True}}]},
            "initContainers[0].securityContext.privileged cannot be set: pods of jobs keep to the restricted",
        ),
        ({"initContainers": [{**PROXY, "securityContext": {"runAsUser": 0}}]}, "runAsUser is 0; expected a whole"),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
            "tolerations[0].tolerationSeconds cannot be set: a toleration that ends would end running jobs",
        ),
        ({"label": {"a": "b"}}, "There is no field “label” in pod_template. Did you mean labels?"),
        ({"labels": {"a": 1}}, "pod_template.labels.a is 1; expected text"),
        ({"labels": {"springtide.io/job": "x"}}, "labels has “springtide.io/job”, which the pool sets itself"),
        ({"labels": {"app.kubernetes.io/managed-by": "x"}}, "which the pool sets itself"),
        ({"annotations": {names.SAFE_TO_EVICT: "true"}}, "annotations has “cluster-autoscaler"),
        ({"labels": {"a": "no spaces"}}, "labels has “no spaces” for a; expected at most 63 letters"),
        ({"env": [{"name": "SPRINGTIDE_JOB_ID", "value": "x"}]}, "env[0].name is “SPRINGTIDE_JOB_ID”, which the"),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}, "which the pool sets itself"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "env has “A” twice"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env[0].valueFrom has no source, or several"),
        ({"envFrom": [{}]}, "envFrom[0] has no source, or two; expected secretRef or configMapRef"),
        ({"volumes": [{"name": "jobs", "emptyDir": {}}]}, "volumes[0].name is “jobs”, a volume of the pool"),
        ({"volumes": [{"name": "a"}]}, "volumes[0] has 0 sources; expected one, such as configMap or emptyDir"),
        ({"volumes": [{"name": "a", "secret": {}}]}, "volumes[0].secret.secretName is None; expected a name"),
        ({"volumeMounts": [{"name": "jobs", "mountPath": "/x"}]}, "expected one of the template's volumes: none"),
        (
            {
                "volumes": [{"name": "a", "emptyDir": {}}],
                "volumeMounts": [{"name": "a", "mountPath": "/springtide/job/x"}],
            },
            "volumeMounts[0].mountPath is “/springtide/job/x”; /springtide is the pool's",
        ),
        (
            {"volumes": [{"name": "a", "emptyDir": {}}], "volumeMounts": [{"name": "a", "mountPath": "/home"}]},
            "volumeMounts[0].mountPath is “/home”, which would hide /home/jovyan",
        ),
        ({"initContainers": [{**PROXY, "name": "job"}]}, "initContainers[0].name is “job”"),
        (
            {"initContainers": [{**PROXY, "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
            "initContainers[0].resources.limits has “nvidia.com/gpu”, which the pool gives out; expected cpu",
        ),
        (
            {"initContainers": [{**PROXY, "resources": {"requests": {"cpu": "lots"}}}]},
            "initContainers[0].resources.requests has “lots” of cpu; expected a quantity",
        ),
    ],
)  # fmt: skip
def test_what_would_break_the_pools_promises_or_its_safety_is_refused(template: dict[str, Any], says: str) -> None:
    said = refused(template)
    assert said.startswith("Springtide.kubernetes: ")
    assert says in said


def test_the_project_of_a_wrong_template_is_named() -> None:
    wrong = refused({}, project_pod_templates={"vision": {"hostPID": True}})
    assert "project_pod_templates[“vision”].hostPID cannot be set" in wrong
    wrong = refused({}, project_pod_templates={"vision": {"labels": {"springtide.io/x": "y"}}})
    assert "project_pod_templates[“vision”].labels has" in wrong


def test_a_template_of_a_project_may_mount_what_all_pods_have() -> None:
    shared = {"volumes": [{"name": "cache", "emptyDir": {}}]}
    mount = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    made = pod(shared, {"vision": mount})
    assert made["spec"]["containers"][0]["volumeMounts"][-1] == {"name": "cache", "mountPath": "/cache"}


def test_a_claim_of_the_template_without_a_volume_is_left_to_the_clusters_scheduler() -> None:
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
    ]
    found = replace(settings(pod_template={"volumes": volumes}), bind_directly=True)
    assert manifests.claims(record(found), found) == ["jobs", "models", "st-abc-3-0-scratch"]
