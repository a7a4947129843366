"""What the chart makes of values: restricted pods, no rights beyond need, plain words for what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart import CHART, Helm, HelmError, of_kind, pods_of, shown_values

from springtide.hub_extension.cluster.settings import cluster_settings

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
        "images": ["springtide/notebook:0.1.0", "teams/*"],
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
}


@pytest.fixture(scope="module", params=VALUES)
def rendered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the chart makes of each of the values above."""
    return Helm(tmp_path_factory.mktemp("helm")).template(VALUES[request.param])


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_finds_no_fault(helm: Helm, values: dict[str, Any]) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


def test_the_alerts_are_a_rule_of_prometheus_where_they_are_wanted(helm: Helm) -> None:
    wanted = {"metrics": {"rules": {"enabled": True, "labels": {"release": "prom"}}}}
    assert not of_kind(helm.template({}), "PrometheusRule")
    (rule,) = of_kind(helm.template(wanted), "PrometheusRule").values()
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


def test_without_rights_in_the_whole_cluster_nothing_lies_outside_the_namespace(helm: Helm) -> None:
    objects = helm.template(NAMESPACED)
    kinds = {made["kind"] for made in objects}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "PriorityClass", "Namespace", "PersistentVolume"}
    assert not any(kind.startswith("ValidatingAdmission") for kind in kinds)
    assert {made["metadata"].get("namespace") for made in objects} == {"pool"}
    told = service_settings(objects)["kubernetes"]
    assert [node["name"] for node in told["static_nodes"]] == ["dgx-1", "dgx-2"]
    assert "priority_class" not in told


def test_two_releases_share_no_name_in_the_cluster(helm: Helm) -> None:
    def names(namespace: str) -> set[tuple[str, str]]:
        objects = helm.template({"trainJobs": {"allNamespaces": True}}, namespace=namespace)
        return {
            (made["kind"], made["metadata"]["name"]) for made in objects if not made["metadata"].get("namespace")
        }

    assert len(names("one")) == len(names("two")) == 8
    assert not names("one") & names("two")


def test_priority_classes_never_preempt(helm: Helm) -> None:
    classes = of_kind(helm.template(), "PriorityClass")
    assert classes
    assert {made["preemptionPolicy"] for made in classes.values()} == {"Never"}
    assert not any(made["globalDefault"] for made in classes.values())
    assert service_settings(helm.template())["kubernetes"]["priority_class"] in classes


def test_rights_of_the_service_follow_where_it_works(helm: Helm) -> None:
    objects = helm.template(EVERYTHING)
    roles = {(made["metadata"]["namespace"], made["metadata"]["name"]) for made in of_all(objects, "Role")}
    assert roles == {
        ("jobs", "springtide"),
        ("pool", "springtide-hub"),
        ("vision", "springtide-train-jobs"),
        ("speech", "springtide-train-jobs"),
    }
    bound = {(made["metadata"]["namespace"], made["metadata"]["name"]) for made in of_all(objects, "RoleBinding")}
    assert bound == roles
    accounts = {
        (subject["name"], subject["namespace"])
        for made in of_all(objects, "RoleBinding")
        for subject in made["subjects"]
    }
    assert accounts == {("springtide", "pool"), ("springtide-hub", "pool")}


def test_a_train_namespace_of_its_own_enforces_the_restricted_standard(helm: Helm) -> None:
    made = of_kind(helm.template(EVERYTHING), "Namespace")["jobs"]
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_what_people_made_outlives_the_release(helm: Helm) -> None:
    objects = helm.template()
    kept = [*of_kind(objects, "PersistentVolumeClaim").values(), *of_kind(objects, "Secret").values()]
    assert {made["metadata"]["name"] for made in kept} == {
        "springtide",
        "springtide-store",
        "springtide-jobs",
        "springtide-hub",
    }
    assert all(made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for made in kept)


def test_claims_of_ones_own_take_the_place_of_made_ones(helm: Helm) -> None:
    mine = {"existingClaim": "mine"}
    values = {"service": {"storage": mine}, "train": {"jobs": mine}, "hub": {"storage": mine}}
    objects = helm.template(values)
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
    helm: Helm, values: dict[str, Any], changed: list[str]
) -> None:
    before, after = pods_of(helm.template()), pods_of(helm.template(values))
    assert sorted(part for part in before if before[part] != after[part]) == changed


