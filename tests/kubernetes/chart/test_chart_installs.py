"""The chart on a real control plane: installed, upgraded, taken away; jobs and notebooks are left alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters.chart import (
    CHART,
    CLAIMS,
    GUIDE,
    UNCHECKED,
    Helm,
    HelmError,
    Template,
    of_kind,
    shown_values,
    volumes,
    write_config,
)
from clusters.cluster import Cluster, ClusterError
from clusters.control_plane import until
from traitlets.config.loader import PyFileConfigLoader

from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.kubernetes.objects import manifests
from springtide.spawner.kube import KubeBuildSpawner

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
PLURALS = {
    "Ingress": "ingresses",
    "NetworkPolicy": "networkpolicies",
    "PriorityClass": "priorityclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
FINALIZER = "springtide.io/recorded"
TRAIN_JOBS = "springtidejobs.springtide.io"
READ_FILE = re.compile(
    r"kubectl -n springtide get configmap (?P<name>\S+) "
    r"-o jsonpath='\{\.data\.(?P<key>(?:\w|\\\.)+)\}' > (?P<file>\S+)"
)
"""A command that writes one file of a ConfigMap; jsonpath wants dots in the name of a file escaped."""


@pytest.fixture(scope="module")
def helm_there(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"), cluster.env)


@dataclass(frozen=True)
class Release:
    """A release without pods that run, in a namespace that takes restricted pods only."""

    namespace: str
    notes: str


@pytest.fixture(scope="module")
def release(cluster: Cluster, helm_there: Helm) -> Iterator[Release]:
    """The chart with a pod template, and its defaults otherwise."""
    template = {
        "envFrom": [{"secretRef": {"name": "tokens"}}],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    }
    command = ["install", "springtide", str(helm_there.chart), "-o", "json"]
    with cluster.namespace(RESTRICTED) as name:
        try:
            told = helm_there.run(*command, "-n", name, values={"train": {"podTemplate": template}})
            yield Release(name, json.loads(told)["info"]["notes"])
        finally:
            helm_there.run("uninstall", "springtide", "-n", name, "--ignore-not-found")


@pytest.fixture
def installed(cluster: Cluster, helm_there: Helm) -> Iterator[str]:
    """The chart with its defaults, all pods running; its namespace."""
    with cluster.namespace(RESTRICTED) as home:
        [node] = cluster.add_fake_nodes(1, labels={"springtide.io/pool": home}, prefix=f"{home}-core")
        values = {part: {"nodeSelector": {"kubernetes.io/hostname": node}} for part in ("service", "hub", "proxy")}
        command = ["install", "springtide", str(helm_there.chart), "-n", home, "--wait", "--timeout", "180s"]
        with volumes(cluster, home):
            try:
                helm_there.run(*command, values=values)
                yield home
            finally:
                helm_there.run("uninstall", "springtide", "-n", home, "--ignore-not-found")


def pods(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The uids of the release's pods that are not on their way out, by part."""
    found = cluster.items(
        f"/api/v1/namespaces/{namespace}/pods", labelSelector="app.kubernetes.io/name=springtide"
    )
    return {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["metadata"]["uid"]
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
    }


