"""What the chart refuses, in words; and zero-to-jupyterhub as its dependency."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from clusters.chart import CHART, Helm, HelmError, Template, of_kind, shown_values

from springtide.hub_extension.notifications.channels import KINDS
from springtide.hub_extension.service.settings import ServiceSettings
from springtide.scheduler.settings import declared

WRONG: dict[str, Any] = {
    "servcie": {},
    "service": {
        "prot": 1,
        "port": 0,
        "projects": [{"quota": 4}, {"name": "vision", "qouta": 4}],
        "settings": {
            "gracce": 60,
            "grace": "60",
            "order": "youngest-first",
            "keep_days": 0,
            "accounts": "theirs",
            "gpu_hour_prices": {"a100": "2"},
        },
    },
    "train": {
        "jobs": {"accessModes": ["RWX"]},
        "runAsUser": 0,
        "tolerations": [{"effect": "never"}],
        "nodeGroups": [
            {"name": "H100", "gpuType": "h100", "gpus": 8, "maxNodes": 0, "nodeSelector": {}},
            {"nmae": "a"},
        ],
        "nfs": {"path": "nas:/x"},
        "podTemplate": {
            "affinity": {},
            "initContainers": [{"name": "a"}],
            "volumes": [{"name": "b", "hostPath": {}}],
        },
        "rdma": {"resource": "a/b", "resources": {"rdma/a": 0, "rdma": 1}},
    },
    "nodes": {"static": [{"name": "dgx-1"}]},
    "hub": {
        "existing": {"url": "hub:8081"},
        "extraConfig": "c.JupyterHub.port = 1",
        "publicUrl": "hub.example.org",
    },
    "datasets": {"imagenet": {"path": "/srv"}, "co co": {"claim": "c", "subPath": "/srv"}},
    "proxy": {"type": "Ingress"},
    "images": {"service": {"name": "springtide/service", "digest": "latest"}},
    "networkPolicy": {"blockedEgress": ["169.254.169.254"], "allowedEgress": ["mirror.example.org"]},
}
FAULTS = {
    ("", "additional properties 'servcie' not allowed"),
    ("/service", "additional properties 'prot' not allowed"),
    ("/service/port", "minimum: got 0, want 1"),
    ("/service/projects/0", "missing property 'name'"),
    ("/service/projects/1", "additional properties 'qouta' not allowed"),
    ("/service/settings", "additional properties 'gracce' not allowed"),
    ("/service/settings/grace", "got string, want number"),
    ("/service/settings/order", "value must be one of 'first-come', 'least-served'"),
    ("/service/settings/keep_days", "minimum: got 0, want 0.01"),
    ("/service/settings/accounts", "'anyOf' failed"),
    ("/service/settings/accounts", "value must be one of 'own', 'shared'"),
    ("/service/settings/accounts", "got string, want null"),
    ("/service/settings/gpu_hour_prices/a100", "got string, want number"),
    ("/train/jobs/accessModes/0", "value must be one of 'ReadWriteOnce', 'ReadWriteMany', 'ReadWriteOncePod'"),
    ("/train/runAsUser", "minimum: got 0, want 1"),
    ("/train/tolerations/0/effect", "value must be one of 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"),
    ("/train/nodeGroups/0/name", "'H100' does not match pattern"),
    ("/train/nodeGroups/0/maxNodes", "minimum: got 0, want 1"),
    ("/train/nodeGroups/0/nodeSelector", "minProperties: got 0, want 1"),
    ("/train/nodeGroups/1", "missing properties 'name', 'gpuType', 'gpus', 'maxNodes', 'nodeSelector'"),
    ("/train/nodeGroups/1", "additional properties 'nmae' not allowed"),
    ("/train/nfs/path", "'nas:/x' does not match pattern"),
    ("/train/podTemplate", "additional properties 'affinity' not allowed"),
    ("/train/podTemplate/initContainers/0", "missing property 'image'"),
    ("/train/podTemplate/volumes/0", "additional properties 'hostPath' not allowed"),
    ("/train/rdma", "additional properties 'resource' not allowed"),
    ("/train/rdma/resources/rdma~1a", "minimum: got 0, want 1"),
    ("", "invalid propertyName 'rdma'"),
    ("", "'rdma' does not match pattern"),
    ("/nodes/static/0", "missing property 'gpus'"),
    ("/hub/existing/url", "'hub:8081' does not match pattern"),
    ("/hub/extraConfig", "got string, want object"),
    ("/hub/publicUrl", "'hub.example.org' does not match pattern"),
    ("", "invalid propertyName 'co co'"),
    ("", "'co co' does not match pattern"),
    ("/datasets/imagenet", "missing property 'claim'"),
    ("/datasets/imagenet", "additional properties 'path' not allowed"),
    ("/datasets/co co/subPath", "'/srv' does not match pattern"),
    ("/proxy/type", "value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'"),
    ("/images/service", "additional properties 'name' not allowed"),
    ("/images/service/digest", "'latest' does not match pattern"),
    ("/networkPolicy/blockedEgress/0", "'169.254.169.254' does not match pattern"),
    ("/networkPolicy/allowedEgress/0", "'mirror.example.org' does not match pattern"),
}


def test_all_that_no_setting_can_be_is_refused_at_once_by_place_and_name(template: Template) -> None:
    with pytest.raises(HelmError) as refused:
        template(WRONG)
    told = re.findall(r"at '(.*?)': (.*?)(?: '\^.*)?$", str(refused.value), re.MULTILINE)
    assert {each for each in told if each[1] != "validation failed"} == FAULTS


def test_every_default_of_a_setting_of_the_service_is_taken(template: Template) -> None:
    settings = declared(ServiceSettings, *KINDS)
    defaults = {setting.name: msgspec.to_builtins(setting.default) for setting in settings}
    chosen = {"gpu_hour_prices": {"a100": 2}, "account_uids": [1, 2], "email_events": ["paused", "paused"]}
    for values in (defaults, defaults | chosen | {"log_level": "DEBUG"}):
        template({"service": {"settings": values}})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"train": {"namespace": {"name": "jobs"}}}, "make claims of one name for one volume in both"),
        ({"nodes": {"list": False}}, "the service would know of no GPU"),
        ({"train": {"nfs": {"server": "a", "path": "/"}, "jobs": {"existingClaim": "b"}}}, "choose one of them"),
        ({"train": {"nfs": {"server": "nas"}}}, "train.nfs needs both"),
        ({"hub": {"publicUrl": "https://a.b"}, "ingress": {"hosts": ["a.b"]}}, r"ingress.hosts has no \*.a.b"),
        (
            {"assignedUsers": True, "train": {"namespace": {"name": "jobs"}, "jobs": {"existingClaim": "files"}}},
            "the cluster assigns each namespace users of its own",
        ),
        (
            {"train": {"rdma": {"networks": "ib0"}}},
            "train.rdma.networks is about RDMA, and train.rdma.resources is",
        ),
        ({"nodes": {"static": [{"name": "a", "gpus": 8, "rdma": 8}]}}, "nodes.static: the node a is about RDMA"),
        (
            {
                "train": {"devices": {"enabled": True}},
                "nodes": {"list": False, "static": [{"name": "a", "gpus": 8}]},
            },
            "published GPUs are seen only where the service lists",
        ),
        ({"train": {"images": ["teams/*"]}}, "the first one is used where a job asks for none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_do_not_go_together_are_refused_in_words(
    template: Template, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        template(values)


def test_the_schema_knows_every_value_and_every_value_has_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(known: Mapping[str, Any], given: Mapping[str, Any], path: str) -> None:
        if "$ref" in known:
            known = schema["definitions"][known["$ref"].removeprefix("#/definitions/")]
        if known.get("additionalProperties") is not False or (path and not given):
            return
        assert set(known["properties"]) - {"global", "claims"} >= set(given), path
        if path or known is schema:
            missing = set(known["properties"]) - set(given) - {"global", "claims"}
            assert not missing or missing <= {"existingClaim", "claims"}, f"{path}: {missing}"
        for name, value in given.items():
            if isinstance(value, dict):
                compare(known["properties"][name], value, f"{path}.{name}")

    compare(schema, values, "")


# ---------- zero-to-jupyterhub as a dependency


def test_the_dependency_says_how_to_fetch_it(template: Template) -> None:
    with pytest.raises(HelmError, match="helm dependency update"):
        template(shown_values()["dependency"])


def test_helm_refuses_a_declared_dependency_that_is_not_there_so_its_place_is_held(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(CHART, tmp_path / "springtide"))
    assert yaml.safe_load((copy / "Chart.yaml").read_text())["dependencies"][0]["name"] == "jupyterhub"
    shutil.rmtree(copy / "charts/jupyterhub")
    with pytest.raises(HelmError, match="missing in charts/ directory: jupyterhub"):
        Helm(tmp_path / "helm", chart=copy).template()


def test_a_fetched_dependency_is_given_what_the_guide_says(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(CHART, tmp_path / "springtide"))
    fetched = copy / "charts/jupyterhub"
    shutil.rmtree(fetched)
    (fetched / "templates").mkdir(parents=True)
    (fetched / "Chart.yaml").write_text("{apiVersion: v2, name: jupyterhub, version: 4.3.3}")
    (fetched / "templates/hub.yaml").write_text(
        "{kind: ConfigMap, apiVersion: v1, metadata: {name: told}, data: {values: {{ .Values | toJson | quote }}}}"
    )
    helm = Helm(tmp_path / "helm", chart=copy)
    told = json.loads(of_kind(helm.template(shown_values()["dependency"]), "ConfigMap")["told"]["data"]["values"])
    assert told["hub"]["services"] == {"springtide": {"url": "http://springtide:8090"}}
    assert "configure(c)" in told["hub"]["extraConfig"]["springtide"]
    assert "told" not in of_kind(helm.template(), "ConfigMap")
    with pytest.raises(HelmError, match="choose one hub"):
        helm.template({"jupyterhub": {"enabled": True}})
    with pytest.raises(HelmError, match='expected "http://other-springtide:8090"'):
        helm.template(shown_values()["dependency"], release="other")
