"""The agent of the nodes in the chart: where it runs, what it may do, and who asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clusters.chart import Helm, HelmError, Template, of_all, of_kind, pods_of, service_settings, shown_values

from springtide.hub_extension.cluster.settings import cluster_settings

ON: dict[str, Any] = {"agent": {"enabled": True}}
APART = shown_values()["agents"]


def test_without_the_value_there_is_no_agent(template: Template) -> None:
    objects = template()
    assert of_all(objects, "DaemonSet") == []
    assert "agent_port" not in service_settings(objects)["kubernetes"]


def test_the_agent_has_no_rights_beyond_the_kubelets_socket(template: Template) -> None:
    [made] = of_kind(template(ON), "DaemonSet").values()
    pod = made["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"}
    [container] = pod["containers"]
    context = container["securityContext"]
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}
    [path] = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert path == "/var/lib/kubelet/pod-resources"
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


def test_agents_are_on_nodes_of_the_pool_only(template: Template) -> None:
    values = {**ON, "train": {"nodeSelector": {"team": "ml"}, "environmentLabel": "example.org/for"}}
    [made] = of_kind(template(values), "DaemonSet").values()
    pod = made["spec"]["template"]["spec"]
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "example.org/for", "operator": "In", "values": ["train", "build"]}]
    assert pod["nodeSelector"] == {"team": "ml"}


@pytest.mark.parametrize("values", [ON, APART], ids=["one namespace", "apart"])
def test_the_service_finds_agents_and_sends_the_token_that_they_ask_for(
    template: Template, values: dict[str, Any]
) -> None:
    objects = template(values)
    told = service_settings(objects)["kubernetes"]
    settings = cluster_settings(told, state_dir=Path("/srv"), images=("springtide/notebook:1",))
    [made] = of_kind(objects, "DaemonSet").values()
    agent, service = made["spec"]["template"], pods_of(objects)["service"]
    assert made["metadata"]["namespace"] == settings.agent_namespace
    assert settings.agent_labels.items() <= agent["metadata"]["labels"].items()
    [container] = agent["spec"]["containers"]
    assert f"--port={settings.agent_port}" in container["command"]
    assert settings.agent_token_file == "/etc/springtide-agent/token"
    secrets = {
        each["metadata"]["namespace"]: each for each in of_all(objects, "Secret") if "token" in each["data"]
    }
    assert secrets.keys() == {"pool", settings.agent_namespace}
    assert len({each["data"]["token"] for each in secrets.values()}) == 1
    mounted = [
        volume["secret"]["secretName"]
        for pod in (agent, service)
        for volume in pod["spec"]["volumes"]
        if volume.get("secret", {}).get("items") == [{"key": "token", "path": "token"}]
    ]
    assert mounted == ["springtide-agent"] * 2


def test_in_a_namespace_of_its_own_the_service_may_read_pods_there(template: Template) -> None:
    objects = template(APART)
    namespace = of_kind(objects, "Namespace")["springtide-agents"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    role = of_kind(objects, "Role")["springtide-agents"]
    assert role["metadata"]["namespace"] == "springtide-agents"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert "springtide-agents" not in of_kind(template(ON), "Role")


def test_the_service_alone_reaches_agents_and_they_reach_nobody(template: Template) -> None:
    policy = of_kind(template(APART), "NetworkPolicy")["springtide-agent"]
    assert policy["metadata"]["namespace"] == "springtide-agents"
    assert (policy["spec"]["policyTypes"], policy["spec"]["egress"]) == (["Ingress", "Egress"], [])
    [rule] = policy["spec"]["ingress"]
    [peer] = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "pool"}
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "service"


def test_wrong_values_of_the_agent_are_refused(helm: Helm) -> None:
    with pytest.raises(HelmError, match="podResources"):
        helm.template({"agent": {"enabled": True, "podResources": "var/lib"}})
    assert "0 chart(s) failed" in helm.lint(APART)
