"""Who reaches whom where the chart is installed: network policies, addresses and names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from clusters.chart import Template, of_kind, pods_of, service_settings

PRIVATE = ["10.0.0.1", "10.96.0.1", "100.64.3.4", "169.254.169.254", "172.16.0.9", "172.31.255.1", "192.168.1.1"]
PRIVATE_V6 = ["fd00:ec2::254", "fc00::1", "fe80::1"]


def reaches(rule: Mapping[str, Any], address: str) -> bool:
    """Whether a rule lets a pod reach an address that is no pod's."""
    to = ip_address(address)
    for block in (peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer):
        if to in ip_network(block["cidr"]) and not any(to in ip_network(not_) for not_ in block.get("except", [])):
            return True
    return False


def test_train_pods_are_reached_by_their_own_gang_alone(template: Template) -> None:
    objects = template()
    told = service_settings(objects)["kubernetes"]
    policy = of_kind(objects, "NetworkPolicy")["springtide-train"]["spec"]
    assert policy["podSelector"] == {"matchLabels": {"springtide.io/pool": told["pool"]}}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    assert told["network_policy"] is True
    [gang, _service, dns, outside] = policy["egress"]
    assert gang == {"to": [{"podSelector": policy["podSelector"]}]}
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert reaches(outside, "93.184.216.34")
    assert not reaches(outside, "169.254.169.254")


@pytest.mark.parametrize("train", [{}, {"namespace": {"name": "jobs"}}])
def test_programs_of_jobs_reach_the_api_of_the_service_and_no_other_pod(
    template: Template, train: dict[str, Any]
) -> None:
    shared = {"nfs": {"server": "10.0.0.9", "path": "/jobs"}} if train else {}
    objects = template({"train": {**train, **shared}})
    policies = of_kind(objects, "NetworkPolicy")
    [rule] = [
        rule
        for rule in policies["springtide-train"]["spec"]["egress"]
        if any("podSelector" in peer and "namespaceSelector" in peer for peer in rule["to"])
        and len(rule["to"]) == 1
    ]
    [peer] = rule["to"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "http"}]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "service"
    incoming = policies["springtide-service"]["spec"]["ingress"][0]["from"]
    pool = service_settings(objects)["kubernetes"]
    assert {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": pool["namespace"]}},
        "podSelector": {"matchLabels": {"springtide.io/pool": pool["pool"]}},
    } in incoming
    url = service_settings(objects)["jobs_url"]
    namespace = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    assert url.startswith(f"http://springtide.{namespace}:")
    assert url.endswith("/services/springtide/")


@pytest.mark.parametrize("part", ["train", "notebooks"])
def test_pods_of_users_reach_no_private_address_but_those_that_the_admin_names(
    template: Template, part: str
) -> None:
    def outside(**policy: Any) -> Mapping[str, Any]:
        objects = template({"networkPolicy": policy})
        return of_kind(objects, "NetworkPolicy")[f"springtide-{part}"]["spec"]["egress"][-1]

    usual = outside()
    assert [address for address in (*PRIVATE, *PRIVATE_V6) if reaches(usual, address)] == []
    assert all(reaches(usual, address) for address in ("1.1.1.1", "151.101.0.223", "2606:4700::1111"))
    mirror = outside(allowedEgress=["10.1.2.0/24"])
    assert [reaches(mirror, address) for address in ("10.1.2.7", "10.1.3.7")] == [True, False]


def test_notebooks_reach_hub_service_and_proxy_of_their_release(template: Template) -> None:
    policy = of_kind(template(), "NetworkPolicy")["springtide-notebooks"]["spec"]
    [expression] = policy["egress"][0]["to"][0]["podSelector"]["matchExpressions"]
    assert expression["values"] == ["hub", "service", "proxy"]


PUBLIC = {"hub": {"publicUrl": "https://hub.example.org"}, "ingress": {"enabled": True}}


def test_with_a_public_address_users_and_pool_have_subdomains_and_other_names_are_refused(
    template: Template,
) -> None:
    objects = template(PUBLIC)
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


def test_where_dns_has_no_subdomains_one_name_serves_all(template: Template) -> None:
    plain = {"publicUrl": "https://hub.example.org:8443/", "subdomains": False, "allowedHosts": ["hub"]}
    objects = template({**PUBLIC, "hub": plain})
    hub = json.loads(of_kind(objects, "ConfigMap")["springtide-hub"]["data"]["hub.json"])["defaults"]["JupyterHub"]
    assert "subdomain_host" not in hub
    command = pods_of(objects)["proxy"]["spec"]["containers"][0]["command"]
    assert command[-2:] == ["--allowed-host=hub.example.org", "--allowed-host=hub"]
    assert service_settings(objects)["allowed_hosts"][:2] == ["hub.example.org", "hub"]
    [rule] = of_kind(objects, "Ingress")["springtide"]["spec"]["rules"]
    assert rule["host"] == "hub.example.org"


def test_without_a_public_address_any_name_is_answered(template: Template) -> None:
    assert "allowed_hosts" not in service_settings(template())
