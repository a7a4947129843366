"""What `springtide doctor` says of a cluster."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from clusters.cluster import Cluster, until
from clusters.dra_driver import dra_driver, gpus

from springtide.hub_extension.command import main
from springtide.scheduler.kube import Resource

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}"


@pytest.fixture
def config(tmp_path: Path, namespace: str) -> Path:
    """The service's configuration for the namespace."""
    kubernetes = {
        "namespace": namespace,
        "jobs_claim": "jobs",
        "node_selector": {"springtide.io/pool": namespace},
        "priority_class": f"{namespace}-train",
    }
    file = tmp_path / "config.py"
    settings = {"executor": "kubernetes", "kubernetes": kubernetes, "images": ["registry.test/train:1"]}
    lines = [f"c.Springtide.{name} = {value!r}" for name, value in settings.items()]
    file.write_text("\n".join([*lines, f"c.Springtide.state_dir = {str(tmp_path / 'state')!r}"]) + "\n")
    (tmp_path / "state").mkdir(mode=0o700)
    return file


def examined(config: Path, kubeconfig: Path) -> tuple[int, dict[str, Any]]:
    env = {"KUBECONFIG": str(kubeconfig)}
    done = CliRunner().invoke(main, ["doctor", "--config", str(config), "--json"], env=env)
    assert done.stdout, done.exception
    return done.exit_code, {finding["check"]: finding for finding in json.loads(done.stdout)}


