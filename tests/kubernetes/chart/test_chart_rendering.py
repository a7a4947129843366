"""What the chart makes of values: restricted pods, no rights beyond need, nothing that people made removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters.chart import (
    CHART,
    Helm,
    HelmError,
    Template,
    of_all,
    of_kind,
    pods_of,
    secrets_of,
    service_settings,
    shown_values,
)

from springtide.hub_extension.cluster.settings import cluster_settings
from springtide.hub_extension.service.declarations import declared_datasets, declared_secrets
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.kubernetes.inventory import static_nodes
from springtide.scheduler.executors.kubernetes.node_groups.groups import cluster_groups
from springtide.scheduler.resources.per_gpu import PerGpu
from springtide.spawner.kube import KubeBuildSpawner

EVERYTHING: dict[str, Any] = {
    "imagePullSecrets": ["registry"],
    "service": {
        "database": {"existingSecret": "postgres"},
        "projects": [{"name": "vision", "quota": 4}],
        "extraConfig": {"mine": "c.Springtide.grace = 60"},
        "smtp": {
            "server": "mail.example.org",
            "user": "pool",
            "existingSecret": "mail",
            "from": "pool@example.org",
            "address": "{user}@example.org",
        },
        "podLabels": {"team": "ml"},
        "podAnnotations": {"note": "yes"},
        "nodeSelector": {"pool": "core"},
        "tolerations": [{"key": "core", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "extraPodSpec": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["ldap"]}]},
    },
    "train": {
        "namespace": {"name": "jobs", "create": True},
        "images": ["springtide/notebook:0.2.0", "teams/*"],
        "jobs": {"existingClaim": "shared"},
        "resourceQuota": {"requests.nvidia.com/gpu": "64", "pods": 100},
        "lostAfter": 600,
    },
    "trainJobs": {"namespaces": ["vision", "speech"]},
    "hub": {
        "baseUrl": "/jupyter",
        "database": {"existingSecret": "postgres", "key": "hub"},
        "admins": ["alice"],
        "extraEnv": [{"name": "MINE", "value": "1"}],
        "extraConfig": {"mine": "c.JupyterHub.allow_named_servers = True"},
    },
    "notebooks": {"profiles": [{"display_name": "small", "kubespawner_override": {"cpu_limit": 1}}]},
    "proxy": {"type": "NodePort", "nodePort": 30080},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "hosts": ["hub.example.org"],
        "tls": [{"secretName": "tls", "hosts": ["hub.example.org"]}],
    },
    "networkPolicy": {"serviceFrom": [{"namespaceSelector": {}}], "proxyFrom": [{"podSelector": {}}]},
    "podDisruptionBudget": {"enabled": True},
}
ATTACHED: dict[str, Any] = {"hub": {"enabled": False}}
NAMESPACED = shown_values()["namespaced"]
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "attached": ATTACHED,
    "namespaced": NAMESPACED,
    "own hub of the guide": shown_values()["own-hub"],
    "claimed GPUs": {"train": {"devices": {"enabled": True}}},
}


@pytest.fixture(params=VALUES)
def rendered(request: pytest.FixtureRequest, template: Template) -> list[dict[str, Any]]:
    """What the chart makes of each of the values above."""
    return template(VALUES[request.param])


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_finds_no_fault(helm: Helm, values: dict[str, Any]) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


def test_the_alerts_are_a_rule_of_prometheus_where_they_are_wanted(template: Template) -> None:
    wanted = {"metrics": {"rules": {"enabled": True, "labels": {"release": "prom"}}}}
    assert not of_kind(template({}), "PrometheusRule")
    (rule,) = of_kind(template(wanted), "PrometheusRule").values()
    assert rule["metadata"]["labels"]["release"] == "prom"
    assert rule["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())


def test_every_pod_keeps_to_the_restricted_standard(rendered: list[dict[str, Any]]) -> None:
    pods = pods_of(rendered)
    assert pods
    for pod in (made["spec"] for made in pods.values()):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["readinessProbe"]["httpGet"]["path"].startswith("/")
            assert "livenessProbe" in container


def test_a_cluster_that_assigns_users_finds_none_named_anywhere(template: Template) -> None:
    objects = template({"assignedUsers": True})
    for pod in pods_of(objects).values():
        assert pod["spec"]["securityContext"].keys().isdisjoint({"runAsUser", "runAsGroup", "fsGroup"})
    given = service_settings(objects)["kubernetes"]
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])
    named = [
        given["run_as"],
        given["fs_group"],
        *(hub["defaults"]["KubeSpawner"][key] for key in ("uid", "fs_gid")),
    ]
    assert named == [None] * 4
    made = cluster_settings(given, state_dir=Path("/srv"), images=("springtide/notebook:1",))
    assert (made.run_as, made.fs_group) == (None, None)


def test_nobody_may_read_secrets_or_everything(rendered: list[dict[str, Any]]) -> None:
    roles = [*of_all(rendered, "Role"), *of_all(rendered, "ClusterRole")]
    assert roles
    for rule in (rule for role in roles for rule in role["rules"]):
        assert not {"*", "secrets", "configmaps"} & set(rule["resources"])
        assert "*" not in [*rule["verbs"], *rule["apiGroups"]]


def test_selectors_find_the_pods_of_their_part_and_no_others(rendered: list[dict[str, Any]]) -> None:
    objects = rendered
    labels = {part: made["metadata"]["labels"] for part, made in pods_of(objects).items()}
    for deployment in of_kind(objects, "Deployment").values():
        selector = deployment["spec"]["selector"]["matchLabels"]
        part = selector["app.kubernetes.io/component"]
        assert [other for other, found in labels.items() if selector.items() <= found.items()] == [part]
    for made in of_kind(objects, "Service").values():
        [part] = [part for part, found in labels.items() if made["spec"]["selector"].items() <= found.items()]
        ports = {port["name"] for port in pods_of(objects)[part]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in made["spec"]["ports"]} <= ports
    for budget in of_kind(objects, "PodDisruptionBudget").values():
        selector = budget["spec"]["selector"]["matchLabels"]
        assert any(selector.items() <= found.items() for found in labels.values())


def test_nothing_of_the_release_carries_the_labels_of_train_pods(rendered: list[dict[str, Any]]) -> None:
    for made in rendered:
        assert not any(key.startswith("springtide.io/") for key in made["metadata"].get("labels", {}))
    for pod in pods_of(rendered).values():
        assert not any(key.startswith("springtide.io/") for key in pod["metadata"]["labels"])


def test_without_rights_in_the_whole_cluster_nothing_lies_outside_the_namespace(template: Template) -> None:
    objects = template(NAMESPACED)
    kinds = {made["kind"] for made in objects}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "PriorityClass", "Namespace", "PersistentVolume"}
    assert not any(kind.startswith("ValidatingAdmission") for kind in kinds)
    assert {made["metadata"].get("namespace") for made in objects} == {"pool"}
    told = service_settings(objects)["kubernetes"]
    assert [node["name"] for node in told["static_nodes"]] == ["dgx-1", "dgx-2"]
    assert "priority_class" not in told


def test_pods_may_name_their_node_where_the_admin_says_so_and_no_right_changes(template: Template) -> None:
    def looked_at(values: dict[str, Any]) -> tuple[bool, bool, list[Any]]:
        objects = template(values)
        policies = [made for made in objects if made["kind"] == "ValidatingAdmissionPolicy"]
        (policy,) = [made for made in policies if made["metadata"]["name"].endswith("-train")]
        forbids = any("nodeName" in each["expression"] for each in policy["spec"]["validations"])
        rules = [made["rules"] for made in objects if made["kind"] in ("Role", "ClusterRole")]
        return service_settings(objects)["kubernetes"]["bind_directly"], forbids, rules

    usual, direct = looked_at({}), looked_at({"train": {"bindDirectly": True}})
    assert usual[:2] == (False, True)
    assert direct[:2] == (True, False)
    assert usual[2] == direct[2]


@pytest.mark.parametrize(
    ("shared_memory", "permits"),
    [
        ("memory", None),
        ("runtime", None),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "local"}}}}, "has(volume.ephemeral)"),
        (
            {"csi": {"driver": "tmpfs.example.com"}},
            "(has(volume.csi) && volume.csi.driver in ['tmpfs.example.com'])",
        ),
    ],
)
def test_shared_memory_reaches_the_service_and_its_volume_is_permitted(
    template: Template, shared_memory: Any, permits: str | None
) -> None:
    objects = template({"train": {"sharedMemory": shared_memory}})
    (policy,) = [
        made
        for made in objects
        if made["kind"] == "ValidatingAdmissionPolicy" and made["metadata"]["name"].endswith("-train")
    ]
    (volumes,) = [each for each in policy["spec"]["validations"] if "emptyDir" in each["expression"]]
    assert service_settings(objects)["kubernetes"]["shared_memory"] == shared_memory
    found = [kind for kind in ("has(volume.ephemeral)", "has(volume.csi)") if kind in volumes["expression"]]
    assert found == ([] if permits is None else [permits.partition(" ")[0].lstrip("(")])
    assert permits is None or permits in volumes["expression"]


def test_the_service_may_read_the_namespace_that_is_the_controller_of_its_pods(
    rendered: list[dict[str, Any]],
) -> None:
    namespace = service_settings(rendered)["kubernetes"]["namespace"]
    roles = [
        made for made in rendered if made["kind"] == "Role" and made["metadata"].get("namespace") == namespace
    ]
    rules = [rule for role in roles for rule in role["rules"] if "namespaces" in rule["resources"]]
    assert any(rule["verbs"] == ["get"] and rule["apiGroups"] == [""] for rule in rules)


@pytest.mark.parametrize(
    ("values", "opens"),
    [
        ({}, True),
        ({"train": {"terminals": False}}, False),
        ({"train": {"admissionPolicy": {"create": False}}}, False),
        (
            {
                "train": {
                    "admissionPolicy": {"create": False},
                    "namespace": {"name": "jobs", "create": True},
                    "nfs": {"server": "nas", "path": "/x"},
                }
            },
            True,
        ),
    ],
)
def test_terminals_are_open_where_the_service_reaches_train_pods_alone(
    template: Template, values: dict[str, Any], opens: bool
) -> None:
    objects = template(values)
    rules = [rule for made in objects if made["kind"] == "Role" for rule in made["rules"]]
    assert any("pods/exec" in rule["resources"] for rule in rules) is opens
    assert service_settings(objects)["kubernetes"]["sessions"] is opens


def test_what_gives_rdma_reaches_the_service(template: Template) -> None:
    rdma = {"resources": {"rdma/rdma_shared_device_a": 1}, "networks": "ib0"}
    group = {"name": "a", "gpuType": "h100", "gpus": 8, "maxNodes": 1, "nodeSelector": {"a": "b"}, "rdma": 4}
    static = [{"name": "b", "gpus": 4, "cpus": 32, "memory": "64Gi", "rdma": 2}]
    given = service_settings(template({"train": {"rdma": rdma, "nodeGroups": [group]}}))["kubernetes"]
    settings = cluster_settings(given, state_dir=Path("/x"), images=("a",))
    assert (settings.rdma_resources, settings.rdma_networks) == ({"rdma/rdma_shared_device_a": 1}, "ib0")
    assert cluster_groups(settings)[0].group.node.per_gpu.rdma == 0.5
    listed = service_settings(template({"train": {"rdma": rdma}, "nodes": {"list": False, "static": static}}))
    (node,) = static_nodes(cluster_settings(listed["kubernetes"], state_dir=Path("/x"), images=("a",)))
    assert node.per_gpu == PerGpu(8.0, 16 << 30, 0.5)


def train_policy(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """What the policy says about the pods that the service makes."""
    policies = of_kind(objects, "ValidatingAdmissionPolicy")
    spec: dict[str, Any] = next(each["spec"] for name, each in policies.items() if name.endswith("-train"))
    return spec


def test_only_where_gpus_are_claimed_may_the_service_do_anything_with_devices(template: Template) -> None:
    def rules_about_devices(objects: list[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
        return {
            (made["metadata"].get("namespace", ""), resource): rule["verbs"]
            for made in objects
            if made["kind"] in ("Role", "ClusterRole")
            for rule in made["rules"]
            if "resource.k8s.io" in rule["apiGroups"]
            for resource in rule["resources"]
        }

    usual = template({})
    assert not rules_about_devices(usual)
    assert "device_class" not in service_settings(usual)["kubernetes"]
    jobs = {"namespace": {"name": "jobs"}, "jobs": {"existingClaim": "shared"}}
    objects = template({"train": {"devices": {"enabled": True, "deviceClass": "big.example.com"}, **jobs}})
    assert rules_about_devices(objects) == {
        ("", "deviceclasses"): ["get"],
        ("", "resourceclaims"): ["list", "watch"],
        ("", "resourceslices"): ["list", "watch"],
        ("jobs", "resourceclaimtemplates"): ["list", "watch", "create"],
        ("pool", "resourceclaimtemplates"): ["list", "watch", "create"],
    }
    bound = {(made["metadata"]["namespace"], made["roleRef"]["name"]) for made in of_all(objects, "RoleBinding")}
    assert {("jobs", "springtide-devices"), ("pool", "springtide-devices")} <= bound
    told = cluster_settings(service_settings(objects)["kubernetes"], state_dir=Path("/state"), images=("a",))
    assert (told.device_class, told.device_driver) == ("big.example.com", "gpu.nvidia.com")
    assert told.claim_namespaces == ("jobs", "pool")
    (policy,) = [
        made
        for made in objects
        if made["kind"] == "ValidatingAdmissionPolicy" and made["metadata"]["name"].endswith("-train")
    ]
    matched = [each["resources"] for each in policy["spec"]["matchConstraints"]["resourceRules"]]
    assert ["resourceclaimtemplates"] in matched


def test_what_shapes_pods_reaches_the_service_and_the_policy_knows_what_it_names(template: Template) -> None:
    shaped = shown_values()["shaped-pods"]
    volumes = [
        {"name": "a", "projected": {"sources": [{"secret": {"name": "keys"}}]}},
        {"name": "b", "secret": {"secretName": "more-keys"}},
        {"name": "c", "csi": {"driver": "store.example.org"}},
        {"name": "d", "ephemeral": {}},
    ]
    shaped["secrets"] = {"wandb": {"secret": "wandb-token", "projects": ["vision"]}}
    shaped["train"]["projectPodTemplates"]["speech"] = {"volumes": volumes}
    objects = template(shaped)
    settings = cluster_settings(service_settings(objects)["kubernetes"], state_dir=Path("/x"), images=("a",))
    assert settings.pod_template.runtime_class_name == "nvidia"
    declared = declared_secrets(service_settings(objects)["secrets"], cluster=True, own_accounts=False)
    assert declared == {"wandb": NamedSecret("wandb", secret="wandb-token", projects=("vision",))}
    assert settings.project_pod_templates["vision"].init_containers[0].is_sidecar
    policy = train_policy(objects)
    variables = {each["name"]: each["expression"] for each in policy["variables"]}
    assert variables["secrets"] == "['keys','more-keys','vision-s3','wandb-token']"
    assert variables["configMaps"] == "['own-ca','proxies']"
    (mounts,) = (each["expression"] for each in policy["validations"] if "mount claims" in each["message"])
    assert "volume.csi.driver in ['store.example.org']" in mounts
    assert "has(volume.ephemeral)" in mounts
    plain = train_policy(template())
    assert {each["name"]: each["expression"] for each in plain["variables"]}["secrets"] == "[]"
    assert "csi" not in json.dumps(plain)


def test_labels_and_variables_of_notebooks_are_those_of_their_spawner(template: Template) -> None:
    objects = template(shown_values()["shaped-notebooks"])
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])
    given = hub["config"]["KubeSpawner"]
    assert set(given) <= set(KubeBuildSpawner.class_traits())
    assert given["extra_pod_config"] == {"runtimeClassName": "nvidia"}


def test_node_groups_reach_the_service_and_their_pods_come_last(template: Template) -> None:
    group = {
        "name": "h100",
        "gpuType": "h100",
        "gpus": 8,
        "maxNodes": 4,
        "nodeSelector": {"example.com/pool": "h100"},
        "tolerations": [{"key": "example.com/h100", "operator": "Exists", "effect": "NoSchedule"}],
        "memory": "900Gi",
    }
    objects = template({"train": {"nodeGroups": [group]}})
    settings = cluster_settings(service_settings(objects)["kubernetes"], state_dir=Path("/x"), images=("a",))
    (made,) = cluster_groups(settings)
    assert (made.group.name, made.group.most, made.group.node.gpus) == ("h100", 4, 8)
    assert made.labels == {"example.com/pool": "h100", "springtide.io/environment": "train"}
    placeholders = of_kind(objects, "PriorityClass")[settings.placeholder_priority_class or ""]
    jobs = of_kind(objects, "PriorityClass")[settings.priority_class or ""]
    assert jobs["value"] == 1_000_000, "pods of others do not evict jobs"
    assert -10 <= placeholders["value"] < jobs["value"], "the cluster autoscaler ignores what is below -10"
    assert "node_groups" not in service_settings(template())["kubernetes"]


def test_two_releases_share_no_name_in_the_cluster(template: Template) -> None:
    def names(namespace: str) -> set[tuple[str, str]]:
        objects = template({"trainJobs": {"allNamespaces": True}}, namespace=namespace)
        return {
            (made["kind"], made["metadata"]["name"]) for made in objects if not made["metadata"].get("namespace")
        }

    assert len(names("one")) == len(names("two")) == 12
    assert not names("one") & names("two")


def test_priority_classes_never_preempt(template: Template) -> None:
    classes = of_kind(template(), "PriorityClass")
    assert classes
    assert {made["preemptionPolicy"] for made in classes.values()} == {"Never"}
    assert not any(made["globalDefault"] for made in classes.values())
    assert service_settings(template())["kubernetes"]["priority_class"] in classes


def test_rights_of_the_service_follow_where_it_works(template: Template) -> None:
    objects = template(EVERYTHING)
    roles = {(made["metadata"]["namespace"], made["metadata"]["name"]) for made in of_all(objects, "Role")}
    assert roles == {
        ("jobs", "springtide"),
        ("pool", "springtide-hub"),
    }
    (rights,) = [made for made in of_all(objects, "ClusterRole") if "train-jobs" in made["metadata"]["name"]]
    names = [rule["resourceNames"] for rule in rights["rules"] if rule["resources"] == ["namespaces"]]
    assert names == [["vision", "speech"]]
    bound = {(made["metadata"]["namespace"], made["metadata"]["name"]) for made in of_all(objects, "RoleBinding")}
    assert bound == roles
    accounts = {
        (subject["name"], subject["namespace"])
        for made in of_all(objects, "RoleBinding")
        for subject in made["subjects"]
    }
    assert accounts == {("springtide", "pool"), ("springtide-hub", "pool")}


def test_the_roles_of_people_are_bound_by_nobody_and_part_of_the_clusters_only_if_an_admin_says_so(
    template: Template,
) -> None:
    roles = {"pool-springtide-job-editor", "pool-springtide-job-viewer"}

    def aggregated(values: dict[str, Any]) -> dict[str, set[str]]:
        return {
            name: {key.rpartition("-")[2] for key in made["metadata"]["labels"] if "/aggregate-to-" in key}
            for name, made in of_kind(template(values), "ClusterRole").items()
            if name in roles
        }

    assert aggregated({}) == {name: set() for name in roles}
    assert aggregated({"trainJobs": {"aggregateRoles": True}}) == {
        "pool-springtide-job-editor": {"admin", "edit"},
        "pool-springtide-job-viewer": {"view"},
    }
    assert not {made["roleRef"]["name"] for made in of_all(template({}), "ClusterRoleBinding")} & roles
    for values in ({"rbac": {"create": False}}, {"trainJobs": {"enabled": False}}):
        assert aggregated(values) == {}


def test_a_train_namespace_of_its_own_enforces_the_restricted_standard(template: Template) -> None:
    made = of_kind(template(EVERYTHING), "Namespace")["jobs"]
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_what_people_made_outlives_the_release(template: Template) -> None:
    objects = template()
    kept = [*of_kind(objects, "PersistentVolumeClaim").values(), *of_kind(objects, "Secret").values()]
    assert {made["metadata"]["name"] for made in kept} == {
        "springtide",
        "springtide-store",
        "springtide-jobs",
        "springtide-hub",
    }
    assert all(made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for made in kept)


def test_claims_of_ones_own_take_the_place_of_made_ones(template: Template) -> None:
    mine = {"existingClaim": "mine"}
    values = {"service": {"storage": mine}, "train": {"jobs": mine}, "hub": {"storage": mine}}
    objects = template(values)
    assert not of_kind(objects, "PersistentVolumeClaim")
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods_of(objects).values()
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert claims == ["mine"] * 3


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        ({"service": {"settings": {"grace": 60}}}, ["service"]),
        ({"hub": {"config": {"JupyterHub": {"allow_named_servers": True}}}}, ["hub"]),
        ({"proxy": {"port": 81}}, []),
        ({"hub": {"baseUrl": "/jupyter/"}}, ["hub", "proxy", "service"]),
    ],
    ids=str,
)
def test_a_setting_starts_only_those_anew_that_read_it(
    template: Template, values: dict[str, Any], changed: list[str]
) -> None:
    before, after = pods_of(template()), pods_of(template(values))
    assert sorted(part for part in before if before[part] != after[part]) == changed


def test_secrets_of_ones_own_are_used_and_none_is_made(template: Template) -> None:
    objects = template({"existingSecret": "mine"})
    assert not of_kind(objects, "Secret")
    for pod in pods_of(objects).values():
        assert {name for name, _ in secrets_of(pod)} == {"mine"}


def test_made_secrets_are_random_and_have_every_key_that_is_read(helm: Helm) -> None:
    one, two = (helm.template() for _ in range(2))
    made = of_kind(one, "Secret")["springtide"]["data"]
    assert len(set(made.values())) == len(made)
    assert not set(made.values()) & set(of_kind(two, "Secret")["springtide"]["data"].values())
    assert {key for pod in pods_of(one).values() for _, key in secrets_of(pod)} == set(made)


def test_without_the_cluster_nothing_random_is_rendered(helm: Helm) -> None:
    def rendered(values: dict[str, Any]) -> str:
        command = ("template", "springtide", str(helm.chart), "--namespace", "pool", "--kube-version", "1.34.0")
        return helm.run(*command, values=values)

    with pytest.raises(HelmError, match=r"existingSecret is empty, and the chart is rendered without the cluster"):
        rendered({"agent": {"enabled": False}})
    with pytest.raises(HelmError, match=r"agent.existingSecret is empty"):
        rendered({**ATTACHED, "agent": {"enabled": True}})
    kept = {"existingSecret": "mine", "agent": {"enabled": True, "existingSecret": "its"}}
    kept |= {"metrics": {"serviceMonitor": {"enabled": True}, "dashboard": {"enabled": True}}}
    assert rendered(kept) == rendered(kept)
    assert rendered(ATTACHED) == rendered(ATTACHED)


def test_no_train_pod_mounts_the_claim_of_a_hubs_database(template: Template) -> None:
    def forbidden(objects: list[dict[str, Any]]) -> str:
        policy = of_kind(objects, "ValidatingAdmissionPolicy")["pool-springtide-train"]
        return str(policy["spec"]["validations"][1]["expression"])

    assert "['springtide-hub','springtide-store']" in forbidden(template())
    assert "['hub-db-dir','springtide-store']" in forbidden(template(ATTACHED))
    named = {"hub": {"enabled": False, "existing": {"databaseClaim": "lab-hub-db-dir"}}}
    assert "['lab-hub-db-dir','springtide-store']" in forbidden(template(named))


@pytest.mark.parametrize(
    ("monitor", "kind", "field"),
    [("serviceMonitor", "ServiceMonitor", "endpoints"), ("podMonitor", "PodMonitor", "podMetricsEndpoints")],
)
def test_a_monitor_finds_the_service_and_reads_by_the_token_of_its_own_account(
    template: Template, monitor: str, kind: str, field: str
) -> None:
    chosen = {monitor: {"enabled": True, "labels": {"release": "prom"}, "interval": "15s"}}
    objects = template({"hub": {"baseUrl": "/lab"}, "metrics": chosen})
    made = of_kind(objects, kind)["springtide"]
    assert made["metadata"]["labels"]["release"] == "prom"
    selected = made["spec"]["selector"]["matchLabels"].items()
    target = of_kind(objects, "Service")["springtide"]
    assert selected <= target["metadata"]["labels"].items()
    assert selected <= pods_of(objects)["service"]["metadata"]["labels"].items()
    [others] = [[each for each in of_kind(objects, "Service").values() if each is not target]]
    assert not any(selected <= each["metadata"]["labels"].items() for each in others)
    [endpoint] = made["spec"][field]
    assert (endpoint["path"], endpoint["port"]) == ("/lab/services/springtide/api/v1/metrics", "http")
    assert endpoint["interval"] == "15s"
    assert endpoint["authorization"] == {"credentials": {"name": "springtide-scraper", "key": "token"}}
    token = of_kind(objects, "Secret")["springtide-scraper"]
    assert (token["type"], "data" in token) == ("kubernetes.io/service-account-token", False)
    [rule] = of_kind(objects, "ClusterRole")["pool-springtide-scraper"]["rules"]
    assert rule == {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    assert "pool-springtide-metrics" in of_kind(objects, "ClusterRole")


def test_a_monitor_with_a_token_of_the_hub_needs_no_account_of_the_cluster(template: Template) -> None:
    own = {"credentials": {"name": "scraper", "key": "token"}}
    objects = template({"metrics": {"serviceMonitor": {"enabled": True}, "authorization": own}})
    [endpoint] = of_kind(objects, "ServiceMonitor")["springtide"]["spec"]["endpoints"]
    assert endpoint["authorization"] == own
    assert not {"pool-springtide-scraper", "pool-springtide-metrics"} & set(of_kind(objects, "ClusterRole"))
    kinds = {made["kind"] for made in template()}
    assert not kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule"}


def test_accounts_of_the_cluster_read_the_metrics_where_the_admin_says_so(template: Template) -> None:
    assert "pool-springtide-metrics" in of_kind(template({"metrics": {"accounts": True}}), "ClusterRole")


def test_an_existing_hub_makes_ours_unneeded(template: Template) -> None:
    objects = template(ATTACHED)
    assert set(pods_of(objects)) == {"service"}
    assert not {"Secret", "Ingress"} & {made["kind"] for made in objects}


def test_an_existing_hub_is_where_the_token_and_the_people_come_from(template: Template) -> None:
    objects = template(ATTACHED)
    [container] = pods_of(objects)["service"]["spec"]["containers"]
    env = {entry["name"]: entry for entry in container["env"]}
    assert env["JUPYTERHUB_API_URL"]["value"] == "http://hub:8081/hub/api"
    reference = env["JUPYTERHUB_API_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "hub", "key": "hub.services.springtide.apiToken"}
    policies = of_kind(objects, "NetworkPolicy")
    assert set(policies) == {"springtide-service", "springtide-train"}
    peer, jobs = policies["springtide-service"]["spec"]["ingress"][0]["from"]
    assert jobs["podSelector"] == {"matchLabels": {"springtide.io/pool": "springtide"}}
    assert peer["podSelector"]["matchLabels"] == {"app": "jupyterhub"}


def test_the_namespace_of_jobs_has_a_quota_of_train_pods_and_limits_of_their_disks(template: Template) -> None:
    objects = template()
    quota = of_kind(objects, "ResourceQuota")["springtide"]["spec"]
    [scope] = quota["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["values"]) == ("PriorityClass", ["pool-springtide-train"])
    assert quota["hard"] == {"pods": "5000"}
    assert service_settings(objects)["kubernetes"]["disk_limit"] == "50Gi"
    assert not of_kind(objects, "LimitRange"), "it would count for hub, proxy and notebooks"
    (limit,) = of_kind(template({"train": {"limitRange": {"default": {"cpu": 1}}}}), "LimitRange").values()
    assert limit["spec"]["limits"] == [{"type": "Container", "default": {"cpu": 1}}]
    apart = {"train": {"priorityClass": {"create": False}, "diskLimit": "", "resourceQuota": {"pods": "9"}}}
    assert "disk_limit" not in service_settings(template(apart))["kubernetes"]
    assert "scopeSelector" not in of_kind(template(apart), "ResourceQuota")["springtide"]["spec"]


def test_a_directory_of_a_file_server_is_a_claim_of_one_name_in_both_namespaces(template: Template) -> None:
    nfs = {"server": "nas.example.org", "path": "/springtide"}
    objects = template({"train": {"namespace": {"name": "jobs", "create": True}, "nfs": nfs}})
    claims = {
        (made["metadata"]["namespace"], made["spec"]["volumeName"])
        for made in of_all(objects, "PersistentVolumeClaim")
        if made["metadata"]["name"] == "springtide-jobs"
    }
    assert claims == {("pool", "pool-springtide-jobs"), ("jobs", "jobs-springtide-jobs")}
    volumes = of_kind(objects, "PersistentVolume")
    for namespace, name in claims:
        assert volumes[name]["spec"]["claimRef"] == {"namespace": namespace, "name": "springtide-jobs"}
        assert volumes[name]["spec"]["nfs"] == nfs
    roles = {
        made["metadata"]["namespace"]
        for made in of_all(objects, "Role")
        if made["metadata"]["name"] == "springtide"
    }
    assert roles == {"jobs"}


def test_an_image_with_a_digest_is_that_image_and_no_other(template: Template) -> None:
    digest = f"sha256:{'0123456789abcdef' * 4}"
    objects = template({"images": {"service": {"digest": digest}, "notebook": {"digest": digest}}})
    used = {container["image"] for pod in pods_of(objects).values() for container in pod["spec"]["containers"]}
    assert used == {f"springtide/service@{digest}"}
    assert service_settings(objects)["images"] == [f"springtide/notebook@{digest}"]


def test_the_executor_knows_every_setting_that_it_is_given(rendered: list[dict[str, Any]], tmp_path: Path) -> None:
    given = service_settings(rendered)
    made = cluster_settings(given["kubernetes"], state_dir=tmp_path, images=tuple(given["images"]))
    assert made.pool == "springtide"
    assert made.jobs_claim


def test_datasets_are_settings_of_the_service_and_notebooks_see_them_unless_told_not_to(
    template: Template,
) -> None:
    objects = template(
        {
            "datasets": {
                "digits": {"claim": "data", "subPath": "d", "projects": ["vision"]},
                "words": {"claim": "w"},
            },
            "notebooks": {"datasets": False},
        }
    )
    declared = declared_datasets(service_settings(objects)["datasets"], cluster=True)
    assert list(declared.values()) == [
        Dataset("digits", claim="data", sub_path="d", projects=("vision",)),
        Dataset("words", claim="w"),
    ]
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])
    assert hub["defaults"]["BuildQuota"]["datasets"] is False


@pytest.mark.parametrize("allowed", [False, True])
def test_hub_and_service_agree_on_stopping_idle_workspaces(template: Template, *, allowed: bool) -> None:
    settings = {"settings": {"stop_idle_workspaces": True}} if allowed else {}
    objects = template({"service": settings})
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])
    assert hub["defaults"]["Springtide"] == {"stop_idle_workspaces": allowed}
    assert service_settings(objects).get("stop_idle_workspaces", False) is allowed


def test_hub_and_service_have_the_same_rules_for_groups(template: Template) -> None:
    rules = [{"group": "GRP-4711", "project": "vision"}, {"prefix": "gpu/", "departments": True}]
    objects = template({"service": {"settings": {"group_rules": rules}}})
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])
    assert hub["defaults"]["Springtide"]["group_rules"] == rules
    assert service_settings(objects)["group_rules"] == rules


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {}),
        ({"webhookHosts": []}, {"webhook_hosts": []}),
        ({"webhookHosts": ["chat.example.org"]}, {"webhook_hosts": ["chat.example.org"]}),
    ],
)
def test_the_service_has_its_own_defaults_unless_the_chart_is_given_others(
    template: Template, values: dict[str, Any], expected: dict[str, Any]
) -> None:
    smtp = {"server": "mail.example.org", "from": "pool@example.org", "address": "{user}@example.org"}
    settings = service_settings(template({"service": {**values, "smtp": smtp}}))
    names = ("webhook_hosts", "smtp_security")
    assert {name: settings[name] for name in names if name in settings} == expected