def foreign_pods(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """What a train job and a notebook look like to Helm: pods with our labels that no release knows."""
    labels = {
        "train": {"springtide.io/pool": "springtide", "springtide.io/job": "j1", "springtide.io/attempt": "1"},
        "notebook": {
            "app.kubernetes.io/name": "springtide",
            "app.kubernetes.io/instance": "springtide",
            "app.kubernetes.io/component": "singleuser-server",
        },
    }
    context = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "job",
        "image": "springtide/notebook:0.2.0",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    made = {}
    for name, own in labels.items():
        finalizers = [FINALIZER] if name == "train" else []
        metadata = {"name": name, "labels": own, "finalizers": finalizers}
        spec = {"nodeName": f"{namespace}-core-0", "securityContext": context, "containers": [container]}
        path = f"/api/v1/namespaces/{namespace}/pods"
        made[name] = cluster.request("POST", path, {"metadata": metadata, "spec": spec})
    return made


def untouched(cluster: Cluster, pod: Mapping[str, Any]) -> bool:
    metadata = pod["metadata"]
    found = cluster.request("GET", f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")
    same = {key: found["metadata"].get(key) for key in ("uid", "labels", "finalizers", "deletionTimestamp")}
    return same == {key: metadata.get(key) for key in same} and found["spec"] == pod["spec"]


def secret(cluster: Cluster, namespace: str) -> dict[str, str]:
    data: dict[str, str] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/springtide")["data"]
    return data


def test_upgrades_and_new_installations_leave_jobs_notebooks_claims_and_secrets_alone(
    cluster: Cluster, helm_there: Helm, installed: str
) -> None:
    others = foreign_pods(cluster, installed)
    before, secrets = pods(cluster, installed), secret(cluster, installed)
    assert set(before) == {"service", "hub", "proxy", "singleuser-server"}

    command = ["upgrade", "springtide", str(helm_there.chart), "-n", installed, "--reuse-values", UNCHECKED]
    helm_there.run(*command, "--set", "service.settings.grace=60", "--wait", "--timeout", "180s")
    after = pods(cluster, installed)
    assert {part for part in before if before[part] != after[part]} == {"service"}

    helm_there.run("rollback", "springtide", "1", "-n", installed, "--wait", "--timeout", "180s")
    assert secret(cluster, installed) == secrets
    assert all(untouched(cluster, pod) for pod in others.values())

    helm_there.run("uninstall", "springtide", "-n", installed, "--wait")
    until(lambda: set(pods(cluster, installed)) <= {"singleuser-server"}, "the release's pods are gone")
    claims = cluster.items(f"/api/v1/namespaces/{installed}/persistentvolumeclaims")
    assert {claim["metadata"]["name"] for claim in claims} == set(CLAIMS)
    helm_there.run("install", "springtide", str(helm_there.chart), "-n", installed, UNCHECKED)
    assert secret(cluster, installed) == secrets
    assert all(untouched(cluster, pod) for pod in others.values())


def test_an_upgrade_keeps_the_value_of_the_class_that_is_there(cluster: Cluster, helm_there: Helm) -> None:
    """Kubernetes lets no value change, and the default of the chart has."""
    with cluster.namespace(RESTRICTED) as home:
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{home}-springtide-train"
        chart = ["springtide", str(helm_there.chart), "-n", home]
        try:
            helm_there.run("install", *chart, values={"train": {"priorityClass": {"value": 5}}})
            assert cluster.request("GET", path)["value"] == 5
            helm_there.run("upgrade", *chart, "--reset-values", UNCHECKED)
            assert cluster.request("GET", path)["value"] == 5
            helm_there.run("uninstall", "springtide", "-n", home, "--wait")
            helm_there.run("install", *chart)
            assert cluster.request("GET", path)["value"] == 1_000_000
        finally:
            helm_there.run("uninstall", "springtide", "-n", home, "--ignore-not-found")


def test_accounts_may_do_what_they_need_and_no_more(cluster: Cluster, release: Release) -> None:
    home = release.namespace
    service = {
        (verb, resource)
        for resource, verbs in {
            "pods": "get list watch create patch delete",
            "pods/exec": "get create",
            "services": "get create delete",
            "networkpolicies.networking.k8s.io": "get create delete",
            "persistentvolumeclaims": "get list watch",
            "leases.coordination.k8s.io": "get create update",
            "springtidejobs.springtide.io": "get list watch create patch delete",
            "springtidejobs/status.springtide.io": "patch",
            "trainjobs.springtide.io": "get list watch patch delete",
            "trainjobs/status.springtide.io": "patch",
        }.items()
        for verb in verbs.split()
    }
    never = {("get", "secrets"), ("create", "pods/portforward"), ("create", "roles.rbac.authorization.k8s.io")}
    never |= {("delete", "persistentvolumeclaims"), ("patch", "namespaces"), ("create", "trainjobs.springtide.io")}
    for verb, resource in service | never:
        assert may(cluster, home, "springtide", verb, resource, home) is ((verb, resource) in service), (
            verb,
            resource,
        )
    assert may(cluster, home, "springtide", "list", "nodes", "")
    assert may(cluster, home, "springtide", "list", "pods", "")
    for verb, resource in (("create", "pods"), ("delete", "pods"), ("get", "leases.coordination.k8s.io")):
        assert not may(cluster, home, "springtide", verb, resource, "default")
    assert may(cluster, home, "springtide-hub", "create", "persistentvolumeclaims", home)
    assert not may(cluster, home, "springtide-hub", "get", "secrets", home)
    assert not may(cluster, home, "springtide-hub", "create", "pods", "default")


@pytest.mark.usefixtures("crd")
@pytest.mark.parametrize("way", ["bound", "aggregated"])
def test_people_with_a_role_of_the_chart_send_springtide_jobs_and_no_pods(
    cluster: Cluster, namespace: str, template: Template, way: str
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    objects = template({"trainJobs": {"aggregateRoles": way == "aggregated"}}, namespace=namespace)
    made = {name: role for name, role in of_kind(objects, "ClusterRole").items() if "-job-" in name}
    editor, viewer = (f"{namespace}-springtide-job-{part}" for part in ("editor", "viewer"))
    given = {"susan": "edit", "joe": "view"} if way == "aggregated" else {"susan": editor, "joe": viewer}
    job = {"apiVersion": "springtide.io/v1alpha1", "kind": "SpringtideJob", "spec": {"command": ["true"]}}
    jobs = f"/apis/springtide.io/v1alpha1/namespaces/{namespace}/springtidejobs"

    def refused(person: str, method: str, path: str, body: object = None) -> bool:
        try:
            cluster.request(method, path, body, as_user=person)
        except ClusterError as error:
            if error.status != 403:
                raise
            return True
        return False

    for role in made.values():
        cluster.request("POST", f"{roles}/clusterroles", role)
    try:
        for person, name in given.items():
            subject = {"kind": "User", "name": person, "apiGroup": "rbac.authorization.k8s.io"}
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
            body = {"metadata": {"name": person}, "subjects": [subject], "roleRef": ref}
            cluster.request("POST", f"{roles}/namespaces/{namespace}/rolebindings", body)
        until(lambda: not refused("joe", "GET", jobs), "the role is known")
        until(lambda: not refused("susan", "POST", jobs, {**job, "metadata": {"name": "one"}}), "susan may send")
        assert refused("joe", "POST", jobs, {**job, "metadata": {"name": "two"}})
        assert refused("joe", "DELETE", f"{jobs}/one")
        assert refused("susan", "GET", f"/api/v1/namespaces/{namespace}/pods") is (way == "bound")
        assert refused("susan", "GET", "/apis/springtide.io/v1alpha1/springtidejobs")
        assert refused("susan", "PATCH", f"{jobs}/one/status", {"status": {"state": "succeeded"}})
        assert not refused("susan", "PATCH", f"{jobs}/one", {"spec": {"suspend": True}})
        assert not refused("susan", "DELETE", f"{jobs}/one")
    finally:
        for name in made:
            cluster.request("DELETE", f"{roles}/clusterroles/{name}")


def test_a_second_pool_of_the_cluster_has_objects_and_rights_of_its_own(
    cluster: Cluster, helm_there: Helm, release: Release
) -> None:
    fewer = ["nodes.list=false", "nodes.foreignPods=false", "nodes.static[0].name=dgx-1", "nodes.static[0].gpus=8"]
    with cluster.namespace() as second:
        try:
            command = ("install", "springtide", str(helm_there.chart), "-n", second, UNCHECKED)
            helm_there.run(*command, "--set", ",".join(fewer))
            assert not may(cluster, second, "springtide", "list", "nodes", "")
            assert not may(cluster, second, "springtide", "list", "pods", "default")
            assert may(cluster, release.namespace, "springtide", "list", "nodes", "")
        finally:
            helm_there.run("uninstall", "springtide", "-n", second, "--ignore-not-found")


def may(cluster: Cluster, namespace: str, account: str, verb: str, resource: str, where: str) -> bool:
    name, _, group = resource.partition(".")
    name, _, part = name.partition("/")
    asked = {"namespace": where, "verb": verb, "resource": name, "subresource": part, "group": group}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{namespace}:{account}", "resourceAttributes": asked},
    }
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def train_pod(name: str, **spec: Any) -> dict[str, Any]:
    """What the service makes of a job, as far as the policy looks at it."""
    container = {
        "name": "job",
        "image": "springtide/notebook:0.2.0",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    usual = {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "jobs", "persistentVolumeClaim": {"claimName": "springtide-jobs"}}],
    }
    return {"metadata": {"name": name, "labels": {"springtide.io/pool": "springtide"}}, "spec": {**usual, **spec}}


def test_the_service_touches_pods_of_jobs_alone_and_gives_them_no_secret(
    cluster: Cluster, release: Release
) -> None:
    home = release.namespace
    service = partial(cluster.request, as_user=f"system:serviceaccount:{home}:springtide")
    path = f"/api/v1/namespaces/{home}/pods"
    secret_volume = {"name": "x", "secret": {"secretName": "springtide"}}
    projected = {"name": "x", "projected": {"sources": [{"secret": {"name": "springtide"}}]}}
    database = {"name": "x", "persistentVolumeClaim": {"claimName": "springtide-hub"}}
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "springtide", "key": "proxy-token"}}}
    source = {"secretRef": {"name": "springtide"}}
    container = train_pod("x")["spec"]["containers"][0]
    foreign = train_pod("foreign")
    foreign["metadata"]["labels"] = {"app": "mine"}
    until(lambda: bool(refused(service, path, foreign)), "the policy is enforced")
    for words, pod in (
        ("only what carries the label", foreign),
        ("mount claims and", train_pod("a", volumes=[secret_volume])),
        ("mount claims and", train_pod("b", volumes=[projected])),
        ("mount claims and", train_pod("c", volumes=[database])),
        ("mount claims and", train_pod("d", automountServiceAccountToken=True)),
        ("take no environment", train_pod("e", containers=[{**container, "env": [variable]}])),
        ("take no environment", train_pod("f", containers=[{**container, "envFrom": [source]}])),
        ("no service account", train_pod("g", serviceAccountName="springtide-hub")),
        ("bound by kube-scheduler", train_pod("h", nodeName="dgx-1")),
    ):
        assert words in refused(service, path, pod), pod["metadata"]["name"]
    named = {
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "containers": [{**container, "envFrom": [{"secretRef": {"name": "tokens"}}]}],
    }
    service("POST", path, train_pod("job", **named))
    service("DELETE", f"{path}/job")
    cluster.request("POST", path, foreign)
    patch = {"metadata": {"labels": {"springtide.io/pool": "springtide"}}}
    with pytest.raises(ClusterError, match="only what carries the label"):
        service("PATCH", f"{path}/foreign", patch)
    with pytest.raises(ClusterError, match="only what carries the label"):
        service("DELETE", f"{path}/foreign")