def prepared(cluster: Cluster, namespace: str, *, preemption: str = "Never") -> None:
    """Make nodes, a claim and a PriorityClass for the pool of this namespace."""
    for environment in ("train", "build"):
        labels = {"springtide.io/pool": namespace, "springtide.io/environment": environment}
        cluster.add_fake_nodes(1, labels=labels, prefix=f"{environment}-{namespace}")
    claim = {
        "metadata": {"name": "jobs"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    priority = {"metadata": {"name": f"{namespace}-train"}, "value": 10, "preemptionPolicy": preemption}
    cluster.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority)


def of_account(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """Return the kubeconfig of an account that may only read pods of the namespace."""
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    cluster.request("POST", ROLES.format(namespace, "roles"), {"metadata": {"name": "reader"}, "rules": [rule]})
    binding = {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [subject]}
    cluster.request("POST", ROLES.format(namespace, "rolebindings"), binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = cluster.request("POST", path, {"spec": {}})["status"]["token"]
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"] = [{"name": user["name"], "user": {"token": token}} for user in content["users"]]
    (folder / "reader.yaml").write_text(yaml.safe_dump(content))
    with Cluster.attach(folder, folder / "reader.yaml") as reader:
        until(lambda: reader.may_list(f"/api/v1/namespaces/{namespace}/pods"), "the role is known")
    return folder / "reader.yaml"


def rights_that_lack(config: Path, kubeconfig: Path) -> int:
    """Return how many rights an account lacks, by a sentence that names three of them and counts the others."""
    _, found = examined(config, kubeconfig)
    (others,) = re.findall(r"and (\d+) more", found["rights"]["said"])
    return 3 + int(others)


def test_a_sound_cluster_has_no_problem(cluster: Cluster, namespace: str, config: Path) -> None:
    prepared(cluster, namespace)
    code, found = examined(config, cluster.kubeconfig)
    assert code == 0, found
    assert found["rights"]["status"] == "ok"
    assert found["train nodes"]["said"].startswith("8 GPUs on 1 node")
    assert found["PriorityClass"]["said"] == f"{namespace}-train never preempts other pods."


@pytest.mark.usefixtures("crd")
def test_it_says_whether_the_cluster_knows_springtide_jobs(
    cluster: Cluster, namespace: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f"{config.read_text()}c.Springtide.train_jobs = [{namespace!r}]\n")
    _, found = examined(config, cluster.kubeconfig)
    assert found["SpringtideJobs"]["status"] == "ok"
    unknown = Resource("springtide.io", "v1alpha1", "unknownjobs")
    monkeypatch.setattr("springtide.hub_extension.doctor.cluster.SPRINGTIDE_JOBS", unknown)
    code, found = examined(config, cluster.kubeconfig)
    assert code == 1
    assert found["SpringtideJobs"]["status"] == "problem"
    assert found["SpringtideJobs"]["remedy"].startswith("kubectl apply --server-side")


def test_what_is_missing_is_named_with_its_remedy(cluster: Cluster, namespace: str, config: Path) -> None:
    code, found = examined(config, cluster.kubeconfig)
    assert code == 1
    assert "No node has the label springtide.io/environment" in found["nodes"]["said"]
    assert "kubectl label node" in found["nodes"]["remedy"]
    assert "The claim jobs" in found["volume of jobs"]["said"]
    assert found["PriorityClass"]["status"] == "problem"


def test_claims_of_datasets_and_agents_that_are_missing_are_named(
    cluster: Cluster, namespace: str, config: Path
) -> None:
    prepared(cluster, namespace)
    _, found = examined(config, cluster.kubeconfig)
    assert found["agents"]["status"] == "note"
    assert "datasets" not in found

    labels = {"app": "agent"}
    kubernetes = f"c.Springtide.kubernetes.update(agent_port=9400, agent_labels={labels!r}, agent_token_file='/t')"
    declared = {"faces": {"claim": "jobs"}, "words": {"claim": "away"}}
    config.write_text(f"{config.read_text()}{kubernetes}\nc.Springtide.datasets = {declared!r}\n")
    code, found = examined(config, cluster.kubeconfig)
    train, build = f"train-{namespace}-0", f"build-{namespace}-0"
    assert code == 1, found["settings"]
    assert found["agents"]["said"] == f"No agent runs on {build} and {train}."
    assert found["datasets"]["said"].startswith(f"The claim away of words in {namespace} cannot be read")

    pods = f"/api/v1/namespaces/{namespace}/pods"
    for node in (train, build):
        spec = {"nodeName": node, "containers": [{"name": "agent", "image": "registry.test/agent:1"}]}
        cluster.request("POST", pods, {"metadata": {"name": f"agent-{node}", "labels": labels}, "spec": spec})
    until(lambda: {each["status"]["phase"] for each in cluster.items(pods)} == {"Running"}, "the agents run")
    config.write_text(config.read_text().replace("'away'", "'jobs'"))
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["agents"]["said"]) == (0, "2 nodes of the pool, an agent on each.")
    assert found["datasets"]["said"] == "The volume claims of the 2 declared datasets are there."

    static = f"c.Springtide.kubernetes.update(static_nodes=[{{'name': {train!r}, 'gpus': 8}}], node_selector={{}})"
    config.write_text(f"{config.read_text()}{static}\n")
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["agents"]["said"]) == (0, "1 node of the pool, an agent on each."), found["settings"]


def test_published_gpus_their_class_and_claims_of_others_are_named(
    cluster: Cluster, namespace: str, config: Path
) -> None:
    prepared(cluster, namespace)
    labels = {"springtide.io/pool": namespace, "springtide.io/environment": "train"}
    (node,) = cluster.add_fake_nodes(1, labels=labels, prefix=f"claimed-{namespace}", resources={})
    reader = of_account(cluster, namespace, config.parent)
    lacks = rights_that_lack(config, reader)
    _, found = examined(config, cluster.kubeconfig)
    assert found["GPUs"]["said"] == f"{node} has no nvidia.com/gpu or nvidia.com/mig-* or amd.com/gpu."
    assert "published GPUs" not in found

    name = f"gpu.{namespace}.test"
    config.write_text(
        f"{config.read_text()}c.Springtide.kubernetes.update(device_class={name!r}, device_driver={name!r})\n"
    )
    assert rights_that_lack(config, reader) == lacks + 7, "templates of claims, slices and claims"
    code, found = examined(config, cluster.kubeconfig)
    assert code == 1
    assert found["GPUs"]["said"].endswith(f"and no GPU that {name} publishes.")
    assert found["published GPUs"]["said"] == f"The driver {name} has published no device."

    with dra_driver(cluster, namespace) as driver:
        driver.publish(node, gpus(node, 4))
        driver.foreign_pod(namespace, "bert", node, 2)
        until(lambda: "bert" in driver.devices(namespace), "the claim has GPUs")
        code, found = examined(config, cluster.kubeconfig)
        assert code == 0, found
        assert found["published GPUs"]["said"] == f"{name} publishes 4 GPUs on 1 node; pods claim them by {name}."
        assert found["train nodes"]["said"].startswith("12 GPUs on 2 nodes")
        assert f"{namespace}/bert 2 on {node} (train)" in found["GPUs of others"]["said"]

        driver.publish(node, gpus(node, 4), generation=2, of=2)
        code, found = examined(config, cluster.kubeconfig)
        assert (code, found["rights"]["status"]) == (1, "ok")


def test_the_cluster_tries_the_pods_as_the_admin_shapes_them(
    cluster: Cluster, namespace: str, config: Path
) -> None:
    prepared(cluster, namespace)
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["pods of jobs"]["said"]) == (0, "The cluster would take the pods of jobs.")

    text = config.read_text()
    sidecar = {"name": "proxy", "image": "registry.test/proxy:1", "restartPolicy": "Always"}
    config.write_text(f"{text}c.Springtide.kubernetes['pod_template'] = {{'initContainers': [{sidecar!r}]}}\n")
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["pods of jobs"]["status"]) == (0, "ok"), "the sidecar is one, on this cluster"

    projects = {"vision": {"runtimeClassName": f"away-{namespace}"}}
    config.write_text(f"{text}c.Springtide.kubernetes['project_pod_templates'] = {projects!r}\n")
    code, found = examined(config, cluster.kubeconfig)
    assert code == 1
    assert found["pods of jobs"]["said"].startswith(
        "The cluster would refuse the pods of jobs of the project “vision”: pods"
    )
    assert f'RuntimeClass "away-{namespace}" not found' in found["pods of jobs"]["said"]

    template = {"envFrom": [{"secretRef": {"name": "tokens"}}]}
    config.write_text(f"{text}c.Springtide.kubernetes['pod_template'] = {template!r}\n")
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["pods of jobs"]["said"]) == (
        1,
        f"The settings name the Secret tokens, and {namespace} has none: its jobs wait.",
    )
    secret = {"metadata": {"name": "tokens"}, "stringData": {"TOKEN": "secret-value"}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["pods of jobs"]["status"]) == (0, "ok")