def test_secrets_of_ones_own_are_used_and_none_is_made(helm: Helm) -> None:
    objects = helm.template({"existingSecret": "mine"})
    assert not of_kind(objects, "Secret")
    for pod in pods_of(objects).values():
        assert {name for name, _ in secrets_of(pod)} == {"mine"}


def test_made_secrets_are_random_and_have_every_key_that_is_read(helm: Helm) -> None:
    one, two = (helm.template() for _ in range(2))
    made = of_kind(one, "Secret")["springtide"]["data"]
    assert len(set(made.values())) == len(made)
    assert not set(made.values()) & set(of_kind(two, "Secret")["springtide"]["data"].values())
    assert {key for pod in pods_of(one).values() for _, key in secrets_of(pod)} == set(made)


def test_an_existing_hub_makes_ours_unneeded(helm: Helm) -> None:
    objects = helm.template(ATTACHED)
    assert set(pods_of(objects)) == {"service"}
    assert not {"Secret", "Ingress"} & {made["kind"] for made in objects}


def test_an_existing_hub_is_where_the_token_and_the_people_come_from(helm: Helm) -> None:
    objects = helm.template(ATTACHED)
    [container] = pods_of(objects)["service"]["spec"]["containers"]
    env = {entry["name"]: entry for entry in container["env"]}
    assert env["JUPYTERHUB_API_URL"]["value"] == "http://hub:8081/hub/api"
    reference = env["JUPYTERHUB_API_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "hub", "key": "hub.services.springtide.apiToken"}
    policies = of_kind(objects, "NetworkPolicy")
    assert set(policies) == {"springtide-service", "springtide-train"}
    [peer] = policies["springtide-service"]["spec"]["ingress"][0]["from"]
    assert peer["podSelector"]["matchLabels"] == {"app": "jupyterhub"}


def test_train_pods_are_reached_by_their_own_gang_alone(helm: Helm) -> None:
    objects = helm.template()
    told = service_settings(objects)["kubernetes"]
    policy = of_kind(objects, "NetworkPolicy")["springtide-train"]["spec"]
    assert policy["podSelector"] == {"matchLabels": {"springtide.io/pool": told["pool"]}}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    assert told["network_policy"] is True
    [gang, dns, outside] = policy["egress"]
    assert gang == {"to": [{"podSelector": policy["podSelector"]}]}
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert reaches(outside, "93.184.216.34")
    assert not reaches(outside, "169.254.169.254")


PRIVATE = ["10.0.0.1", "10.96.0.1", "100.64.3.4", "169.254.169.254", "172.16.0.9", "172.31.255.1", "192.168.1.1"]
PRIVATE_V6 = ["fd00:ec2::254", "fc00::1", "fe80::1"]


def reaches(rule: Mapping[str, Any], address: str) -> bool:
    """Whether a rule lets a pod reach an address that is no pod's."""
    to = ip_address(address)
    for block in (peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer):
        if to in ip_network(block["cidr"]) and not any(to in ip_network(not_) for not_ in block.get("except", [])):
            return True
    return False


@pytest.mark.parametrize("part", ["train", "notebooks"])
def test_pods_of_users_reach_no_private_address_but_those_that_the_admin_names(helm: Helm, part: str) -> None:
    def outside(**policy: Any) -> Mapping[str, Any]:
        objects = helm.template({"networkPolicy": policy})
        return of_kind(objects, "NetworkPolicy")[f"springtide-{part}"]["spec"]["egress"][-1]

    usual = outside()
    assert [address for address in (*PRIVATE, *PRIVATE_V6) if reaches(usual, address)] == []
    assert all(reaches(usual, address) for address in ("1.1.1.1", "151.101.0.223", "2606:4700::1111"))
    mirror = outside(allowedEgress=["10.1.2.0/24"])
    assert [reaches(mirror, address) for address in ("10.1.2.7", "10.1.3.7")] == [True, False]


def test_notebooks_reach_hub_service_and_proxy_of_their_release(helm: Helm) -> None:
    policy = of_kind(helm.template(), "NetworkPolicy")["springtide-notebooks"]["spec"]
    [expression] = policy["egress"][0]["to"][0]["podSelector"]["matchExpressions"]
    assert expression["values"] == ["hub", "service", "proxy"]


def test_the_namespace_of_jobs_has_a_quota_of_train_pods_and_limits_of_their_disks(helm: Helm) -> None:
    objects = helm.template()
    quota = of_kind(objects, "ResourceQuota")["springtide"]["spec"]
    [scope] = quota["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["values"]) == ("PriorityClass", ["pool-springtide-train"])
    assert quota["hard"] == {"pods": "5000"}
    [limit] = of_kind(objects, "LimitRange")["springtide"]["spec"]["limits"]
    assert (limit["type"], limit["default"]) == ("Container", {"ephemeral-storage": "50Gi"})
    apart = {"train": {"priorityClass": {"create": False}, "limitRange": None, "resourceQuota": {"pods": "9"}}}
    assert "scopeSelector" not in of_kind(helm.template(apart), "ResourceQuota")["springtide"]["spec"]


def test_a_directory_of_a_file_server_is_a_claim_of_one_name_in_both_namespaces(helm: Helm) -> None:
    nfs = {"server": "nas.example.org", "path": "/springtide"}
    objects = helm.template({"train": {"namespace": {"name": "jobs", "create": True}, "nfs": nfs}})
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


# ---------- addresses


PUBLIC = {"hub": {"publicUrl": "https://hub.example.org"}, "ingress": {"enabled": True}}


def test_with_a_public_address_users_and_pool_have_subdomains_and_other_names_are_refused(helm: Helm) -> None:
    objects = helm.template(PUBLIC)
    pods = pods_of(objects)
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])["defaults"]["JupyterHub"]
    assert hub["subdomain_host"] == "https://hub.example.org"
    env = {entry["name"]: entry.get("value") for entry in pods["service"]["spec"]["containers"][0]["env"]}
    pool = "https://springtide--service.hub.example.org/services/springtide/"
    assert (env["JUPYTERHUB_HOST"], env["JUPYTERHUB_PUBLIC_URL"]) == ("https://hub.example.org", pool)
    assert env["JUPYTERHUB_OAUTH_CALLBACK_URL"] == f"{pool}oauth_callback"
    command = pods["proxy"]["spec"]["containers"][0]["command"]
    assert command[-2:] == ["--host-routing", "--allowed-host=.hub.example.org"]
    assert service_settings(objects)["allowed_hosts"][:2] == [".hub.example.org", "springtide"]
    hosts = [rule["host"] for rule in of_kind(objects, "Ingress")["springtide"]["spec"]["rules"]]
    assert hosts == ["hub.example.org", "*.hub.example.org"]