def test_the_service_runs_the_relay_of_terminals_in_jobs_and_nothing_else(
    cluster: Cluster, release: Release
) -> None:
    home = release.namespace
    path = f"/api/v1/namespaces/{home}/pods"
    cluster.request("POST", path, train_pod("st-exec-1-0"))
    relay = manifests.relay_command(AttemptKey("exec", 1), 0)

    def entered(*command: str, container: str = "job", how: str = "exec") -> str:
        user = f"system:serviceaccount:{home}:springtide"
        with pytest.raises(ClusterError) as raised:  # the node is a fake one: an allowed call finds no program
            cluster.request(
                "POST",
                f"{path}/st-exec-1-0/{how}",
                as_user=user,
                container=container,
                stdin="true",
                command=command,
            )
        return str(raised.value)

    until(lambda: "relay of terminals" in entered("sh"), "the policy is enforced")
    assert "relay of terminals" in entered("sh", "-c", " ".join(relay))
    assert "relay of terminals" in entered(*relay, container="hub")
    assert "forbidden" in entered(how="attach")
    assert "relay of terminals" not in (said := entered(*relay))
    assert "forbidden" not in said


def refused(service: Callable[..., Any], path: str, pod: Mapping[str, Any]) -> str:
    """Return why the API server refuses a pod; empty if it does not."""
    try:
        service("POST", path, pod, dryRun="All")
    except ClusterError as error:
        return str(error)
    return ""