def test_pods_of_others_are_named_with_their_gpus_and_if_they_may_evict_jobs(
    cluster: Cluster, namespace: str, config: Path
) -> None:
    prepared(cluster, namespace)
    _, found = examined(config, cluster.kubeconfig)
    assert found["GPUs of others"]["said"] == "No pod outside the pool holds GPUs of its nodes."
    assert found["priority of others"]["status"] == "ok"

    pods = f"/api/v1/namespaces/{namespace}/pods"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    meek, above = f"meek-{namespace}", f"above-{namespace}"
    cluster.request("POST", classes, {"metadata": {"name": meek}, "value": 500, "preemptionPolicy": "Never"})
    cluster.request("POST", classes, {"metadata": {"name": above}, "value": 1000})
    for name, environment, more in (
        ("bert", "build", {}),
        ("daemon", "train", {"priorityClassName": "system-node-critical"}),
        ("meek", "train", {"priorityClassName": meek}),
    ):
        resources = {"limits": {"nvidia.com/gpu": "2"}} if name == "bert" else {}
        container = {"name": "x", "image": "x", "resources": resources}
        spec = {"nodeName": f"{environment}-{namespace}-0", "containers": [container], **more}
        cluster.request("POST", pods, {"metadata": {"name": name}, "spec": spec})
    code, found = examined(config, cluster.kubeconfig)
    assert code == 0, found
    assert found["GPUs of others"]["said"] == (
        f"1 pod outside the pool holds 2 GPUs of its nodes: {namespace}/bert 2 on build-{namespace}-0 (build)."
    )
    assert found["priority of others"]["status"] == "ok", "one never preempts, the other is the cluster's own"

    spec = {
        "nodeName": f"train-{namespace}-0",
        "containers": [{"name": "x", "image": "x"}],
        "priorityClassName": above,
    }
    cluster.request("POST", pods, {"metadata": {"name": "rival"}, "spec": spec})
    code, found = examined(config, cluster.kubeconfig)
    assert code == 1
    assert found["priority of others"]["said"] == (
        f"Jobs have the priority 10. Pods of the PriorityClass {above} (1000) run on train nodes and may evict "
        f"them, also within their quota: {namespace}/rival."
    )


def test_a_priority_class_that_evicts_is_a_problem(cluster: Cluster, namespace: str, config: Path) -> None:
    prepared(cluster, namespace, preemption="PreemptLowerPriority")
    code, found = examined(config, cluster.kubeconfig)
    assert code == 1
    assert "may evict others" in found["PriorityClass"]["said"]


def test_rights_that_are_missing_are_named(cluster: Cluster, namespace: str, config: Path, tmp_path: Path) -> None:
    prepared(cluster, namespace)
    code, found = examined(config, of_account(cluster, namespace, tmp_path))
    assert code == 1
    assert found["rights"]["said"].startswith(f"This account may not create pods in {namespace}, patch pods in")
    assert found["nodes"]["status"] == "problem"


def test_a_cluster_that_does_not_answer_is_said(cluster: Cluster, config: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    for each in content["clusters"]:
        each["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "away.yaml").write_text(yaml.safe_dump(content))
    code, found = examined(config, tmp_path / "away.yaml")
    assert code == 1
    assert "does not answer" in found["cluster"]["said"]
    assert os.environ.get("KUBECONFIG") != str(tmp_path / "away.yaml")


def test_homes_that_jobs_cannot_attach_are_named(cluster: Cluster, namespace: str, config: Path) -> None:
    prepared(cluster, namespace)
    _, found = examined(config, cluster.kubeconfig)
    assert found["homes"]["said"] == f"No claim in {namespace} is the home of a user: jobs have none."
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    for user, mode in (("susan", "ReadWriteOnce"), ("joe", "ReadWriteMany")):
        meta = {"name": f"claim-{user}", "annotations": {"hub.jupyter.org/username": user}}
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        cluster.request("POST", claims, {"metadata": meta, "spec": spec})
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["homes"]["status"]) == (0, "note")
    assert found["homes"]["said"] == (
        "1 home of 2 is left out of jobs, because one node only can attach claim-susan."
    )
    config.write_text(f"{config.read_text()}c.Springtide.kubernetes.update(home='mount')\n")
    code, found = examined(config, cluster.kubeconfig)
    assert (code, found["homes"]["status"]) == (1, "problem")
    config.write_text(f"{config.read_text()}c.Springtide.kubernetes.update(home='none')\n")
    assert examined(config, cluster.kubeconfig)[1]["homes"]["status"] == "ok"