def test_where_dns_has_no_subdomains_one_name_serves_all(helm: Helm) -> None:
    plain = {"publicUrl": "https://hub.example.org:8443/", "subdomains": False, "allowedHosts": ["hub"]}
    objects = helm.template({**PUBLIC, "hub": plain})
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])["defaults"]["JupyterHub"]
    assert "subdomain_host" not in hub
    command = pods_of(objects)["proxy"]["spec"]["containers"][0]["command"]
    assert command[-2:] == ["--allowed-host=hub.example.org", "--allowed-host=hub"]
    assert service_settings(objects)["allowed_hosts"][:2] == ["hub.example.org", "hub"]
    [rule] = of_kind(objects, "Ingress")["springtide"]["spec"]["rules"]
    assert rule["host"] == "hub.example.org"


def test_without_a_public_address_any_name_is_answered(helm: Helm) -> None:
    assert "allowed_hosts" not in service_settings(helm.template())


def test_an_image_with_a_digest_is_that_image_and_no_other(helm: Helm) -> None:
    digest = f"sha256:{'0123456789abcdef' * 4}"
    objects = helm.template({"images": {"service": {"digest": digest}, "notebook": {"digest": digest}}})
    used = {container["image"] for pod in pods_of(objects).values() for container in pod["spec"]["containers"]}
    assert used == {f"springtide/service@{digest}"}
    assert service_settings(objects)["images"] == [f"springtide/notebook@{digest}"]