def test_the_notebooks_of_the_hub_are_restricted_pods(
    cluster: Cluster, template: Template, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": RESTRICTED}})
    objects = template(namespace=namespace)
    directory = write_config(objects, "springtide-hub", tmp_path / "hub")
    for name in ("SPRINGTIDE_SERVICE_TOKEN", "SPRINGTIDE_USER_PASSWORD", "SPRINGTIDE_ADMIN_PASSWORD"):
        monkeypatch.setenv(name, "x" * 40)
    location = "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"  # of KubeSpawner's client
    monkeypatch.setattr(location, str(cluster.kubeconfig))
    config = PyFileConfigLoader("jupyterhub_config.py", path=str(directory)).load_config()
    assert config.JupyterHub.spawner_class is KubeBuildSpawner

    async def notebook() -> Any:
        spawner = KubeBuildSpawner(_mock=True, config=config)
        return spawner.api.api_client.sanitize_for_serialization(await spawner.get_pod_manifest())

    made = asyncio.run(notebook())
    assert made["spec"]["nodeSelector"] == {"springtide.io/environment": "build"}
    made["spec"].pop("priorityClassName")
    path = f"/api/v1/namespaces/{namespace}/pods"
    taken = cluster.request("POST", path, made, dryRun="All", fieldValidation="Strict")
    assert taken["spec"]["automountServiceAccountToken"] is False
    policy = of_kind(objects, "NetworkPolicy")["springtide-notebooks"]["spec"]["podSelector"]["matchLabels"]
    assert policy.items() <= taken["metadata"]["labels"].items()
    [claim] = [
        each["persistentVolumeClaim"] for each in taken["spec"]["volumes"] if "persistentVolumeClaim" in each
    ]
    assert claim["claimName"].startswith("home-")


@pytest.mark.parametrize("name", ["own-hub", "namespaced", "attached", "everything"])
def test_the_api_server_takes_every_object_as_it_stands(
    cluster: Cluster, template: Template, namespace: str, name: str
) -> None:
    more = {
        "attached": {"hub": {"enabled": False}},
        "everything": {
            "podDisruptionBudget": {"enabled": True},
            "trainJobs": {"allNamespaces": True},
            "train": {
                "resourceQuota": {"pods": 10, "requests.nvidia.com/gpu": 4},
                "nfs": {"server": "nas.example.org", "path": "/springtide"},
            },
            "hub": {"publicUrl": "https://hub.example.org"},
            "ingress": {"enabled": True},
            "proxy": {"type": "LoadBalancer"},
            "networkPolicy": {"serviceFrom": [{"namespaceSelector": {}}], "proxyFrom": [{"podSelector": {}}]},
        },
    }
    values: Any = {**shown_values(), **more}[name]
    for made in template(values, namespace=namespace):
        path = path_of(made, namespace)
        cluster.request("POST", path, made, dryRun="All", fieldValidation="Strict")


def path_of(made: Mapping[str, Any], namespace: str) -> str:
    api = made["apiVersion"]
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    plural = PLURALS.get(made["kind"], f"{made['kind'].lower()}s")
    return f"{root}/{plural}" if made["kind"] in CLUSTER_WIDE else f"{root}/namespaces/{namespace}/{plural}"


def test_a_changed_definition_of_train_jobs_is_applied_by_the_command_of_the_guide(
    cluster: Cluster, release: Release
) -> None:
    """Helm owns the fields of the definition that it has installed."""
    assert release.namespace
    (command,) = re.findall(r"^kubectl apply .* -f helm/springtide/crds/", GUIDE.read_text(), re.MULTILINE)
    assert "--server-side" in command
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{TRAIN_JOBS}"
    before = cluster.request("GET", path)
    assert "helm" in {each["manager"] for each in before["metadata"]["managedFields"]}
    changed = yaml.safe_load((CHART / "crds/springtidejob.yaml").read_text())
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another description."
    try:
        cluster.request(
            "PATCH",
            path,
            changed,
            "application/apply-patch+yaml",
            fieldManager="kubectl",
            force="true" if "--force-conflicts" in command else "false",
        )
        after = cluster.request("GET", path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert after["description"] == "Another description."
    finally:
        spec = {**before["spec"]}
        current = cluster.request("GET", path)
        cluster.request("PUT", path, {**current, "spec": spec})


def test_the_commands_of_the_docs_write_the_configuration_of_the_service_that_doctor_reads(
    cluster: Cluster, release: Release, tmp_path: Path
) -> None:
    commands = [
        line
        for page in sorted(GUIDE.parent.rglob("*.md"))
        for line in page.read_text().splitlines()
        if line.startswith("kubectl") and "get configmap" in line
    ]
    written = set()
    for command in commands:
        found = READ_FILE.fullmatch(command)
        assert found, command
        path = f"/api/v1/namespaces/{release.namespace}/configmaps/{found['name']}"
        data = cluster.request("GET", path)["data"]
        (tmp_path / found["file"]).write_text(data[found["key"].replace("\\.", ".")])
        written.add(found["file"])
    (read,) = re.findall(r"^springtide doctor --config (\S+)$", GUIDE.read_text(), re.MULTILINE)
    assert written == {read, "service.json"}
    settings = PyFileConfigLoader(read, path=str(tmp_path)).load_config().Springtide
    assert (settings.executor, settings.kubernetes["namespace"]) == ("kubernetes", release.namespace)


def test_an_old_cluster_is_refused_in_words(helm_there: Helm) -> None:
    with pytest.raises(HelmError, match="incompatible with Kubernetes"):
        helm_there.run("template", "springtide", str(helm_there.chart), "--kube-version", "1.27.0")


def test_what_it_prints_tells_how_to_go_on(release: Release) -> None:
    assert "port-forward service/springtide-proxy 8000:80" in release.notes
    assert 'index .data "user-password" | base64decode' in release.notes
    assert "springtide.io/environment=train" in release.notes