def test_the_executor_knows_every_setting_that_it_is_given(rendered: list[dict[str, Any]], tmp_path: Path) -> None:
    given = service_settings(rendered)
    made = cluster_settings(given["kubernetes"], state_dir=tmp_path, images=tuple(given["images"]))
    assert made.pool == "springtide"
    assert made.jobs_claim


# ---------- what is wrong


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"servcie": {}}, "servcie"),
        ({"service": {"prot": 1}}, "prot"),
        ({"service": {"port": 0}}, "port"),
        ({"service": {"projects": [{"quota": 4}]}}, "name"),
        ({"service": {"projects": [{"name": "vision", "qouta": 4}]}}, "qouta"),
        ({"train": {"jobs": {"accessModes": ["RWX"]}}}, "accessModes"),
        ({"train": {"runAsUser": 0}}, "runAsUser"),
        ({"train": {"tolerations": [{"effect": "never"}]}}, "effect"),
        ({"nodes": {"static": [{"name": "dgx-1"}]}}, "gpus"),
        ({"hub": {"existing": {"url": "hub:8081"}}}, "url"),
        ({"hub": {"extraConfig": "c.JupyterHub.port = 1"}}, "extraConfig"),
        ({"proxy": {"type": "Ingress"}}, "type"),
        ({"images": {"service": {"name": "springtide/service"}}}, "name"),
        ({"networkPolicy": {"blockedEgress": ["169.254.169.254"]}}, "blockedEgress"),
        ({"networkPolicy": {"allowedEgress": ["mirror.example.org"]}}, "allowedEgress"),
        ({"hub": {"publicUrl": "hub.example.org"}}, "publicUrl"),
        ({"images": {"service": {"digest": "latest"}}}, "digest"),
        ({"train": {"nfs": {"path": "nas:/x"}}}, "path"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_setting_can_be_is_refused_by_name(helm: Helm, values: dict[str, Any], named: str) -> None:
    with pytest.raises(HelmError, match=named):
        helm.template(values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"train": {"namespace": {"name": "jobs"}}}, "make claims of one name for one volume in both"),
        ({"nodes": {"list": False}}, "the service would know of no GPU"),
        ({"train": {"nfs": {"server": "a", "path": "/"}, "jobs": {"existingClaim": "b"}}}, "choose one of them"),
        ({"train": {"nfs": {"server": "nas"}}}, "train.nfs needs both"),
        ({"hub": {"publicUrl": "https://a.b"}, "ingress": {"hosts": ["a.b"]}}, r"ingress.hosts has no \*.a.b"),
        ({"train": {"images": ["teams/*"]}}, "the first one is used where a job asks for none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_do_not_go_together_are_refused_in_words(
    helm: Helm, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template(values)


def test_the_schema_knows_every_value_and_every_value_has_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(known: Mapping[str, Any], given: Mapping[str, Any], path: str) -> None:
        if "$ref" in known:
            known = schema["definitions"][known["$ref"].removeprefix("#/definitions/")]
        if known.get("additionalProperties") is not False:
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


def test_the_dependency_says_how_to_fetch_it(helm: Helm) -> None:
    with pytest.raises(HelmError, match="helm dependency update"):
        helm.template(shown_values()["dependency"])


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


def of_all(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [made for made in objects if made["kind"] == kind]


def secrets_of(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    references = [
        entry["valueFrom"]["secretKeyRef"]
        for container in pod["spec"]["containers"]
        for entry in container["env"]
        if "secretKeyRef" in entry.get("valueFrom", {})
    ]
    return [(reference["name"], reference["key"]) for reference in references]


def service_settings(objects: list[dict[str, Any]]) -> dict[str, Any]:
    told = json.loads(of_kind(objects, "ConfigMap")["springtide"]["data"]["service.json"])["settings"]
    assert isinstance(told, dict)
    return told
